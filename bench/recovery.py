"""Twenty agents at work: how soon the first works, how soon a status is told, how soon all are done after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench.measure import Promise
from corral.engine.engine import Engine
from corral.model.events import Said

T = TypeVar("T")
MANY = 20
AGENT = """#!/bin/sh
if test -f begun.txt; then echo done > done.txt; else echo > begun.txt; echo begun; sleep 1000; fi
"""
FLOW = f"parallel: {MANY}\nnodes: {{each: {{for_each: {list(range(MANY))}, agent: one, task: do it}}}}\n"
CONFIG = '[agents.one]\ncommand = ["{program}"]\ncost_usd = 0.01\n[retry]\nfrom = "last"\n'


def measure() -> list[Promise]:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        first, told, again = _measured(Path(name))
    return [
        Promise("the first agent of a flow works", "5 s", first / 5, 1.0, "wall clock"),
        Promise(f"the status of a run with {MANY} agents at work", "0.1 s", told / 0.1, 1.0, "wall clock"),
        Promise(f"{MANY} agents killed with corral are all done", "30 s", again / 30, 1.0, "wall clock"),
    ]


def _measured(root: Path) -> tuple[float, float, float]:
    program, flow, repo, home = root / "agent.sh", root / "flow.yaml", root / "repo", root / "home"
    program.write_text(AGENT)
    program.chmod(0o755)
    flow.write_text(FLOW)
    settings = root / "config" / "corral" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(CONFIG.format(program=program))
    named = {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **named, "XDG_CONFIG_HOME": str(root / "config"), "CORRAL_HOME": str(home)}
    subprocess.run(["git", "init", "-q", repo], check=True)
    subprocess.run(["git", "-C", repo, "commit", "-q", "--allow-empty", "-m", "x"], check=True, env=env)
    corral = [sys.executable, "-m", "corral"]
    started = time.monotonic()
    going = subprocess.Popen([*corral, "flow", "run", flow, "--quiet"], cwd=repo, env=env, stdout=subprocess.DEVNULL)
    engine = Engine(home)
    try:
        run = _until(lambda: next(iter(engine.history.runs()), None)).run
        _until(lambda: _begun(engine, run) >= 1)
        first = time.monotonic() - started
        _until(lambda: _begun(engine, run) == MANY)
        looked = time.monotonic()
        engine.show(run)
        told = time.monotonic() - looked
    finally:
        going.kill()
        going.wait()
        engine.close()
    started = time.monotonic()
    subprocess.run([*corral, "resume", run, "--quiet"], cwd=repo, env=env, check=True, stdout=subprocess.DEVNULL)
    return first, told, time.monotonic() - started


def _begun(engine: Engine, run: str) -> int:
    return sum(isinstance(stored.event(), Said) for stored in engine.history.events(run))


def _until(found: Callable[[], T | None], seconds: float = 120.0) -> T:
    """Return the first true answer."""
    end = time.monotonic() + seconds
    while not (answer := found()):
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.05)
    return answer
