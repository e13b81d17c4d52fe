"""Flows: deciding against graphlib, durable nodes against bare SQLite transactions, resuming, agents held at once."""

from __future__ import annotations

import asyncio
import graphlib
import sqlite3
import tempfile
import threading
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from bench import overhead
from bench.measure import Promise, interleaved
from corral.attempt.runner import AttemptRun
from corral.engine.engine import Engine
from corral.engine.run_loop import RunLoop
from corral.model import Attempt, AttemptRecord, NodeState, Request, RetryPolicy, Run, RunPlan, RunRecord
from corral.model.events import RunEvent
from corral.model.flow import AgentChoice, Edge, Flow, Node, Task
from corral.rules.schedule.actions import FinishRun, RunLimits
from corral.rules.schedule.agent_tries import Begin
from corral.rules.schedule.decide import Schedule
from corral.rules.schedule.progress import NeedsGraph
from corral.store.opening import open_store
from corral.store.sqlite.store import Store

DECIDED, DURABLE, FINISHED, HELD = 100_000, 1_000, 10_000, 1_000
WIDTH = 100  #: nodes side by side in a layered flow
TASK, AGENT = Task(prompt="nothing"), AgentChoice("nobody")

Needs = list[tuple[int, ...]]


def shapes(count: int) -> dict[str, Needs]:
    """Return who needs whom: one after another, all between a first and a last, and in layers."""
    return {
        "chain": [(), *((place - 1,) for place in range(1, count))],
        "wide": [(), *[(0,)] * (count - 2), tuple(range(1, count - 1))],
        "layered": [_layer(place) for place in range(count)],
    }


