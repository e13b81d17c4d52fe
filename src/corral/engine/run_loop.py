"""Drive one run: decide, act, wait for something to happen, decide again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from corral.attempt.budget_figures import needed_usd, run_allowed_usd, run_held_usd
from corral.attempt.proof.tree_runs import BESIDE
from corral.attempt.proof.varied_runs import Variations
from corral.attempt.runner import AttemptFactory, AttemptRun, can_continue
from corral.attempt.user_questions import RunQuestions
from corral.engine import run_orders, verify
from corral.engine.inbox.inbox import Gates
from corral.engine.merge.flow_merges import FlowMerges, MergeCall
from corral.engine.planning import redo as reopening
from corral.engine.run_orders import Orders
from corral.engine.slots import LOOK_AGAIN_SECONDS, Slots
from corral.model import OPEN, Attempt, AttemptRecord, NodeState, Status
from corral.model.errors import StoreTrouble, TakenOver
from corral.model.events import Event, Listener, Noted, RunEvent, StatusChanged, tell
from corral.rules.context import prompt
from corral.rules.race import second_reader, variation
from corral.rules.race.contest import Halt
from corral.rules.schedule import agent_tries, redo
from corral.rules.schedule.actions import Action, AskAtGate, Choose, Expand, FinishRun, Lower, Settle, StartMerge, Vary
from corral.rules.schedule.agent_tries import Begin, Park, ResumeAttempt, WaitUntil
from corral.rules.schedule.decide import Schedule
from corral.rules.text import names
from corral.store.interface import Store
from corral.store.records import LEASE_SECONDS
from corral.world import clock, locks
from corral.world.trust import make_receipt_key
from corral.world.workspace import checkout

FLUSH_SECONDS = 0.05
RENEW_SECONDS = 3.0


class RunLoop:
    """One run in this process, for as long as this process owns it."""

    def __init__(self, run: str, owner: str, store: Store, place: AttemptFactory, listen: Listener) -> None:
        self.run, self.owner, self.store, self._place, self.listen = run, owner, store, place, listen
        self._merges: FlowMerges | None = None
        self.plan = store.run(run).plan
        self._slots = Slots(store, run, owner, self.plan)
        self.schedule = Schedule(self.plan.flow, self.plan.retry, room=self._slots)
        self.slot_freed: Callable[[], None] = lambda: None  #: other runs of this process may wait for it
        self.attempts: dict[str, AttemptRun] = {}
        self._attempt_tasks: dict[str, asyncio.Task[None]] = {}
        self._orders = Orders(self)
        self._gates = Gates(RunQuestions(run, store, listen))
        self._halted: set[str] = set()
        self.patient = False  #: it waits for a person's answer instead of leaving the run to them
        self._wake = asyncio.Event()
        self._variations = Variations(self.plan, store.folder, self._wake.set)
        self._waits_until = 0.0
        self._pausing: str | None = None
        self._background: list[asyncio.Task[None]] = []
        self._corrections: list[asyncio.Task[None]] = []
        self._fence = locks.current()
        self._store_removed = False

    async def execute(self) -> None:
        """Go on until the run is over. Cancelled, it leaves attempts as a crash would; `stop` is the polite way."""
        make_receipt_key(self.store.folder)  # before any attempt remembers what is around it
        try:
            self._begin(self._keep_lease())
            records = self.store.attempts(self.run)
            await self._end_left(records)
            await self._remove_leavings(records)
            self.schedule.allowed_usd = run_allowed_usd(self.store, self.run)
            self.schedule.load(self.store.nodes(self.run), records)
            for record in records:  # a crash may have come between a reader's word and the note
                if record.attempt.error and record.attempt.error.kind == "doubtful":
                    self._correct_note(record.attempt)
            self._orders.take()
            self._begin(self._keep_flushing())
            self._begin(self._orders.hear())
            self._move("running", None)
            while not await self._turn():
                pass
            await asyncio.gather(*self._corrections)
            await self._remove_leavings(self.store.attempts(self.run))
        finally:
            left = (*self._background, *self._corrections, *self._attempt_tasks.values())
            for task in left:
                task.cancel()
            await asyncio.gather(*left, self._gates.close(), return_exceptions=True)
            await self._variations.close()
            if self._merges:
                await self._merges.close()
            with contextlib.suppress(StoreTrouble):  # then others learn of it when this process is gone
                self._slots.leave()
            self.slot_freed()
        self.store.flush()

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
        for attempt in await run_orders.end_left(self.store.folder, self.plan, open_records):
            self.note(Noted("its agent was still running without its process: ended, its work is kept"), None, attempt)

    def stop(self, reason: str) -> None:
        """End all attempts, keep their work, and let the run reach its end as `stopped`."""
        self.schedule.stop(reason)
        for attempt_run in self.attempts.values():
            attempt_run.stop()
        self._wake.set()

    def pause(self, node: str | None, by: str) -> None:
        """Let nothing more begin, of a node or of all; what is at work ends so that it can be gone on with."""
        if node is None:
            self._pausing = f"paused by {by}"
        else:
            self.schedule.pause(node)
            self.store.move_node(self.run, NodeState(id=node, status="paused", reason=f"paused by {by}"))
            self.note(StatusChanged("node", node, "paused", f"by {by}"), node)
        for attempt_run in self.attempts.values():
            if node is None or attempt_run.record.node == node:
                attempt_run.pause()
        self._wake.set()

    def unpause(self, node: str) -> None:
        self.schedule.release(node)
        self.store.move_node(self.run, NodeState(id=node, status="queued"))
        self._wake.set()

    def merge_with(self, land: MergeCall) -> None:
        """Say how merges are made."""
        self._merges = FlowMerges(self.run, land, self._say, self._wake.set)

    def note(self, event: Event, node: str | None = None, attempt: str | None = None) -> None:
        self.store.note(self.run, event, at=time.time(), node=node, attempt=attempt)
        tell(self.listen, RunEvent(self.run, node, attempt, event))

    def hear(self) -> None:
        """Take orders and answers that were stored by this very process: the store wakes others only."""
        with locks.act_within(self._fence) if self._fence else contextlib.nullcontext():
            self._orders.take()
            self.look_up()

    # --- one turn

    def _rest(self, reason: str) -> None:
        with self.store.transaction():
            for node in self.store.nodes(self.run):
                if node.status == "running":
                    self.store.move_node(self.run, NodeState(id=node.id, reason=reason))
            self._move("paused", reason)

    def look_up(self) -> None:
        """Look whether a person has answered, or others left room."""
        if self._gates.waiting or self._slots.news(time.time()):
            self._wake.set()

    async def _turn(self) -> bool:
        self._wake.clear()
        if self._pausing and not self.schedule.stopping:
            if not self._attempt_tasks:
                self._rest(self._pausing)
                return True
            with self.store.transaction():
                self._slots.open_turn(time.time())
                self._slots.close_turn({})
            await self._something_happens(None)
            return False
        now = time.time()
        with self.store.transaction():
            freed = self._slots.open_turn(now)
            over = [*self._gates.take_answered(), *(self._merges.take_ended() if self._merges else ())]
            self._take_variations()
            answered = [action for settle in over for action in self.schedule.end_node(settle)]
            decided = self.schedule.decide(now)
            if self._slots.close_turn(self.schedule.waiting):
                self.note(Noted("waits: as many are at work as [limits] allow"))
            finished, wait, records = self._act([*answered, *decided])
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
            if last.status != "over_budget":  # that it asks whether it may go on still holds
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
        merging = (self._merges is not None and self._merges.at_work) or self._variations.at_work
        if self._slots.waiting:
            wait = LOOK_AGAIN_SECONDS if wait is None else min(wait, LOOK_AGAIN_SECONDS)
        idle = wait is None and not records and not self._attempt_tasks and not merging and not self._wake.is_set()
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

    def _begin_after_revisions(self) -> bool:
        """Begin again what goes on from work that was revised; return whether there is any."""
        if self.schedule.stopping or not reopening.after_revisions(self.store, self.run, self._say):
            return False
        self.plan = self.store.run(self.run).plan
        allowed = self.schedule.allowed_usd
        self.schedule = Schedule(self.plan.flow, self.plan.retry, room=self._slots)
        self.schedule.allowed_usd = allowed
        self.schedule.load(self.store.nodes(self.run), self.store.attempts(self.run))
        return True

    def _say(self, words: str) -> None:
        self.note(Noted(words))

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
            case StartMerge():
                self._merge(action.node)
            case _:
                pass
        return None

    def _wait(self, action: WaitUntil) -> float:
        """Return how long it is until then; say it once."""
        wait = max(0.0, action.time - time.time())
        if action.time != self._waits_until and not action.quiet:
            self._waits_until = action.time
            self.note(Noted(f"the next try starts in {wait:.0f} s"))
        return wait

    async def _something_happens(self, wait: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._wake.wait()
        for task in self._background:
            if task.done():
                task.result()  # these never end by themselves: the store or the lease is lost
        for attempt, task in list(self._attempt_tasks.items()):
            if task.done():
                record = self.attempts.pop(attempt).record
                del self._attempt_tasks[attempt]
                self._slots.over(attempt)
                task.result()  # our own fault is raised here, after it was recorded
                self.schedule.note_attempt(record, driven=False)

    # --- actions

    def _new_attempt(self, action: Begin) -> AttemptRecord:
        came_from = action.onto or action.retry_of or action.fallback_of
        before = self.schedule.record(came_from, action.node) if came_from else None
        name = names.attempt_id(self.run, self.store.next_place(self.run))
        attempt = Attempt(
            id=name,
            number=action.number,
            retry_of=action.retry_of,
            fallback_of=action.fallback_of,
            agent=action.agent.name,
            account=action.account or action.agent.account,
            model=action.agent.model,
            role="judge" if action.candidates else self.schedule.nodes[action.node].task.role,
        )
        record = AttemptRecord(
            attempt=attempt,
            run=self.run,
            node=action.node,
            lane=action.lane,
            chosen=action.agent.account is not None,
            candidates=action.candidates,
            folder=str(self.store.folder / "workspaces" / name),
            heads=self.schedule.heads(action.node, self.plan.base),
            started=time.time(),
            clock=clock.reading(),
        )
        if before:
            self._after(record, before, action)
        self.store.save_attempt(record)
        self._slots.hold(name, action.agent.name)
        self.store.move_node(self.run, NodeState(id=action.node, status="running"))
        self.note(StatusChanged("attempt", name, "running", f"{action.agent}, try {action.number}"), action.node, name)
        return record

    def _after(self, record: AttemptRecord, before: AttemptRecord, action: Begin) -> None:
        """Let an attempt go on from an earlier one: with its session, with its work, or at least with its lesson."""
        if action.retry_of and can_continue(before) and Path(before.folder).exists():
            record.folder, record.continues = before.folder, before.attempt.id
            record.base, record.conflicts, record.facts = before.base, before.conflicts, before.facts
            record.attempt.session, record.summary = before.attempt.session, before.summary
        else:
            record.fed_back = prompt.feedback(before.attempt) or before.fed_back
            if action.retry_of and self.plan.retry.start == "last":
                record.start = before.attempt.commit or before.start
        if action.onto and before.attempt.status == "over_budget":
            record.heads, record.start = before.heads, before.attempt.commit
        elif action.onto and before.attempt.commit:  # a further round is proven against where the first began
            record.heads, record.compared_with = (before.attempt.commit,), before.compared_with or before.base
        elif not action.onto:  # another try at a round begins where that round began
            record.heads, record.start = before.heads or record.heads, record.start or before.start
            record.compared_with = before.compared_with
        if action.retry_of and (
            agent_tries.is_lost(before.attempt) or before.attempt.status in ("limited", "over_budget")
        ):
            self.store.lineage.hand_over(self.run, before.attempt.id, record.attempt.id)
        if before.attempt.revises:
            record.attempt.revises, record.review, record.before = before.attempt.revises, before.review, before.before
        record.steers = before.steers

    def _start_attempt(self, record: AttemptRecord) -> None:
        attempt_run = self._place(record, self.schedule.node_of(record))
        if self.schedule.stopping:
            attempt_run.stop()
        self.schedule.note_attempt(record, driven=True)
        task = asyncio.create_task(attempt_run.execute())
        task.add_done_callback(lambda _: self._wake.set())
        self._attempt_tasks[record.attempt.id], self.attempts[record.attempt.id] = task, attempt_run
        self._orders.take()  # some may have waited for somebody to tell

    def _halt(self, action: Halt) -> None:
        """Stop an attempt that cannot win any more; once."""
        if action.attempt not in self._halted and (attempt_run := self.attempts.get(action.attempt)):
            self._halted.add(action.attempt)
            self.note(Noted(f"stopped: {action.reason}"), action.node, action.attempt)
            attempt_run.stop()

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

    def _merge(self, node: str) -> None:
        self.store.move_node(self.run, NodeState(id=node, status="running"))
        heads, proofs = self.schedule.heads(node, self.plan.base), self.schedule.proofs(node)
        if self._merges is None or not heads or heads == (self.plan.base,):
            self._settle_now(Settle(node, "done", why="there is nothing to merge"))
        else:
            self._merges.begin(self.schedule.node(node), heads, proofs)

    def _settle_now(self, settle: Settle) -> None:
        for action in self.schedule.end_node(settle):
            self._do(action)
        self._wake.set()

    def _ask(self, action: AskAtGate | Choose) -> None:
        words = "waits for an answer"
        if isinstance(action, Choose):
            words = self._gates.choose(action, self.plan.evidence.choice_deadline_seconds)
        else:
            self._gates.ask(self.schedule.node(action.node), redo.epoch_of(self.plan, action.node))
        self.store.move_node(self.run, NodeState(id=action.node, status="waiting", reason=words))

    def _vary(self, action: Vary) -> None:
        """Compare the best of a race by varied inputs."""
        records = [record for name in action.attempts if (record := self.schedule.record(name, action.node))]
        self._variations.begin(self.schedule.node(action.node), records)

    def _take_variations(self) -> None:
        for node, found in self._variations.take_ended():
            for name, each in found.items():
                if record := self.schedule.record(name, node):
                    record.attempt.variation = each
                    self.store.save_attempt(record)
                    if words := variation.note(record.attempt):
                        self.note(Noted(words), node, name)
            self.schedule.look(node)

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
        self._corrections.append(asyncio.create_task(work))

    def _leave_to_user(self) -> None:
        """Leave the run to a person where nothing goes on before they say how."""
        for node, reason in self._nodes_left_to_user().items():
            self.store.move_node(self.run, NodeState(id=node, status="waiting", reason=reason))
            self.note(StatusChanged("node", node, "waiting", reason), node)
        self._move("waiting", next(iter(self._nodes_left_to_user().values()), None) or self._gates.words())

    def _nodes_left_to_user(self) -> dict[str, str]:
        """Return the nodes that wait for a person in another way than by an answer, and why."""
        return {**self._gates.parked, **(self._merges.conflicts if self._merges else {})}

    def _move(self, status: Status, reason: str | None) -> None:
        over = time.time() if status not in OPEN else None
        with self.store.transaction():
            self.store.move_run(self.run, status, reason, over)
            self.note(StatusChanged("run", self.run, status, reason))

    async def _remove_leavings(self, records: list[AttemptRecord]) -> None:
        """Remove workspaces of attempts that are over: a crash may have come between the end and the removal."""
        folder = self.store.folder / "workspaces"
        there = checkout.names(folder)  # asked once: thousands of attempts may be over
        if not there:
            return
        in_use = {record.folder for record in records if record.phase != "over" or record.kept}
        followed = {record.attempt.retry_of for record in records}
        parked = self.store.run(self.run).status in (*OPEN, "limited")
        for record in records:
            waits = record.attempt.status == "limited" or agent_tries.is_lost(record.attempt)
            if record.folder in in_use or (waits and parked and record.attempt.id not in followed):
                continue
            own = record.folder.rpartition("/")[2]
            beside = {f"{own}-cache", *(f"{record.attempt.id}-{name}" for name in BESIDE)}
            for name in {own, *beside} & there:
                await checkout.remove(folder / name)

    # --- in the background

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self.store.flush()

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if not self._store_removed and (trouble := self.store.removal_error()):
                self._store_removed = True
                self.note(Noted(f"{trouble}; the run continues, {trouble.hint}"))
            if not self.store.renew_lease(self.run, self.owner, time.time() + LEASE_SECONDS):
                raise TakenOver(f"another process has taken over run {self.run}", hint="see `corral ls`")
