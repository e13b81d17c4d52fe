"""What happens next in a run: pure, and kept up to date as things happen, so that resuming is not a special case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from corral import amounts
from corral.model import OPEN, AttemptRecord, NodeState, RetryPolicy
from corral.model.flow import Flow, Node
from corral.rules.flows.expressions import Expression, ExpressionError
from corral.rules.flows.items import asks_item, item_of, items_of
from corral.rules.schedule.actions import Action, AddPlanned, AskAtGate, Expand, RunLimits, Settle, StartMerge
from corral.rules.schedule.agent_tries import Begin
from corral.rules.schedule.node import (
    UNPROVEN,
    Moment,
    NodeWork,
    items_outcome,
    nested_outcome,
    outcome_reason,
    run_outcome,
)
from corral.rules.schedule.progress import FAILED_ENDS, End, NeedsGraph, Progress
from corral.rules.schedule.slots import FreeSlots, RunSlots


class Schedule:
    """One run: tell it what happened, ask it what to do."""

    def __init__(
        self, flow: Flow, retry: RetryPolicy, limits: RunLimits | None = None, room: FreeSlots | None = None
    ) -> None:
        self._flow = flow
        self._progress, self._graph = Progress(flow), NeedsGraph(flow.nodes)
        self._tries = self._progress.tries
        limits = limits or (RunLimits(parallel=flow.parallel) if flow.parallel else RunLimits())
        self._slots = RunSlots(limits, flow.parallel, room)
        self._work = NodeWork(self._progress, self._slots, retry)
        self._stored: dict[str, NodeState] = {}
        self._look = dict.fromkeys(self._graph.start())  # nodes to decide about, in order
        self._paused: set[str] = set()  # nodes that a user paused
        self._open = len(self._progress.nodes)
        self._spent_before = 0.0  # by attempts that are over
        self.allowed_usd = 0.0  #: more than the budget, by a user's word
        self.stopping: str | None = None
        self._failed = False
        self._free = flow.budget_usd is None and flow.on_failure == "continue"  # nothing but its needs holds a node up

    # --- what is known

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self._progress.nodes

    @property
    def paused_nodes(self) -> frozenset[str]:
        """The nodes that are paused and not over."""
        return frozenset(self._paused - self._progress.ends.keys())

    @property
    def waiting(self) -> dict[str, int]:
        """How many more attempts of which agent would begin if other runs left room for them."""
        return self._slots.waiting

    def node(self, name: str) -> Node:
        """Return a node with its texts filled in and with its note on the work before it."""
        return self._progress.node(name)

    def node_of(self, record: AttemptRecord) -> Node:
        """Return the node that an attempt works on; a judge's is another than that of those it compares."""
        return self._progress.node_of(record)

    def combination(self, name: str) -> str:
        """Return the values of a matrix that a node is made for."""
        return self._progress.combination(name)

    def heads(self, name: str, base: str | None) -> tuple[str, ...]:
        """Return the commits a node starts from; none: where the run began."""
        return self._progress.heads(name, base)

    def proofs(self, name: str) -> tuple[str, ...]:
        """Return the checks that hold for what comes before a node."""
        return self._progress.proofs(name)

    def record(self, attempt: str, node: str) -> AttemptRecord | None:
        return self._progress.record(attempt, node)

    # --- what happened

    def load(self, states: Iterable[NodeState], records: Iterable[AttemptRecord]) -> None:
        """Take in what is stored of the run."""
        tries = self._progress.tries
        for record in records:
            if record.void:
                self._spent_before += record.attempt.cost.usd or 0.0
                continue
            own = tries.get(record.node)
            if own is None:
                tries[record.node] = [record]
            else:
                own.append(record)
            if record.phase == "over":
                self._spent_before += record.attempt.cost.usd or 0.0
            else:
                self._slots.leave(record)
        for state in states:
            if state.status == "paused":
                self._paused.add(state.id)
            elif state.status not in OPEN:
                self._stored[state.id] = state
        self._restore(list(self._look))

    def _restore(self, ready: list[str]) -> None:
        stored, look, done, ends = self._stored, self._look, self._graph.note_done, self._progress.ends
        plain = frozenset[str]() if self._progress.needs_results else self._progress.plain
        for name in ready:  # grows
            state = stored.pop(name, None)
            if state is None:
                look[name] = None
                continue
            look.pop(name, None)
            if name in plain and state.status == "done" and (opened := done(name)) is not None:
                ends[name] = state  # most of a large run that is resumed, as `_plainly` does it
                self._open -= 1
                ready += opened
                continue
            self._recall(name)
            ready += self._take_in(name, state)

    def _recall(self, name: str) -> None:
        """Take in the items of a node that is over: what comes after it continues from their work."""
        progress, members = self._progress, list[str]()
        node = progress.nodes[name]
        while node.fans_out and (state := self._stored.pop(f"{name}.{len(members)}", None)):
            progress.nodes[state.id] = item_of(node, len(members))
            progress.items[state.id], progress.ends[state.id] = (name, None, len(members)), state
            progress.smooth = progress.smooth and state.status == "done"
            members.append(state.id)
        if members:
            progress.members[name] = members

    def note_attempt(self, record: AttemptRecord, *, driven: bool) -> None:
        """Take in that an attempt is driven from now on, or that it is over."""
        name = record.node
        tries = self._tries.get(name)
        new = False
        if tries is None:
            self._tries[name], new = [record], True
        elif tries[-1] is not record and all(each.attempt.id != record.attempt.id for each in tries):
            tries.append(record)
            new = True
        if driven:
            self._slots.note_start(record, new=new)
            return
        if self._slots.note_end(record, new=new):
            self._spent_before += record.attempt.cost.usd or 0.0
        self._look[name] = None

    def end_node(self, settle: Settle) -> list[Action]:
        """Take in the end of a node that no attempt decides: a gate that was answered, a merge that was made."""
        return [] if settle.node in self._progress.ends else self._settle(settle)

    def pause(self, node: str) -> None:
        """Begin no attempt of a node until it is released."""
        self._paused.add(node)

    def release(self, node: str) -> None:
        self._paused.discard(node)
        self.look(node)

    def look(self, node: str) -> None:
        """Decide about a node once more: something about its attempts is known now that was not."""
        if node not in self._progress.ends:
            self._look[node] = None

    def stop(self, reason: str) -> None:
        self.stopping = self.stopping or reason
        ends = self._progress.ends
        self._look = dict.fromkeys(name for name in self._progress.nodes if name not in ends)

    # --- what to do

    def decide(self, now: float) -> list[Action]:
        """Return what to do now; what is settled is taken in already. Nothing means: wait for what is driven."""
        for name in self._work.due(now) if self._work.later else ():
            self._look[name] = None
        actions: list[Action] = []
        at = Moment(now, self.stopping, self.allowed_usd, self._paused)
        smooth = self._free and not (self.stopping or self._paused or self._stored)
        plain = self._progress.plain if smooth else frozenset[str]()
        while batch := self._next():
            names = iter(batch)
            while (name := self._plainly(names, plain, actions)) is not None:
                if name in self._stored:  # it had ended when a node before it was opened for a revision
                    self._restore([name])
                else:
                    actions += self._decide(name, at)
        if not self._open:
            actions.append(run_outcome(self._progress))
        elif self._work.later:
            actions.append(self._work.wait())
        return actions

    def _next(self) -> Iterable[str]:
        """Return whom to decide about: to whom something happened, then who waits longest for a slot that is free."""
        if look := self._look:
            self._look = {}
            self._slots.next_node = None
            return look
        waited = self._slots.next()
        return () if waited is None else (waited,)

    def _plainly(self, names: Iterator[str], plain: frozenset[str], actions: list[Action]) -> str | None:
        """Decide the common case, one agent that begins and does it; return the first node that needs more thought.

        All of a large flow goes through here: nothing is made or called that can be left out.
        """
        progress, free_slots, look, done = self._progress, self._slots, self._look, self._graph.note_done
        ends, nodes, tries = progress.ends, progress.nodes, progress.tries
        undecided, plenty, add = progress.needs_results, free_slots.plenty, actions.append
        for name in names:
            if name in ends:
                continue
            if name not in plain:
                return name
            own = tries.get(name)
            if own is None:
                agent = nodes[name].agent
                if plenty > 0:
                    plenty -= 1
                    free_slots.decided += 1
                elif not free_slots.take(name, agent.name):
                    continue
                add(Begin(name, agent))
                continue
            last = own[-1]
            attempt = last.attempt
            if attempt.status != "done" or last.phase != "over" or last.lane or attempt.revises:
                return name
            bare = not (attempt.checks or attempt.files_changed)
            settle = Settle(name, "done", None, attempt.id, UNPROVEN if bare else outcome_reason(attempt))
            if undecided or (ready := done(name)) is None:
                actions += self._settle(settle)
                continue
            add(settle)
            ends[name] = settle
            self._open -= 1
            for each in ready:
                look[each] = None
        return None

    def _decide(self, name: str, at: Moment) -> list[Action]:
        node = self._progress.nodes[name]
        if name not in self._progress.tries:
            if self.stopping:
                return self._settle(Settle(name, "stopped", self.stopping))
            if name in self._progress.members:
                return self._settle(items_outcome(self._progress, name))
            if (opening := self._opening(node)) is not None:
                return opening
        if self._flow.fills:
            try:
                self.node(name)
            except ExpressionError as wrong:
                return self._settle(Settle(name, "failed", f"bad_output: {wrong}"))
        match node.kind:
            case "gate":
                return [AskAtGate(name)]
            case "merge":
                return [StartMerge(name)]
            case "join" | "plan":
                planned = node.kind == "plan" and self._progress.status(f"{name}/plan") == "done"
                return [AddPlanned(name)] if planned else self._settle(nested_outcome(self._progress, name))
            case _:
                found = self._work.decide(node, at)
                return self._settle(found) if isinstance(found, Settle) else found

    def _opening(self, node: Node) -> list[Action] | None:
        """Decide whether a node whose needs are met starts at all, and how many times; None: once."""
        if self._failed and self._flow.on_failure == "stop":
            return self._settle(Settle(node.id, "skipped", "the flow stops at the first failure"))
        limit = self._flow.budget_usd
        if limit is not None and node.kind == "task" and self._spent_usd() >= limit + self.allowed_usd:
            return self._settle(Settle(node.id, "over_budget", f"the budget of {amounts.usd(limit)} is used up"))
        words: str | None = None
        try:
            for name, words in node.around:
                if not Expression(words).holds(self._progress.known_names(name)):
                    return self._settle(Settle(node.id, "skipped", f"`when` of `{name}` does not hold: {words}"))
            words = node.when
            own = words is not None and node.fans_out and asks_item(words)
            if words is not None and not own and not Expression(words).holds(self._progress.known_names(node.id)):
                return self._settle(Settle(node.id, "skipped", f"`when` does not hold: {words}"))
            words = node.for_each
            if node.items is not None:
                return self._expand(node, node.items)
            if words is None:
                return None
            value = Expression(words).value(self._progress.known_names(node.id))
            return self._expand(node, items_of(value, matrix=node.matrix))
        except ExpressionError as wrong:
            return self._settle(Settle(node.id, "failed", f"bad_output: `{words}`: {wrong}"))

    def _expand(self, node: Node, values: Sequence[Any]) -> list[Action]:
        progress = self._progress
        made = tuple(item_of(node, place) for place in range(len(values)))
        names = progress.members[node.id] = [each.id for each in made]
        for place, each in enumerate(made):
            progress.nodes[each.id], progress.items[each.id] = each, (node.id, values[place], place)
        self._open += len(made)
        self._graph.add(made)
        self._graph.wait_for(node.id, names)
        self._restore([*names, *([] if made else [node.id])])
        return [Expand(node.id, made)]

    def add_planned(self, made: Sequence[Node], joined: Node) -> None:
        """Add the nodes of a plan that is written; the node that it was written for waits for the last of them."""
        progress = self._progress
        progress.nodes.update({node.id: node for node in (*made, joined)})
        open_needs = [tuple(edge for edge in node.needs if edge.node not in progress.ends) for node in made]
        self._open += len(made)
        self._graph.add(structs.replace(node, needs=needs) for node, needs in zip(made, open_needs, strict=True))
        self._graph.wait_for(joined.id, [edge.node for edge in joined.needs])
        self._restore([node.id for node, needs in zip(made, open_needs, strict=True) if not needs])

    # --- the end of a node

    def _settle(self, settle: Settle) -> list[Action]:
        """Take in the end of a node; return it and the ends it leads to."""
        cascade: list[Action] = [settle]
        if self.stopping:  # nothing follows any more: each of the others is stopped for itself
            self._note(settle.node, settle)
            return cascade
        for name in self._take_in(settle.node, settle, cascade):
            self._look[name] = None
        return cascade

    def _take_in(self, name: str, end: End, cascade: list[Action] | None = None) -> Sequence[str]:
        self._note(name, end)
        if end.status == "done" and (ready := self._graph.note_done(name)) is not None:
            return ready
        opened = self._graph.settle(name, end.status)
        for skipped, need in opened.skipped:
            words = f"`{need}` is {self._progress.ends[need].status}"
            self._stored.pop(skipped, None)
            settle = Settle(skipped, "skipped", words)
            self._note(skipped, settle)
            if cascade is not None:
                cascade.append(settle)
        return opened.ready

    def _note(self, name: str, end: End) -> None:
        self._progress.note(name, end)
        self._open -= 1
        self._failed = self._failed or end.status in FAILED_ENDS

    def _spent_usd(self) -> float:
        return self._spent_before + self._slots.spent_usd
