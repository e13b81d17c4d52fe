"""What the API shows besides the run document."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from corral.engine.views.history import RunLine
from corral.engine.views.run_status import lost
from corral.model import moment
from corral.model.server import RunSummary


class EventPage(Struct, frozen=True, kw_only=True):
    run: str
    events: list[msgspec.Raw]
    next: int  #: give it as `after` to get what is newer


class Told(Struct, frozen=True, kw_only=True):
    run: str
    answer: str


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
        seconds=line.seconds,
        cost={"usd": line.usd},
        orphaned=lost(line.status, line.owner),
    )
