"""How long the command line takes to start, against `python -c pass`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import Promise, interleaved
from corral.model import Attempt, AttemptRecord, Cost, RunPlan, RunRecord
from corral.model.flow import AgentChoice, Task
from corral.rules.flows import strategies
from corral.rules.text import names
from corral.store.parts.runs import Runs
from corral.store.sqlite.store import Store


def measure() -> list[Promise]:
    corral = Path(sys.executable).with_name("corral")
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        store_runs(Path(name), 1000)
        env = {**os.environ, "CORRAL_HOME": name}

        def start(*argv: str) -> None:
            subprocess.run(argv, env=env, check=True, capture_output=True)

        nothing, version, listing, chosen, whole = interleaved(
            15,
            lambda: start(sys.executable, "-c", "pass"),
            lambda: start(str(corral), "--version"),
            lambda: start(str(corral), "ls"),
            lambda: start(str(corral), "ls", "--status", "done"),
            lambda: start(str(corral), "ls", "--json", "--since", "2d"),
        )
    return [
        Promise("corral --version", "python -c pass", version / nothing, 4.0),
        Promise("corral ls, 1,000 runs stored", "python -c pass", listing / nothing, 3.0),
        Promise(
            "corral ls with `-n`, `--agent` or `--status`, 1,000 runs stored", "python -c pass", chosen / nothing, 6.0
        ),
        Promise("corral ls with other options, 1,000 runs stored", "python -c pass", whole / nothing, 6.0),
    ]


def store_runs(folder: Path, count: int) -> None:
    """Make a store of runs that are over."""
    store = Store(folder)
    add_runs(store, count)
    store.close()


def add_runs(store: Runs, count: int) -> None:
    """Store runs that are over."""
    flow = strategies.single(Task(prompt="fix the flaky test in the login module"), AgentChoice("claude"))
    plan = RunPlan(flow=flow, repo="/repository", git_dir="/repository/.git", base="0" * 40, into="main")
    now = time.time()
    with store.transaction():
        for number in range(count):
            run = names.run_id(int(now * 1000) + number, number)
            store.add_run(RunRecord(id=run, status="done", reason=None, plan=plan, created=now))
            attempt = Attempt(id=names.attempt_id(run, 1), agent="claude", status="done", cost=Cost(0.1, "reported"))
            store.save_attempt(
                AttemptRecord(attempt=attempt, run=run, node="main", phase="over", started=now, ended=now)
            )
