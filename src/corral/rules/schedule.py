"""What happens next in a run: pure, and kept up to date as things happen, so that resuming is not a special case."""

from __future__ import annotations

import heapq
from collections import ChainMap, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct, field, structs

from corral.flow import Flow, Node, Task
from corral.model import OPEN, Attempt, AttemptRecord, NodeState, RetryPolicy, Status
from corral.rules import contest, handoff, judging, lanes, lineage, racing, reduce
from corral.rules.contest import Halt
from corral.rules.flows import filling
from corral.rules.flows.expressions import Expression, Wrong
from corral.rules.flows.known import Results
from corral.rules.graph import FAILED, Graph
from corral.rules.lanes import Begin, GoOn, Lane, Over, Park, WaitUntil
from corral.rules.shares import Room
from corral.rules.waiting import Queue

Undecided = Begin | GoOn | WaitUntil | Park | None  #: what a lane does that has not come to its end
MOST_ITEMS = 1000  #: of one for_each


class Settle(Struct, frozen=True):
    """A node has reached its end."""

    node: str
    status: Status
    reason: str | None = None
    winner: str | None = None
    why: str | None = None
    votes: Mapping[str, float] = field(default_factory=dict[str, float])  #: what a judge gave each attempt


class Expand(Struct, frozen=True):
    """A node is done once for each item of a list: these are the nodes it became."""

    node: str
    nodes: tuple[Node, ...]


class Ask(Struct, frozen=True):
    """A gate is reached: a person is asked."""

    node: str


class Land(Struct, frozen=True):
    """A merge is reached."""

    node: str


class Finish(Struct, frozen=True):
    """The run has reached its end."""

    status: Status
    reason: str | None = None


Action = Begin | GoOn | Halt | Settle | Expand | Ask | Land | Park | WaitUntil | Finish


class Limits(Struct, frozen=True, kw_only=True):
    """How many attempts of a run may be at work at once."""

    parallel: int = 8
    per_agent: Mapping[str, int] = field(default_factory=dict[str, int])


