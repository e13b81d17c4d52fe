"""Tools about the files of one folder, within a scope; and commands on a copy of them, in a box."""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from corral.machines import boxes, http_tool
from corral.machines.boxes import Boxes, Kept
from corral.machines.logs import Log, Tail
from corral.machines.network import Network
from corral.machines.scope import FittedScope
from corral.machines.tool_calls import CallFailed, ProgramTool
from corral.machines.workspace_host import WorkspaceHost
from corral.model import Level
from corral.model.errors import CorralError
from corral.rules.checks import results
from corral.rules.context import program_tools as arguments
from corral.rules.scope import globs
from corral.rules.text.redact import Redactor, likely_secrets
from corral.world import process
from corral.world.process import Owner, ProcessLimits
from corral.world.sandbox.confine import agent_owner, confine
from corral.world.workspace import checkout
from corral.world.workspace.checkout import Workspace

MOST_FILE_BYTES = 8 << 20
MOST_SEARCHED_BYTES = 64 << 20
MOST_LINE = 500
MOST_COPIED = 50_000
MOST_COPIED_BYTES = 1 << 30
NOTES = {
    "timeout": "it was not done in time",
    "memory": "it used too much memory",
    "disk": "it used too much disk space",
}
MOST_COMMAND_BYTES = 16 << 20
GIT_SECONDS = 60.0
MOST_OUTPUT = 50_000  #: characters of what a command printed


class CommandOutcome(Struct, frozen=True, kw_only=True):
    """How a command line ended."""

    exit_code: int
    output: str
    seconds: float
    note: str = ""


