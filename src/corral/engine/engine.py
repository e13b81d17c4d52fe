"""What every front end holds: submit, drive, stop, resume; and the rooms that hold all else."""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from corral.engine.context import Context, Say, Vet
from corral.model import OPEN, Request, Run
from corral.model.errors import BadRequest, StoreTrouble, during_run
from corral.model.events import RunEvent
from corral.store.interface import Store, Watch
from corral.store.opening import begin_store, copy_store
from corral.store.records import StoreReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.engine.active_runs import ActiveRuns
    from corral.engine.artifacts import Artifacts
    from corral.engine.budget.money import Money
    from corral.engine.chats import Chats
    from corral.engine.control import Control
    from corral.engine.doctor import AgentReport, Doctor
    from corral.engine.first_settings import FirstSettings, FoundSettings, SettingsAnswers
    from corral.engine.follow import Follows
    from corral.engine.forge_calls import ForgeCalls
    from corral.engine.inbox.inbox import Inbox
    from corral.engine.inbox.remote_answers import RemoteAnswers
    from corral.engine.issue_watch import IssueWatch
    from corral.engine.linear_delegations import Delegations
    from corral.engine.machine_reports import MachineReport
    from corral.engine.memory import Memory
    from corral.engine.merge.api import Merges
    from corral.engine.planner import Planner
    from corral.engine.planning.explain import ExplainedKind, Explanation
    from corral.engine.planning.requests import Requests
    from corral.engine.programs import Programs
    from corral.engine.queue.run_queue import RunQueue
    from corral.engine.queue.schedules import Schedules
    from corral.engine.queue.supervisor import RunSupervisor
    from corral.engine.queue.triggers import Triggers
    from corral.engine.review import Review
    from corral.engine.settings import Settings
    from corral.engine.tokens import Access
    from corral.engine.tools import Tools
    from corral.engine.views.history import History
    from corral.engine.webhooks import Callbacks, Webhooks
    from corral.model.events import Listener
    from corral.model.merge import MergeRecord, MergeRequest

PATIENCE_SECONDS = 3.0  #: how long an owner may take to stop before the user reads what is waited for


def _ignore_text(_: str) -> None:
    """Say nothing."""


def _ignore_event(_: RunEvent) -> None:
    """Listen to nothing."""


