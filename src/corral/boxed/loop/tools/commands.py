"""The tools that run programs: bash, git, package managers and tests."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct

from corral.boxed.loop.programs import run
from corral.boxed.loop.tools.result import LoopToolResult
from corral.boxed.loop.workspace import LoopWorkspace, ToolRefused

LOG_FORMAT = "%H%x1f%an%x1f%aI%x1f%s"
#: Beginning of a name that no manager takes for an option or a path.
NAME = re.compile(r"[A-Za-z0-9@][^\s;|&<>`$\\]*|[A-Za-z0-9@][\w.\-\[\],]*\s*[<>=!~^]=?\s*[\w.*]+")
TIMEOUT = 900.0
#: For each manager: how to install what the workspace declares, and how to add to it.
COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "uv": (("uv", "sync"), ("uv", "add")),
    "pip": (("python3", "-m", "pip", "install"), ("python3", "-m", "pip", "install")),
    "npm": (("npm", "install"), ("npm", "install")),
    "cargo": (("cargo", "fetch"), ("cargo", "add")),
    "go": (("go", "mod", "download"), ("go", "get")),
}
Runner = Literal["pytest", "unittest", "npm", "cargo", "go"]
Choice = Literal["pytest", "unittest", "npm", "cargo", "go", ""]
CONFIGURED = (
    ("pytest.ini", ""),
    ("pyproject.toml", "[tool.pytest"),
    ("setup.cfg", "[tool:pytest]"),
    ("tox.ini", "[pytest]"),
)
Sums = tuple[int, int, int]


class BashArguments(Struct):
    """Run a command with bash in the workspace. It has no terminal and no input; each call starts in the workspace."""

    command: str
    timeout_seconds: Annotated[float, Meta(description="after which it is ended", gt=0, le=3600)] = 120.0


def bash(place: LoopWorkspace, asked: BashArguments, most: int) -> LoopToolResult:
    ran = run(["bash", "-c", asked.command], place.root, timeout=asked.timeout_seconds, most=most)
    content = {"exit_code": ran.code, "output": ran.output, "seconds": ran.seconds, "timed_out": ran.timed_out}
    return LoopToolResult(ok=ran.code == 0, content=content)


class GitArguments(Struct):
    """Look at changes and history, or commit all that changed. For anything else use bash."""

    action: Literal["status", "diff", "log", "commit"]
    message: Annotated[str, Meta(description="of the commit")] = ""
    path: Annotated[str, Meta(description="stay with this file or folder (diff, log)")] = "."
    count: Annotated[int, Meta(description="how many commits of the log", ge=1, le=200)] = 20


def git(place: LoopWorkspace, asked: GitArguments, most: int) -> LoopToolResult:
    match asked.action:
        case "status":
            return _status(place)
        case "diff":
            path = place.name(place.inside(asked.path))
            return _plain(place, ("diff", "--no-color", "HEAD", "--", path), most)
        case "log":
            return _log(place, asked)
        case "commit":
            return _commit(place, asked.message)


def _status(place: LoopWorkspace) -> LoopToolResult:
    ran = place.git("status", "--porcelain=v1", "--branch", "-z", "--no-renames")
    if ran.code != 0:
        return LoopToolResult.bad(ran.output.strip())
    branch, *rows = ran.output.rstrip("\0").split("\0")
    files = [{"state": row[:2].strip(), "path": row[3:]} for row in rows if row]
    return LoopToolResult(content={"branch": branch.removeprefix("## "), "files": files})


def _log(place: LoopWorkspace, asked: GitArguments) -> LoopToolResult:
    path = place.name(place.inside(asked.path))
    ran = place.git("log", f"--format={LOG_FORMAT}", f"--max-count={asked.count}", "--", path)
    if ran.code != 0:
        return LoopToolResult.bad(ran.output.strip())
    rows = [line.split("\x1f") for line in ran.output.splitlines()]
    names = ("commit", "author", "date", "subject")
    return LoopToolResult(content={"commits": [dict(zip(names, row, strict=False)) for row in rows]})


def _commit(place: LoopWorkspace, message: str) -> LoopToolResult:
    if not message.strip():
        raise ToolRefused("a commit needs a message")
    added = place.git("add", "--all")
    if added.code != 0:
        return LoopToolResult.bad(added.output.strip())
    ran = place.git("commit", "--quiet", "-m", message)
    if ran.code != 0:
        return LoopToolResult.bad(ran.output.strip() or "there is nothing to commit")
    shown = place.git("show", "--no-color", "--stat", "--format=%H")
    head, _, stat = shown.output.strip().partition("\n")
    return LoopToolResult(content={"commit": head, "stat": stat.strip()})


def _plain(place: LoopWorkspace, arguments: tuple[str, ...], most: int) -> LoopToolResult:
    ran = place.git(*arguments, most=most)
    return (
        LoopToolResult(content={"diff": ran.output, "cut": ran.cut})
        if ran.code == 0
        else LoopToolResult.bad(ran.output.strip())
    )


class PackagesArguments(Struct):
    """Install what the workspace declares, or add packages to it, by its own package manager."""

    action: Literal["install", "add"]
    names: Annotated[list[str], Meta(description="packages to add, with a version if it matters")] = []
    manager: Annotated[
        Literal["uv", "pip", "npm", "cargo", "go", ""], Meta(description="left out: the one that the files speak of")
    ] = ""


def find_managers(place: LoopWorkspace) -> list[str]:
    """List the managers that the workspace's files speak of, the surest first."""
    has = {name for name in ("uv.lock", "package.json", "Cargo.toml", "go.mod") if (place.root / name).is_file()}
    python = any((place.root / name).is_file() for name in ("pyproject.toml", "requirements.txt", "setup.py"))
    found = ["uv"] if "uv.lock" in has else []
    if python and not found:
        found = ["pip"] if (place.root / "requirements.txt").is_file() or not shutil.which("uv") else ["uv", "pip"]
    pairs = (("npm", "package.json"), ("cargo", "Cargo.toml"), ("go", "go.mod"))
    return found + [manager for manager, file in pairs if file in has]