class WorkspaceTools:
    """The tools about one folder. How a command and git are run there is another's."""

    def __init__(
        self,
        root: Path,
        fitted: FittedScope,
        run_command: Callable[[str, float], Awaitable[CommandOutcome]],
        ask_git: Callable[[Sequence[str]], Awaitable[tuple[int, str]]],
        check: str = "",
        owner: Owner | None = None,
    ) -> None:
        self._root, self._fitted, self._owner, self._check = root, fitted, owner, check
        self._run_command, self._ask_git = run_command, ask_git

    def names(self) -> Iterator[str]:
        """Yield the names of all files that may be read."""
        return self._files("", "**", links=True)

    def tools(self) -> dict[str, ProgramTool]:
        return {
            "list_files": ProgramTool(arguments.ListFiles, self._list_files),
            "read_file": ProgramTool(arguments.ReadFile, self._read_file),
            "write_file": ProgramTool(arguments.WriteFile, self._write_file),
            "search": ProgramTool(arguments.Search, self._search),
            "run_command": ProgramTool(arguments.RunCommand, self._command),
            "run_tests": ProgramTool(arguments.RunTests, self._tests),
            "git": ProgramTool(arguments.Git, self._git),
            "packages": ProgramTool(arguments.Packages, self._packages),
            "http": ProgramTool(arguments.Http, self._http),
        }

    # --- files

    async def _list_files(self, asked: arguments.ListFiles) -> list[str]:
        return await asyncio.to_thread(lambda: list(islice(self._files(asked.path, asked.pattern), asked.most)))

    async def _read_file(self, asked: arguments.ReadFile) -> str:
        return (await asyncio.to_thread(self._read, asked.path)).decode(errors="replace")

    async def _write_file(self, asked: arguments.WriteFile) -> dict[str, Any]:
        name = self._path_in_scope(asked.path, write=True)
        body = asked.content.encode(errors="replace")
        if len(body) > MOST_FILE_BYTES:
            raise CallFailed("limit", f"{asked.path}: {MOST_FILE_BYTES >> 20} MB are the most")
        try:
            mode = _mode(self._root / name)
            checkout.write_below(self._root, name, io.BytesIO(body), self._owner, mode)
        except OSError as error:
            raise CallFailed("failed", f"{asked.path}: {error.strerror}") from error
        return {"path": name, "bytes": len(body)}

    async def _search(self, asked: arguments.Search) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._find, asked)

    def _find(self, asked: arguments.Search) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        wanted = asked.text.lower() if asked.ignore_case else asked.text
        left = MOST_SEARCHED_BYTES
        for name in self._files(asked.path, asked.pattern):
            content = checkout.read_below(self._root, name, MOST_FILE_BYTES)
            if not content or b"\0" in content[:8000]:
                continue
            left -= len(content)
            if left < 0:
                raise CallFailed("limit", f"more than {MOST_SEARCHED_BYTES >> 20} MB to search: name a folder")
            text = content.decode(errors="replace")
            if wanted not in (text.lower() if asked.ignore_case else text):
                continue
            for number, line in enumerate(text.splitlines(), 1):
                if wanted in (line.lower() if asked.ignore_case else line):
                    found.append({"path": name, "line": number, "text": line[:MOST_LINE]})
                    if len(found) >= asked.most:
                        return found
        return found

    def _read(self, path: str) -> bytes:
        name = self._path_in_scope(path)
        content = checkout.read_below(self._root, name, MOST_FILE_BYTES + 1) if name else None
        if content is None:
            raise CallFailed("not_found", f"{path[:200]}: there is no such file, or it is behind a link")
        if len(content) > MOST_FILE_BYTES:
            raise CallFailed("limit", f"{path[:200]}: {MOST_FILE_BYTES >> 20} MB are the most")
        return content

    def _path_in_scope(self, path: str, *, write: bool = False) -> str:
        """Return a path as it is meant below the root; refused if it leads elsewhere or the scope does not show it."""
        parts = globs.split(path)
        if path.startswith(("/", "~")) or "\0" in path or ".." in parts or ".git" in map(str.lower, parts):
            raise CallFailed("refused", f"{path[:200]!r} is not a path in this folder")
        place = globs.top(self._fitted.scope, ignore=self._fitted.ignore)
        for number, part in enumerate(parts, 1):
            place = place.enter(part, folder=number < len(parts))
        if parts and (not place.readable() or (write and not place.writable())):
            raise CallFailed("refused", f"{path[:200]}: the scope does not let it be {'written' if write else 'read'}")
        if write and not parts:
            raise CallFailed("bad_arguments", "a file must have a name")
        return "/".join(parts)

    def _files(self, path: str, pattern: str, *, links: bool = False) -> Iterator[str]:
        """Yield readable files by name; no link is followed, ignored files are left out."""
        base = self._path_in_scope(path)
        wanted, rules = globs.glob(pattern or "**"), globs.gitignore(_ignore_file(self._root))
        top = globs.top(self._fitted.scope, ignore=self._fitted.ignore)
        for folder, folders, names in os.walk(self._root / base, followlinks=False):
            here = os.path.relpath(folder, self._root)
            prefix = "" if here == "." else f"{here}/"
            folders[:] = sorted(
                name for name in folders if name != ".git" and not globs.is_ignored(rules, f"{prefix}{name}/_")
            )
            for name in sorted(names):
                full, place, states = f"{prefix}{name}", top, wanted.start()
                for part in (parts := full.split("/")):
                    place = place.enter(part, folder=part is not parts[-1])
                    states = wanted.step(states, part)
                shown = place.readable() and wanted.fits(states) and not globs.is_ignored(rules, full)
                if shown and (links or not (self._root / full).is_symlink()):
                    yield full

    # --- commands

    async def _command(self, asked: arguments.RunCommand) -> CommandOutcome:
        return await self._run_command(asked.command, asked.timeout_seconds)

    async def _tests(self, asked: arguments.RunTests) -> dict[str, Any]:
        command = asked.command or self._check
        if not command:
            raise CallFailed("bad_arguments", "no command is given, and the repository names no check")
        ended = await self._run_command(command, asked.timeout_seconds)
        counted = results.tally(ended.output)
        return {
            "exit_code": ended.exit_code,
            "passed": counted.passed if counted else None,
            "failed": counted.failed if counted else None,
            "skipped": counted.skipped if counted else None,
            "failing": list(counted.failing) if counted else [],
            "output": ended.output[-MOST_OUTPUT:],
            "seconds": ended.seconds,
        }

    async def _http(self, asked: arguments.Http) -> http_tool.HttpReply:
        return await http_tool.fetch(asked, self._fitted.scope.net)

    async def _packages(self, _: arguments.Packages) -> list[arguments.DeclaredPackages]:
        shown = {
            name: self._read(name).decode(errors="replace") for name in arguments.PACKAGE_FILES if self._is_there(name)
        }
        return arguments.list_packages(shown)

    def _is_there(self, name: str) -> bool:
        return self._shows(name) and stat.S_ISREG(_file_mode(self._root / name))

    # --- git

    async def _git(self, asked: arguments.Git) -> Any:  # noqa: ANN401 -- each command gives its own
        if asked.ref.startswith("-") or any(each in asked.ref for each in " :\n\0"):
            raise CallFailed("bad_arguments", "a ref is one commit, branch or range")
        path = self._path_in_scope(asked.path) if asked.path else ""
        match asked.command:
            case "status":
                return await self._status()
            case "log":
                return await self._log(asked, path)
            case "branches":
                rows = await self._git_lines(["branch", "--format=%(refname:short)%09%(objectname)"])
                return [{"name": name, "commit": commit} for name, _, commit in (row.partition("\t") for row in rows)]
            case "diff" | "show":
                return await self._diff(asked, path)

    async def _status(self) -> list[dict[str, str]]:
        rows = (await self._text(["status", "--porcelain=v1", "-z", "--no-renames"])).split("\0")
        return [{"state": row[:2].strip(), "path": row[3:]} for row in rows if row and self._shows(row[3:])]

    async def _log(self, asked: arguments.Git, path: str) -> list[dict[str, str]]:
        words = ["log", f"-n{asked.most}", "--format=%H%x09%an%x09%aI%x09%s", asked.ref or "HEAD", "--"]
        rows = [row.split("\t", 3) for row in await self._git_lines([*words, *([path] if path else [])])]
        return [dict(zip(("commit", "author", "date", "subject"), row, strict=False)) for row in rows]

    async def _diff(self, asked: arguments.Git, path: str) -> dict[str, Any]:
        words = [asked.command, "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames"]
        words += ["--format="] if asked.command == "show" else []
        words += [asked.ref] if asked.ref else ["HEAD"]
        names = await self._git_lines([*words, "--name-only", "--", *([path] if path else [])])
        shown = [name for name in names if name and self._shows(name)][: asked.most]
        text = await self._text([*words, "--", *[f":(top,literal){name}" for name in shown]]) if shown else ""
        return {"files": shown, "text": text[:MOST_FILE_BYTES]}

    def _shows(self, path: str) -> bool:
        try:
            return bool(self._path_in_scope(path.strip('"')))
        except CallFailed:
            return False

    async def _git_lines(self, words: Sequence[str]) -> list[str]:
        return [row for row in (await self._text(words)).split("\n") if row]

    async def _text(self, words: Sequence[str]) -> str:
        code, text = await self._ask_git(words)
        if code:
            raise CallFailed("failed", f"git {words[0]}: {' '.join(text.split())[-400:]}")
        return text


