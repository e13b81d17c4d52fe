"""What a run's schedule decides: data, carried out by the engine."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from corral.model import Attempt, Status
from corral.model.flow import Node
from corral.rules.race.contest import Halt
from corral.rules.schedule.agent_tries import Begin, Park, ResumeAttempt, WaitUntil


class Settle(Struct, frozen=True, gc=False):
    """A node has reached its end."""

    node: str
    status: Status
    reason: str | None = None
    winner: str | None = None
    why: str | None = None
    votes: Mapping[str, float] | None = None  #: what a judge gave each attempt


class Expand(Struct, frozen=True):
    """A node is done once for each item of a list: these are the nodes it became."""

    node: str
    nodes: tuple[Node, ...]


class AskAtGate(Struct, frozen=True):
    """A gate is reached: a user is asked."""

    node: str


class Choose(Struct, frozen=True):
    """A race has no winner that is proven better: the user is asked which of its attempts to take."""

    node: str
    attempts: tuple[Attempt, ...]


class Vary(Struct, frozen=True):
    """The best of a race are equal so far: they are compared by their answers to varied inputs."""

    node: str
    attempts: tuple[str, ...]


class Lower(Struct, frozen=True):
    """A second reader says that an attempt works around its checks."""

    node: str
    attempt: str
    reason: str


class StartMerge(Struct, frozen=True):
    """A merge is reached."""

    node: str


class AddPlanned(Struct, frozen=True):
    """A plan is written: its nodes become part of the run."""

    node: str


class FinishRun(Struct, frozen=True):
    """The run has reached its end."""

    status: Status
    reason: str | None = None


Action = (
    Begin
    | ResumeAttempt
    | Halt
    | Settle
    | Expand
    | AskAtGate
    | Choose
    | Vary
    | Lower
    | StartMerge
    | AddPlanned
    | Park
    | WaitUntil
    | FinishRun
)


class RunLimits(Struct, frozen=True, kw_only=True):
    """How many attempts of a run may be at work at once."""

    parallel: int = 8
    per_agent: Mapping[str, int] = field(default_factory=dict[str, int])
