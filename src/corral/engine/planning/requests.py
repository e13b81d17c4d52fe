"""From a request to a run: check it, open it here, or leave it to whichever process takes it up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from corral.engine.automatic import pending
from corral.engine.places import repository_of
from corral.engine.planning import submit
from corral.engine.planning.glances import Glances
from corral.engine.planning.submit import Submission
from corral.errors import Stopped
from corral.flow import TaskType
from corral.model import Request, RunPlan, RunRecord, TrackRecord
from corral.rules import naming
from corral.serving import Ticket
from corral.world import clock, snapshots
from corral.world.store import history
from corral.world.store.sqlite import LEASE_SECONDS

if TYPE_CHECKING:
    from corral.engine.engine import Engine

Say = Callable[[str], None]
Vet = Callable[[RunPlan], None]


class Requests:
    """What people ask for, until it is a run."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._glances = Glances()

    async def prepare(self, request: Request) -> Submission:
        """Check a request as `submit` does; nothing is started."""
        _ = self._engine.store
        return await submit.prepare(request, self._engine.home, self.track_records, self._glances)

    async def submit(self, request: Request, say: Say) -> str:
        """Check a request and open its run, owned by this process; from here on a crash loses nothing."""
        engine = self._engine
        engine.money.refuse_halted()
        submission = await self.prepare(request)
        if engine.drives.stopping:
            raise Stopped(f"{engine.drives.stopping} before anything was started")
        for note in (*submission.notes, *await self._unknown_work(submission.plan)):
            say(note)
        record = _record(submission.plan, engine.owner)
        engine.store.add_run(record)
        return record.id

    async def enqueue(
        self, request: Request, ticket: Ticket, say: Say = lambda _: None, vet: Vet = lambda _: None
    ) -> str:
        """Check a request and leave its run to whichever process takes it up; `vet` may refuse what came of it."""
        self._engine.money.refuse_halted()
        submission = await self.prepare(request)
        vet(submission.plan)
        for note in submission.notes:
            say(note)
        plan = structs.replace(submission.plan, priority=ticket.priority or submission.plan.priority)
        return pending.add(self._engine.store, _record(plan, None), ticket, request)

    async def _unknown_work(self, plan: RunPlan) -> list[str]:
        """Return a note if a store without runs meets a repository that holds work of runs."""
        store = self._engine.store
        if store.rows("newest_run"):
            return []
        found = await snapshots.listed(repository_of(plan, store.folder), ["refs/corral/attempts"])
        if not found:
            return []
        work = f"this repository holds the work of {len(found)} attempt{'' if len(found) == 1 else 's'} (refs/corral)"
        return [f"{work} that the store in {store.folder} does not know; it and its branches stay as they are"]

    def before(self, request: Request, ticket: Ticket) -> str | None:
        """Return the run that was made for the same request under the same key already."""
        return pending.before(self._engine.store, ticket, request)

    def track_records(self, kind: TaskType | None) -> list[TrackRecord]:
        """Return how agents did tasks of a type here before."""
        return history.track_records(self._engine.store, kind)


def _record(plan: RunPlan, owner: str | None) -> RunRecord:
    now = time.time()
    return RunRecord(
        id=naming.run_id(int(now * 1000), int.from_bytes(os.urandom(4))),
        status="queued",
        reason=None,
        plan=plan,
        created=now,
        clock=clock.reading(),
        owner=owner,
        lease_until=now + LEASE_SECONDS if owner else 0.0,
    )