def _ignore_file(root: Path) -> str:
    return (checkout.read_below(root, ".gitignore", 1 << 20) or b"").decode(errors="replace")


def _mode(path: Path) -> int:
    found = _file_mode(path)
    return stat.S_IMODE(found) & 0o777 if stat.S_ISREG(found) else 0o644


def _file_mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def _report_nothing(host: str, port: int, allowed: bool, reason: str) -> None:  # noqa: FBT001
    """Hear of no host: the box has no network."""


class CopiedTree:
    """Runs command lines on fresh copies of a folder; what they write there is thrown away."""

    def __init__(self, root: Path, fitted: FittedScope, state: Path, level: Level) -> None:
        self._root, self._fitted, self._state = root, fitted, state
        self._level: Level = level

    async def run(self, command: str, seconds: float, files: Sequence[str]) -> CommandOutcome:
        tag = f"command-{secrets.token_hex(6)}"
        owner = agent_owner(tag) if self._level != "none" else None
        self._state.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="command-", dir=self._state))
        try:
            await asyncio.to_thread(self._copy, folder, files, owner)
            return await self._run(command, seconds, folder, tag)
        finally:
            await checkout.remove(folder)

    def _copy(self, folder: Path, files: Sequence[str], owner: Owner | None) -> None:
        folder.chmod(0o711)
        for name in ("home", "out", "tmp", "work"):
            (folder / name).mkdir(mode=0o700)
        left = MOST_COPIED_BYTES
        for number, name in enumerate(files):
            place = folder / "work" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self._root / name, place, follow_symlinks=False)
            left -= place.lstat().st_size
            if left < 0 or number > MOST_COPIED:
                raise CallFailed(
                    "limit", f"the folder has more than {MOST_COPIED} files or {MOST_COPIED_BYTES >> 30} GB"
                )
        (folder / "work" / ".git").mkdir(exist_ok=True)
        for each in ((folder / "work" / ".git" / "hooks"),):
            each.mkdir(exist_ok=True)
        (folder / "work" / ".git" / "config").touch()
        if owner:
            for place, _, names in os.walk(folder):
                os.chown(place, owner.uid, owner.gid)
                for name in names:
                    os.chown(Path(place) / name, owner.uid, owner.gid, follow_symlinks=False)
            os.chown(folder, 0, 0)

    async def _run(self, command: str, seconds: float, folder: Path, tag: str) -> CommandOutcome:
        started, tail = time.monotonic(), Tail(MOST_OUTPUT)
        made = Boxes(self._level, tag, asyncio.Event())
        made.fitted = self._fitted
        network = Network(self._level, (), _report_nothing, whole=True)
        await network.allow()
        box = made.box(Workspace(folder / "work"), folder, network=network)
        limits = ProcessLimits(timeout_seconds=seconds, idle_seconds=seconds)
        kept = Kept(Log(folder / "out" / "command.log"), tail, network)
        try:
            ended = await boxes.run_shell(made, Redactor(likely_secrets(os.environ)), command, box, limits, kept)
        except CorralError as error:
            raise CallFailed("failed", str(error)) from error
        return CommandOutcome(
            exit_code=ended.code,
            output=tail.text(),
            seconds=round(time.monotonic() - started, 3),
            note=NOTES.get(ended.why, ""),
        )


