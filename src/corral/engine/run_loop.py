"""Drive one run: decide, act, wait for something to happen, decide again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corral.attempt.budget_figures import needed_usd, run_allowed_usd, run_held_usd
from corral.attempt.placement import RunningAttempts
from corral.attempt.runner import AttemptFactory, AttemptRun
from corral.attempt.user_questions import RunQuestions
from corral.engine import run_owner, verify
from corral.engine.inbox.inbox import Gates
from corral.engine.merge.flow_merges import FlowMerges, MergeCall
from corral.engine.planning import redo as reopening
from corral.engine.run_owner import Orders
from corral.engine.slots import LOOK_AGAIN_SECONDS, Slots
from corral.model import OPEN, Attempt, AttemptRecord, NodeState, Status
from corral.model.errors import BadRequest, StoreTrouble
from corral.model.events import Event, Listener, Noted, RunEvent, StatusChanged, tell
from corral.rules.race import second_reader, variation
from corral.rules.race.contest import Halt
from corral.rules.schedule import agent_tries, redo
from corral.rules.schedule.actions import (
    Action,
    AddPlanned,
    AskAtGate,
    Choose,
    Expand,
    FinishRun,
    Lower,
    Settle,
    StartMerge,
    Vary,
)
from corral.rules.schedule.agent_tries import Begin, Park, ResumeAttempt, WaitUntil
from corral.rules.schedule.decide import Schedule
from corral.rules.text import names
from corral.store.interface import Store
from corral.world import clock, locks
from corral.world.trust import make_receipt_key

if TYPE_CHECKING:
    from corral.attempt.proof.product_calls import Variations


class RunLoop:
    """One run in this process, for as long as this process owns it."""

    def __init__(self, run: str, owner: str, store: Store, place: AttemptFactory, listen: Listener) -> None:
        self.run, self.owner, self.store, self.listen = run, owner, store, listen
        self._merges: FlowMerges | None = None
        self.plan = store.run(run).plan
        self._slots = Slots(store, run, owner, self.plan)
        self.schedule = Schedule(self.plan.flow, self.plan.retry, room=self._slots)
        self.slot_freed: Callable[[], None] = lambda: None  #: other runs of this process may wait for it
        self._orders = Orders(self)
        self._gates = Gates(RunQuestions(run, store, listen))
        self.patient = False  #: it waits for a user's answer instead of leaving the run to them
        self._wake = asyncio.Event()
        self._at_work = RunningAttempts(place, self._wake.set)
        self._variations: Variations | None = None  #: comparisons of rivals, once there is one
        self._waits_until = 0.0
        self._running = False  #: it is stored that the run is at work
        self._pausing: str | None = None
        self._background: list[asyncio.Task[None]] = []
        self._clean_ups: list[asyncio.Task[None]] = []  #: of attempts that are over, and corrected notes
        self._fence = locks.current()

    async def execute(self) -> None:
        """Continue until the run is over. Cancelled, it leaves attempts as a crash would; `stop` is the polite way."""
        make_receipt_key(self.store.folder)  # before any attempt remembers what is around it
        try:
            self._begin(run_owner.keep_lease(self))
            await self._take_over()
            self._begin(run_owner.keep_flushing(self.store))
            self._begin(self._orders.hear())
            while not await self._turn():
                pass  # a turn waits by itself until something happens
            await asyncio.gather(*self._clean_ups)
            await run_owner.remove_leavings(self.store, self.run, self.store.attempts(self.run))
        finally:
            await self._leave()
        self.store.flush()

    async def _take_over(self) -> None:
        """Load what is stored; end and remove what a process before this one left."""
        records = self.store.attempts(self.run)
        await self._end_left(records)
        await verify.finish_clean_up(self.plan, self.store.folder, records)
        await run_owner.remove_leavings(self.store, self.run, records)
        self.schedule.allowed_usd = run_allowed_usd(self.store, self.run)
        self.schedule.load(self.store.nodes(self.run), records)
        for record in records:  # a crash may have come between a reader's word and the note
            if record.attempt.error and record.attempt.error.kind == "doubtful":
                self._correct_note(record.attempt)
        self._orders.take()

    async def _turn(self) -> bool:
        """Decide by what is stored, act, and wait until something happens; return whether the run is over."""
        self._wake.clear()
        if self._pausing and not self.schedule.stopping:
            if not self.attempts:
                with self.store.transaction():
                    self._note_running()
                    self._rest(self._pausing)
                return True
            with self.store.transaction():
                self._slots.open_turn(time.time())
                self._slots.close_turn({})
            await self._something_happens(None)
            return False
        now = time.time()
        with self.store.transaction():
            self._note_running()
            freed = self._slots.open_turn(now)
            over = [*self._gates.take_answered(), *(self._merges.take_ended() if self._merges else ())]
            self._take_variations()
            answered = [action for settle in over for action in self.schedule.end_node(settle)]
            decided = self.schedule.decide(now)
            if self._slots.close_turn(self.schedule.waiting):
                self.note(Noted("waits: as many are at work as [limits] allow"))
            finished, wait, records = self._act([*answered, *decided])
            if finished:
                self._slots.leave()
        if freed:
            self.slot_freed()
        for record in records:  # driven only once it is stored that they are
            self._start_attempt(record)
        if not finished:
            await self._something_happens(wait)
        return finished

    def _act(self, actions: list[Action]) -> tuple[bool, float | None, list[AttemptRecord]]:
        """Do what is decided; return whether the run is over, until when to wait, and which attempts to drive."""
        records = [record for action in actions if (record := self._do(action))]
        if actions and isinstance(last := actions[-1], FinishRun):
            if self._begin_after_revisions():
                return False, 0.0, []
            if last.status != "over_budget":  # that it asks whether it may continue still holds
                self._gates.withdraw(f"the run is {last.status}")
            else:
                held, needed = run_held_usd(self.store, self.run), needed_usd(self.store, self.run)
                self._gates.ask_for_money(self.plan, held, self.schedule.allowed_usd, needed)
            self._move(last.status, last.reason)
            return True, None, []
        if self._gates.answered_meanwhile:
            return False, 0.0, records
        waits = [action for action in actions if isinstance(action, WaitUntil)]
        wait = self._wait(min(waits, key=lambda action: action.time)) if waits else None
        merging = any(each is not None and each.at_work for each in (self._merges, self._variations))
        if self._slots.waiting:
            wait = LOOK_AGAIN_SECONDS if wait is None else min(wait, LOOK_AGAIN_SECONDS)
        idle = wait is None and not records and not self.attempts and not merging and not self._wake.is_set()
        if idle and self.schedule.paused_nodes and not self._gates.waiting:
            self._move("paused", "paused: " + ", ".join(sorted(self.schedule.paused_nodes)))
            return True, None, []
        if idle and (self._nodes_left_to_user() or (self._gates.waiting and not self.patient)):
            self._leave_to_user()
            return True, None, []
        if (deadline := self._gates.next_deadline()) is not None:
            due = max(0.0, deadline - time.time())
            wait = due if wait is None else min(wait, due)
        return False, wait, records

    def _do(self, action: Action) -> AttemptRecord | None:
        """Do one thing that is decided; return the attempt that is to be driven for it."""
        match action:
            case Begin():
                return self._new_attempt(action)
            case ResumeAttempt():
                self._slots.hold(action.attempt, action.record.attempt.agent)
                return action.record
            case Halt():
                self._halt(action)
            case Settle():
                self._settle(action)
            case Expand():
                self.store.add_nodes(self.run, [node.id for node in action.nodes])
            case Park():
                self._gates.park(action)
            case Vary() | Lower():
                self._vary(action) if isinstance(action, Vary) else self._lower(action)
            case AskAtGate() | Choose():
                self._ask(action)
            case StartMerge() | AddPlanned():
                self._merge(action.node) if isinstance(action, StartMerge) else self._add_planned(action.node)
            case _:
                pass  # to wait and to finish are no deeds: `_act` sees to them
        return None

    async def _something_happens(self, wait: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._wake.wait()
        for task in self._background:
            if task.done():
                task.result()  # these never end by themselves: the store or the lease is lost
        for attempt_run, task in self._at_work.take_ended():
            self._slots.over(attempt_run.record.attempt.id)
            task.result()  # our own fault is raised here, after it was recorded
            self.schedule.note_attempt(attempt_run.record, driven=False)
            self._clean_ups.append(asyncio.create_task(attempt_run.clean_up()))  # only the end waits for it
        for task in [each for each in self._clean_ups if each.done()]:
            self._clean_ups.remove(task)
            task.result()

    async def _leave(self) -> None:
        """End what is at work beside the run, and give back its slots."""
        left = (*self._background, *self._clean_ups, *self._at_work.tasks())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, self._gates.close(), return_exceptions=True)
        if self._variations:
            await self._variations.close()
        if self._merges:
            await self._merges.close()
        with contextlib.suppress(StoreTrouble):  # then others learn of it when this process is gone
            self._slots.leave()
        self.slot_freed()

    # --- the run as a whole

    def _note_running(self) -> None:
        """Say that the run is at work, with what its first turn decides: nothing begins before both are stored."""
        if not self._running:
            self._move("running", None)
            self._running = True

    def _begin_after_revisions(self) -> bool:
        """Begin again what continues from work that was revised; return whether there is any."""
        if self.schedule.stopping or not reopening.after_revisions(self.store, self.run, self._say):
            return False
        self.plan = self.store.run(self.run).plan
        allowed = self.schedule.allowed_usd
        self.schedule = Schedule(self.plan.flow, self.plan.retry, room=self._slots)
        self.schedule.allowed_usd = allowed
        self.schedule.load(self.store.nodes(self.run), self.store.attempts(self.run))
        return True

    def _rest(self, reason: str) -> None:
        with self.store.transaction():
            for node in self.store.nodes(self.run):
                if node.status == "running":
                    self.store.move_node(self.run, NodeState(id=node.id, reason=reason))
            self._move("paused", reason)

    def _wait(self, action: WaitUntil) -> float:
        """Return how long it is until then; say it once."""
        wait = max(0.0, action.time - time.time())
        if action.time != self._waits_until and not action.quiet:
            self._waits_until = action.time
            self.note(Noted(f"the next try starts in {wait:.0f} s"))
        return wait

    def _leave_to_user(self) -> None:
        """Leave the run to a user where nothing continues before they say how."""
        for node, reason in self._nodes_left_to_user().items():
            self.store.move_node(self.run, NodeState(id=node, status="waiting", reason=reason))
            self.note(StatusChanged("node", node, "waiting", reason), node)
        self._move("waiting", next(iter(self._nodes_left_to_user().values()), None) or self._gates.words())

    def _nodes_left_to_user(self) -> dict[str, str]:
        """Return the nodes that wait for a user in another way than by an answer, and why."""
        return {**self._gates.parked, **(self._merges.conflicts if self._merges else {})}

    def _move(self, status: Status, reason: str | None) -> None:
        over = time.time() if status not in OPEN else None
        with self.store.transaction():
            self.store.move_run(self.run, status, reason, over)
            self.note(StatusChanged("run", self.run, status, reason))

    # --- actions on attempts

    def _new_attempt(self, action: Begin) -> AttemptRecord:
        came_from = action.onto or action.retry_of or action.fallback_of
        before = self.schedule.record(came_from, action.node) if came_from else None
        name = names.attempt_id(self.run, self.store.next_place(self.run))
        role = "judge" if action.candidates else self.schedule.nodes[action.node].task.role
        record = agent_tries.new_record((self.run, name), action, role, time.time())
        record.folder, record.clock = str(self.store.folder / "workspaces" / name), clock.reading()
        record.heads = self.schedule.heads(action.node, self.plan.base)
        if before:
            self._carry_over(record, before, action)
        self.store.save_attempt(record)
        self._slots.hold(name, action.agent.name)
        self.store.move_node(self.run, NodeState(id=action.node, status="running"))
        self.note(StatusChanged("attempt", name, "running", f"{action.agent}, try {action.number}"), action.node, name)
        return record

    def _carry_over(self, record: AttemptRecord, before: AttemptRecord, action: Begin) -> None:
        """Let an attempt continue from an earlier one: with its session, with its work, or at least with its lesson."""
        if action.retry_of and agent_tries.can_continue(before) and Path(before.folder).exists():
            agent_tries.continue_session(record, before)
        agent_tries.carry_over(record, before, action, self.plan.retry)
        if agent_tries.takes_children(before, action):
            self.store.lineage.hand_over(self.run, before.attempt.id, record.attempt.id)

    def _start_attempt(self, record: AttemptRecord) -> None:
        self._at_work.start(record, self.schedule.node_of(record), stopping=bool(self.schedule.stopping))
        self.schedule.note_attempt(record, driven=True)
        self._orders.take()  # some may have waited for someone to tell

    def _halt(self, action: Halt) -> None:
        """Stop an attempt that cannot win any more; once."""
        if self._at_work.halt(action.attempt):
            self.note(Noted(f"stopped: {action.reason}"), action.node, action.attempt)

    def _lower(self, action: Lower) -> None:
        """Make an attempt doubtful: its second reader says that it works around its checks."""
        record = self.schedule.record(action.attempt, action.node)
        if record and record.attempt.status == "done":
            second_reader.lower(record.attempt, action.reason, self.run)
            record.receipt = None  # only work that is done has one
            self.store.save_attempt(record)
            self.note(StatusChanged("attempt", action.attempt, "failed", action.reason), action.node, action.attempt)
            self._correct_note(record.attempt)
        self.schedule.look(action.node)
        self._wake.set()

    def _correct_note(self, attempt: Attempt) -> None:
        """Begin to have the note on the commit of an attempt say its grade."""
        work = verify.update_lowered_notes(self.plan, self.store.folder, attempt)
        self._clean_ups.append(asyncio.create_task(work))

    def _vary(self, action: Vary) -> None:
        """Compare the best of a race by varied inputs."""
        records = [record for name in action.attempts if (record := self.schedule.record(name, action.node))]
        if self._variations is None:
            from corral.attempt.proof.product_calls import Variations  # noqa: PLC0415 -- slow to load; few races need it

            self._variations = Variations(self.plan, self.store.folder, self._wake.set)
        self._variations.begin(self.schedule.node(action.node), records)

    def _take_variations(self) -> None:
        for node, found in self._variations.take_ended() if self._variations else ():
            for name, each in found.items():
                if record := self.schedule.record(name, node):
                    record.attempt.variation = each
                    self.store.save_attempt(record)
                    if words := variation.note(record.attempt):
                        self.note(Noted(words), node, name)
            self.schedule.look(node)

    # --- actions on nodes

    def _settle(self, action: Settle) -> None:
        for name, votes in (action.votes or {}).items():
            if record := self.schedule.record(name, action.node):
                record.attempt.votes = votes
                self.store.save_attempt(record)
        state = NodeState(
            id=action.node, status=action.status, reason=action.reason, winner=action.winner, why=action.why
        )
        self.store.move_node(self.run, state)
        self.note(StatusChanged("node", action.node, action.status, action.reason or action.why), action.node)

    def _settle_now(self, settle: Settle) -> None:
        for action in self.schedule.end_node(settle):
            self._do(action)
        self._wake.set()

    def _merge(self, node: str) -> None:
        self.store.move_node(self.run, NodeState(id=node, status="running"))
        heads, proofs = self.schedule.heads(node, self.plan.base), self.schedule.proofs(node)
        if self._merges is None or not heads or heads == (self.plan.base,):
            self._settle_now(Settle(node, "done", why="there is nothing to merge"))
        else:
            self._merges.begin(self.schedule.node(node), heads, proofs)

    def _add_planned(self, name: str) -> None:
        """Make a plan that is written part of the run."""
        try:
            self.plan, added, joined = reopening.add_planned(self.store, self.run, name)
        except BadRequest as error:
            self._settle_now(Settle(name, "failed", f"bad_output: {error}"))
            return
        self.schedule.add_planned(added, joined)
        self.note(Noted(f"`{name}` is planned: " + ", ".join(node.id for node in added)), name)
        self._wake.set()

    def _ask(self, action: AskAtGate | Choose) -> None:
        words = "waits for an answer"
        if isinstance(action, Choose):
            words = self._gates.choose(action, self.plan.evidence.choice_deadline_seconds)
        else:
            self._gates.ask(self.schedule.node(action.node), redo.epoch_of(self.plan, action.node))
        self.store.move_node(self.run, NodeState(id=action.node, status="waiting", reason=words))

    # --- orders and answers of users

    def stop(self, reason: str) -> None:
        """End all attempts, keep their work, and let the run reach its end as `stopped`."""
        self.schedule.stop(reason)
        self._at_work.stop()
        self._wake.set()

    def pause(self, node: str | None, by: str) -> None:
        """Let nothing more begin, of a node or of all; what is at work ends so that it can be continued."""
        if node is None:
            self._pausing = f"paused by {by}"
        else:
            self.schedule.pause(node)
            self.store.move_node(self.run, NodeState(id=node, status="paused", reason=f"paused by {by}"))
            self.note(StatusChanged("node", node, "paused", f"by {by}"), node)
        self._at_work.pause(node)
        self._wake.set()

    def unpause(self, node: str) -> None:
        self.schedule.release(node)
        self.store.move_node(self.run, NodeState(id=node, status="queued"))
        self._wake.set()

    def hear(self) -> None:
        """Take orders and answers that were stored by this very process: the store wakes others only."""
        with locks.act_within(self._fence) if self._fence else contextlib.nullcontext():
            self._orders.take()
            self.look_up()

    def look_up(self) -> None:
        """Look whether a user has answered, or others left room."""
        if self._gates.waiting or self._slots.news(time.time()):
            self._wake.set()

    # --- for its other parts

    @property
    def attempts(self) -> Mapping[str, AttemptRun]:
        """Attempts at work."""
        return self._at_work.runs

    def merge_with(self, merge: MergeCall) -> None:
        """Say how merges are made."""
        self._merges = FlowMerges(self.run, merge, self._say, self._wake.set)

    def note(self, event: Event, node: str | None = None, attempt: str | None = None) -> None:
        self.store.note(self.run, event, at=time.time(), node=node, attempt=attempt)
        tell(self.listen, RunEvent(self.run, node, attempt, event))

    def _say(self, words: str) -> None:
        self.note(Noted(words))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background for as long as the run is driven."""
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._wake.set())
        self._background.append(task)

    async def _end_left(self, records: Sequence[AttemptRecord]) -> None:
        """End what the process before this one left running, before anything new starts."""
        if records:
            self._slots.take_over()
        open_records = [record for record in records if record.phase != "over"]
        for attempt in await run_owner.end_left(self.store.folder, self.plan, open_records):
            self.note(Noted("its agent was still running without its process: ended, its work is kept"), None, attempt)