class Schedule:
    """One run: tell it what happened, ask it what to do."""

    def __init__(self, flow: Flow, retry: RetryPolicy, limits: Limits | None = None, room: Room | None = None) -> None:
        self._flow, self._retry, self._limits, self._room = flow, retry, limits or Limits(), room
        self.nodes: dict[str, Node] = {node.id: node for node in flow.nodes}
        self._graph, self._results = Graph(flow.nodes), Results(flow)
        self._states = {name: NodeState(id=name) for name in self.nodes}
        self._tries: dict[str, list[AttemptRecord]] = {}
        self._stored: dict[str, NodeState] = {}
        self._items: dict[str, tuple[str, Any, int]] = {}  # a node made for an item -> whose, which, the how manieth
        self._members: dict[str, list[str]] = {}
        self._look = OrderedDict.fromkeys(self._graph.start())  # nodes to decide about, in order
        self._queue = Queue()  # nodes that wait for a slot
        self._from_queue: str | None = None
        self._later: list[tuple[float, str]] = []
        self._looks: dict[str, float] = {}  # races that are looked at again, and when
        self._driven: dict[str, str] = {}  # attempt -> agent
        self._node_of: dict[str, str] = {}
        self._left: dict[str, str] = {}  # attempts that nobody drives any more: they will want their slots back
        self._starting: list[str] = []  # agents of attempts that were decided and are not told yet
        self._filled: dict[str, Node] = {}
        self._held: set[str] = set()  # nodes that a person paused
        self._open = len(self.nodes)
        self._spent_before = 0.0  # by attempts that are over
        self.allowed_usd = 0.0  #: more than the budget, by a person's word
        self.stopping: str | None = None
        self._failed = False
        self._told = flow.fills or any(node.when or node.for_each or node.repeat for node in flow.nodes)
        self._parallel = min(self._limits.parallel, flow.parallel or self._limits.parallel)

    # --- what happened

    def load(self, states: Iterable[NodeState], records: Iterable[AttemptRecord]) -> None:
        """Take in what is stored of the run."""
        for record in records:
            if record.void:
                self._spent_before += record.attempt.cost.usd or 0.0
                continue
            self._tries.setdefault(record.node, []).append(record)
            if record.phase == "over":
                self._spent_before += record.attempt.cost.usd or 0.0
            else:
                self._left[record.attempt.id] = record.attempt.agent
        known = list(states)
        self._held |= {state.id for state in known if state.status == "paused"}
        self._stored = {state.id: state for state in known if state.status not in OPEN}
        self._restore(list(self._look))

    def _restore(self, ready: list[str]) -> None:
        for name in ready:  # grows
            if state := self._stored.pop(name, None):
                self._look.pop(name, None)
                self._recall(name)
                ready += self._take_in(state)
            else:
                self._look[name] = None

    def _recall(self, name: str) -> None:
        """Take in the items of a node that is over: what comes after it goes on from their work."""
        node, members = self.nodes[name], list[str]()
        while node.for_each is not None and (state := self._stored.pop(f"{name}.{len(members)}", None)):
            self.nodes[state.id] = item_of(node, len(members))
            self._items[state.id], self._states[state.id] = (name, None, len(members)), state
            members.append(state.id)
        if members:
            self._members[name] = members

    def heard(self, record: AttemptRecord, *, driven: bool) -> None:
        """Take in that an attempt is driven from now on, or that it is over."""
        tries = self._tries.setdefault(record.node, [])
        if all(each.attempt.id != record.attempt.id for each in reversed(tries)):
            tries.append(record)
            if record.attempt.agent in self._starting:
                self._starting.remove(record.attempt.agent)
        self._left.pop(record.attempt.id, None)
        if driven:
            self._driven[record.attempt.id] = record.attempt.agent
            self._node_of[record.attempt.id] = record.node
            return
        if self._driven.pop(record.attempt.id, None):
            self._spent_before += record.attempt.cost.usd or 0.0
        self._look[record.node] = None

    def ended(self, settle: Settle) -> list[Action]:
        """Take in the end of a node that no attempt decides: a gate that was answered, a merge that was made."""
        return self._settled(settle) if self._states[settle.node].status in OPEN else []

    def hold(self, node: str) -> None:
        """Begin no attempt of a node until it is released."""
        self._held.add(node)

    def release(self, node: str) -> None:
        self._held.discard(node)
        if self._states[node].status in OPEN:
            self._look[node] = None

    @property
    def held(self) -> frozenset[str]:
        """The nodes that are paused and not over."""
        return frozenset(name for name in self._held if self._states[name].status in OPEN)

    def stop(self, reason: str) -> None:
        self.stopping = self.stopping or reason
        self._look = OrderedDict.fromkeys(name for name, state in self._states.items() if state.status in OPEN)

    # --- what to do

    def decide(self, now: float) -> list[Action]:
        """Return what to do now; what is settled is taken in already. Nothing means: wait for what is driven."""
        while self._later and self._later[0][0] <= now:
            self._look[heapq.heappop(self._later)[1]] = None
        actions: list[Action] = []
        while (name := self._next()) is not None:
            if self._states[name].status in OPEN:
                actions += self._decide(name, now)
        if not self._open:
            return [*actions, self._finish()]
        return [*actions, self._wait()] if self._later else actions

    def _wait(self) -> WaitUntil:
        moment, name = self._later[0]
        return WaitUntil(moment, quiet=self._looks.get(name) == moment)

    def _next(self) -> str | None:
        """Return the next node to decide about: what happened first, then who waits longest for a slot that is free."""
        if self._look:
            self._from_queue = None
            return self._look.popitem(last=False)[0]
        self._from_queue = self._queue.take(self._free) if self._at_work_now < self._parallel else None
        return self._from_queue

    def node(self, name: str) -> Node:
        """Return a node with its texts filled in and with what it is told of the work before it."""
        if name not in self._filled:
            node = self.nodes[name]
            self._filled[name] = structs.replace(node, task=self._task(node))
        return self._filled[name]

    def node_of(self, record: AttemptRecord) -> Node:
        """Return the node that an attempt works on; a judge's is another than that of those it compares."""
        node = self.node(record.node)
        return judging.lane_node(node, node.judge) if record.lane < 0 and node.judge else node

    def _task(self, node: Node) -> Task:
        told = handoff.build([handoff.Handed(each.node, each.attempt) for each in self._before(node.id)])
        task = structs.replace(node.task, handoff=told.words, handed=told.files)
        if not self._flow.fills:
            return task
        known = self.known(node.id)
        checks = tuple(filling.fill(check, known) for check in task.checks)
        return structs.replace(task, prompt=filling.fill(task.prompt, known), checks=checks)

    def heads(self, name: str, base: str | None) -> tuple[str, ...]:
        """Return the commits a node starts from; none: where the run began."""
        return lineage.heads(self._before(name), base)

    def proofs(self, name: str) -> tuple[str, ...]:
        """Return the checks that hold for what comes before a node."""
        group = self._items[name][0] if name in self._items else name
        names = lineage.before(group, self.nodes, self._members, self._last_of)
        return tuple(dict.fromkeys(check for each in names for check in self.node(each).task.checks))

    def _before(self, name: str) -> list[AttemptRecord]:
        group = self._items[name][0] if name in self._items else name
        names = lineage.before(group, self.nodes, self._members, self._last_of)
        return [record for each in names if (record := self._last_of(each))]

    def _last_of(self, name: str) -> AttemptRecord | None:
        """Return the attempt that stands for a node that has ended: its winner, or else its last."""
        state, tries = self._states[name], self._tries.get(name, [])
        won = (record for record in reversed(tries) if record.attempt.id == state.winner)
        return next(won, tries[-1] if tries else None)

    def record(self, attempt: str, node: str) -> AttemptRecord | None:
        return next((each for each in self._tries.get(node, ()) if each.attempt.id == attempt), None)

    def known(self, node: str) -> Mapping[str, Any]:
        """Return what a node's texts may name."""
        if node not in self._items:
            return self._results.seen_from(node)
        group, item, place = self._items[node]
        return self._results.seen_from(group, {"item": item, "index": place})

    def _decide(self, name: str, now: float) -> list[Action]:
        node = self.nodes[name]
        if name not in self._tries:
            if self.stopping:
                return self._settled(Settle(name, "stopped", self.stopping))
            if name in self._members:
                return self._settled(self._joined(name))
            if (opening := self._opening(node)) is not None:
                return opening
        if self._flow.fills:
            try:
                self.node(name)
            except Wrong as wrong:
                return self._settled(Settle(name, "failed", f"bad_output: {wrong}"))
        match node.kind:
            case "gate":
                self._states[name].status = "waiting"
                return [Ask(name)]
            case "merge":
                self._states[name].status = "running"
                return [Land(name)]
            case "join":
                return self._settled(self._nested(name))
            case _:
                return self._at_work(node, now)

    def _opening(self, node: Node) -> list[Action] | None:
        """Decide whether a node whose needs are met starts at all, and how many times; None: once."""
        if self._failed and self._flow.on_failure == "stop":
            return self._settled(Settle(node.id, "skipped", "the flow stops at the first failure"))
        limit = self._flow.budget_usd
        if limit is not None and node.kind == "task" and self._spent() >= limit + self.allowed_usd:
            return self._settled(Settle(node.id, "over_budget", f"the budget of ${limit:g} is used up"))
        words = node.when
        try:
            if words is not None and not Expression(words).holds(self.known(node.id)):
                return self._settled(Settle(node.id, "skipped", f"`when` does not hold: {words}"))
            words = node.for_each
            return None if words is None else self._expand(node, words)
        except Wrong as wrong:
            return self._settled(Settle(node.id, "failed", f"bad_output: `{words}`: {wrong}"))

    def _expand(self, node: Node, words: str) -> list[Action]:
        items = Expression(words).value(self.known(node.id))
        if not isinstance(items, list):
            raise Wrong("it is no list")
        values = cast("list[Any]", items)
        if len(values) > MOST_ITEMS:
            raise Wrong(f"it has more than {MOST_ITEMS} items")
        self._states[node.id].status = "running"
        made = tuple(item_of(node, place) for place in range(len(values)))
        self._members[node.id] = [each.id for each in made]
        for place, each in enumerate(made):
            self.nodes[each.id], self._items[each.id] = each, (node.id, values[place], place)
            self._states[each.id] = NodeState(id=each.id)
        self._open += len(made)
        self._graph.add(made)
        self._graph.hold(node.id, self._members[node.id])
        self._restore([*self._members[node.id], *([] if made else [node.id])])
        return [Expand(node.id, made)]

    def _joined(self, name: str) -> Settle:
        """Settle a node whose items are all over."""
        states = [self._states[each] for each in self._members[name]]
        bad = [state for state in states if state.status not in ("done", "skipped")]
        if not bad:
            return Settle(name, "done", why=f"all {len(states)} items")
        return Settle(name, bad[0].status, f"{len(bad)} of {len(states)} items: {bad[0].reason}")

    def _nested(self, name: str) -> Settle:
        """Settle the node that stands for a nested flow: it is done when nothing of it failed."""
        states = [state for each, state in self._states.items() if each.startswith(f"{name}/")]
        bad = next((state for state in states if state.status not in ("done", "skipped")), None)
        if bad:
            return Settle(name, bad.status, f"`{bad.id}`: {bad.reason}")
        if states and all(state.status == "skipped" for state in states):
            return Settle(name, "skipped", states[0].reason)
        return Settle(name, "done")

    def _at_work(self, node: Node, now: float) -> list[Action]:
        """Decide about a node's agents, each in its own lane."""
        tries = self._tries.get(node.id, [])
        if (plain := self._plainly(node, tries)) is not None:
            return plain
        spent = sum(record.attempt.cost.usd or 0.0 for record in tries)
        actions: list[Action] = []
        over: list[Over] = []
        waiting: list[tuple[Lane, Undecided]] = []
        for place, agent in enumerate((node.agent, *node.rivals)):
            own = [record for record in tries if record.lane == place]
            lane = Lane(
                node=node,
                place=place,
                agent=agent,
                tries=own,
                policy=self._retry,
                spent_usd=spent,
                allowed_usd=self.allowed_usd,
            )
            found = lanes.decide(lane, driven=self._driven.keys(), stopping=bool(self.stopping), now=now)
            if isinstance(found, Over) and node.repeat and found.last and not self.stopping:
                found = lanes.next_round(lane, holds=self._until_holds(node, found.last.attempt))
            if isinstance(found, Over):
                over.append(found)
            else:
                waiting.append((lane, found))
        if node.rivals and over and waiting:
            waiting = self._raced(node, over, waiting, actions, now)
        for _, found in waiting:
            actions += self._lane_actions(node, found)
        if waiting:
            return actions
        if node.judge and (asked := self._judging(node, over, now)) is not None:
            return asked
        return self._settled(self._ended(node, over))

    def _plainly(self, node: Node, tries: Sequence[AttemptRecord]) -> list[Action] | None:
        """Decide what most nodes come to, one agent that begins and does it, without looking at all that may be."""
        if node.rivals or node.repeat or self.stopping:
            return None
        if not tries:
            return self._lane_actions(node, Begin(node.id, node.agent))
        last = tries[-1]
        if last.phase == "over" and last.attempt.status == "done" and last.lane == 0:
            return self._settled(Settle(node.id, "done", winner=last.attempt.id, why=why(last.attempt)))
        return None

    def _lane_actions(self, node: Node, found: Undecided) -> list[Action]:
        match found:
            case WaitUntil(time=moment):
                heapq.heappush(self._later, (moment, node.id))
            case Begin() if node.id in self._held:
                pass  # until it is released
            case Begin() if self._has_slot(found):
                self._states[node.id].status = "running"
                self._starting.append(found.agent.name)
                if self._room:
                    self._room.take(found.agent.name)
                return [found]
            case GoOn() | Park():
                return [found]
            case _:
                pass
        return []

    def _raced(
        self,
        node: Node,
        over: list[Over],
        waiting: list[tuple[Lane, Undecided]],
        actions: list[Action],
        now: float,
    ) -> list[tuple[Lane, Undecided]]:
        """End a race early where somebody has won it; return the lanes that are still worth something."""
        tries = self._tries.get(node.id, [])
        standing = contest.race(node, tries, over, sum(each.attempt.cost.usd or 0.0 for each in tries), now)
        actions += contest.halts(node, standing, self._driven.keys())
        if (why := racing.decided(standing)) is not None:
            at_work = {record.lane for record in standing.at_work}
            over += [
                Over(lane.tries[-1] if lane.tries else None, why) for lane, _ in waiting if lane.place not in at_work
            ]
            waiting = [(lane, found) for lane, found in waiting if lane.place in at_work]
        elif racing.best(standing) is not None and standing.at_work:
            self._look_again(node, now)  # what they have cost by then may decide it
        return waiting

    def _look_again(self, node: Node, now: float) -> None:
        if self._looks.get(node.id, 0.0) <= now:
            self._looks[node.id] = now + contest.LOOK_AGAIN_SECONDS
            heapq.heappush(self._later, (self._looks[node.id], node.id))

    def _judging(self, node: Node, over: Sequence[Over], now: float) -> list[Action] | None:
        """Ask a judge about those that are proven; None: there is nothing to ask, or it has answered."""
        found = contest.survivors(over)
        if node.judge is None or len(found) < 2 or self.stopping:
            return None
        tries = self._tries.get(node.id, [])
        spent = sum(record.attempt.cost.usd or 0.0 for record in tries)
        work = judging.lane_node(node, node.judge)
        actions: list[Action] = []
        open_lanes = 0
        for place in judging.LANES:
            own = [record for record in tries if record.lane == place]
            lane = Lane(node=work, place=place, agent=node.judge, tries=own, policy=self._retry, spent_usd=spent)
            decided = lanes.decide(lane, driven=self._driven.keys(), stopping=False, now=now)
            if isinstance(decided, Over | Park):
                continue
            open_lanes += 1
            if isinstance(decided, Begin):
                decided = structs.replace(decided, candidates=judging.shown(found, place))
            actions += self._lane_actions(node, decided)
        return actions if open_lanes else None

    def _until_holds(self, node: Node, last: Attempt) -> bool | None:
        until = node.repeat.until if node.repeat else "checks"
        if until == "checks" or last.status != "done":
            return None
        try:
            own = {"output": last.output, "attempt": result_of(last)}
            return Expression(until).holds(ChainMap(own, cast("dict[str, Any]", self.known(node.id))))
        except Wrong:
            return False

    def _has_slot(self, begin: Begin) -> bool:
        agent = begin.agent.name
        turn = begin.node == self._from_queue or not self._queue.anyone(self._free)  # nobody overtakes who waits
        if turn and self._at_work_now < self._parallel and self._free(agent):
            return True
        self._queue.add(agent, begin.node, first=begin.node == self._from_queue)
        return False

    @property
    def _at_work_now(self) -> int:
        return len(self._driven) + len(self._left) + len(self._starting)

    def _free(self, agent: str) -> bool:
        """Tell whether one more attempt of an agent may be at work."""
        most = self._limits.per_agent.get(agent)
        if most is not None and most < self._parallel:
            at_work = [*self._driven.values(), *self._left.values(), *self._starting]
            if at_work.count(agent) >= most:
                return False
        return self._room is None or self._room.free(agent)

    @property
    def waiting(self) -> dict[str, int]:
        """How many more attempts of which agent would begin if other runs left room for them."""
        most = self._parallel - self._at_work_now
        return {agent: min(count, most) for agent, count in self._queue.counts().items()} if most > 0 else {}

    # --- the end of a node, and of all

    def _ended(self, node: Node, over: Sequence[Over]) -> Settle:
        judged = [each for each in self._tries.get(node.id, ()) if each.lane < 0]
        if found := contest.decide(node, over, judged):
            best = next(each for each in contest.finalists(over) if each.id == found.winner)
            words = found.why if node.rivals else why(best)
            return Settle(node.id, "done", winner=found.winner, why=words, votes=found.votes)
        if self.stopping:
            return Settle(node.id, "stopped", self.stopping)
        last = over[-1]
        if any(each.over_budget for each in over):
            return Settle(node.id, "over_budget", last.reason)
        if node.rivals:
            status, reason = contest.none_good(over)
            return Settle(node.id, status, reason)
        status = last.last.attempt.status if last.last else "failed"
        reasons = list(dict.fromkeys(each.reason for each in over))
        return Settle(node.id, "failed" if status == "done" else status, "; ".join(reasons))

    def _settled(self, settle: Settle) -> list[Action]:
        """Take in the end of a node; return it and the ends it leads to."""
        state = NodeState(
            id=settle.node, status=settle.status, reason=settle.reason, winner=settle.winner, why=settle.why
        )
        cascade: list[Action] = [settle]
        if self.stopping:  # nothing follows any more: each of the others is stopped for itself
            self._note(state)
            return cascade
        for name in self._take_in(state, cascade):
            self._look[name] = None
        return cascade

    def _take_in(self, state: NodeState, cascade: list[Action] | None = None) -> Sequence[str]:
        self._note(state)
        opened = self._graph.settle(state.id, state.status)
        for name, need in opened.skipped:
            words = f"`{need}` is {self._states[need].status}"
            self._stored.pop(name, None)
            self._note(NodeState(id=name, status="skipped", reason=words))
            if cascade is not None:
                cascade.append(Settle(name, "skipped", words))
        return opened.ready

    def _note(self, state: NodeState) -> None:
        self._states[state.id] = state
        self._filled.pop(state.id, None)
        self._open -= 1
        self._failed = self._failed or state.status in FAILED
        if state.id in self._items or not self._told:
            return
        result: dict[str, Any] = {"status": state.status, "reason": state.reason, "output": state.why}
        if state.id in self._members:
            result["output"] = self._reduced(state.id)
        else:
            result.update(self._result(state.id, state.winner))
            if self.nodes[state.id].reduce:
                result["output"] = self._reduced(state.id)
        self._results.add(state.id, result)

    def _reduced(self, name: str) -> Any:  # noqa: ANN401 -- outputs may be anything
        """Return the output of a node that has several: of its items, or of its lanes."""
        node = self.nodes[name]
        if name in self._members and node.reduce is None:
            return [self._result(each)["output"] for each in self._members[name]]
        if name in self._members:
            parts = [
                reduce.Part(self._result(each)["output"], ok=self._states[each].status == "done")
                for each in self._members[name]
            ]
        else:
            last = {record.lane: record.attempt for record in self._tries.get(name, ()) if record.lane >= 0}
            parts = reduce.parts_of([last[lane] for lane in sorted(last)])
        return reduce.reduce(parts, node.reduce or "list", [each.name for each in (node.agent, *node.rivals)]).output

    def _result(self, node: str, winner: str | None = None) -> dict[str, Any]:
        winner = winner or self._states[node].winner
        found = next((each for each in self._tries.get(node, ()) if each.attempt.id == winner), None)
        return result_of(found.attempt) if found else {"output": self._states[node].why}

    def _spent(self) -> float:
        at_work = (record for name in self._driven for record in self._tries_of(name))
        return self._spent_before + sum(record.attempt.cost.usd or 0.0 for record in at_work)

    def _tries_of(self, attempt: str) -> list[AttemptRecord]:
        return [each for each in self._tries.get(self._node_of[attempt], ()) if each.attempt.id == attempt]

    def _finish(self) -> Finish:
        states = [state for state in self._states.values() if state.status != "skipped"]
        statuses = [state.status for state in states]
        why = next((state.reason for state in states if state.status != "done" and state.reason), None)
        for status in ("stopped", "over_budget", "limited"):
            if status in statuses:
                return Finish(status, why)
        if all(status == "done" for status in statuses):
            return Finish("done")
        if "done" in statuses:
            return Finish("partial", why)
        return Finish("timed_out" if set(statuses) == {"timed_out"} else "failed", why)


def item_of(node: Node, place: int) -> Node:
    """Return the node that does one item of a list."""
    return structs.replace(node, id=f"{node.id}.{place}", needs=(), when=None, for_each=None)


def result_of(attempt: Attempt) -> dict[str, Any]:
    """Return what expressions and texts may ask of an attempt."""
    return {
        "status": attempt.status,
        "output": attempt.output,
        "commit": attempt.commit,
        "branch": attempt.branch,
        "files_changed": list(attempt.files_changed),
        "cost_usd": attempt.cost.usd,
        "agent": attempt.agent,
    }


def why(attempt: Attempt) -> str:
    """Say in one line why an attempt is accepted."""
    count = len(attempt.checks)
    checks = "all checks pass" if count > 1 else "its check passes" if count else "no check was asked for"
    changed = len(attempt.files_changed)
    return f"{checks}; {changed or 'no'} file{'' if changed == 1 else 's'} changed"
