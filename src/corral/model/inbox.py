"""What waits for a person."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

YES_NO = ("yes", "no")


class Question(Struct, frozen=True, kw_only=True):
    """Something a person is asked: nothing waits without one, and none is without a default answer and a deadline."""

    key: str  #: what it is about, so that a run that is resumed does not ask twice
    run: str
    node: str | None = None
    attempt: str | None = None
    kind: Literal["approval", "question", "conflict", "failure"]
    about: str  #: gate, budget, merge, scope, tool, plan, limit ...
    text: str
    context: str = ""  #: what a person needs to know to answer, and what happens then
    choices: tuple[str, ...] = YES_NO  #: empty: any words
    default: str = "no"
    deadline: float


class Entry(Question, frozen=True, kw_only=True):
    """A question as it stands in the inbox, and what came of it."""

    id: str
    created: float
    answered_at: float | None = None
    answer: str | None = None
    answered_by: str | None = None  #: a person's name, `deadline`, or `corral` for one that was taken back
    outcome: str = ""

    @property
    def open(self) -> bool:
        return self.answered_at is None
