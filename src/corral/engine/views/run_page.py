"""All that a screen shows of one run, gathered at once; however long its log is, only the end of it is read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from corral.attempt import budget_terms
from corral.attempt.repositories import repository_of
from corral.engine.settings import Settings
from corral.engine.views import charts, run_document, run_status
from corral.engine.views.log_pages import END
from corral.model import OPEN, AttemptRecord, Entry, Run, RunRecord
from corral.model.errors import GitTrouble
from corral.model.money import Bound, Limit
from corral.rules.schedule.board import BoardAttempt
from corral.store.interface import Store

RECENT = 400  #: events from which is told what each attempt does now
MOST_CHANGES = 500


class Spending(Struct, frozen=True, kw_only=True):
    """What a run costs, against what it may."""

    spent: float
    reserved: float
    limit: float | None
    source: str
    where: str = ""  #: who set the limit


class RunView(Struct, frozen=True, kw_only=True):
    """One run as it stands."""

    run: Run
    record: RunRecord
    attempts: Mapping[str, AttemptRecord]
    entries: tuple[Entry, ...]  #: that wait for a person
    working: Mapping[str, BoardAttempt]  #: what each attempt at work does now
    graph: charts.RunGraph
    timeline: charts.Timeline
    money: Spending
    driven: bool
    last: int  #: the sequence number up to which all is in this view
    now: float


def view(store: Store, settings: Settings, name: str) -> RunView:
    """Gather what is known of a run."""
    store.flush()
    now = time.time()
    last = store.pages.last_sequence()  # before anything is read: what comes later is heard
    run = run_document.build(store, name)
    record = store.run(run.run)
    records = {each.attempt.id: each for each in store.attempts(run.run)}
    entries = store.inbox.of_run(run.run)
    working = _working(store, run.run, records)
    return RunView(
        run=run,
        record=record,
        attempts=records,
        entries=tuple(each for each in entries if each.is_open),
        working=working,
        graph=charts.graph(record.plan.flow, run, records, working, now),
        timeline=charts.timeline(record, list(records.values()), entries, now),
        money=_money(store, settings, run, record),
        driven=not run_status.is_orphaned(record.owner),
        last=last,
        now=now,
    )


def _working(store: Store, run: str, records: Mapping[str, AttemptRecord]) -> dict[str, BoardAttempt]:
    """Say what each attempt at work does now, from the last that was heard of the run."""
    found = {
        name: BoardAttempt(
            attempt=name, node=each.node, who=charts.name_of(each.attempt), started=each.started, heard=each.started
        )
        for name, each in records.items()
        if each.attempt.status in OPEN and each.ended is None
    }
    if found:
        for logged in store.pages.last_events(run, END, RECENT):
            if (working := found.get(logged.stored.attempt or "")) is not None:
                working.hear(logged.stored.event(), logged.stored.at)
    return found


def _money(store: Store, settings: Settings, run: Run, record: RunRecord) -> Spending:
    kept, flow = store.ledger, record.plan.flow
    spent, reserved = kept.spent_and_reserved(Bound(limit=Limit(window="run", usd=0.0), run=run.run))
    limits = [Limit(window="run", usd=flow.budget_usd, where="this run")] if flow.budget_usd is not None else []
    if len(flow.nodes) == 1 and (own := flow.nodes[0].task.budget_usd) is not None:
        limits.append(Limit(window="run", usd=own, where="its task"))
    shared = (*settings.load(Path(run.repo)).budget.limits, *kept.limits())
    limits += [each for each in shared if each.window == "run" and not each.agent and each.repo in ("", run.repo)]
    least = min(limits, key=lambda each: each.usd, default=None)
    return Spending(
        spent=max(spent, run.cost.usd or 0.0),
        reserved=reserved,
        limit=least.usd + budget_terms.run_allowed_usd(store, run.run) if least else None,
        where=least.where if least else "",
        source=run.cost.source,
    )


# --- what an attempt changed


class FileStat(Struct, frozen=True):
    path: str
    plus: int
    minus: int


_changes: dict[tuple[str, str | None, str], tuple[FileStat, ...]] = {}  # commits never change


async def files(home: Path, found: RunView, attempt: str) -> tuple[FileStat, ...]:
    """Return the files that an attempt changed, and by how much; nothing where its commit is gone."""
    record = found.attempts[attempt]
    if (commit := record.attempt.commit) is None:
        return ()
    key = (found.record.plan.git_dir, record.base or found.record.plan.base, commit)
    if key not in _changes:
        try:
            change = await repository_of(found.record.plan, home).change(key[1], commit)
        except GitTrouble:
            return ()
        while len(_changes) >= MOST_CHANGES:
            del _changes[next(iter(_changes))]
        _changes[key] = tuple(FileStat(path, *lines) for path, lines in zip(change.files, change.lines, strict=True))
    return _changes[key]
