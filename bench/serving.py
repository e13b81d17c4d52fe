"""The server: submissions, listings of many runs, long logs, and lines on their way to many viewers."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from bench.measure import Promise, interleaved
from corral.model import RunPlan, RunRecord
from corral.model.events import Said
from corral.model.flow import AgentChoice, Task
from corral.rules.flows import strategies
from corral.rules.text import names
from corral.store.sqlite.store import Store
from corral.testing.stage import until
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.server import Server, serving

SUBMISSIONS = 10_000
VIEWERS = 100
LINES = 100
AGENT = """import time
for _ in range(100):
    print(f"{time.time():.6f}", flush=True)
    time.sleep(0.02)
"""
RAW = [sys.executable, "-m", "bench.serving_raw"]
STAMP = re.compile(rb'"text":"(\d+\.\d+)"')


def measure() -> list[Promise]:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        return [*_submissions(Path(folder) / "a"), *_many(Path(folder) / "b"), *_viewers(Path(folder) / "c")]


# --- submissions


def _submissions(root: Path) -> list[Promise]:
    root.mkdir()
    person = Corral(root / "person")
    repo = Repo.make(root / "repo")
    person.agent("null", "true")
    body = {"task": "nothing", "repo": str(repo.folder), "agents": ["null"], "read_only": True}
    with serving(person, root, "--rate", "0") as server, _against(root / "bare", ["bare"]) as port:
        assert server.ask("PATCH", "queue", {"held": True}).status == 200
        ours, bare = _Line(server.port, server.token), _Line(port)
        rounds = interleaved(200, lambda: ours.post("/api/v1/runs", body, 202), lambda: bare.post("/rows", body, 200))
        for _ in range(SUBMISSIONS):
            ours.post("/api/v1/runs", body, 202)
        count = server.ask("GET", "queue?limit=1").json["count"]
    assert count >= SUBMISSIONS
    note = f"{SUBMISSIONS} more in a row without an error"
    return [Promise("a submission", "a bare FastAPI endpoint that writes one row", rounds[0] / rounds[1], 3.3, note)]


class _Line:
    """One connection that is kept."""

    def __init__(self, port: int, token: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}

    def post(self, path: str, body: Any, status: int) -> bytes:  # noqa: ANN401
        self._connection.request("POST", path, json.dumps(body), self._headers)
        return self._read(status)

    def get(self, path: str) -> bytes:
        self._connection.request("GET", path, headers=self._headers)
        return self._read(200)

    def _read(self, status: int) -> bytes:
        answer = self._connection.getresponse()
        found = answer.read()
        assert answer.status == status, found
        return found


@contextlib.contextmanager
def _against(port_file: Path, arguments: list[str]) -> Generator[int]:
    process = subprocess.Popen([*RAW, arguments[0], str(port_file), *arguments[1:]])
    try:
        yield int(until(lambda: port_file.exists() and port_file.read_text(), "it listens"))
    finally:
        process.kill()
        process.wait(60)


# --- many runs, long logs


def _many(root: Path) -> list[Promise]:
    small, big = Corral(root / "small"), Corral(root / "big")
    last_small, last_big = _fill(small, 10, 500), _fill(big, 10_000, 50_000)
    with serving(small, root, "--rate", "0") as few, serving(big, root, "--rate", "0") as many:
        one, two = _Line(few.port, few.token), _Line(many.port, many.token)
        lists = interleaved(100, lambda: two.get("/api/v1/runs?limit=10"), lambda: one.get("/api/v1/runs?limit=10"))
        shows = interleaved(
            100, lambda: two.get(f"/api/v1/runs/{last_big}"), lambda: one.get(f"/api/v1/runs/{last_small}")
        )

        def opened(line: _Line, run: str) -> None:
            line.get(f"/api/v1/runs/{run}")
            line.get(f"/api/v1/runs/{run}/log?before={2**62}&limit=200")

        opens = interleaved(100, lambda: opened(two, last_big), lambda: opened(one, last_small))

        def looked_at(line: _Line, run: str) -> None:
            line.get(f"/runs/{run}")
            line.get(f"/runs/{run}/lines")

        looks = interleaved(100, lambda: looked_at(two, last_big), lambda: looked_at(one, last_small))
    return [
        Promise("a page of 10,000 runs", "the same of 10", lists[0] / lists[1], 3),
        Promise("one run of 10,000 shown", "the same of 10", shows[0] / shows[1], 3),
        Promise("a run of 50,000 events opened at its end", "one of 500", opens[0] / opens[1], 2),
        Promise("the screen of a run of 50,000 events", "of one of 500", looks[0] / looks[1], 2),
    ]


def _fill(person: Corral, runs: int, events: int) -> str:
    store = Store(person.home)
    flow = strategies.single(Task(prompt="do it"), AgentChoice("a"))
    plan = RunPlan(flow=flow, repo="/r", git_dir="/r", base=None, into=None)
    name = ""
    with store.transaction():
        for number in range(runs):
            name = names.run_id(1_700_000_000_000 + number * 1000, number)
            store.add_run(RunRecord(id=name, status="done", reason=None, plan=plan, created=1.7e9, ended=1.7e9))
        for number in range(events):
            store.note(name, Said(f"line {number}"), at=1.7e9, node="main", attempt=f"{name}-1")
    store.close()
    return name


# --- lines on their way to viewers


def _viewers(root: Path) -> list[Promise]:
    root.mkdir()
    script = root / "agent.py"
    script.write_text(AGENT)
    agent = [sys.executable, str(script)]
    person = Corral(root / "person")
    repo = Repo.make(root / "repo", {"agent.py": AGENT})
    person.config(f'[agents.lines]\ncommand = ["{sys.executable}", "agent.py"]')
    with serving(person, root, "--rate", "0") as server:
        ours = [_ours(server, repo) for _ in range(3)]
    raws = [_raw(root / f"raw{number}", agent) for number in range(3)]
    delay = statistics.median(each[0] for each in ours) / statistics.median(each[0] for each in raws)
    load = statistics.median(each[1] for each in ours) / statistics.median(each[1] for each in raws)
    return [
        Promise(f"an agent's line to {VIEWERS} viewers, half of all", "a raw asyncio SSE server", delay, 2),
        Promise("CPU of the server for each delivery", "the same", load, 1.5),
    ]


def _ours(server: Server, repo: Repo) -> tuple[float, float]:
    server.ask("PATCH", "queue", {"held": True})
    run = server.client.submit("lines", repo=str(repo.folder), agents=["lines"], read_only=True).run
    head = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"

    def start() -> None:
        server.ask("PATCH", "queue", {"held": False})

    return asyncio.run(_watch(server.port, f"/api/v1/runs/{run}/events", head, start, server.process.pid))


def _raw(port_file: Path, agent: list[str]) -> tuple[float, float]:
    process = subprocess.Popen([*RAW, "raw", str(port_file), *agent])
    port = int(until(lambda: port_file.exists() and port_file.read_text(), "it listens"))

    def start() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/")
        connection.getresponse()

    try:
        return asyncio.run(_watch(port, "/", "", start, process.pid))
    finally:
        process.wait(60)


async def _watch(port: int, path: str, head: str, start: Any, pid: int) -> tuple[float, float]:  # noqa: ANN401
    """Return how long a line takes to a viewer, and what each delivery costs the server, both in seconds."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(VIEWERS)]
    for _, writer in opened:
        writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
    for reader, _ in opened:
        await reader.readuntil(b"\r\n\r\n")
    delays: list[float] = []
    spent: list[float] = []

    async def read(reader: asyncio.StreamReader) -> None:
        count = 0
        while count < LINES and (chunk := await reader.readline()):
            if found := STAMP.search(chunk):
                delays.append(time.time() - float(found.group(1)))
                count += 1
                spent.append(_cpu(pid)) if len(delays) in (VIEWERS, VIEWERS * LINES) else None

    reading = [asyncio.create_task(read(reader)) for reader, _ in opened]
    await asyncio.to_thread(start)
    await asyncio.gather(*reading)
    for _, writer in opened:
        writer.close()
    assert len(delays) == VIEWERS * LINES, len(delays)
    return statistics.median(delays), (spent[1] - spent[0]) / (VIEWERS * (LINES - 1))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
