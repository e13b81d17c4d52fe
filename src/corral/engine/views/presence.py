"""Who works on which file now, and where two agents work on the same: from their reports and from snapshots."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path, PurePath

from msgspec import Struct, structs

from corral.attempt.repositories import repository_of
from corral.engine.views import run_status
from corral.machines import scope
from corral.model import OPEN, AttemptRecord, RunPlan, RunRecord
from corral.model.errors import BadRequest, GitTrouble
from corral.model.events import RunEvent
from corral.rules.schedule.board import Board, BoardAttempt
from corral.store.interface import Store
from corral.world.git import discovery, hidden_refs

PAGE = 5000


class WorkingAttempt(Struct, frozen=True, kw_only=True):
    """An attempt at work."""

    run: str
    node: str
    attempt: str
    agent: str
    state: str  #: at work, stale, blocked
    waits: str  #: for what, where it is blocked
    seconds: float
    silent_seconds: float
    files: tuple[str, ...]  #: what it changed, the latest first
    writable: tuple[str, ...] = ()  #: of the files that were asked about: those it may write


class SharedFile(Struct, frozen=True):
    """A file on which several are at work, each in a workspace of its own."""

    path: str
    attempts: tuple[str, ...]


class Presence(Struct, frozen=True, kw_only=True):
    attempts: tuple[WorkingAttempt, ...] = ()
    overlaps: tuple[SharedFile, ...] = ()


async def at_work(store: Store, run: str | None, folder: Path, asked: Sequence[str] = ()) -> Presence:
    """Return who is at work in a repository; of one run only, but with all whose files it shares.

    `asked`: files; the result says who may write them.
    """
    records = await _runs(store, run, folder)
    found = [(record, hand) for record in records for hand in await _working_attempts(store, record)]
    hands = [structs.replace(hand, writable=_writable(record.plan, hand.agent, asked)) for record, hand in found]
    owners: dict[str, list[WorkingAttempt]] = {}
    for hand in hands:
        for path in hand.files:
            owners.setdefault(path, []).append(hand)
    shared = tuple(
        SharedFile(path, tuple(hand.attempt for hand in several))
        for path, several in sorted(owners.items())
        if len(several) > 1 and any(run in (None, hand.run) for hand in several)
    )
    return Presence(attempts=tuple(hand for hand in hands if run in (None, hand.run)), overlaps=shared)


def _writable(plan: RunPlan, agent: str, asked: Sequence[str]) -> tuple[str, ...]:
    """Return what of some files an agent may write, by the rules of its box."""
    if not asked:
        return ()
    refused = {each.path for each in scope.of_agent(plan.scopes, agent, plan.ignore).outside(asked)}
    return tuple(path for path in asked if path not in refused)


async def _runs(store: Store, run: str | None, folder: Path) -> list[RunRecord]:
    """Return the runs of the repository that someone drives."""
    if run is None and not folder.is_dir():
        raise BadRequest(f"{folder} is no folder", hint="change into a repository, or say --repo DIR")
    if run is not None:
        git_dir, here = store.run(run).plan.git_dir, None
    elif (found := await discovery.discover(folder)) is not None:
        git_dir, here = str(found.repository.git_dir), None
    else:
        git_dir, here = None, str(folder.resolve())
    driven = [store.run(name) for name, _, owner in store.pages.owned_runs() if not run_status.is_orphaned(owner)]
    return [each for each in driven if git_dir == each.plan.git_dir or here == each.plan.repo]


async def _working_attempts(store: Store, run: RunRecord) -> list[WorkingAttempt]:
    records = [each for each in store.attempts(run.id) if each.attempt.status in OPEN and each.phase != "over"]
    board = Board(run.id, run.plan.flow)
    for node in dict.fromkeys(each.node for each in records):
        after = 0
        while page := store.pages.events(run.id, after, PAGE, node):
            after = page[-1].stored.seq
            for logged in page:
                stored = logged.stored
                board.hear(RunEvent(run.id, stored.node, stored.attempt, stored.event()), stored.at)
    return [await _working_attempt(store, run, record, board.working.get(record.attempt.id)) for record in records]


async def _working_attempt(
    store: Store, run: RunRecord, record: AttemptRecord, working: BoardAttempt | None
) -> WorkingAttempt:
    now = time.time()
    reported = [_below(path, record.folder) for path in reversed(working.files)] if working else []
    kept = await _snapshot_files(store, run, record)
    return WorkingAttempt(
        run=run.id,
        node=record.node,
        attempt=record.attempt.id,
        agent=record.attempt.agent,
        state=working.mood(now) if working else "at work",
        waits=working.waits if working else "",
        seconds=round(max(0.0, now - (working.started if working else record.started)), 1),
        silent_seconds=round(working.silent(now), 1) if working else 0.0,
        files=tuple(dict.fromkeys([*reported, *kept])),
    )


async def _snapshot_files(store: Store, run: RunRecord, record: AttemptRecord) -> tuple[str, ...]:
    """Return what its last snapshot changed: many agents do not tell of their files."""
    repository = repository_of(run.plan, store.folder)
    base = record.start or record.base or run.plan.base
    try:
        kept = await hidden_refs.list_snapshots(repository, [f"refs/corral/snapshots/{record.attempt.id}"])
        return (await repository.change(base, kept[-1].commit)).files if kept else ()
    except GitTrouble:  # it ended meanwhile, and its snapshots with it
        return ()


def _below(path: str, folder: str) -> str:
    """Name a file as its repository does, however its agent named it."""
    place = PurePath(folder, "work")
    named = PurePath(path)
    return str(named.relative_to(place)) if named.is_relative_to(place) else str(named)