def packages(place: LoopWorkspace, asked: PackagesArguments, most: int) -> LoopToolResult:
    found = find_managers(place)
    manager = asked.manager or (found[0] if found else "")
    if not manager:
        raise ToolRefused("the workspace has no file of a package manager: name one by `manager`")
    words = manager_command(place, manager, asked)
    ran = run(words, place.root, timeout=TIMEOUT, most=most)
    if ran.code == 0 and manager == "pip" and asked.action == "add":
        _declare(place, asked.names)
    content = {"manager": manager, "detected": found, "command": shlex.join(words), "exit_code": ran.code}
    return LoopToolResult(ok=ran.code == 0, content={**content, "output": ran.output})


def manager_command(place: LoopWorkspace, manager: str, asked: PackagesArguments) -> list[str]:
    """Return the command that does what is asked; packages are names, never options."""
    install, add = COMMANDS[manager]
    if asked.action == "add":
        bad = [name for name in asked.names if not NAME.fullmatch(name)]
        if bad or not asked.names:
            raise ToolRefused(f"not the name of a package: {bad[0]!r}" if bad else "name the packages to add")
        return [*add, *asked.names]
    if manager != "pip":
        return list(install)
    declared = (place.root / "requirements.txt").is_file()
    return [*install, *(("-r", "requirements.txt") if declared else ("-e", "."))]


def _declare(place: LoopWorkspace, names: list[str]) -> None:
    """Add to requirements.txt what pip itself only installs."""
    path = place.writable_path("requirements.txt")
    if path.is_file():
        text = path.read_text(encoding="utf-8", errors="replace")
        missing = [name for name in names if name not in text.splitlines()]
        place.write(path, text + ("" if not text or text.endswith("\n") else "\n") + "".join(f"{n}\n" for n in missing))


class RunTestsArguments(Struct):
    """Run the workspace's tests and count what passed and failed."""

    only: Annotated[str, Meta(description="a file, folder or name to stay with, as the runner takes it")] = ""
    runner: Annotated[Choice, Meta(description="left out: the one that fits the files")] = ""
    timeout_seconds: Annotated[float, Meta(description="after which it is ended", gt=0, le=3600)] = 900.0


def find_runners(place: LoopWorkspace) -> list[Runner]:
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
    found = find_runners(place)
    runner = asked.runner or (found[0] if found else "")
    if not runner:
        raise ToolRefused("no tests were found: name the runner, or run them with bash")
    if asked.only.startswith("-"):
        raise ToolRefused("`only` is a file, a folder or a name, not an option")
    words = test_command(runner, asked.only)
    ran = run(words, place.root, timeout=asked.timeout_seconds, most=max(most, 200_000))
    passed, failed, skipped = READERS[runner](ran.output)
    content = {"runner": runner, "command": shlex.join(words), "exit_code": ran.code, "timed_out": ran.timed_out}
    sums = {"passed": passed, "failed": failed, "skipped": skipped}
    return LoopToolResult(ok=ran.code == 0, content={**content, **sums, "output": ran.output})


def test_command(runner: Runner, only: str) -> list[str]:
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
