"""What every front end holds: submit, drive, stop, resume; and the rooms that hold all else."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from corral.config import paths
from corral.engine.views import run_document
from corral.model import OPEN, Request, Run
from corral.model.errors import BadRequest, while_driven
from corral.model.events import Heard
from corral.store.signal import ChangeWatch
from corral.store.sqlite import run_queue
from corral.store.sqlite.store import Store
from corral.world import process_identity

if TYPE_CHECKING:
    from corral.engine.active_runs import ActiveRuns
    from corral.engine.artifacts import Artifacts
    from corral.engine.budget.money import Money
    from corral.engine.control import Control
    from corral.engine.inbox.inbox import Inbox
    from corral.engine.merge.api import Merges
    from corral.engine.planning.requests import Requests
    from corral.engine.queue.run_queue import RunQueue
    from corral.engine.queue.schedules import Schedules
    from corral.engine.queue.triggers import Triggers
    from corral.engine.settings import Settings
    from corral.engine.tokens import Access
    from corral.engine.views.history import History
    from corral.engine.webhooks import Webhooks
    from corral.model.events import Listener

Say = Callable[[str], None]
PATIENCE_SECONDS = 3.0  #: how long an owner may take to stop before the user reads what is waited for


def _unsaid(_: str) -> None:
    """Say nothing."""


def _nobody(_: Heard) -> None:
    """Listen to nothing."""


class Engine:
    """The one engine; it may live in any process. What a command does not need of it is not even loaded."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = home or paths.home()
        self.owner = process_identity.me()
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = Store(self.home)
        return self._store

    def begin_store(self) -> None:
        """Begin a new store where one is missing, although earlier runs left folders there."""
        from corral.store.sqlite import missing_database  # noqa: PLC0415

        missing_database.begin(self.home / "corral.db")

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    # --- rooms

    @property
    def access(self) -> Access:
        """Who may use the server."""
        from corral.engine.tokens import Access  # noqa: PLC0415

        return Access(self.store)

    @property
    def automation(self) -> Schedules:
        """What starts runs by itself."""
        from corral.engine.queue.schedules import Schedules  # noqa: PLC0415

        return Schedules(self)

    @cached_property
    def control(self) -> Control:
        """What people want of runs that go on."""
        from corral.engine.control import Control  # noqa: PLC0415

        return Control(self)

    @cached_property
    def drives(self) -> ActiveRuns:
        """What this process drives."""
        from corral.engine.active_runs import ActiveRuns  # noqa: PLC0415

        return ActiveRuns(self)

    @cached_property
    def history(self) -> History:
        """What happened: runs and events."""
        from corral.engine.views.history import History  # noqa: PLC0415

        return History(self)

    @cached_property
    def inbox(self) -> Inbox:
        """What waits for a person."""
        from corral.engine.inbox.inbox import Inbox  # noqa: PLC0415

        return Inbox(self)

    @cached_property
    def merges(self) -> Merges:
        """How work lands, and is taken back."""
        from corral.engine.merge.api import Merges  # noqa: PLC0415

        return Merges(self)

    @cached_property
    def money(self) -> Money:
        """What runs cost."""
        from corral.engine.budget.money import Money  # noqa: PLC0415

        return Money(self)

    @property
    def queue(self) -> RunQueue:
        """What waits to be taken up."""
        from corral.engine.queue.run_queue import RunQueue  # noqa: PLC0415

        return RunQueue(self.store)

    @cached_property
    def requests(self) -> Requests:
        """What people ask for, until it is a run."""
        from corral.engine.planning.requests import Requests  # noqa: PLC0415

        return Requests(self)

    @cached_property
    def settings(self) -> Settings:
        """What holds in a folder, and what is trusted."""
        from corral.engine.settings import Settings  # noqa: PLC0415

        return Settings(self.home)

    @cached_property
    def triggers(self) -> Triggers:
        """What starts runs when it is called, or when a branch moves."""
        from corral.engine.queue.triggers import Triggers  # noqa: PLC0415

        return Triggers(self)

    @property
    def webhooks(self) -> Webhooks:
        """Whom we tell of what happens."""
        from corral.engine.webhooks import Webhooks  # noqa: PLC0415

        return Webhooks(self)

    @cached_property
    def work(self) -> Artifacts:
        """What attempts made."""
        from corral.engine.artifacts import Artifacts  # noqa: PLC0415

        return Artifacts(self)

    # --- look

    def find(self, name: str) -> str:
        """Return the id of a run that is named by a part of it, or by `@last`."""
        return self.store.find(name)

    def show(self, name: str) -> Run:
        return run_document.build(self.store, self.store.find(name))

    def driven(self, name: str) -> bool:
        """Tell whether some process drives a run."""
        return not self.drives.orphaned(self.store.find(name))

    def check_writable(self) -> None:
        """Raise unless the store can be written to."""
        run_queue.set_value(self.store, "alive", str(int(time.time())))

    # --- submit, drive, stop, go on

    async def submit(self, request: Request, say: Say = _unsaid) -> str:
        """Check a request and open its run, owned by this process; from here on a crash loses nothing."""
        return await self.requests.submit(request, say)

    async def drive(self, run: str, listen: Listener, *, patient: bool = False) -> Run:
        """Carry a run out to its end in this process; a patient one waits for people, others leave the run to them."""
        with while_driven():
            await self.drives.to_the_end(run, listen, patient=patient)
            await self.merges.by_itself(run, listen)
            return run_document.build(self.store, run)

    async def stop(self, name: str, by: str, say: Say = _unsaid, *, force: bool = False) -> Run:
        """Stop a run, whoever owns it, and wait until it is over and its work is saved.

        An owner that does not answer loses the run when its lease is out, with force at once; then it is stopped here.
        """
        run = self.store.find(name)
        if self.store.run(run).status not in OPEN:
            return run_document.build(self.store, run)
        await self.drives.unblocked(say, force=force)
        order = self.control.order(run, "stop", by)
        started, told = time.monotonic(), False
        bell = ChangeWatch(self.store.folder)
        try:
            while self.store.run(run).status in OPEN:
                if run not in self.drives and self.drives.take_over(run, force=force):
                    self.control.order(run, "stop", by)  # its owner may have taken the first one
                    return await self.drive(run, _nobody)
                if not told and time.monotonic() - started > PATIENCE_SECONDS and run not in self.drives:
                    say(self.control.waits_for(run, order))
                    told = True
                await bell.listen(0.5)
        finally:
            bell.close()
        return run_document.build(self.store, run)

    async def resume(self, name: str, listen: Listener, *, patient: bool = False, force: bool = False) -> Run:
        """Go on with a run whose process is gone."""
        from corral.engine.planning import redo  # noqa: PLC0415

        run = self.store.find(name)
        record = self.store.run(run)
        if record.status in redo.PARKED:
            redo.wake_up(self.store, run)
        elif record.status == "done" and record.plan.merge == "auto":
            await self.merges.by_itself(run, listen)  # it was cut off between its end and its landing
            return run_document.build(self.store, run)
        elif record.status not in OPEN:
            again = (
                "every node of it is done" if record.status == "done" else f"do again what is not: corral retry {run}"
            )
            raise BadRequest(f"run {run} is over: {record.status}", hint=again)
        self.drives.unblock(force=force)
        self.drives.own(run, force=force)
        return await self.drive(run, listen, patient=patient)

    async def resume_with(self, name: str, request: Request, listen: Listener, say: Say, *, patient: bool) -> Run:
        """Go on with a run by a flow file that was changed."""
        from corral.engine.planning import redo, submit  # noqa: PLC0415

        run = self.store.find(name)
        request = structs.replace(request, repo=self.store.run(run).plan.repo)
        flow = (await submit.prepare(request, self.home, self.requests.track_records)).plan.flow
        self.drives.own(run)
        redo.changed(self.store, run, flow, say)
        return await self.drive(run, listen, patient=patient)

    async def retry(self, name: str, node: str | None, listen: Listener, say: Say, *, patient: bool = False) -> Run:
        """Do what did not get done once more, or one node and all after it."""
        from corral.engine.planning import redo  # noqa: PLC0415

        run = self.store.find(name)
        self.drives.own(run)
        redo.again(self.store, run, node, say)
        return await self.drive(run, listen, patient=patient)
