"""The tool for tests: which runner the workspace uses is found out, and its sums are read."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct

from corral.boxed.loop.programs import run
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
Sums = tuple[int, int, int]


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
    passed, failed, skipped = READERS[runner](ran.output)
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


def count_pytest(text: str) -> Sums:
    """Read `2 failed, 3 passed, 1 skipped, 1 error in 0.12s`."""
    lines = [
        line for line in text.splitlines() if re.search(r"\b(passed|failed|errors?|skipped)\b.* in [\d.]+ ?s", line)
    ]
    said = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", lines[-1])} if lines else {}
    failed = said.get("failed", 0) + said.get("error", 0) + said.get("errors", 0)
    return said.get("passed", 0), failed, said.get("skipped", 0)


def count_unittest(text: str) -> Sums:
    """Read `Ran 5 tests` and `FAILED (failures=1, errors=1, skipped=1)`."""
    ran = _last(r"^Ran (\d+) tests?", text)
    said = {word: int(number) for word, number in re.findall(r"\b(failures|errors|skipped)=(\d+)", text)}
    failed, skipped = said.get("failures", 0) + said.get("errors", 0), said.get("skipped", 0)
    return max(ran - failed - skipped, 0), failed, skipped


def count_cargo(text: str) -> Sums:
    """Add up `test result: FAILED. 3 passed; 1 failed; 2 ignored;` of every test program."""
    rows = re.findall(r"^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored", text, re.MULTILINE)
    return cast("Sums", tuple(sum(int(row[place]) for row in rows) for place in range(3)))


def count_go(text: str) -> Sums:
    """Count the tests in the events of `go test -json`."""
    actions: Counter[str] = Counter()
    for line in text.splitlines():
        try:
            event: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "Test" in event:
            actions[str(cast("dict[str, Any]", event).get("Action"))] += 1
    return actions["pass"], actions["fail"], actions["skip"]


def count_npm(text: str) -> Sums:
    """Read the sums of jest, vitest, mocha and node's own runner."""
    lines = re.findall(r"^\s*Tests:?\s+(.*\d+ (?:passed|failed).*)$", text, re.MULTILINE)
    if lines:
        said = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", lines[-1])}
        return said.get("passed", 0), said.get("failed", 0), said.get("skipped", 0)
    if re.search(r"^\s*\d+ passing", text, re.MULTILINE):
        return (
            _last(r"^\s*(\d+) passing", text), _last(r"^\s*(\d+) failing", text), _last(r"^\s*(\d+) pending", text)
        )  # fmt: skip
    return _last(r"^\S? ?pass (\d+)$", text), _last(r"^\S? ?fail (\d+)$", text), _last(r"^\S? ?skipped (\d+)$", text)


def _last(pattern: str, text: str) -> int:
    found = re.findall(pattern, text, re.MULTILINE)
    return int(found[-1]) if found else 0


READERS: dict[str, Callable[[str], Sums]] = {
    "pytest": count_pytest, "unittest": count_unittest, "cargo": count_cargo, "go": count_go, "npm": count_npm,
}  # fmt: skip
