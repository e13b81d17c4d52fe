"""What proof costs: the time Corral needs to grade a change, against the test suite itself."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from bench.measure import Promise
from corral.engine.engine import Engine
from corral.model import Request
from corral.model.events import RunEvent

ROUNDS = 5
TESTS = 40
SECONDS = 2.0  #: of the whole suite
RIVALS = 4
CHECK = f"{sys.executable} -m pytest -q"
WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
SUITE = f"""import time
import pytest
from sums import add

@pytest.mark.parametrize("number", range({TESTS}))
def test_add(number):
    time.sleep({SECONDS / TESTS})
    assert add(number, 1) == number + 1
"""
GIT = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def measure() -> list[Promise]:
    folder = Path(tempfile.mkdtemp(prefix="corral-bench-"))
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    try:
        suite, one, race = asyncio.run(_times(folder))
    finally:
        if before is None:
            del os.environ["XDG_CONFIG_HOME"]
        else:
            os.environ["XDG_CONFIG_HOME"] = before
        shutil.rmtree(folder, ignore_errors=True)
    against = f"the suite itself ({suite:.1f} s)"
    return [
        Promise("evidence of a source-only change, pytest", against, one / suite, 2.2, "checks of a run less the rest"),
        Promise(f"evidence of a race of {RIVALS}, pytest", against, race / suite, 6.0, "wall clock"),
    ]


async def _times(folder: Path) -> tuple[float, float, float]:
    """Return the medians of the suite alone, and of what checks add to a single task and to a race."""
    repository = _repository(folder / "repository")
    _agents(folder / "config" / "corral")
    engine = Engine(folder / "state")
    rivals = tuple(f"right{number}" for number in range(RIVALS))
    taken: list[tuple[float, float, float]] = []
    try:
        for number in range(ROUNDS + 1):
            alone = _suite(folder, repository)
            times: list[float] = []
            for agents in (rivals[:1], rivals):
                for checks in ((CHECK,), ()):
                    _commit(repository, f"round-{number}-{len(agents)}-{len(checks)}.txt", "a new base\n")
                    times.append(await _run(engine, repository, agents, checks))
            taken.append((alone, times[0] - times[1], times[2] - times[3]))
    finally:
        engine.close()
    suite, one, race = (statistics.median(column) for column in zip(*taken[1:], strict=True))
    return suite, one, race


async def _run(engine: Engine, repository: Path, agents: tuple[str, ...], checks: tuple[str, ...]) -> float:
    request = Request(prompt="make add() right", repo=str(repository), agents=agents, checks=checks, retries=0)
    started = time.perf_counter()
    run = await engine.execute(await engine.submit(request), _unheard)
    taken = time.perf_counter() - started
    (node,) = run.nodes
    grades = {each.evidence.grade if each.evidence else each.status for each in node.attempts}
    if run.status != "done" or grades != {"proven" if checks else "unchecked"}:
        errors = {each.error.message for each in node.attempts if each.error}
        raise SystemExit(f"the work is not graded as it should be: {run.status}, {grades}, {errors}")
    return taken


def _suite(folder: Path, repository: Path) -> float:
    """Run the suite by hand on the right work; return its seconds."""
    place = folder / "alone"
    shutil.copytree(repository, place, ignore=shutil.ignore_patterns(".git"))
    (place / "sums.py").write_text(RIGHT)
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=place, check=True, capture_output=True)
    taken = time.perf_counter() - started
    shutil.rmtree(place)
    return taken


def _agents(folder: Path) -> None:
    folder.mkdir(parents=True)
    shown = {str(Path(pytest.__file__).parents[1]), sys.prefix}
    settings = "[scope]\nread = [" + ", ".join(f'"{place}/**"' for place in sorted(shown)) + "]\n"
    for number in range(RIVALS):
        file = folder / f"right{number}.sh"
        file.write_text(f"#!/bin/sh\ncat > sums.py <<'END'\n{RIGHT}# by rival {number}\nEND\n")
        file.chmod(0o755)
        settings += f'[agents.right{number}]\ncommand = ["{file}"]\n'
    (folder / "config.toml").write_text(settings)


def _repository(folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", "-b", "main"], cwd=folder, env=GIT, check=True)
    (folder / "sums.py").write_text(WRONG)
    (folder / "tests").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    _commit(folder, "tests/test_sums.py", SUITE)
    return folder


def _commit(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    you = ("-c", "user.name=You", "-c", "user.email=you@example.org")
    subprocess.run(["git", "add", "."], cwd=folder, env=GIT, check=True)
    subprocess.run(["git", *you, "commit", "--quiet", "-m", name], cwd=folder, env=GIT, check=True)


def _unheard(_: RunEvent) -> None:
    """Listen to nothing."""
