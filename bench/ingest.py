"""Reading an agent: lines parsed and stored durably, against appending them to a file; and memory while 1 GB passes."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import Promise, interleaved
from corral.agents.claude import ClaudeConversation
from corral.attempt.events import AttemptEvents
from corral.machines.logs import CleanLog, Log
from corral.model import Attempt, AttemptRecord, RunPlan, RunRecord
from corral.model.agent_api import HangUp, Line
from corral.model.flow import AgentChoice, Task
from corral.rules.flows import strategies
from corral.rules.text.redact import Redactor
from corral.store.sqlite.store import Store
from corral.world import process
from corral.world.process import ProcessLimits, ProcessStart

LINES = 10_000
ROUNDS = 5
CHUNK = 24  #: lines: a pipe holds 64 KB
SECRETS = {"ANTHROPIC_API_KEY": "sk-scripted-0123456789", "toolbox": "q9V1x8Zc0LmT4r7YbN2sKd"}  #: as an attempt has


def measure() -> list[Promise]:
    lines = _lines()
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        place = Path(name)
        stores = [Store(place / f"store-{number}") for number in range(ROUNDS + 1)]  # an attempt begins none
        append, store = interleaved(ROUNDS, lambda: _append(place, lines), lambda: _ingest(stores.pop(), lines))
        grown = asyncio.run(_gigabyte(place))
    return [
        Promise(
            "10,000 agent lines of 2.7 KB parsed and stored durably", "appending them to a file", store / append, 7.5
        ),
        Promise("corral's memory after 1 GB of output", "before it", grown, 1.3, "peak resident set"),
    ]


def _lines() -> list[bytes]:
    """Return lines as claude prints them: words, tool calls with file contents, tool results; 2.7 KB on average."""
    words = "The failing test compares naive and aware datetimes, so I make both aware and run it again. "
    made: list[bytes] = []
    for number in range(LINES):
        match number % 4:
            case 0:
                content = [{"type": "text", "text": words * 8}]
            case 1 | 2:
                argument = {"file_path": f"/src/module_{number}.py", "content": (words + "\n") * 38}
                content = [{"type": "tool_use", "id": f"toolu_{number}", "name": "Write", "input": argument}]
            case _:
                content = [{"type": "tool_result", "tool_use_id": f"toolu_{number - 1}", "content": words * 20}]
        kind = "user" if number % 4 == 3 else "assistant"
        body = {"type": kind, "message": {"role": kind, "content": content}, "session_id": "s", "uuid": str(number)}
        made.append(json.dumps(body).encode())
    return made


def _append(place: Path, lines: list[bytes]) -> None:
    with (place / f"plain-{time.monotonic_ns()}.jsonl").open("wb", buffering=0) as file:
        for line in lines:
            file.write(line + b"\n")


def _ingest(store: Store, lines: list[bytes]) -> None:
    """Do to every line what the host does: raw log without secrets, typed events, event log."""
    plan = RunPlan(
        flow=strategies.single(Task(prompt="x"), AgentChoice("claude")), repo="/", git_dir="/", base=None, into=None
    )
    store.add_run(RunRecord(id="run", status="running", reason=None, plan=plan, created=0.0))
    attempt = AttemptRecord(attempt=Attempt(id="run-1", agent="claude"), run="run", node="main")
    recorder = AttemptEvents(attempt, store, lambda _: None, Task(prompt="x"))
    recorder.redactor = Redactor(SECRETS)
    log, conversation = CleanLog(store.folder / "stdout.log", recorder.redactor), ClaudeConversation()
    for first in range(0, len(lines), CHUNK):  # as they come through a pipe
        chunk = lines[first : first + CHUNK]
        log.write(b"".join(line + b"\n" for line in chunk))
        for line in chunk:
            for event in conversation.read(line.decode(errors="replace")):
                if not isinstance(event, Line | HangUp):
                    recorder.emit(event)
    log.close()
    store.close()


async def _gigabyte(place: Path) -> float:
    """Have a program print 1 GB in lines of 1 KB, and one line of 100 MB; return peak memory after / before."""
    log = Log(place / "gigabyte.log")
    program = """
import sys
line = b"x" * 1023 + b"\\n"
for _ in range(1000):
    sys.stdout.buffer.write(line * 1000)
sys.stdout.buffer.write(b"y" * 100_000_000)
"""
    counted = [0]

    def heard(_: str, line: bytes, cut: bool) -> None:  # noqa: ARG001
        counted[0] += 1

    async def run(text: str) -> None:
        start = ProcessStart(argv=[sys.executable, "-c", text], env=dict(os.environ))
        await process.follow(start, ProcessLimits(), heard, lambda _, chunk: log.write(chunk), asyncio.Event())

    await run("print('y' * 40_000_000)")  # one long line: its cap is part of the fixed cost
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await run(program)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if counted[0] < 1_000_000:
        raise SystemExit(f"only {counted[0]} lines were heard")
    return after / before
