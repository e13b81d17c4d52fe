"""What the API shows besides the run document."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from corral.engine.looking.document import lost
from corral.engine.looking.history import RunLine
from corral.model import moment


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run as a listing shows it; the same as a row of `ls --json`."""

    run: str
    status: str
    reason: str | None
    strategy: str
    task: str
    repo: str
    agents: tuple[str, ...]
    started: str
    seconds: float | None
    cost: dict[str, float | None]
    orphaned: bool = False


class RunPage(Struct, frozen=True, kw_only=True):
    runs: list[RunSummary]
    next: str | None  #: give it as `before` to get what is older


class EventPage(Struct, frozen=True, kw_only=True):
    run: str
    events: list[msgspec.Raw]
    next: int  #: give it as `after` to get what is newer


class Told(Struct, frozen=True, kw_only=True):
    run: str
    answer: str


class Diff(Struct, frozen=True, kw_only=True):
    attempt: str
    commit: str | None
    files_changed: tuple[str, ...]
    insertions: int
    deletions: int
    patch: str
    cut: bool = False  #: it is longer than is shown


def summary(line: RunLine) -> RunSummary:
    return RunSummary(
        run=line.run,
        status=line.status,
        reason=line.reason,
        strategy=line.strategy,
        task=line.task[:2000],
        repo=line.repo,
        agents=line.agents,
        started=moment(line.created),
        seconds=None if line.ended is None else round(line.ended - line.created, 3),
        cost={"usd": line.usd},
        orphaned=lost(line.status, line.owner),
    )
