"""Who may start: kept up to date as nodes end. What an end costs does not grow with what is over already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from corral.model import Status
from corral.model.flow import Node, On

FAILED: frozenset[Status] = frozenset({"failed", "timed_out", "over_budget", "partial"})


class UnblockedNodes(Struct, frozen=True):
    """What the end of a node led to: who may start now, and who never will."""

    ready: Sequence[str] = ()
    skipped: Sequence[tuple[str, str]] = ()  #: node and the need of it that did not come true


class NeedsGraph:
    """The needs of a flow's nodes, counted down. Inside, nodes are numbers: a large flow has many needs."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._waits: list[int] = []  # how many needs of each are not over
        self._after: list[list[int]] = []  # who needs the success of each
        self._other: dict[int, list[tuple[int, On]]] = {}  # and who needs something else of it
        self._missed: dict[int, list[int]] = {}
        self._nodes: list[Node] = []
        self._over = bytearray()
        self.add(nodes)

    def add(self, nodes: Iterable[Node]) -> None:
        """Add nodes, also while others are at work: a list that a node made has as many as it has."""
        new, first = tuple(nodes), len(self._names)
        names = [node.id for node in new]
        self._names += names
        self._nodes += new
        self._numbers.update(zip(names, range(first, first + len(new)), strict=True))
        self._waits += [len(node.needs) for node in new]
        self._after += [[] for _ in new]
        self._over += bytes(len(new))
        numbers, after = self._numbers, self._after
        for number, node in enumerate(new, first):
            for edge in node.needs:
                if edge.on == "success":
                    after[numbers[edge.node]].append(number)
                else:
                    self._other.setdefault(numbers[edge.node], []).append((number, edge.on))

    def start(self) -> list[str]:
        """Return who may start at once."""
        return [name for name, waits in zip(self._names, self._waits, strict=True) if not waits]

    def wait_for(self, node: str, for_: Iterable[str]) -> None:
        """Let a node that was ready wait for others, whatever becomes of them."""
        number = self._numbers[node]
        for other in for_:
            self._waits[number] += 1
            self._other.setdefault(self._numbers[other], []).append((number, "always"))

    def note_done(self, node: str) -> Sequence[str] | None:
        """Take in that a node is done; return who may start now. None where that is not all there is to say."""
        number = self._numbers[node]
        if self._missed or number in self._other or self._over[number]:
            return None
        self._over[number] = 1
        waits, ready = self._waits, None
        for after in self._after[number]:
            left = waits[after] - 1
            waits[after] = left
            if not left:
                name = self._names[after]
                if ready is None:
                    ready = [name]
                else:
                    ready.append(name)
        return () if ready is None else ready

    def settle(self, node: str, status: Status) -> UnblockedNodes:
        """Take in that a node has ended; return what follows for those behind it."""
        first = self._numbers[node]
        if self._over[first]:
            return UnblockedNodes()
        ready: list[str] = []
        skipped: list[tuple[str, str]] = []
        ended: list[tuple[int, Status]] = [(first, status)]
        for number, how in ended:  # grows: who is skipped ends too
            self._over[number] = 1
            for after, comes_true in self._behind(number, how):
                if not comes_true:
                    self._missed.setdefault(after, []).append(number)
                self._waits[after] -= 1
                if self._waits[after]:
                    continue
                if after not in self._missed:
                    ready.append(self._names[after])
                elif not self._over[after]:
                    skipped.append((self._names[after], self._first_missed(after)))
                    ended.append((after, "skipped"))
        return UnblockedNodes(ready, skipped)

    def _behind(self, number: int, status: Status) -> list[tuple[int, bool]]:
        """Return who needs something of a node that has ended, and whether it came true."""
        others = [(after, on == "always" or status in FAILED) for after, on in self._other.get(number, ())]
        return [*((after, status == "done") for after in self._after[number]), *others]

    def _first_missed(self, number: int) -> str:
        """Name the need that did not come true; of several the one named first, whatever ended first."""
        missed = {self._names[each] for each in self._missed[number]}
        return next(edge.node for edge in self._nodes[number].needs if edge.node in missed)
