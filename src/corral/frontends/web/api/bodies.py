"""What clients of the API send."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from corral.model import Level, Request
from corral.model.flow import RunStrategy, Select, TaskType
from corral.model.merge import Side, Strategy
from corral.model.server import AccessScope

Text = Annotated[str, Meta(max_length=200_000)]
Long = Annotated[str, Meta(max_length=1_000_000)]
Word = Annotated[str, Meta(max_length=1000)]
Words = Annotated[tuple[Word, ...], Meta(max_length=100)]
Priority = Annotated[int, Meta(ge=-1000, le=1000)]


class Submission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task, or the text of a flow; the names are those of `corral run`."""

    task: Text = ""
    tasks: Annotated[tuple[Text, ...], Meta(max_length=100)] = ()
    repo: Word = ""  #: below one of the server's roots; empty: the first of them
    agents: Words = ()
    strategy: RunStrategy | None = None
    review: bool = False
    flow: Text | None = None
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    type: TaskType | None = None
    files: Words = ()
    checks: Words = ()
    select: Select | None = None
    scorers: Words = ()
    judge: Word | None = None
    role: Word | None = None
    skills: Words = ()
    read_only: bool = False
    output: dict[str, Any] | None = None
    base: Word | None = None
    budget_usd: Annotated[float, Meta(ge=0)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    timeout: Word | None = None
    idle: Word | None = None
    retries: Annotated[int, Meta(ge=0, le=100)] | None = None
    fallback: Words = ()
    require_sandbox: Level | None = None
    read: Words = ()
    write: Words = ()
    env: Words = ()
    net: Word | None = None
    merge: Literal["never", "auto"] = "never"
    priority: Priority = 0

    def request(self, repo: str) -> Request:
        """Return it as the engine takes it; `repo` was looked at."""
        return Request(
            prompt=self.task,
            tasks=self.tasks,
            repo=repo,
            agents=self.agents,
            strategy=self.strategy,
            review=self.review,
            flow=self.flow,
            inputs=self.inputs,
            type=self.type,
            files=self.files,
            checks=self.checks,
            select=self.select,
            scorers=self.scorers,
            judge=self.judge,
            role=self.role,
            skills=self.skills,
            read_only=self.read_only,
            output=msgspec.json.encode(self.output).decode() if self.output is not None else None,
            base=self.base,
            budget_usd=self.budget_usd,
            max_tokens=self.max_tokens,
            timeout=self.timeout,
            idle=self.idle,
            retries=self.retries,
            fallback=self.fallback,
            require=self.require_sandbox,
            read=self.read,
            write=self.write,
            env=self.env,
            net=self.net,
            merge=self.merge,
        )


class Steer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: Text


class OfNode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: Word | None = None  #: else the whole run


class Choice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attempt: Word  #: its id or number


class FlowText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flow: Text
    repo: Word = ""
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    agents: Words = ()


class Answer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    answer: Text


class MergeBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to merge; the names are those of `corral merge`."""

    strategy: Strategy = "auto"
    into: Word | None = None
    pick: Word | None = None
    take: dict[Word, Word] = field(default_factory=dict[str, str])  #: file, or hunks of it (`a.py#1,3`), to attempt
    resolve: dict[Word, Side] = field(default_factory=dict[str, Any])
    resolve_with: Word | None = None
    tries: Annotated[int, Meta(ge=1, le=10)] = 3
    autostash: bool = False
    checks: bool = True


class Settlement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of files in conflict; the merge that waits for it is gone on with."""

    choices: dict[Word, Side] = field(default_factory=dict[str, Any])
    texts: dict[Word, Long] = field(default_factory=dict[str, str])  #: what a file shall contain
    agent: Word | None = None  #: settles all that nothing was chosen for
    tries: Annotated[int, Meta(ge=1, le=10)] = 3
    seen: Word | None = None  #: `before` of the conflicts; refused if the branch has moved since
    into: Word | None = None
    strategy: Strategy = "auto"
    autostash: bool = False
    checks: bool = True


class QueueChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    held: bool | None = None
    concurrency: Annotated[int, Meta(ge=1, le=1000)] | None = None


class QueueMove(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    priority: Priority | None = None
    before: Word | None = None  #: a run that waits too
    first: bool = False


class NewToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    scopes: Annotated[tuple[AccessScope, ...], Meta(min_length=1)] = ("read",)
