"""Lists of runs: one summary for each, with the status it has now."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from corral.engine.views import run_status
from corral.model import Grade, Status, moment
from corral.model.server import RunFilter, RunSummary
from corral.store.interface import Store
from corral.store.records import RunLine

GRADED_MOST = 200  #: runs of a list that shows grades
MOST_TASK = 2000  #: characters of a task
#: A run is stored with another status than it has: one that asks is stored as running, one whose time to answer is over
#: as waiting.
ALSO_STORED_AS: Mapping[Status, tuple[Status, ...]] = {"waiting": ("running",), "failed": ("waiting",)}


def page(store: Store, wanted: RunFilter) -> list[RunSummary]:
    """Return the runs that fit a filter, newest first."""
    stored = tuple(
        dict.fromkeys(each for status in wanted.statuses for each in (status, *ALSO_STORED_AS.get(status, ())))
    )
    asked = structs.replace(wanted, statuses=stored)
    found: list[RunLine] = []
    while True:
        lines = store.pages.runs(asked)
        now = run_status.list_statuses(store, lines)
        found += [line for line in now if not wanted.statuses or line.status in wanted.statuses]
        if len(found) >= wanted.most or len(lines) < asked.most:
            break
        asked = structs.replace(asked, before=lines[-1].run)
    found = found[: wanted.most]
    done = [line.run for line in found if line.status == "done"]
    grades = store.pages.grades(done) if done and len(found) <= GRADED_MOST else dict[str, Grade]()
    return [_summary(line, grades.get(line.run)) for line in found]


def _summary(line: RunLine, grade: Grade | None) -> RunSummary:
    return RunSummary(
        run=line.run,
        name=line.name,
        labels=line.labels,
        status=line.status,
        reason=line.reason,
        strategy=line.strategy,
        task=line.task[:MOST_TASK],
        repo=line.repo,
        agents=line.agents,
        started=moment(line.created),
        seconds=line.seconds,
        cost={"usd": line.usd},
        orphaned=run_status.is_lost(line.status, line.owner),
        answered=line.answered,
        grade=grade,
    )
