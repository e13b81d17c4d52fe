"""The runs that this process drives: whose they are, what they share, and how they are left to others."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from corral.engine import client_servers
from corral.engine.context import Context, Driver, Say
from corral.engine.views import run_document, run_status
from corral.model import OPEN, Run, RunRecord
from corral.model.errors import BadRequest, CorralError
from corral.model.server import ServerRecord
from corral.store.interface import Store
from corral.store.records import LEASE_SECONDS
from corral.world import locks, process, process_identity
from corral.world.locks import Fence

if TYPE_CHECKING:
    from corral.attempt.toolbox.context import ChildRuns, RunContext
    from corral.engine.merge.flow_merges import MergeCall
    from corral.engine.run_loop import RunLoop
    from corral.machines.resolved_agent import ResolvedAgent
    from corral.model.events import Listener
    from corral.world.terminal import UserTerminal

MOST_WORDS = 2000
CLEAN_UP_LOOK_SECONDS = 0.02  #: how often to look whether a run that is over has been cleaned up
REFUSED = 2


class ActiveRuns:
    """What one engine drives at present; all runs of it are one family."""

    def __init__(self, context: Context, driver: Driver, merge: MergeCall) -> None:
        self._context, self._driver, self._merge = context, driver, merge
        self._owner = context.owner
        self._loops: dict[str, RunLoop] = {}
        self._child_runs: ChildRuns | None = None
        self._ousted: set[str] = set()  #: owners that lost a run to this process though they were alive
        self.stopping: str | None = None  #: why everything here is to stop
        self.terminal: UserTerminal | None = None  #: of the user who works by hand in a run

    @property
    def _store(self) -> Store:
        return self._context.store

    def __contains__(self, run: str) -> bool:
        return run in self._loops

    async def execute_owned(self, run: str, listen: Listener, *, patient: bool) -> None:
        """Drive a run that this process owns until it is over, or nothing but a user can continue it."""
        from corral.engine import telemetry  # noqa: PLC0415

        collecting = telemetry.open_telemetry(self._store, run, listen)
        record = self._store.run(run)
        try:
            here = locks.act_within(Fence(run, record.epoch, self._store.epoch))
            with here, locks.wait_by(locks.WaitPolicy(self._note_of(run, listen), self.end_suspended)):
                await self._execute_loop(record, collecting.hear if collecting else listen, patient=patient)
        finally:
            if collecting:
                await collecting.close()
        if self._store.run(run).status not in OPEN:
            await self._stop_left(run)

    async def _execute_loop(self, record: RunRecord, listen: Listener, *, patient: bool) -> None:
        from corral.attempt import repositories  # noqa: PLC0415
        from corral.attempt.placement import place_attempts  # noqa: PLC0415
        from corral.engine.run_loop import RunLoop  # noqa: PLC0415

        run = record.id
        place = place_attempts(record.plan, self._run_context(run, listen))
        drive = RunLoop(run, self._owner, self._store, place, listen)
        drive.patient = patient
        drive.merge_with(self._merge)
        drive.slot_freed = self._look_up
        self._loops[run] = drive
        self._store.queue.leave(run)
        if self.stopping:
            drive.stop(self.stopping)
        try:
            await repositories.pin_base(self._store, run)
            await drive.execute()
            await repositories.release_base(self._store, run)
        finally:
            del self._loops[run]
            if self._store.run(run).owner == self._owner:  # not over: the next process that resumes it need not wait
                self._store.release_lease(run, self._owner)

    def _run_context(self, run: str, listen: Listener) -> RunContext:
        """Return what the toolboxes of a run share."""
        from corral.attempt.toolbox.context import ChildRuns, RunContext  # noqa: PLC0415

        self._child_runs = self._child_runs or ChildRuns(self._owner, self)
        shared = RunContext(self._child_runs, self._store, self._agent_resolver(run), listen)
        shared.terminal = self.terminal
        return shared

    def _agent_resolver(self, run: str) -> Callable[[str, str | None], ResolvedAgent]:
        """Return what makes agents ready. Settings that have become wrong matter only when one is to start."""
        from corral.attempt.repositories import load_trusted_settings  # noqa: PLC0415
        from corral.machines.resolved_agent import resolve_agent  # noqa: PLC0415

        repo, servers = Path(self._store.run(run).plan.repo), client_servers.of_run(self._context.home, run)

        def resolve(name: str, account: str | None) -> ResolvedAgent:
            settings = load_trusted_settings(repo, self._context.home, trust=False)
            settings = structs.replace(settings, mcp={**servers, **settings.mcp}) if servers else settings
            return resolve_agent(name, settings, account)

        return resolve

    # --- runs below others

    async def execute(self, run: str, listen: Listener) -> Run:
        return await self._driver.execute(run, listen)

    async def resume(self, run: str, listen: Listener) -> Run:
        return await self._driver.resume(run, listen)

    def document(self, run: str) -> Run:
        return run_document.build(self._store, run)

    def pause_child(self, run: str) -> None:
        if run in self._loops:
            self._loops[run].pause(None, "its parent")

    async def stop_child(self, run: str) -> None:
        if run in self._loops:
            self._loops[run].stop("the attempt that spawned it has ended")
        else:
            await self._driver.stop(run, "its parent")

    async def _stop_left(self, run: str) -> None:
        """End what is left below a run that is over: after a crash nobody may have continued it."""
        for child in self._store.lineage.below_run(run):
            if self._store.run(child.run).status in OPEN:
                await self.stop_child(child.run)

    # --- orders from outside

    def stop(self, reason: str) -> None:
        """Stop everything that is driven here, now or in a moment."""
        self.stopping = self.stopping or reason
        for drive in self._loops.values():
            drive.stop(reason)

    def poke(self, run: str) -> None:
        """Let a run that this process drives know at once; others hear the bell."""
        if run in self._loops:
            self._loops[run].hear()

    def _look_up(self) -> None:
        """Let all runs of this process look whether there is room for them now."""
        for drive in self._loops.values():
            drive.look_up()

    # --- whose a run is

    def is_orphaned(self, run: str) -> bool:
        """Tell whether no process drives a run."""
        return run_status.is_orphaned(self._store.run(run).owner)

    def is_left(self, run: str) -> bool:
        """Tell whether no process drives a run, one on another machine that is silent included."""
        return run_status.is_left(self._store.run(run), time.time())

    def take_over(self, run: str, *, force: bool = False) -> bool:
        """Own a run whose owner is dead on this machine or has let its lease run out; with force, any run.

        What the owner before may still write or start is refused by its fence: the epoch of the run is another one.
        """
        if run in self._loops:
            return False
        record, now = self._store.run(run), time.time()
        owner = record.owner
        loser = owner if owner and (force or process_identity.is_alive(owner) is False) else None
        if owner not in (None, self._owner, loser) and run_status.lease_left(record, now):
            return False  # without a write, which would wake all that wait for a change, this caller among them
        if not self._store.take_lease(run, self._owner, now=now, until=now + LEASE_SECONDS, loser=loser):
            return False
        if owner and owner != self._owner and process_identity.is_alive(owner) is not False:
            self._ousted.add(owner)
            self._take_children(run, owner, now)
        return True

    def _take_children(self, run: str, owner: str, now: float) -> None:
        """Take the runs below one from the same owner: each has a lease of its own, which ends a little later."""
        for child in self._store.lineage.all_below(run):
            if child not in self._loops and self._store.run(child).owner == owner:
                self._store.take_lease(child, self._owner, now=now, until=now + LEASE_SECONDS, loser=owner)

    def unblock(self, *, force: bool = False) -> float:
        """End a process that was stopped while it wrote, by force or once a lease of it is out: it blocks all others.

        Return for how many seconds more its lease holds; 0 if nothing blocks.
        """
        pid = self._store.blocked_by()
        return (self.end_suspended(pid, force=force) if pid is not None else None) or 0.0

    def end_suspended(self, pid: int, *, force: bool = False) -> float | None:
        """End a suspended process that blocks others, once it has lost a run or a lease of it is out.

        Return for how many seconds more its lease holds, 0 if it was ended, None if it drives no run: then a user must.
        """
        if ousted := next((owner for owner in self._ousted if process_identity.process_of(owner) == pid), None):
            return 0.0 if process_identity.end(ousted) else None
        owned = [(run, owner) for run, _, owner in self._store.pages.owned_runs() if owner]
        theirs = [(run, owner) for run, owner in owned if process_identity.process_of(owner) == pid]
        if not theirs or not process_identity.is_alive(theirs[0][1]):
            return None
        left = min(run_status.lease_left(self._store.run(run), time.time()) for run, _ in theirs)
        if left and not force:
            return left
        return 0.0 if process_identity.end(theirs[0][1]) else None

    def _note_of(self, run: str, listen: Listener) -> Say:
        """Return what writes a line into the log of a run, and to who listens."""
        from corral.model.events import (  # noqa: PLC0415
            Noted,
            RunEvent,
            tell,
        )

        def note(text: str) -> None:
            self._store.note(run, Noted(text), at=time.time())
            tell(listen, RunEvent(run, None, None, Noted(text)))

        return note

    async def wait_until_unblocked(self, say: Say, *, force: bool = False) -> None:
        """Wait until a process that was stopped while it wrote does not block the store any more."""
        import asyncio  # noqa: PLC0415 -- commands that only look start without it

        warned = False
        while left := self.unblock(force=force):
            if not warned:
                pid = self._store.blocked_by()
                say(f"waiting for process {pid}: it was stopped (SIGSTOP) while it wrote; it is ended in {left:.0f} s")
                warned = True
            await asyncio.sleep(min(left, 0.5))

    async def own(self, run: str, *, force: bool = False) -> None:
        """Take a run over, or say who has it and until when; one that is over may still be cleaned up here."""
        import asyncio  # noqa: PLC0415 -- commands that only look start without it

        until = time.monotonic() + LEASE_SECONDS
        while not self.take_over(run, force=force):
            record = self._store.run(run)
            if record.status not in OPEN and time.monotonic() < until:
                await asyncio.sleep(CLEAN_UP_LOOK_SECONDS)
                continue
            left = run_status.lease_left(record, time.time())
            raise BadRequest(
                f"run {run} is being driven by another process ({run_status.owner_words(record.owner)})",
                hint=f"watch it: corral logs -f {run}; if that process hangs: corral resume {run} takes the run over"
                f" once its lease is out (in {left:.0f} s unless it is renewed), with --force at once",
            )

    def disown(self, run: str) -> None:
        """Give back a run that was taken over and is not driven."""
        self._store.release_lease(run, self._owner)

    async def detach(self, run: str) -> None:
        """Leave a run to a process of its own, which outlives this one; return once that drives it."""
        self._store.release_lease(run, self._owner)
        await start_detached(self._store, run)

    def server(self) -> ServerRecord | None:
        """Return a server of this store that is at work on this machine."""
        return _server_here(self._store)

    async def to_background(self, run: str) -> str:
        """See that a queued run is taken up: by the server of this store, or else by a process of its own."""
        return await leave_to_background(self._store, run)


async def start_detached(store: Store, run: str) -> None:
    """Start `corral resume` for a run that nobody drives; return once it does."""
    log = store.folder / "logs" / f"{run}.txt"
    argv = [sys.executable, "-P", "-m", "corral", "resume", run, "--quiet", "--json"]
    left = process.start_detached(argv, {**os.environ, "CORRAL_HOME": str(store.folder)}, log)
    bell = store.watch()
    try:
        while run_status.is_orphaned(store.run(run).owner) and left.poll() is None:
            await bell.listen(0.1)
    finally:
        bell.close()
    if left.poll() is not None:
        _refuse_ended(store, run, left.returncode, log)


def _refuse_ended(store: Store, run: str, code: int, log: Path) -> None:
    """Report a process that ended at once; one that has driven its run to an end, or to a question, is fine."""
    said = log.read_text(errors="replace")[-MOST_WORDS:].strip().removeprefix("error: ")
    if code == REFUSED:
        raise BadRequest(said or f"run {run} could not be started", hint=f"corral resume {run}")
    record = store.run(run)
    if record.status in run_status.ACTIVE_STATUSES and run_status.is_orphaned(record.owner):
        errors = [line.removeprefix("error: ") for line in said.splitlines() if not line.startswith("hint: ")]
        raise CorralError(
            f"the process for run {run} ended at its start (exit {code})" + (f": {errors[-1]}" if errors else ""),
            hint=f"to start it again: corral resume {run}; what it printed: {log}",
        )


def _server_here(store: Store) -> ServerRecord | None:
    """Return a server on this machine: those of others need not have a repository that is here."""
    servers = store.queue.servers(time.time())
    return next((each for each in servers if process_identity.is_alive(each.owner)), None)


async def leave_to_background(store: Store, run: str) -> str:
    """Say in words who takes a queued run up: the server of the store, or a process that is started for it."""
    if server := _server_here(store):
        return f"queued: the server at {server.address} takes it up"
    await start_detached(store, run)
    return f"started in the background; watch it: corral logs -f {run}"
