"""What waits for a user."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, structs

from corral.model.values import moment

YES_NO = ("yes", "no")
BY_DEADLINE = "deadline"  #: who answered where nobody did in time
RESUME_IT = "continue it: corral resume"  #: how an outcome begins whose run waits for `corral resume`
RESUME_BEFORE = ("go on with corral resume",)  #: the same in stores before 0.2


class Question(Struct, frozen=True, kw_only=True):
    """Something a user is asked: nothing waits without one, and none is without a default answer and a deadline."""

    key: str  #: what it is about, so that a run that is resumed does not ask twice
    run: str
    node: str | None = None
    attempt: str | None = None
    kind: Literal["approval", "question", "conflict", "failure"]
    about: str  #: gate, budget, merge, scope, tool, plan, limit ...
    text: str
    context: str = ""  #: what a user needs to know to answer, and what happens then
    choices: tuple[str, ...] = YES_NO  #: empty: any words
    default: str = "no"
    deadline: float


class Entry(Question, frozen=True, kw_only=True):
    """A question as it is in the inbox, and what came of it."""

    id: str
    created: float
    answered_at: float | None = None
    answer: str | None = None
    answered_by: str | None = None  #: a user's name, `deadline`, or `corral` for one that was taken back
    outcome: str = ""

    @property
    def is_open(self) -> bool:
        return self.answered_at is None

    @property
    def needs_resume(self) -> bool:
        """Whether its answer lets a run continue that no process drives."""
        return self.outcome.startswith((RESUME_IT, *RESUME_BEFORE))

    def as_of(self, now: float) -> Entry:
        """Return it as it is at a time: after its deadline it has its default answer, stored or not."""
        if not self.is_open or self.deadline > now:
            return self
        return structs.replace(self, answered_at=self.deadline, answer=self.default, answered_by=BY_DEADLINE)


class InboxEntry(Struct, frozen=True, kw_only=True):
    """An entry as it leaves us: the same at the command line, over HTTP and MCP, in notices and webhooks."""

    id: str
    run: str
    node: str | None
    attempt: str | None
    kind: str
    about: str
    text: str
    context: str
    choices: tuple[str, ...]
    default: str
    deadline: str
    created: str
    answered_at: str | None
    answer: str | None
    answered_by: str | None
    outcome: str

    @classmethod
    def of(cls, entry: Entry) -> InboxEntry:
        fields: dict[str, Any] = {name: getattr(entry, name) for name in cls.__struct_fields__}
        for name in ("deadline", "created", "answered_at"):
            fields[name] = None if fields[name] is None else moment(fields[name])
        return cls(**fields)
