"""Whether the best of several is found: races of agents whose work is known to be good or bad."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.measure import Promise
from corral.engine.engine import Engine
from corral.model import Request, Run
from corral.model.events import RunEvent

CHECK = "python3 -m unittest discover -s tests"
FILES = {
    "sums.py": "def add(a, b):\n    return a - b\n",
    "tests/test_sums.py": (
        "import sys, unittest\nsys.path.insert(0, '.')\nfrom sums import add\n"
        "class Sums(unittest.TestCase):\n"
        "    def test_add(self): self.assertEqual(add(1, 2), 3)\n"
        "    def test_zero(self): self.assertEqual(add(0, 0), 0)\n"
        "    def test_negative(self): self.assertEqual(add(-1, -2), -3)\n"
    ),
}
GOOD = "def add(a, b):\n    return a + b\n"
FLAKY = """import pathlib
count = pathlib.Path("{outside}")
number = len(count.read_text()) if count.exists() else 0
count.write_text("x" * (number + 1))
def add(a, b):
    return a + b if number % 2 else 0
"""


def _write(file: str, text: str) -> str:
    return f"cat > {file} <<'END'\n{text}END\n"


#: What each agent does; the first two are right.
KINDS = {
    "correct": _write("sums.py", GOOD),
    "wordy": _write("sums.py", "# sums\n\n\n" + GOOD + "\n\n# the end\n"),
    "subtle": _write("sums.py", "def add(a, b):\n    return abs(a) + abs(b)\n"),
    "deletes": "rm -r tests; echo gone > note.txt",
    "weakens": _write(
        "tests/test_sums.py", "import unittest\nclass Sums(unittest.TestCase):\n    def test_one(self): pass\n"
    ),
    "nothing": "true",
    "outside": _write("sums.py", GOOD) + "echo more > README.md",
    "quits": _write("sums.py", "import os\nos._exit(0)\n"),
    "flaky": _write("sums.py", FLAKY),
}
RIGHT = ("correct", "wordy")
GROUPS = (
    ("correct", "subtle", "deletes", "nothing"),
    ("weakens", "deletes", "subtle", "nothing"),
    ("wordy", "correct", "outside", "weakens"),
    ("flaky", "nothing", "subtle", "quits"),
    ("outside", "deletes", "correct", "flaky"),
    ("quits", "weakens", "wordy", "nothing"),
    ("flaky", "outside", "weakens", "deletes"),
    ("subtle", "quits", "wordy", "correct"),
)


def measure() -> list[Promise]:
    folder = Path(tempfile.mkdtemp(prefix="corral-bench-"))
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    try:
        wrong = asyncio.run(_wrong(folder))
    finally:
        if before is None:
            del os.environ["XDG_CONFIG_HOME"]
        else:
            os.environ["XDG_CONFIG_HOME"] = before
        shutil.rmtree(folder, ignore_errors=True)
    attempts = sum(map(len, GROUPS))
    note = "; ".join(wrong) or f"{attempts} attempts in {len(GROUPS)} races"
    return [Promise("races that end with a wrong winner", "work known to be good or bad", len(wrong), 0, note)]


async def _wrong(folder: Path) -> list[str]:
    """Return the races whose outcome is not the right one."""
    outside = folder / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    _agents(folder / "config" / "corral", outside)
    repository = _repository(folder / "repository")
    engine = Engine(folder / "state")
    found: list[str] = []
    try:
        for group in GROUPS:
            run = await _race(engine, repository, outside, group)
            (node,) = run.nodes
            won = next((each.agent for each in node.attempts if each.id == node.winner), None)
            if (won in RIGHT) != bool({*group} & {*RIGHT}):
                found.append(f"{', '.join(group)}: {won}")
    finally:
        engine.close()
    return found


async def _race(engine: Engine, repository: Path, outside: Path, group: tuple[str, ...]) -> Run:
    for file in outside.iterdir():
        file.unlink()
    request = Request(
        prompt="mend add()",
        repo=str(repository),
        agents=group,
        checks=(CHECK,),
        retries=0,
        write=("sums.py", "tests/**", "note.txt", f"{outside}/**"),
    )
    return await engine.execute(await engine.submit(request), _unheard)


def _agents(folder: Path, outside: Path) -> None:
    folder.mkdir(parents=True)
    settings = ""
    for name, script in KINDS.items():
        file = folder / f"{name}.sh"
        file.write_text("#!/bin/sh\n" + script.replace("{outside}", str(outside / "count")))
        file.chmod(0o755)
        settings += f'[agents.{name}]\ncommand = ["{file}"]\n'
    (folder / "config.toml").write_text(settings)


def _repository(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    you = ("-c", "user.name=You", "-c", "user.email=you@example.org")
    for words in (("init", "--quiet", "-b", "main"), ("add", "."), (*you, "commit", "--quiet", "-m", "sums")):
        subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True)
    return folder


def _unheard(_: RunEvent) -> None:
    """Listen to nothing."""
