"""Who waits for a slot: in order, each agent's nodes for themselves, so that one that is busy holds up nobody else."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable


class WaitingNodes:
    """Nodes that wait for a slot. What a step costs does not grow with how many wait."""

    def __init__(self) -> None:
        self._waiting: dict[str, OrderedDict[str, int]] = {}  # agent -> node -> its turn
        self._turn = 0
        self.size = 0  #: how many wait

    def anyone(self, free: Callable[[str], bool]) -> bool:
        """Tell whether somebody waits whose agent is free."""
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
        self._turn += 1
        self.size += 1
        waiting[node] = next(iter(waiting.values()), self._turn) if first else self._turn
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
