"""Who of a run may be at work now: counted against its limits, and against what other runs leave."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from corral.model import AttemptRecord, HeldSlot, SlotDemand
from corral.rules.schedule.actions import RunLimits


class WaitingNodes:
    """Nodes that wait for a slot. What a step costs does not grow with how many wait."""

    def __init__(self) -> None:
        self._waiting: dict[str, OrderedDict[str, int]] = {}  # agent -> node -> its turn
        self._last_number = 0
        self.size = 0  #: how many wait

    def anyone(self, free: Callable[[str], bool]) -> bool:
        """Tell whether someone waits whose agent is free."""
        return any(nodes and free(agent) for agent, nodes in self._waiting.items())

    def counts(self) -> dict[str, int]:
        """Return how many wait for each agent."""
        return {agent: len(nodes) for agent, nodes in self._waiting.items() if nodes}

    def add(self, agent: str, node: str, *, first: bool = False) -> None:
        """Let a node wait; `first`: it was its turn, and there was no slot after all."""
        waiting = self._waiting.get(agent)
        if waiting is None:
            waiting = self._waiting[agent] = OrderedDict()
        if node in waiting:
            return
        self._last_number += 1
        self.size += 1
        waiting[node] = next(iter(waiting.values()), self._last_number) if first else self._last_number
        if first:
            waiting.move_to_end(node, last=False)

    def take(self, free: Callable[[str], bool]) -> str | None:
        """Return who waited longest of those whose agent is free."""
        first: OrderedDict[str, int] | None = None
        turn = 0
        for agent, nodes in self._waiting.items():
            if nodes and free(agent):
                own = next(iter(nodes.values()))
                if first is None or own < turn:
                    first, turn = nodes, own
        if first is None:
            return None
        self.size -= 1
        return first.popitem(last=False)[0]


class RunSlots:
    """The attempts of a run that are at work, and the nodes that wait until one more may be."""

    def __init__(self, limits: RunLimits, parallel: int | None, room: FreeSlots | None) -> None:
        self._most = min(limits.parallel, parallel or limits.parallel)
        self._per_agent, self._free_slots = limits.per_agent, room
        self._counted = bool(limits.per_agent) or room is not None
        self._active: dict[str, AttemptRecord] = {}
        self._left: dict[str, str] = {}  # attempts that nobody drives any more, and their agents
        self._starting: Counter[str] = Counter()  # agents of attempts that were decided and not announced yet
        self.decided = 0  #: how many attempts were decided and not announced yet
        self._queue = WaitingNodes()
        self.next_node: str | None = None  #: the node whose turn it is, of those that waited

    @property
    def active_ids(self) -> Collection[str]:
        return self._active.keys()

    @property
    def spent_usd(self) -> float:
        """What those at work have cost so far."""
        return sum(record.attempt.cost.usd or 0.0 for record in self._active.values())

    # --- what happened

    def leave(self, record: AttemptRecord) -> None:
        """Take in that an attempt is open and that nobody drives it: it will need its slot again."""
        self._left[record.attempt.id] = record.attempt.agent

    def note_start(self, record: AttemptRecord, *, new: bool) -> None:
        """Take in that an attempt is driven; `new`: it was not announced before."""
        self._forget_start(record, new=new)
        self._active[record.attempt.id] = record

    def note_end(self, record: AttemptRecord, *, new: bool) -> bool:
        """Take in that an attempt is over; return whether it was driven."""
        self._forget_start(record, new=new)
        return self._active.pop(record.attempt.id, None) is not None

    def _forget_start(self, record: AttemptRecord, *, new: bool) -> None:
        if new and self.decided:
            self.decided -= 1
            if self._counted:
                self._starting[record.attempt.agent] -= 1
        if self._left:
            self._left.pop(record.attempt.id, None)

    # --- who may begin

    def next(self) -> str | None:
        """Return who waited longest of those that may begin now: it is its turn."""
        self.next_node = self._queue.take(self._free) if self._queue.size and self._at_work < self._most else None
        return self.next_node

    @property
    def plenty(self) -> int:
        """How many may begin of any kind: none waits, and only their number counts."""
        return 0 if self._counted or self._queue.size else self._most - self._at_work

    def take(self, node: str, agent: str) -> bool:
        """Take a seat for an attempt; if there is none for it, its node waits."""
        full = len(self._active) + len(self._left) + self.decided >= self._most
        if full or ((self._counted or self._queue.size) and not self._may(node, agent)):
            self._queue.add(agent, node, first=node == self.next_node)
            return False
        self.decided += 1
        if self._counted:
            self._starting[agent] += 1
        if self._free_slots:
            self._free_slots.take(agent)
        return True

    def resume(self, record: AttemptRecord) -> bool:
        """Let an attempt that nobody drives have its seat back; where others took it meanwhile, its node waits."""
        name, agent = record.attempt.id, record.attempt.agent
        full = name not in self._left and self._at_work >= self._most
        if full or (self._free_slots is not None and not self._free_slots.free(agent)):
            self._left.pop(name, None)
            self._queue.add(agent, record.node, first=record.node == self.next_node)
            return False
        self._left[name] = agent  # until it is driven
        if self._free_slots:
            self._free_slots.take(agent)
        return True

    @property
    def waiting(self) -> dict[str, int]:
        """How many more attempts of which agent would begin if other runs left room for them."""
        most = self._most - self._at_work
        return {agent: min(count, most) for agent, count in self._queue.counts().items()} if most > 0 else {}

    def _may(self, node: str, agent: str) -> bool:
        if node != self.next_node and self._queue.size and self._queue.anyone(self._free):
            return False  # nobody overtakes who waits
        return self._free(agent)

    @property
    def _at_work(self) -> int:
        return len(self._active) + len(self._left) + self.decided

    def _free(self, agent: str) -> bool:
        """Tell whether one more attempt of an agent may be at work."""
        most = self._per_agent.get(agent)
        if most is not None and most < self._most:
            driven = [record.attempt.agent for record in self._active.values()]
            if driven.count(agent) + [*self._left.values()].count(agent) + self._starting[agent] >= most:
                return False
        return self._free_slots is None or self._free_slots.free(agent)


class FreeSlots(Protocol):
    """What all other runs leave to one."""

    def free(self, agent: str) -> bool: ...
    def take(self, agent: str) -> None: ...


def assign_slots(held: Sequence[HeldSlot], demands: Sequence[SlotDemand]) -> Counter[tuple[str, str]]:
    """Hand out every slot there is; return how many more of which agent each run may begin."""
    total, agents = len(held), Counter(each.agent for each in held)
    runs, repos = Counter(each.run for each in held), Counter(each.repo for each in held)
    given: Counter[tuple[str, str]] = Counter()

    def fits(want: SlotDemand) -> bool:
        limits, agent = want.limits, want.limits.per_agent.get(want.agent)
        return (
            given[want.run, want.agent] < want.count
            and (limits.parallel is None or total < limits.parallel)
            and (agent is None or agents[want.agent] < agent)
            and (limits.per_repository is None or repos[want.repo] < limits.per_repository)
        )

    while ready := [each for each in demands if fits(each)]:
        first = min(ready, key=lambda each: (-each.priority, runs[each.run], each.since, each.run, each.agent))
        given[first.run, first.agent] += 1
        total, agents[first.agent] = total + 1, agents[first.agent] + 1
        runs[first.run], repos[first.repo] = runs[first.run] + 1, repos[first.repo] + 1
    return given
