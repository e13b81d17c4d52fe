"""The supervisor of one store: starts queued runs, resumes interrupted ones, applies deadlines."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from corral.engine import kept_work
from corral.engine.budget.money import Money
from corral.engine.context import Context, Vet
from corral.engine.inbox import expiry
from corral.engine.queue.run_queue import RepositoryCheck, RunQueue
from corral.engine.queue.schedules import Schedules
from corral.engine.queue.triggers import Triggers
from corral.engine.views import run_status
from corral.model import OPEN, Run, Status
from corral.model.errors import BadRequest, Conflicting, CorralError
from corral.model.events import Listener
from corral.model.server import ServerRecord
from corral.world import process_identity

LOOK_SECONDS = 1.0  #: the bell rings at once; this is for what the clock alone brings
HEARTBEAT_SECONDS = 5.0  #: how often an engine says that it is there
CALM_SECONDS = 5.0  #: a run is left behind if its lease is out and not renewed for so long; owners renew every 3 s
MOST_QUEUED = 1000  #: of the queue that are looked at
REFUSAL_SECONDS = 0.05  #: what speaks against driving a run is known at once
CLEAN_SECONDS = 3600.0  #: how often `[clean]` is applied
log = logging.getLogger("corral.supervisor")


class Rooms(Struct, frozen=True):
    """What a supervisor needs of the engine: what starts by itself, what waits, and how a run continues."""

    automation: Schedules
    triggers: Triggers
    queue: RunQueue
    money: Money
    resume: Callable[[str, Listener], Awaitable[Run]]


class RunSupervisor:
    """Drives runs of one store, at most so many at once, in the order of the queue."""

    def __init__(self, context: Context, rooms: Rooms, listen: Listener, vet: Vet, *, resume: bool = True) -> None:
        self._context, self._rooms, self._listen, self._vet, self._resume = context, rooms, listen, vet, resume
        self._repositories = RepositoryCheck(context)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._left: list[str] = []  #: runs to continue, before anything new
        self._given_up: set[str] = set()  #: what failed here once is left to a user
        self._address = ""
        self._looked = self._renewed = 0.0
        self._cleaned_at: float | None = None
        self._cleaning: asyncio.Task[None] | None = None
        self._silent: dict[str, tuple[str | None, float]] = {}  #: runs that nobody drives: the owner, and since when
        self._troubles: dict[str, str] = {}  #: by run: what went wrong with driving it

    @property
    def active(self) -> tuple[str, ...]:
        return tuple(self._tasks)

    def task(self, run: str) -> asyncio.Task[None] | None:
        """Return what drives a run."""
        return self._tasks.get(run)

    def claim(self, address: str) -> None:
        """Say that this process serves the store; of one state folder only one does."""
        mine = ServerRecord(owner=self._context.owner, place=self._context.place, address=address, resumes=self._resume)
        if other := self._context.store.queue.serve(mine, time.time()):
            raise Conflicting(f"this store is served already: {other.address}", hint="one server is enough")
        self._address = address

    async def begin(self, run: str, work: Callable[[Listener], Awaitable[object]]) -> None:
        """Drive a run at once, because a user asks for it; what speaks against it is raised."""
        self._given_up.discard(run)
        task = asyncio.create_task(self._listening(work))
        await asyncio.wait((task,), timeout=REFUSAL_SECONDS)
        if task.done():
            await task
        else:
            self._tasks[run] = asyncio.create_task(self._run_and_log(run, task))

    async def _listening(self, work: Callable[[Listener], Awaitable[object]]) -> None:
        await work(self._listen)

    def trouble(self) -> str | None:
        """Return what is wrong with driving, if anything is."""
        if not self._troubles:
            return None
        run, words = next(reversed(self._troubles.items()))
        return f"{len(self._troubles)} runs could not be driven; the last, {run}: {words}"

    async def keep(self) -> None:
        """Continue until cancelled; then what is driven is left as a crash would, to be resumed by the next."""
        store = self._context.store
        bell = store.watch()
        try:
            if self._resume:
                self._left = self._orphans()
            while True:
                await self._look()
                await self._take_up()
                await bell.listen(LOOK_SECONDS)
        finally:
            bell.close()
            await self._repositories.close()
            tasks = [*self._tasks.values(), *((self._cleaning,) if self._cleaning else ())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(CorralError):
                store.queue.stop_serving(self._context.owner)

    async def _look(self) -> None:
        """See what the clock or a user's answer brings back."""
        now = time.time()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        self._renew(now)
        expiry.end_due(self._context.store)
        await self._rooms.automation.start_due(self._vet)
        await self._rooms.triggers.start_moved(self._vet)
        if self._cleaned_at is None or time.monotonic() - self._cleaned_at >= CLEAN_SECONDS:
            self._cleaned_at = time.monotonic()
            self._cleaning = asyncio.create_task(self._clean())
        if self._resume:
            self._left += [
                run
                for run in (*self._answered_runs(), *self._runs_with_quota(now), *await self._left_behind(now))
                if run not in self._left
            ]

    async def _clean(self) -> None:
        """Clean as the user's settings say, beside everything else; what fails is tried again in an hour."""
        try:
            cleaned = await kept_work.clean_by_settings(self._context.store)
        except (CorralError, OSError) as error:
            log.warning("cleaning: %s", error)
            return
        if count := sum(1 for each in cleaned if not each.trouble):
            log.info(
                "cleaned %d attempts, %.1f MB", count, sum(each.bytes for each in cleaned if not each.trouble) / 1e6
            )

    def _renew(self, now: float) -> None:
        """Say that this engine is there; one that was silent for long may be forgotten, or replaced."""
        if abs(now - self._renewed) >= HEARTBEAT_SECONDS and self._address:
            self._renewed = now
            if not self._context.store.queue.renew_serving(self._context.owner, now):
                self.claim(self._address)

    def _orphans(self) -> list[str]:
        """Return the runs whose process is gone; who continues a parent continues its children."""
        store = self._context.store
        lost = [run for run, status, owner in store.pages.owned_runs() if run_status.is_lost(status, owner)]
        lineage = store.lineage
        return [run for run in lost if (born := lineage.of(run)) is None or store.run(born.parent).status not in OPEN]

    async def _left_behind(self, now: float) -> list[str]:
        """Return the runs whose process died or hangs while this one serves; a clock that jumps does not count."""
        store, lineage = self._context.store, self._context.store.lineage
        silent: dict[str, tuple[str | None, float]] = {}
        for run, status, owner in store.pages.owned_runs():
            if owner == self._context.owner or run in self._left or not self._free(run):
                continue
            if run_status.is_lost(status, owner) or await self._has_hung(run, status, owner, now):
                before, since = self._silent.get(run, (owner, time.monotonic()))
                silent[run] = (owner, since if before == owner else time.monotonic())
        self._silent = silent
        long = [run for run, (_, since) in silent.items() if time.monotonic() - since >= CALM_SECONDS]
        return [run for run in long if (born := lineage.of(run)) is None or store.run(born.parent).status not in OPEN]

    async def _has_hung(self, run: str, status: Status, owner: str | None, now: float) -> bool:
        """Tell whether the owner of a run is silent; of one on another machine, if its repository is here, too."""
        if status not in run_status.ACTIVE_STATUSES or owner is None:
            return False
        record = self._context.store.run(run)
        return run_status.is_stuck(record, now) and (
            process_identity.is_alive(owner) is not None or await self._repositories.can_drive(run)
        )

    def _answered_runs(self) -> list[str]:
        """Return the runs that wait for a user no longer."""
        store = self._context.store
        return [
            run
            for run, status, _ in store.pages.owned_runs()
            if status == "waiting" and run_status.is_left(store.run(run), time.time()) and self._free(run)
            and not any(entry.is_open for entry in store.inbox.of_run(run))
        ]  # fmt: skip

    def _runs_with_quota(self, now: float) -> list[str]:
        """Return the runs whose quota is back."""
        store = self._context.store
        return [
            run for run, until in store.pages.limited_runs() if until is not None and until <= now and self._free(run)
        ]

    def _free(self, run: str) -> bool:
        return run not in self._tasks and run not in self._given_up

    async def _take_up(self) -> None:
        queue = self._rooms.queue
        for run in [run for run, task in self._tasks.items() if task.done()]:
            del self._tasks[run]
        free = queue.concurrency - len(self._tasks)
        if free <= 0 or queue.is_held or self._rooms.money.halted_by():
            return
        chosen, self._left = self._left[:free], self._left[free:]
        chosen += await self._next_runs(free - len(chosen)) if free > len(chosen) else []
        for run in chosen:
            if self._free(run):
                self._tasks[run] = asyncio.create_task(self._resume_run(run))

    async def _next_runs(self, most: int) -> list[str]:
        """Return what is next in the queue, of the runs whose repository this engine has or can complete."""
        found: list[str] = []
        for looked in (most, MOST_QUEUED):
            waiting = self._rooms.queue.next(looked)
            for each in waiting:
                if each.run not in found and self._free(each.run) and await self._repositories.can_drive(each.run):
                    found.append(each.run)
                if len(found) == most:
                    return found
            if len(waiting) < looked:
                break
        return found

    def _is_elsewhere(self, run: str) -> bool:
        """Tell whether another engine has a run at present."""
        record = self._context.store.run(run)
        return record.owner not in (None, self._context.owner) and run_status.lease_left(record, time.time()) > 0

    async def _resume_run(self, run: str) -> None:
        await self._run_and_log(run, self._rooms.resume(run, self._listen))

    async def _run_and_log(self, run: str, work: Awaitable[object]) -> None:
        try:
            log.info("taken up", extra={"run": run})
            await work
            log.info("over: %s", self._context.store.status(run), extra={"run": run})
        except BadRequest as error:  # another process was quicker, or it is over
            log.info("not taken up: %s", error, extra={"run": run})
            if self._context.store.status(run) != "queued" or not self._is_elsewhere(run):
                self._context.store.queue.leave(run)  # else its submitter still has it for a moment: it is next again
        except Exception as error:  # noqa: BLE001 -- one run must not end all others
            if not self._is_elsewhere(run):  # else this engine may be the one that continues it one day
                self._given_up.add(run)
            self._troubles[run] = f"{type(error).__name__}: {error}"
            log.error("cannot be driven: %s", error, extra={"run": run})  # noqa: TRY400 -- a line, not a trace
        finally:
            self._context.store.flush()