def _layer(place: int) -> tuple[int, ...]:
    above = (place // WIDTH - 1) * WIDTH
    return tuple(above + (place + step) % WIDTH for step in range(3)) if above >= 0 else ()


def flow_of(needs: Needs) -> Flow:
    nodes = tuple(
        Node(id=f"n{place}", task=TASK, agent=AGENT, needs=tuple(Edge(f"n{up}") for up in above))
        for place, above in enumerate(needs)
    )
    return Flow(name="bench", strategy="flow", nodes=nodes)


def measure() -> list[Promise]:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        place = Path(name)
        return [*_deciding(), *_growing(), *_durable(place), *_resuming(place), *_held(place), *_side_by_side()]


# --- deciding, without a store


def _deciding() -> list[Promise]:
    """Both hand out all who are ready and are told of each end. What ours is told, a stored attempt, is made before."""
    promises: list[Promise] = []
    for shape, needs in shapes(DECIDED).items():
        flow = flow_of(needs)
        records = {node.id: _ended(node.id) for node in flow.nodes}
        plain, graph, whole, eight = interleaved(
            3,
            lambda needs=needs: _drain(needs),
            lambda flow=flow: _settle(flow),
            lambda flow=flow, records=records: _decide(flow, records, DECIDED),
            lambda flow=flow, records=records: _decide(flow, records, 8),
        )
        against = "graphlib's drain of them"
        promises += [
            Promise(f"who may start next, {DECIDED:,} nodes, {shape}", against, graph / plain, 1.5),
            Promise(f"`decide` to the end, {DECIDED:,} nodes, {shape}", against, whole / plain, 2.0),
            Promise(f"the same with 8 at a time, {shape}", against, eight / plain, 5.0),
        ]
    return promises


def _ended(node: str) -> AttemptRecord:
    attempt = Attempt(id=f"r-{node}", agent="nobody", status="done")
    return AttemptRecord(attempt=attempt, run="r", node=node, phase="over")


def _drain(needs: Needs) -> None:
    sorter = graphlib.TopologicalSorter(dict(enumerate(needs)))
    sorter.prepare()
    while sorter.is_active():
        for node in sorter.get_ready():
            sorter.done(node)


def _settle(flow: Flow) -> None:
    graph = NeedsGraph(flow.nodes)
    ready = graph.start()
    for name in ready:  # grows
        ready += graph.note_done(name) or ()


def _decide(
    flow: Flow, records: Mapping[str, AttemptRecord], parallel: int, heard: Callable[[int], None] | None = None
) -> None:
    """Play a flow to its end with so many attempts at a time, each told when it begins and when it is over."""
    schedule = Schedule(flow, RetryPolicy(), RunLimits(parallel=parallel))
    schedule.load((), ())
    at_work: deque[AttemptRecord] = deque()
    count = 0
    while True:
        for action in schedule.decide(0.0):
            if isinstance(action, Begin):
                record = records[action.node]
                at_work.append(record)
                schedule.note_attempt(record, driven=True)
            elif isinstance(action, FinishRun):
                return
        for _ in range(len(at_work) if parallel == DECIDED else 1):
            schedule.note_attempt(at_work.popleft(), driven=False)
            count += 1
            if heard:
                heard(count)


def _growing() -> list[Promise]:
    """What the last tenth of the nodes costs, against the first."""
    marks: list[float] = []
    tenth = DECIDED // 10
    flow = flow_of(shapes(DECIDED)["layered"])
    records = {node.id: _ended(node.id) for node in flow.nodes}
    _decide(flow, records, 8, lambda count: marks.append(time.perf_counter()) if count % tenth == 0 else None)
    first, last = marks[1] - marks[0], marks[-1] - marks[-2]
    return [Promise("a node's end when 90,000 are over", "when 10,000 are", last / first, 1.5)]


# --- through the engine's loop and the real store, without a process


class _Nothing:
    """An attempt that is done as soon as it begins; what it came to is stored, as always."""

    def __init__(self, record: AttemptRecord, store: Store) -> None:
        self.record, self._store = record, store

    @property
    def is_starting(self) -> bool:
        return False

    async def execute(self) -> None:
        self.record.phase, self.record.ended = "over", time.time()
        self.record.attempt.status = "done"
        self._store.save_attempt(self.record)

    async def clean_up(self) -> None:
        """There is nothing to clean up."""

    def steer(self, text: str) -> bool:
        return bool(text) and False

    def condense(self, by: str) -> bool:
        return bool(by) and False

    def stop(self) -> None:
        """There is nothing to stop."""

    def pause(self) -> None:
        """There is nothing to pause."""


class _Waits(_Nothing):
    """An attempt that goes on until somebody lets it end."""

    def __init__(self, record: AttemptRecord, store: Store, gate: asyncio.Event) -> None:
        super().__init__(record, store)
        self._gate = gate

    async def execute(self) -> None:
        await self._gate.wait()
        await super().execute()


def _unheard(_: RunEvent) -> None:
    """Listen to nothing."""


def _added(folder: Path, flow: Flow) -> Store:
    store = cast("Store", open_store(folder))
    plan = RunPlan(flow=flow, repo="/", git_dir="/", base=None, into=None)
    store.add_run(
        RunRecord(id="run", status="queued", reason=None, plan=plan, created=0.0, owner="bench", lease_until=2e9)
    )
    return store


def loop_of(store: Store, run: str, owner: str) -> RunLoop:
    """Return what drives a run whose attempts do nothing."""
    return RunLoop(run, owner, store, lambda record, _: _Nothing(record, store), _unheard)


def drive(folder: Path, flow: Flow) -> float:
    """Carry a flow out with nobody; return how long the loop took, without the start of the store."""
    store = _added(folder, flow)
    driven = loop_of(store, "run", "bench")
    started = time.perf_counter()
    asyncio.run(driven.execute())
    taken = time.perf_counter() - started
    if store.run("run").status != "done":
        raise SystemExit("the flow is not done")
    store.close()
    return taken


def bare(folder: Path, count: int) -> float:
    """One fsynced transaction for each node."""
    folder.mkdir(parents=True)
    database = sqlite3.connect(folder / "bare.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE nodes (id TEXT PRIMARY KEY, status TEXT)")
    started = time.perf_counter()
    for place in range(count):
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO nodes VALUES (?, 'done')", (f"n{place}",))
        database.execute("COMMIT")
    taken = time.perf_counter() - started
    database.close()
    return taken


def _durable(place: Path) -> list[Promise]:
    promises: list[Promise] = []
    for shape, needs in shapes(DURABLE).items():
        flow = flow_of(needs)
        taken: list[tuple[float, float]] = []
        for turn in range(3):
            plain = bare(place / f"bare-{shape}-{turn}", DURABLE)
            taken.append((drive(place / f"drive-{shape}-{turn}", flow), plain))
        ratio = sorted(ours / plain for ours, plain in taken)[1]
        name = f"{DURABLE:,} nodes that do nothing, durable, {shape}"
        promises.append(Promise(name, "a bare fsynced SQLite transaction each", ratio, 3.0))
    return promises


def _resuming(place: Path) -> list[Promise]:
    """How long it is until the first new attempt begins: of a fresh run, and of one with many nodes that are over."""
    flow = flow_of([(), *[(0,)] * FINISHED])
    fresh: list[float] = []
    resumed: list[float] = []
    for turn in range(3):
        fresh.append(_first(_added(place / f"fresh-{turn}", flow)))
        store = _added(place / f"resumed-{turn}", flow)
        with store.transaction():
            for number, node in enumerate(flow.nodes[:-1], 1):
                attempt = Attempt(id=f"run-{number}", number=1, agent="nobody", status="done")
                folder = str(store.folder / "workspaces" / attempt.id)
                store.save_attempt(AttemptRecord(attempt=attempt, run="run", node=node.id, phase="over", folder=folder))
                store.move_node("run", NodeState(id=node.id, status="done", winner=attempt.id))
        resumed.append(_first(store))
    name = f"the first attempt of a resumed run, {FINISHED:,} nodes over"
    return [Promise(name, "of a fresh run of the same flow", sorted(resumed)[1] / sorted(fresh)[1], 1.5)]


def _first(store: Store) -> float:
    """Return the time from the start of a drive to its first attempt."""
    began: list[float] = []

    def course(_: AttemptRecord, __: Node) -> AttemptRun:
        began.append(time.perf_counter())
        raise _Begun

    started = time.perf_counter()
    drive = RunLoop("run", "bench", store, course, _unheard)
    try:
        asyncio.run(drive.execute())
    except _Begun:
        pass
    finally:
        store.close()
    return began[0] - started


class _Begun(Exception):
    """The first attempt begins."""


def _held(place: Path) -> list[Promise]:
    """What 1,000 attempts at work take in the engine: memory and threads."""
    small, few = asyncio.run(_hold(place / "few", 1))
    large, many = asyncio.run(_hold(place / "many", HELD))
    return [
        Promise("memory of an agent kept, 1,000 at once", "16 KB", (large - small) / HELD / (16 << 10), 1.0),
        Promise("threads with 1,000 agents kept", "with one", many / few, 1.0),
    ]


def _side_by_side() -> list[Promise]:
    """Two agents that take equally long: as a race, and as two tasks."""
    with overhead.place() as folder:
        agent = folder / "agent.sh"
        agent.write_text("#!/bin/sh\nsleep 3\necho more >> file-1.txt\n")
        agent.chmod(0o755)
        overhead.configure(folder, f'[agents.slow]\ncommand = ["{agent}"]\nprompt = "stdin"\n')
        repository = str(overhead.repository_at(folder / "repository"))
        race = Request(prompt="do it", repo=repository, agents=("slow*2",))
        both = Request(prompt="do it", repo=repository, agents=("slow",), tasks=("do it too",))
        return [
            Promise(f"{name} of 2 equal agents", "the slowest of them", _against_slowest(folder, request), 1.2)
            for name, request in (("a race", race), ("a fan-out", both))
        ]


def _against_slowest(folder: Path, request: Request) -> float:
    async def carried_out() -> Run:
        engine = Engine(folder / "state")
        try:
            return await engine.execute(await engine.submit(request), _unheard)
        finally:
            engine.close()

    started = time.perf_counter()
    run = asyncio.run(carried_out())
    taken = time.perf_counter() - started
    if run.status != "done":
        raise SystemExit(f"the run is not done: {run.reason}")
    return taken / max(attempt.seconds for node in run.nodes for attempt in node.attempts)


async def _hold(folder: Path, count: int) -> tuple[int, int]:
    flow = flow_of([()] * count)
    store = _added(folder, flow)
    gate = asyncio.Event()
    drive = RunLoop("run", "bench", store, lambda record, _: _Waits(record, store, gate), _unheard)
    drive.schedule = Schedule(flow, RetryPolicy(), RunLimits(parallel=count))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    task = asyncio.create_task(drive.execute())
    while len(drive.attempts) < count:  # noqa: ASYNC110 -- nobody tells when the last one begins
        await asyncio.sleep(0.01)
    held = tracemalloc.get_traced_memory()[0] - before
    threads = threading.active_count()
    tracemalloc.stop()
    gate.set()
    await task
    store.close()
    return held, threads
