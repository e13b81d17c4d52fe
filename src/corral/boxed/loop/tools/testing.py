"""The tool for tests: which runner the workspace uses is found out, and its sums are read."""

from __future__ import annotations

import json
import shlex
from typing import Annotated, Literal

from msgspec import Meta, Struct

from corral.boxed.loop.programs import run
from corral.boxed.loop.tools import counts
from corral.boxed.loop.tools.result import LoopToolResult
from corral.boxed.loop.workspace import LoopWorkspace, ToolRefused

Runner = Literal["pytest", "unittest", "npm", "cargo", "go"]
Choice = Literal["pytest", "unittest", "npm", "cargo", "go", ""]
CONFIGURED = (
    ("pytest.ini", ""),
    ("pyproject.toml", "[tool.pytest"),
    ("setup.cfg", "[tool:pytest]"),
    ("tox.ini", "[pytest]"),
)


class RunTestsArguments(Struct):
    """Run the workspace's tests and count what passed and failed."""

    only: Annotated[str, Meta(description="a file, folder or name to stay with, as the runner takes it")] = ""
    runner: Annotated[Choice, Meta(description="left out: the one that fits the files")] = ""
    timeout_seconds: Annotated[float, Meta(description="after which it is ended", gt=0, le=3600)] = 900.0


def detect(place: LoopWorkspace) -> list[Runner]:
    """List the runners that fit the workspace, the surest first."""
    root = place.root
    found: list[Runner] = []
    files = [name.rpartition("/")[2] for name in place.files()]
    configured = any(word in _text(place, file) for file, word in CONFIGURED if (root / file).is_file())
    if configured or "conftest.py" in files or any(_is_test(name) for name in files):
        usable = run(["python3", "-c", "import pytest"], root, timeout=60, most=200).code == 0
        found.append("pytest" if configured or "conftest.py" in files or usable else "unittest")
    if (root / "package.json").is_file() and _has_npm_test(_text(place, "package.json")):
        found.append("npm")
    if (root / "Cargo.toml").is_file():
        found.append("cargo")
    if (root / "go.mod").is_file():
        found.append("go")
    return found


def test(place: LoopWorkspace, asked: RunTestsArguments, most: int) -> LoopToolResult:
    found = detect(place)
    runner = asked.runner or (found[0] if found else "")
    if not runner:
        raise ToolRefused("no tests were found: name the runner, or run them with bash")
    if asked.only.startswith("-"):
        raise ToolRefused("`only` is a file, a folder or a name, not an option")
    words = command(runner, asked.only)
    ran = run(words, place.root, timeout=asked.timeout_seconds, most=max(most, 200_000))
    passed, failed, skipped = counts.READERS[runner](ran.output)
    content = {"runner": runner, "command": shlex.join(words), "exit_code": ran.code, "timed_out": ran.timed_out}
    sums = {"passed": passed, "failed": failed, "skipped": skipped}
    return LoopToolResult(ok=ran.code == 0, content={**content, **sums, "output": ran.output})


def command(runner: Runner, only: str) -> list[str]:
    chosen = [only] if only else []
    match runner:
        case "pytest":
            return ["python3", "-m", "pytest", "-q", "-rf", *chosen]
        case "unittest":
            return ["python3", "-m", "unittest", *(chosen or ["discover"])]
        case "npm":
            return ["npm", "test", *(["--", *chosen] if chosen else [])]
        case "cargo":
            return ["cargo", "test", *chosen]
        case "go":
            return ["go", "test", "-json", *(chosen or ["./..."])]


def _is_test(name: str) -> bool:
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _has_npm_test(text: str) -> bool:
    try:
        return bool(json.loads(text)["scripts"]["test"])
    except (ValueError, KeyError, TypeError):
        return False


def _text(place: LoopWorkspace, name: str) -> str:
    return place.inside(name).read_text(encoding="utf-8", errors="replace")
