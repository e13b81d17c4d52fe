"""Who may start: kept up to date as nodes end. What an end costs does not grow with what is over already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from corral.flow import Node, On
from corral.model import Status

FAILED: frozenset[Status] = frozenset({"failed", "timed_out", "over_budget", "partial"})


class Opened(Struct, frozen=True):
    """What the end of a node led to: who may start now, and who never will."""

    ready: Sequence[str] = ()
    skipped: Sequence[tuple[str, str]] = ()  #: node and the need of it that did not come true


class Graph:
    """The needs of a flow's nodes, counted down."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._after: dict[str, list[tuple[str, On]]] = {}
        self._waits: dict[str, int] = {}
        self._missed: dict[str, list[str]] = {}
        self._order: dict[str, tuple[str, ...]] = {}
        self._settled: set[str] = set()
        self.add(nodes)

    def add(self, nodes: Iterable[Node]) -> None:
        """Add nodes, also while others are at work: a list that a node made has as many as it has."""
        for node in nodes:
            self._waits[node.id] = len(node.needs)
            self._after.setdefault(node.id, [])
            if len(node.needs) > 1:
                self._order[node.id] = tuple(edge.node for edge in node.needs)
            for edge in node.needs:
                self._after.setdefault(edge.node, []).append((node.id, edge.on))

    def start(self) -> list[str]:
        """Return who may start at once."""
        return [name for name, waits in self._waits.items() if not waits]

    def hold(self, node: str, for_: Iterable[str]) -> None:
        """Let a node that was ready wait for others, whatever becomes of them."""
        for other in for_:
            self._waits[node] += 1
            self._after.setdefault(other, []).append((node, "always"))

    def settle(self, node: str, status: Status) -> Opened:
        """Take in that a node has ended; return what follows for those behind it."""
        if node in self._settled:
            return Opened()
        ready: list[str] = []
        skipped: list[tuple[str, str]] = []
        ended: list[tuple[str, Status]] = [(node, status)]
        for name, how in ended:  # grows: who is skipped ends too
            self._settled.add(name)
            for after, on in self._after[name]:
                if not _fires(on, how):
                    self._missed.setdefault(after, []).append(name)
                self._waits[after] -= 1
                if self._waits[after]:
                    continue
                if after not in self._missed:
                    ready.append(after)
                elif after not in self._settled:
                    skipped.append((after, self._first_missed(after)))
                    ended.append((after, "skipped"))
        return Opened(ready, skipped)

    def _first_missed(self, node: str) -> str:
        """Name the need that did not come true; of several the one named first, whatever ended first."""
        missed = self._missed[node]
        return next((need for need in self._order.get(node, ()) if need in missed), missed[0])


def _fires(on: On, status: Status) -> bool:
    if on == "success":
        return status == "done"
    return on == "always" or status in FAILED