class Engine:
    """The one engine; it may live in any process. What a command does not need of it is not even loaded."""

    def __init__(self, home: Path | None = None) -> None:
        self._context = Context(home)

    @property
    def home(self) -> Path:
        return self._context.home

    @property
    def settings(self) -> Settings:
        """What holds in a folder, and what is trusted."""
        return self._context.settings

    @property
    def _store(self) -> Store:
        return self._context.store

    def _document(self, run: str) -> Run:
        from corral.engine.views import run_document  # noqa: PLC0415 -- a list of runs needs none

        return run_document.build(self._store, run)

    def begin_store(self) -> None:
        """Begin a new store where one is missing, although earlier runs left folders there."""
        begin_store(self.home)

    def check_store(self) -> str:
        """Return `ok`, or what is wrong with the store."""
        return self._store.integrity()

    def store_report(self) -> StoreReport:
        """Look through the whole store: soundness, version, size."""
        return self._store.report()

    def copy_store(self, to: str, say: Say) -> None:
        """Copy everything to an empty store at another address."""
        copy_store(self._store, self.home, to, say)

    def check_writable(self) -> None:
        """Raise unless the store can be written to."""
        self._store.queue.set_value("alive", str(int(time.time())))

    def store_removed(self) -> StoreTrouble | None:
        """Return what is wrong if the store's files are gone or others took their place."""
        return self._store.removal_error()

    def flush(self) -> None:
        """Write down the events that are kept back for a moment."""
        self._store.flush()

    def changes(self) -> Watch:
        """Return what wakes whenever any process has written to the store."""
        return self._store.watch()

    def close(self) -> None:
        self._context.close()

    # --- rooms

    @cached_property
    def access(self) -> Access:
        """Who may use the server."""
        from corral.engine.tokens import Access  # noqa: PLC0415

        return Access(self._store)

    @property
    def automation(self) -> Schedules:
        """What starts runs by itself."""
        from corral.engine.queue.schedules import Schedules  # noqa: PLC0415

        return Schedules(self._store, self.requests)

    @property
    def callbacks(self) -> Callbacks:
        """What runs owe to web addresses."""
        from corral.engine.webhooks import Callbacks  # noqa: PLC0415

        return Callbacks(self._store)

    @property
    def chats(self) -> Chats:
        """Conversations in editors."""
        from corral.engine.chats import Chats  # noqa: PLC0415

        return Chats(self._store)

    @cached_property
    def control(self) -> Control:
        """Orders for runs that are not over."""
        from corral.engine.control import Control  # noqa: PLC0415

        return Control(self._context, self, self.active_runs, self.money)

    @cached_property
    def active_runs(self) -> ActiveRuns:
        """What this process drives."""
        from corral.engine.active_runs import ActiveRuns  # noqa: PLC0415

        return ActiveRuns(self._context, self, self._merge)

    @cached_property
    def follows(self) -> Follows:
        """Pull requests that are looked after."""
        from corral.engine.follow import Follows  # noqa: PLC0415

        return Follows(self._context, self, self.active_runs, self._merge)

    @cached_property
    def history(self) -> History:
        """What happened: runs and events."""
        from corral.engine.views.history import History  # noqa: PLC0415

        return History(self._context, lambda: self.active_runs)

    @property
    def issues(self) -> IssueWatch:
        """Issues that are found by their label."""
        from corral.engine.issue_watch import IssueWatch  # noqa: PLC0415

        return IssueWatch(self._context, self.requests, self, self.active_runs, self._merge)

    @cached_property
    def delegations(self) -> Delegations:
        """Issues that users of Linear delegate to Corral."""
        from corral.engine.linear_delegations import Delegations  # noqa: PLC0415

        return Delegations(self._context, self.triggers, self.inbox, self)

    @cached_property
    def forge_calls(self) -> ForgeCalls:
        """Labels and comments that forges report."""
        from corral.engine.forge_calls import ForgeCalls  # noqa: PLC0415

        return ForgeCalls(self._context, self.triggers, self.issues, self.follows)

    @property
    def memory(self) -> Memory:
        """What is remembered of repositories."""
        from corral.engine.memory import Memory  # noqa: PLC0415

        return Memory(self._context)

    @property
    def programs(self) -> Programs:
        """Programs that call tools, outside a run."""
        from corral.engine.programs import Programs  # noqa: PLC0415

        return Programs(self._context, self.memory)

    @property
    def tools(self) -> Tools:
        """Programs that are kept."""
        from corral.engine.tools import Tools  # noqa: PLC0415

        return Tools(self._context, self.programs)

    @cached_property
    def inbox(self) -> Inbox:
        """What waits for a user."""
        from corral.engine.inbox.inbox import Inbox  # noqa: PLC0415

        return Inbox(self._context, self, self.active_runs, self.merges, self.money)

    @cached_property
    def remote_answers(self) -> RemoteAnswers:
        """Answers by links and from chats."""
        from corral.engine.inbox.remote_answers import RemoteAnswers  # noqa: PLC0415

        return RemoteAnswers(self._store, self.inbox)

    @cached_property
    def merges(self) -> Merges:
        """How work merges, and is taken back."""
        from corral.engine.merge.api import Merges  # noqa: PLC0415

        return Merges(self._context, self, self.active_runs, self._take_choice)

    @cached_property
    def money(self) -> Money:
        """What runs cost."""
        from corral.engine.budget.money import Money  # noqa: PLC0415

        return Money(self._context, self.active_runs.poke)

    @property
    def queue(self) -> RunQueue:
        """What waits to be taken up."""
        from corral.engine.queue.run_queue import RunQueue  # noqa: PLC0415

        return RunQueue(self._store)

    @cached_property
    def requests(self) -> Requests:
        """Requests of users, until they are runs."""
        from corral.engine.planning.requests import Requests  # noqa: PLC0415

        return Requests(self._context, self.money, lambda: self.active_runs.stopping)

    @property
    def planner(self) -> Planner:
        """Flows that agents write."""
        from corral.engine.planner import Planner  # noqa: PLC0415

        return Planner(self._context, self.requests, self.money, self.execute)

    @cached_property
    def review(self) -> Review:
        """What reviewers say about runs."""
        from corral.engine.review import Review  # noqa: PLC0415

        return Review(self._context)

    @cached_property
    def triggers(self) -> Triggers:
        """What starts runs when it is called, or when a branch moves."""
        from corral.engine.queue.triggers import Triggers  # noqa: PLC0415

        return Triggers(self._context, self.requests)

    @property
    def webhooks(self) -> Webhooks:
        """Whom we tell of what happens."""
        from corral.engine.webhooks import Webhooks  # noqa: PLC0415

        return Webhooks(self._store)

    @cached_property
    def work(self) -> Artifacts:
        """What attempts made."""
        from corral.engine.artifacts import Artifacts  # noqa: PLC0415

        return Artifacts(self._context, self.merges, self.inbox, self.history)

    def supervisor(self, listen: Listener, vet: Vet, *, resume: bool = True) -> RunSupervisor:
        """Return what takes up queued runs by itself; `vet` may refuse what schedules and triggers start."""
        from corral.engine.queue.supervisor import Rooms, RunSupervisor  # noqa: PLC0415

        rooms = Rooms(self.automation, self.triggers, self.queue, self.money, self.resume)
        return RunSupervisor(self._context, rooms, listen, vet, resume=resume)

    async def _merge(self, request: MergeRequest, say: Say) -> MergeRecord:
        return await self.merges.merge(request, say)

    async def _take_choice(self, run: Run, named: str, by: str) -> bool:
        return await self.inbox.take_choice(run, named, by)

    # --- look

    def find(self, name: str) -> str:
        """Return the id of a run that is named by a part of it, or by `@last`."""
        return self._store.find(name)

    def show(self, name: str) -> Run:
        return self._document(self._store.find(name))

    def is_active(self, name: str) -> bool:
        """Tell whether some process drives a run."""
        return not self.active_runs.is_orphaned(self._store.find(name))

    async def examine(self) -> Doctor:
        """Look at everything a run needs."""
        from corral.engine import doctor  # noqa: PLC0415

        return await doctor.examine(self._context)

    async def list_agents(self, *, strict: bool = True) -> list[AgentReport]:
        """Report on every agent that can be asked for here; `strict` raises what is wrong with the settings."""
        from corral.engine import doctor  # noqa: PLC0415

        return await doctor.list_agents(self._context, strict=strict)

    async def explain(self, kind: ExplainedKind, name: str, folder: Path) -> Explanation:
        """Say what an agent, a role or a flow is, where it comes from, and what it would do."""
        from corral.engine.planning import explain  # noqa: PLC0415

        if kind == "agent":
            return await explain.explain_agent(self._context, name, folder)
        if kind == "role":
            return explain.explain_role(self._context, name, folder)
        return explain.explain_flow(self._context, name, folder)

    async def list_machines(self, names: Sequence[str] = ()) -> list[MachineReport]:
        """Report on the machines of the user's settings, each asked now."""
        from corral.engine import machine_reports  # noqa: PLC0415

        return await machine_reports.list_machines(self._context, names)

    def installed_agents(self, folder: Path) -> dict[str, str]:
        """Return the agents whose programs lie on this machine, with their logins; no program is started for it."""
        from corral.engine import doctor  # noqa: PLC0415

        return doctor.installed_logins(self._context, folder)

    async def look_for_settings(self, folder: Path) -> FoundSettings:
        """Return what suits a repository on this machine, and what is set already."""
        from corral.engine import first_settings  # noqa: PLC0415

        return await first_settings.look(self._context, folder)

    def find_checks(self, folder: Path) -> tuple[str, ...]:
        """Return the checks that the files of a repository suggest."""
        from corral.engine import first_settings  # noqa: PLC0415

        return first_settings.find_checks(folder)

    def write_settings(self, folder: Path, answers: SettingsAnswers) -> FirstSettings:
        """Write the user's and the repository's first settings, or add to what is there."""
        from corral.engine import first_settings  # noqa: PLC0415

        return first_settings.write(folder, answers)

    def _with_expiry(self, name: str) -> str:
        """Return the id of a run that is about to be changed, after what waited in it until its deadline has ended."""
        from corral.engine.inbox import expiry  # noqa: PLC0415

        run = self._store.find(name)
        expiry.end_due(self._store, run)
        return run

    # --- submit, drive, stop, continue

    async def submit(self, request: Request, say: Say = _ignore_text) -> str:
        """Check a request and open its run, owned by this process; from here on a crash loses nothing."""
        return await self.requests.submit(request, say)

    async def execute(self, run: str, listen: Listener, *, patient: bool = False) -> Run:
        """Carry a run out to its end in this process; a patient one waits for users, others leave the run to them."""
        with during_run():
            async with self._calling_back(run):
                await self.active_runs.execute_owned(run, listen, patient=patient)
                await self.merges.merge_automatically(run, listen)
            if self._store.review.of_run(run):
                await self.review.refresh(run)
            return self._document(run)

    def _calling_back(self, run: str) -> AbstractAsyncContextManager[None]:
        return self.callbacks.during(run) if self._store.run(run).plan.calls_back else nullcontext()

    async def stop(self, name: str, by: str, say: Say = _ignore_text, *, force: bool = False) -> Run:
        """Stop a run of any process, and wait until it is over and its work is saved.

        An owner that does not answer loses the run when its lease is out, with force at once; then it is stopped here.
        """
        run = self._with_expiry(name)
        if self._store.run(run).status not in OPEN:
            return self._document(run)
        await self.active_runs.wait_until_unblocked(say, force=force)
        order = self.control.order(run, "stop", by)
        started, warned = time.monotonic(), False
        bell = self._store.watch()
        try:
            while self._store.run(run).status in OPEN:
                if run not in self.active_runs and self.active_runs.take_over(run, force=force):
                    self.control.order(run, "stop", by)  # its owner may have taken the first one
                    return await self.execute(run, _ignore_event)
                if not warned and time.monotonic() - started > PATIENCE_SECONDS and run not in self.active_runs:
                    say(self.control.waits_for(run, order))
                    warned = True
                await bell.listen(0.5)
        finally:
            bell.close()
        return self._document(run)

    async def resume(self, name: str, listen: Listener, *, patient: bool = False, force: bool = False) -> Run:
        """Continue a run whose process is gone."""
        from corral.engine.planning import redo  # noqa: PLC0415
        from corral.engine.verify import finish_clean_up  # noqa: PLC0415

        run = self._store.find(name)
        record = self._store.run(run)
        if record.status not in (*OPEN, *redo.PARKED):  # it may have been cut off before its clean-up or its merging
            await finish_clean_up(record.plan, self.home, self._store.attempts(run))
            if record.status == "done" and record.plan.merge == "auto":
                await self.merges.merge_automatically(run, listen)
                return self._document(run)
            again = (
                "every node of it is done" if record.status == "done" else f"do again what is not: corral retry {run}"
            )
            raise BadRequest(f"run {run} is over: {record.status}", hint=again)
        self.active_runs.unblock(force=force)
        await self.active_runs.own(run, force=force)
        if self._store.run(run).status in redo.PARKED:  # its owner alone opens it again
            redo.wake_up(self._store, run)
        return await self.execute(run, listen, patient=patient)

    async def resume_with(self, name: str, request: Request, listen: Listener, say: Say, *, patient: bool) -> Run:
        """Continue a run by a flow file that was changed."""
        from corral.engine.planning import redo, submit  # noqa: PLC0415

        run = self._store.find(name)
        request = structs.replace(request, repo=self._store.run(run).plan.repo)
        flow = (await submit.prepare(request, self.home, self.requests.track_records)).plan.flow
        await self.active_runs.own(run)
        redo.apply_changed_flow(self._store, run, flow, say)
        return await self.execute(run, listen, patient=patient)

    async def revise(
        self, name: str, text: str, attempt: str | None, by: str, listen: Listener, *, patient: bool = False
    ) -> Run:
        """Send all open comments to the agent of an attempt; its answer is a new attempt of the same node."""
        run = await self.open_revision(name, text, attempt, by)
        await self.active_runs.own(run)
        return await self.execute(run, listen, patient=patient)

    async def open_revision(self, name: str, text: str, attempt: str | None, by: str) -> str:
        """Store a revision, for `resume` to carry out; return the run."""
        run = self._with_expiry(name)
        self.review.refuse_open(run)
        await self.active_runs.own(run)
        try:
            await self.review.begin(run, text, attempt, by)
        finally:
            self.active_runs.disown(run)
        return run

    async def attach(self, name: str, attempt: str | None, by: str, listen: Listener) -> Run:
        """Let the user of this terminal work in an attempt's agent by hand; the result is a new attempt."""
        from corral.world.terminal import UserTerminal  # noqa: PLC0415

        run = self._with_expiry(name)
        self.review.refuse_open(run)
        terminal = UserTerminal.of_this_process()
        await self.active_runs.own(run)
        try:
            await self.review.begin_by_hand(run, attempt, by)
        except BaseException:
            self.active_runs.disown(run)
            raise
        self.active_runs.terminal = terminal
        return await self.execute(run, listen)

    async def retry(self, name: str, node: str | None, listen: Listener, say: Say, *, patient: bool = False) -> Run:
        """Do what did not get done once more, or one node and all after it."""
        from corral.engine.planning import redo  # noqa: PLC0415

        run = self._with_expiry(name)
        await self.active_runs.own(run)
        redo.redo_nodes(self._store, run, node, say)
        return await self.execute(run, listen, patient=patient)

    async def retry_apart(self, name: str, node: str | None, say: Say = _ignore_text) -> str:
        """Do as `retry` does, in a process of its own; return the run once that drives it."""
        from corral.engine.planning import redo  # noqa: PLC0415

        run = self._with_expiry(name)
        await self.active_runs.own(run)
        redo.redo_nodes(self._store, run, node, say)
        await self.active_runs.detach(run)
        return run
