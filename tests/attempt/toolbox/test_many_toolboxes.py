"""A thousand toolboxes held at once: what each costs the engine."""

import asyncio
import gc
import socket
import threading
import tracemalloc
from pathlib import Path

from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.events import AttemptEvents
from corral.attempt.toolbox.context import ChildRuns, RunContext
from corral.attempt.toolbox.toolbox import AttemptToolbox
from corral.engine.engine import Engine
from corral.machines.host import Host
from corral.machines.local import LocalMachine
from corral.model import Attempt, AttemptRecord, RunPlan
from corral.model.flow import Flow, Node, Task
from corral.store.sqlite.store import Store
from corral.world.git.repository import Repository
from corral.world.proxy.listener import RpcEndpoint

MANY, MOST_BYTES = 300, 16 << 10


def test_each_takes_little_memory_and_no_thread(tmp_path: Path) -> None:
    node = Node(id="main", task=Task(prompt="x"))
    plan = RunPlan(
        flow=Flow(name="x", strategy="single", nodes=(node,)), repo="/", git_dir="/", base=None, into=None
    )  # fmt: skip
    host = Host(plan, node.task, Repository(tmp_path, tmp_path), tmp_path, "r-1")
    store = Store(tmp_path)
    office = RunContext(ChildRuns("me", Engine(tmp_path).active_runs), store, lambda _: host, lambda _: None)  # pyright: ignore[reportArgumentType]

    def toolbox(number: int) -> AttemptToolbox:
        record = AttemptRecord(attempt=Attempt(id=f"r-{number}", agent="x"), run="r", node="main")
        return AttemptToolbox(
            office,
            AttemptEvents(record, store, office.listen, node.task),
            node,
            AttemptMachine(LocalMachine(host), host),
        )

    async def held() -> float:
        threads = {*threading.enumerate()}
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(MANY)]
        toolbox(0)  # what all share is made with the first
        gc.collect()
        tracemalloc.start()
        try:
            boxes = [toolbox(number) for number in range(MANY)]
            doors = [await RpcEndpoint(*each).__aenter__() for each in zip(
                listeners, (box.token for box in boxes), (box.answer for box in boxes), strict=True)]  # fmt: skip
            gc.collect()
            size = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert {*threading.enumerate()} <= threads
        for door in doors:
            await door.__aexit__()
        return size / MANY

    each = asyncio.run(held())
    store.close()
    assert each < MOST_BYTES, each
