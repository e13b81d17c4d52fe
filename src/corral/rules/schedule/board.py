"""The progress of a run, from its events alone: the state of each node, and who works on what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct, field

from corral.model import OPEN, Status
from corral.model.events import (
    Asked,
    CalledTool,
    Changed,
    Checked,
    Condensed,
    ContextUsed,
    Ended,
    Event,
    Limited,
    Noted,
    QuotaReported,
    Rejected,
    Reported,
    RunEvent,
    Said,
    Spent,
    StatusChanged,
    UserAsked,
)
from corral.model.flow import IDLE_SECONDS, Flow, Node
from corral.rules.flows.layout import layers

Mood = Literal["at work", "stale", "blocked"]


class BoardAttempt(Struct, kw_only=True):
    """One attempt at work."""

    attempt: str
    node: str
    who: str  #: its agent, and which try it is
    started: float
    heard: float  #: when it last let hear of itself
    idle_seconds: float = IDLE_SECONDS
    doing: str = "starting"
    waits: str = ""  #: for an answer, or a quota; empty: it works
    proving: bool = False  #: its agent is done: its work is collected and checked
    files: dict[str, float] = field(default_factory=dict[str, float])  #: what it changed, and when last
    usd: float | None = None
    usd_before: float = 0.0  #: of its earlier turns

    def silent(self, now: float) -> float:
        return max(0.0, now - self.heard)

    def mood(self, now: float) -> Mood:
        if self.waits:
            return "blocked"
        return "stale" if not self.proving and self.silent(now) > self.idle_seconds / 2 else "at work"

    def hear(self, event: Event, at: float) -> None:
        self.heard = at
        if isinstance(event, UserAsked):
            self.waits = f"waits for an answer: {event.words}"
            return
        if isinstance(event, Asked) and not event.answer:
            self.waits = f"waits for an answer: {event.question}"
            return
        if isinstance(event, Limited):
            self.waits = f"waits for its quota: {event.message}"
            return
        if not isinstance(event, Spent | ContextUsed | QuotaReported | Noted):
            self.waits = ""
        self._learn(event, at)

    def _learn(self, event: Event, at: float) -> None:
        match event:
            case CalledTool(tool, shown):
                self.doing = f"{tool} {shown}".strip()
            case Said(text) | Reported(text):
                self.doing = text.strip() or self.doing
            case Changed(path):
                self.files.pop(path, None)
                self.files[path] = at
            case Spent(usd=usd) if usd is not None:
                self.usd = self.usd_before + usd
            case Spent(computed_usd=usd) if usd is not None:
                self.usd = max(self.usd or 0.0, usd)
            case Rejected() | Condensed():
                self.usd_before, self.proving = self.usd or 0.0, False
            case Ended():
                self.proving, self.doing = True, "its work is collected and checked"
            case Checked(check):
                self.doing = f"checked: {check.command}"
            case _:
                pass  # the others do not show on the board


class BoardRow(Struct, frozen=True, kw_only=True):
    """One line of a board: an attempt at work, or a node without one."""

    node: str
    layer: int
    state: str  #: at work, stale, blocked, waiting, or the status of its node
    why: str = ""
    working: BoardAttempt | None = None
    usd: float | None = None
    seconds: float | None = None


class Board:
    """What became of the nodes of one run so far."""

    def __init__(self, run: str, flow: Flow | None = None, states: Mapping[str, Status] | None = None) -> None:
        self.run = run
        columns = layers(flow) if flow else []
        self._layers = {node.id: place for place, column in enumerate(columns, 1) for node in column}
        self._nodes: dict[str, Node] = {node.id: node for column in columns for node in column}
        self._names: dict[str, dict[str, None]] = {name: {} for name in self._nodes}  # each, and its items
        self._states: dict[str, tuple[Status, str]] = {}
        self.working: dict[str, BoardAttempt] = {}
        self._usd: dict[str, float] = {}  #: of attempts that are over, by node
        self._seconds: dict[str, float] = {}
        self._tried: set[str] = set()
        self._agents: dict[str, str] = {}  # who each attempt is
        self._rivals: dict[str, set[str]] = {}  # attempts that were at work at the same time, for each node
        self._over: dict[str, dict[str, BoardRow]] = {}  # attempts that are over, for each node
        for name, status in (states or {}).items():
            self.know(name, status)

    @property
    def several(self) -> bool:
        """Tell whether lines need the name of a node to be understood."""
        return len(self._names) > 1 or any(self._names.values())

    def speaker(self, heard: RunEvent) -> str:
        """Name who speaks, where several do: the node, the agent, or both."""
        node, attempt = heard.node, heard.attempt
        if node is None:
            return ""
        names = [node] if self.several else []
        if attempt and (attempt in self._rivals.get(node, ()) or self._has_rivals(node)):
            names.append(f"{self._agents.get(attempt, 'attempt')} #{attempt.rpartition('-')[2]}")
        return " ".join(names)

    def _has_rivals(self, node: str) -> bool:
        known = self._nodes.get(node)
        return bool(known and known.rivals)

    def know(self, node: str, status: Status) -> None:
        """Take over what is stored of a node."""
        self._add(node)
        if status not in ("queued", "running"):
            self._states[node] = (status, self._states.get(node, (status, ""))[1])
        else:
            self._states.pop(node, None)

    def hear(self, heard: RunEvent, at: float) -> None:
        """Take in an event at its time. The events of a child carry its own run's name."""
        if heard.node is None:
            return
        node = heard.node if heard.run == self.run else f"{heard.run}:{heard.node}"
        self._add(node)
        if heard.attempt is not None:
            self._hear_attempt(node, heard.attempt, heard.event, at)
        elif isinstance(heard.event, StatusChanged):
            self._states[node] = (heard.event.status, heard.event.reason or "")
        elif isinstance(heard.event, UserAsked):
            self._states[node] = ("waiting", heard.event.words)

    def note_cost(self, node: str, usd: float) -> None:
        """Take over what a node that is over has cost."""
        self._usd[node] = max(usd, self._usd.get(node, 0.0))

    def rows(self, now: float) -> list[BoardRow]:
        """Return all lines, in the order of the graph."""
        at_work: dict[str, list[BoardAttempt]] = {}
        for each in self.working.values():
            at_work.setdefault(each.node, []).append(each)
        return [row for name in self._all() for row in self._rows_of(name, at_work, now)]

    def spent_usd(self) -> float:
        return sum(self._usd.values()) + sum(each.usd or 0.0 for each in self.working.values())

    # --- what is heard

    def _hear_attempt(self, node: str, attempt: str, event: Event, at: float) -> None:
        moved = event if isinstance(event, StatusChanged) else None
        working = self.working.get(attempt)
        if moved and moved.status != "running":
            if working := self.working.pop(attempt, None):
                self._usd[node] = self._usd.get(node, 0.0) + (working.usd or 0.0)
                took = max(0.0, at - working.started)
                self._seconds[node] = self._seconds.get(node, 0.0) + took
                why = ": ".join(filter(None, (working.who, moved.reason)))
                self._over.setdefault(node, {})[attempt] = BoardRow(
                    node=node, layer=self._layer(node), state=moved.status, why=why, usd=working.usd, seconds=took
                )
            return
        if moved or working is None:
            self._tried.add(node)
            self._states.pop(node, None)
            who = (moved.reason if moved else None) or attempt
            working = BoardAttempt(attempt=attempt, node=node, who=who, started=at, heard=at)
            if known := self._nodes.get(node) or self._nodes.get(node.rpartition(".")[0]):
                working.idle_seconds = known.task.idle_limit_seconds
            self.working[attempt] = working
            self._agents[attempt] = who.partition(",")[0].partition(" (")[0]
            together = {each.attempt for each in self.working.values() if each.node == node}
            if len(together) > 1:
                self._rivals.setdefault(node, set()).update(together)
        working.hear(event, at)

    def _add(self, node: str) -> None:
        if node in self._names:
            return
        parent = node.rpartition(".")[0]
        if parent in self._names:
            self._names[parent][node] = None
        else:
            self._names[node] = {}

    def _all(self) -> Iterator[str]:
        for name, items in self._names.items():
            yield name
            yield from items

    # --- what is shown

    def _layer(self, name: str) -> int:
        return self._layers.get(name) or self._layers.get(name.rpartition(".")[0], 1)

    def _rows_of(self, name: str, at_work: Mapping[str, list[BoardAttempt]], now: float) -> Iterator[BoardRow]:
        layer = self._layer(name)
        if name in at_work and (name in self._rivals or self._has_rivals(name)):
            yield from self._over.get(name, {}).values()
        for each in at_work.get(name, ()):
            yield BoardRow(node=name, layer=layer, state=each.mood(now), why=each.waits, working=each)
        if name in at_work:
            return
        state, why = self._node_status(name)
        yield BoardRow(
            node=name, layer=layer, state=state, why=why, usd=self._usd.get(name), seconds=self._seconds.get(name)
        )

    def _node_status(self, name: str) -> tuple[str, str]:
        """Describe the state of a node that nobody works on."""
        if name in self._states:
            return self._states[name]
        if items := self._names.get(name):
            over = sum(self._is_over(item) for item in items)
            return "running", f"{over} of {len(items)} items so far"
        node = self._nodes.get(name)
        before = [edge.node for edge in node.needs if not self._is_over(edge.node)] if node else []
        if before:
            return "queued", f"after {', '.join(before)}"
        if node and node.kind == "merge":
            return "running", "merges"
        if name in self._tried:
            return "waiting", "waits for its next try"
        return "waiting", "waits for a slot"

    def _is_over(self, name: str) -> bool:
        return name in self._states and self._states[name][0] not in OPEN
