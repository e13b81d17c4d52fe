"""Runs a flow of nodes beside each other with the engine itself: python flow_run.py REPO FILE.

FILE holds JSON: {"nodes": [{"id": ..., "task": ..., "agent": ..., "needs": [...], "role": ...}], "budget": ...}.
The run's document is printed, as `corral run --json` prints it.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from msgspec import structs

from corral.engine import submit
from corral.engine.engine import Engine
from corral.flow import AgentChoice, Edge, Flow, Node, Task
from corral.model import Request, RunRecord, document
from corral.world.store.sqlite import LEASE_SECONDS


async def main(repo: str, file: str) -> None:
    engine, asked = Engine(), json.loads(Path(file).read_text())
    _ = engine.store  # the state folder is made with it
    first = asked["nodes"][0]["agent"]
    prepared = await submit.prepare(Request(prompt="a flow", repo=repo, agents=(first,)), engine.home)
    nodes = [
        Node(
            id=node["id"],
            task=Task(
                prompt=node["task"],
                role=node.get("role"),
                unchanged_ok=True,
                budget_usd=asked.get("budget"),
                retries=node.get("retries", 0),
            ),
            agent=AgentChoice(*node["agent"].split(":", 1)),
            needs=tuple(map(Edge, node.get("needs", ()))),
        )
        for node in asked["nodes"]
    ]
    flow = Flow(name="talk", strategy="flow", nodes=tuple(nodes))
    now, run = time.time(), f"{int(time.time() * 1000):012x}"
    plan = structs.replace(prepared.plan, flow=flow)
    record = RunRecord(
        id=run,
        status="queued",
        reason=None,
        plan=plan,
        created=now,
        owner=engine.owner,
        lease_until=now + LEASE_SECONDS,
    )
    engine.store.add_run(record)
    finished = await engine.drive(run, lambda _: None)
    sys.stdout.write(document(finished).decode() + "\n")


asyncio.run(main(*sys.argv[1:]))
