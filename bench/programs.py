"""Programs and memory: how long a program takes to start and end in its box, and what a search in many facts costs."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import Promise, interleaved
from corral.machines import programs
from corral.machines.programs import ProgramBox
from corral.machines.tool_calls import RecordedCalls
from corral.model.memory import Fact
from corral.model.program import Program
from corral.rules.context import memory
from corral.store import opening
from corral.world.sandbox import probe

LOOK_UP_SECONDS = 0.005  #: of processor time, the most that a search may take
SUBJECTS = ("tests", "service", "invoices", "docs", "migrations", "fixtures", "cache", "queue", "pages", "schedules")
TASK = "Move the billing service to the new API, and keep the tests of invoices and of payments"
SOURCE = "export default async function main() { return 1 }"


def measure(rounds: int = 9, facts: int = 10_000) -> list[Promise]:
    folder = Path(tempfile.mkdtemp(prefix="corral-bench-"))
    try:
        return [_start(folder, rounds), _look_up(folder, rounds, facts)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, rounds: int) -> Promise:
    level = asyncio.run(probe.probe(folder / "probe.json")).level
    where = ProgramBox(state=folder / "programs", level=level)
    program = Program(name="one.js", language="javascript", source=SOURCE)

    def run() -> None:
        ended = asyncio.run(programs.run(program, None, RecordedCalls(()), [], where))
        assert ended.result == 1, ended

    bare, boxed = interleaved(rounds, lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), run)
    return Promise("a JavaScript program, from its start in the box to its result", "python -c pass", boxed / bare, 4)


def _look_up(folder: Path, rounds: int, facts: int) -> Promise:
    store = opening.open_store(folder / "state")
    try:
        with store.transaction():
            for number in range(facts):
                first, second = SUBJECTS[number % len(SUBJECTS)], SUBJECTS[number // 7 % len(SUBJECTS)]
                words = f"the {first} of module{number % 97} need the {second} in folder{number}"
                store.memory.add("repo", Fact(id="", text=words, source="user", state="approved"))
        taken: list[float] = []
        for _ in range(rounds):
            began = time.process_time()
            found = store.memory.search("repo", memory.search_words(TASK), memory.MOST_IN_PROMPT)
            taken.append(time.process_time() - began)
            assert found
    finally:
        store.close()
    ratio = statistics.median(taken) / LOOK_UP_SECONDS
    return Promise(f"facts for a task, searched among {facts:,}", "5 ms of a processor", ratio, 1)