def of_workspace(host: WorkspaceHost, tree: Path, check: str) -> WorkspaceTools:
    """Return the tools about the workspace of an attempt: its commands run there, in a box like its agent's."""

    async def run(argv: Sequence[str], seconds: float) -> CommandOutcome:
        started = time.monotonic()
        network = Network(host.level, (), _report_nothing)  # unlike a check's, it shows what the scope shows
        box = host.boxes.box(checkout.read_workspace(tree), tree.parent, network=network)
        with confine(argv, structs.replace(box, listeners=(), network=False), host.level, tag=host.attempt) as start:
            try:
                # Without its tag: what carries that is the agent, which continues.
                ended = await process.run(structs.replace(start, tag=""), timeout=seconds, most=MOST_COMMAND_BYTES)
            except process.TooSlow:
                return CommandOutcome(exit_code=124, output="", seconds=seconds, note=NOTES["timeout"])
        output = host.redactor.data(ended.out + ended.err).decode(errors="replace")
        return CommandOutcome(exit_code=ended.code, output=output, seconds=round(time.monotonic() - started, 3))

    async def run_command(command: str, seconds: float) -> CommandOutcome:
        ended = await run(["/bin/sh", "-c", command], seconds)
        return structs.replace(ended, output=ended.output[-MOST_OUTPUT:])

    async def ask_git(words: Sequence[str]) -> tuple[int, str]:
        ended = await run(["git", "--no-pager", *words], GIT_SECONDS)
        return ended.exit_code, ended.output

    return WorkspaceTools(tree, host.boxes.fitted, run_command, ask_git, check, host.owner)
