"""Everything the page shows of one run, with its charts; of a long log only the end is read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from corral.attempt import budget_figures
from corral.attempt.repositories import repository_of
from corral.engine.settings import Settings
from corral.engine.views import run_document, run_status
from corral.engine.views.log_pages import END
from corral.model import OPEN, Attempt, AttemptRecord, Entry, NodeState, Run, RunRecord
from corral.model.errors import BadRequest, GitTrouble
from corral.model.flow import AgentChoice, Flow, Node
from corral.model.money import Bound, Limit
from corral.rules.flows.drawing import what
from corral.rules.flows.layout import Picture, layers, picture
from corral.rules.schedule.board import BoardAttempt
from corral.store.interface import Store

RECENT = 400  #: events that show what each attempt does now
MOST_CHANGES = 500
WIDTH, HEIGHT, CHIP, CHIPS_IN_ROW = 224, 78, 22, 9
MOST_CHIPS = 36
MOST_DRAWN = 300  #: nodes; more are only listed
MOST_BARS = 60
SCALE = 1000.0  #: a whole timeline is so wide

SpanKind = Literal["work", "check", "failing", "wait", "ask"]


class Chip(Struct, frozen=True, kw_only=True):
    """One of several that a node is done by: an item of a for_each, a rival of a race, a try."""

    label: str
    status: str
    title: str
    attempt: str = ""
    node: str = ""
    won: bool = False


class GraphNode(Struct, frozen=True, kw_only=True):
    """A node in the graph."""

    id: str
    layer: int
    what: str
    status: str
    state: str  #: in words: its status, or what it waits for
    who: str = ""
    since: float | None = None  #: at work since
    seconds: float | None = None
    usd: float | None = None
    line: str = ""  #: the last it let hear, or what came of it
    needs: str = ""
    chips: tuple[Chip, ...] = ()
    more: int = 0  #: chips that are left out

    @property
    def height(self) -> int:
        rows = -(-(len(self.chips) + bool(self.more)) // CHIPS_IN_ROW)
        return HEIGHT + rows * CHIP


class RunGraph(Struct, frozen=True, kw_only=True):
    pieces: tuple[GraphNode, ...]
    picture: Picture | None  #: None: there are too many to draw


class TimelineSpan(Struct, frozen=True, kw_only=True):
    """A stretch of a timeline."""

    kind: SpanKind
    status: str = ""
    x: float
    width: float
    title: str


class TimelineRow(Struct, frozen=True, kw_only=True):
    """A line of a timeline: an attempt, or a question of a node without one."""

    attempt: str = ""
    node: str
    who: str
    status: str
    parts: tuple[TimelineSpan, ...]
    since: float | None = None
    seconds: float
    void: bool = False


class Timeline(Struct, frozen=True, kw_only=True):
    start: float
    seconds: float
    bars: tuple[TimelineRow, ...]
    more: int  #: older attempts that are left out


def name_of(attempt: Attempt) -> str:
    """Name who made an attempt, and which try it was."""
    agent = str(AgentChoice(attempt.agent, attempt.model))
    return f"{agent} #{attempt.number}" if attempt.number > 1 else agent


# --- the graph


def graph(
    flow: Flow, run: Run, records: Mapping[str, AttemptRecord], working: Mapping[str, BoardAttempt], now: float
) -> RunGraph:
    """Say of each node of the flow the state of it."""
    states = {node.id: node for node in run.nodes}
    items: dict[str, list[NodeState]] = {}
    for node in run.nodes:
        parent, _, number = node.id.rpartition(".")
        if parent in states and number.isdigit():
            items.setdefault(parent, []).append(node)
    draft = _GraphBuilder(states, items, records, working, now)
    pieces = tuple(
        draft.piece(node, place) for place, column in enumerate(layers(flow), 1) for node in column
    )  # fmt: skip
    drawn = picture(flow, WIDTH, {piece.id: piece.height for piece in pieces}) if len(pieces) <= MOST_DRAWN else None
    return RunGraph(pieces=pieces, picture=drawn)


class _GraphBuilder:
    def __init__(
        self,
        states: Mapping[str, NodeState],
        items: Mapping[str, list[NodeState]],
        records: Mapping[str, AttemptRecord],
        working: Mapping[str, BoardAttempt],
        now: float,
    ) -> None:
        self._states, self._items, self._records, self._working, self._now = states, items, records, working, now

    def piece(self, node: Node, layer: int) -> GraphNode:
        state = self._states.get(node.id, NodeState(id=node.id))
        items = self._items.get(node.id, [])
        tries = [each for owner in (state, *items) for each in owner.attempts if not self._records[each.id].void]
        at_work = [self._working[each.id] for each in tries if each.id in self._working]
        costs = [self._usd(each) for each in tries]
        known = [usd for usd in costs if usd is not None]
        chips = self._items_of(items) if items else self._attempt_chips(node, state, tries)
        agents = dict.fromkeys(name_of(each) for each in tries)
        return GraphNode(
            id=node.id,
            layer=layer,
            what=what(node),
            status=state.status,
            state=self._state(state, node, items, at_work),
            who=", ".join(agents) or what(node),
            since=min((each.started for each in at_work), default=None),
            seconds=self._took(tries),
            usd=sum(known) if known else None,
            line=_line(state, tries, at_work),
            needs=", ".join(edge.node + (f" ({edge.on})" if edge.on != "success" else "") for edge in node.needs),
            chips=tuple(chips[:MOST_CHIPS]),
            more=max(0, len(chips) - MOST_CHIPS),
        )

    def _took(self, tries: Sequence[Attempt]) -> float | None:
        """Return how long it took from the start of the first to the end of the last."""
        records = [self._records[each.id] for each in tries]
        if not records:
            return None
        return max(0.0, max(each.ended or self._now for each in records) - records[0].started)

    def _usd(self, attempt: Attempt) -> float | None:
        working = self._working.get(attempt.id)
        return working.usd if working and working.usd is not None else attempt.cost.usd

    def _state(self, state: NodeState, node: Node, items: Sequence[NodeState], at_work: Sequence[BoardAttempt]) -> str:
        if at_work and all(each.mood(self._now) != "at work" for each in at_work):
            return at_work[0].waits or "silent for long"
        if items and state.status in OPEN:
            return f"{sum(each.status not in OPEN for each in items)} of {len(items)} over"
        if state.status == "queued":
            before = [edge.node for edge in node.needs if self._open(edge.node)]
            return f"after {', '.join(before)}" if before else "waits for a slot"
        return state.status.replace("_", " ")

    def _open(self, name: str) -> bool:
        return name in self._states and self._states[name].status in OPEN

    def _items_of(self, items: Sequence[NodeState]) -> list[Chip]:
        return [
            Chip(
                label=item.id.rpartition(".")[2],
                status=item.status,
                title=f"{item.id}: {item.status}" + (f", {item.reason}" if item.reason else ""),
                node=item.id,
            )
            for item in items
        ]

    def _attempt_chips(self, node: Node, state: NodeState, tries: Sequence[Attempt]) -> list[Chip]:
        if len(tries) < 2 and not node.rivals:
            return []
        return [
            Chip(
                label="j" if self._records[each.id].lane < 0 else str(place),
                status=each.status,
                title=f"{name_of(each)}: {each.status}" + (" (won)" if each.id == state.winner else ""),
                attempt=each.id,
                won=each.id == state.winner,
            )
            for place, each in enumerate(tries, 1)
        ]


def _line(state: NodeState, tries: Sequence[Attempt], at_work: Sequence[BoardAttempt]) -> str:
    if at_work:
        return max(at_work, key=lambda each: each.heard).doing
    won = next((each for each in tries if each.id == state.winner), None)
    if won is not None and won.files_changed:
        names = ", ".join(won.files_changed[:3])
        return f"+{won.insertions} -{won.deletions} {names}"
    failed = next((each.error for each in reversed(tries) if each.error), None) if state.status != "done" else None
    return state.reason or (failed.message if failed else "") or (state.why or "")


# --- the timeline


def timeline(record: RunRecord, records: Sequence[AttemptRecord], entries: Sequence[Entry], now: float) -> Timeline:
    """Put all attempts, and what was waited for, on one scale."""
    end = record.ended or now
    whole = _Scale(record.created, max(end, *(each.ended or now for each in records), record.created + 0.001))
    known = {each.attempt.id: each for each in records}
    shown = sorted(records, key=lambda each: each.started)
    bars = [whole.bar(each, known, entries, now) for each in shown[-MOST_BARS:]]
    bars += list(whole.questions(entries, now))
    return Timeline(start=record.created, seconds=whole.seconds, bars=tuple(bars), more=max(0, len(shown) - MOST_BARS))


class _Scale:
    def __init__(self, start: float, end: float) -> None:
        self._start, self.seconds = start, end - start

    def _part(
        self,
        kind: SpanKind,
        span: tuple[float, float],
        title: str,
        status: str = "",
    ) -> TimelineSpan:
        start, end = (min(max(0.0, (each - self._start) / self.seconds), 1.0) * SCALE for each in span)
        return TimelineSpan(
            kind=kind, status=status, x=round(start, 2), width=round(max(2.0, end - start), 2), title=title
        )

    def bar(
        self, record: AttemptRecord, known: Mapping[str, AttemptRecord], entries: Sequence[Entry], now: float
    ) -> TimelineRow:
        attempt, end = record.attempt, record.ended or now
        parts = list(self._waiting_spans(record, known))
        parts.append(self._part("work", (record.started, end), f"at work: {attempt.status}", attempt.status))
        checked = end
        for check in reversed(attempt.checks):
            if not check.cached:
                verdict = "passed" if check.passed else check.note or f"failed ({check.exit_code})"
                kind = "check" if check.passed else "failing"
                span = (max(record.started, checked - check.seconds), checked)
                parts.append(self._part(kind, span, f"check {check.command}: {verdict}"))
                checked -= check.seconds
        parts += [
            self._part("ask", (each.created, each.answered_at or now), f"waited for an answer: {each.text}")
            for each in entries
            if each.attempt == attempt.id
        ]
        return TimelineRow(
            attempt=attempt.id, node=record.node, who=name_of(attempt), status=attempt.status, parts=tuple(parts),
            since=record.started if record.ended is None else None, void=record.void,
            seconds=max(0.0, end - record.started) if record.ended is None else attempt.seconds,
        )  # fmt: skip

    def _waiting_spans(self, record: AttemptRecord, known: Mapping[str, AttemptRecord]) -> Iterator[TimelineSpan]:
        before = known.get(record.attempt.retry_of or record.attempt.fallback_of or record.continues or "")
        if before is not None and before.ended is not None and record.started > before.ended:
            quota = before.attempt.status == "limited"
            words = "waited for its quota" if quota else "waited for its next try"
            yield self._part("wait", (before.ended, record.started), words)

    def questions(self, entries: Sequence[Entry], now: float) -> Iterator[TimelineRow]:
        for each in entries:
            if each.attempt is None and each.node is not None:
                end = each.answered_at or now
                part = self._part("ask", (each.created, end), f"waited for an answer: {each.text}")
                state = "waiting" if each.is_open else "done"
                who = f"you: {each.answer}" if each.answer else "you"
                yield TimelineRow(
                    node=each.node, who=who, status=state, parts=(part,), seconds=max(0.0, end - each.created)
                )


class Spending(Struct, frozen=True, kw_only=True):
    """What a run costs, against what it may."""

    spent: float
    reserved: float
    limit: float | None
    source: str
    where: str = ""  #: who set the limit


class RunView(Struct, frozen=True, kw_only=True):
    """One run as it is."""

    run: Run
    record: RunRecord
    attempts: Mapping[str, AttemptRecord]
    entries: tuple[Entry, ...]  #: that wait for a user
    working: Mapping[str, BoardAttempt]  #: what each attempt at work does now
    graph: RunGraph
    timeline: Timeline
    money: Spending
    driven: bool
    last: int  #: the sequence number up to which all is in this view
    now: float


def view(store: Store, settings: Settings, name: str) -> RunView:
    """Gather what is known of a run."""
    store.flush()
    now = time.time()
    last = store.pages.last_sequence()  # before anything is read: what comes later is heard
    run = run_document.build(store, name)
    record = store.run(run.run)
    records = {each.attempt.id: each for each in store.attempts(run.run)}
    entries = store.inbox.of_run(run.run)
    working = _working(store, run.run, records)
    return RunView(
        run=run,
        record=record,
        attempts=records,
        entries=tuple(each for each in entries if each.is_open),
        working=working,
        graph=graph(record.plan.flow, run, records, working, now),
        timeline=timeline(record, list(records.values()), entries, now),
        money=_money(store, settings, run, record),
        driven=not run_status.is_orphaned(record.owner),
        last=last,
        now=now,
    )


def _working(store: Store, run: str, records: Mapping[str, AttemptRecord]) -> dict[str, BoardAttempt]:
    """Say what each attempt at work does now, from the last that was heard of the run."""
    found = {
        name: BoardAttempt(
            attempt=name, node=each.node, who=name_of(each.attempt), started=each.started, heard=each.started
        )
        for name, each in records.items()
        if each.attempt.status in OPEN and each.ended is None
    }
    if found:
        for logged in store.pages.last_events(run, END, RECENT):
            if (working := found.get(logged.stored.attempt or "")) is not None:
                working.hear(logged.stored.event(), logged.stored.at)
    return found


def _money(store: Store, settings: Settings, run: Run, record: RunRecord) -> Spending:
    kept, flow = store.ledger, record.plan.flow
    spent, reserved = kept.spent_and_reserved(Bound(limit=Limit(window="run", usd=0.0), run=run.run))
    limits = [Limit(window="run", usd=flow.budget_usd, where="this run")] if flow.budget_usd is not None else []
    if len(flow.nodes) == 1 and (own := flow.nodes[0].task.budget_usd) is not None:
        limits.append(Limit(window="run", usd=own, where="its task"))
    try:
        configured = settings.load(Path(run.repo)).budget.limits
    except BadRequest:  # a run is shown also when its repository is gone or its settings have a mistake
        configured = ()
    shared = (*configured, *kept.limits())
    limits += [each for each in shared if each.window == "run" and not each.agent and each.repo in ("", run.repo)]
    least = min(limits, key=lambda each: each.usd, default=None)
    return Spending(
        spent=max(spent, run.cost.usd or 0.0),
        reserved=reserved,
        limit=least.usd + budget_figures.run_allowed_usd(store, run.run) if least else None,
        where=least.where if least else "",
        source=run.cost.source,
    )


# --- what an attempt changed


class FileStat(Struct, frozen=True):
    path: str
    plus: int
    minus: int


_changes: dict[tuple[str, str | None, str], tuple[FileStat, ...]] = {}  # commits never change


async def files(home: Path, found: RunView, attempt: str) -> tuple[FileStat, ...]:
    """Return the files that an attempt changed, and by how much; nothing where its commit is gone."""
    record = found.attempts[attempt]
    if (commit := record.attempt.commit) is None:
        return ()
    key = (found.record.plan.git_dir, record.base or found.record.plan.base, commit)
    if key not in _changes:
        try:
            change = await repository_of(found.record.plan, home).change(key[1], commit)
        except GitTrouble:
            return ()
        while len(_changes) >= MOST_CHANGES:
            del _changes[next(iter(_changes))]
        _changes[key] = tuple(FileStat(path, *lines) for path, lines in zip(change.files, change.lines, strict=True))
    return _changes[key]
