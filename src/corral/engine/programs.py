"""Programs outside a run: on the files of a folder, with the tools that the user grants."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from corral.attempt.toolbox.programs import granted_tools, shown_record, take_result
from corral.attempt.toolbox.stored_tools import StoredTools
from corral.config import paths
from corral.config.paths import is_folder
from corral.engine.context import Context
from corral.engine.memory import Memory
from corral.machines import programs, scope
from corral.machines.programs import ProgramBox
from corral.machines.scope import MachinePaths, agentignore
from corral.machines.tool_calls import CallFailed, ProgramTool, RecordedCalls, ToolCalls
from corral.machines.workspace_tools import CommandOutcome, CopiedTree, WorkspaceTools
from corral.model import ENCODER, Level, ScopeSource, ScopeTable
from corral.model.errors import BadRequest, NotFound
from corral.model.program import (
    MOST_SOURCE_BYTES,
    SUFFIXES,
    Language,
    Program,
    ProgramRecord,
    ProgramReplay,
    ProgramResult,
    ToolCall,
)
from corral.rules.context import program_tools
from corral.rules.context import tools as toolbox
from corral.rules.scope.tool_policy import judge_call
from corral.world.git import discovery
from corral.world.git.repository import Repository
from corral.world.sandbox import probe

__all__ = ["ProgramOrder", "Programs", "declarations", "granted_tools", "read_program", "shown_record"]
Say = Callable[[str], None]
MOST_DIFFERENCES, MOST_DIFFERENCE = 50, 200  #: how many are named, and characters of each


class ProgramPlace(Struct, frozen=True):
    """The folder whose files a program sees, and the repository that it is in."""

    root: Path
    repository: Repository | None
    key: str  #: by what the repository is known


class ProgramOrder(Struct, frozen=True, kw_only=True):
    """A program that a user runs."""

    program: Program
    folder: Path
    input: Any = None
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    net: tuple[str, ...] = ()  #: hosts that `http` reaches
    tool: str | None = None  #: the stored tool it is
    depth: int = 1  #: of programs that start each other


class Programs:
    """Runs programs for the user."""

    def __init__(self, context: Context, memory: Memory) -> None:
        self._context, self._memory = context, memory

    async def run(self, order: ProgramOrder, say: Say) -> ProgramRecord:
        """Run a program on the files of a folder; what it did is kept."""
        level = await self.level()
        place = await self.place(order.folder)
        tools = await self._tools(order, place, level, say)
        log: list[ToolCall] = []
        calls = ToolCalls(
            tools,
            order.program.tools,
            order.program.limits,
            log.append,
            check=self._check(place),
        )
        box = ProgramBox(state=self._context.home / "programs", level=level)
        result = await programs.run(order.program, order.input, calls, list(program_tools.TOOLS), box)
        return self._keep(order, place, tuple(log), result)

    async def replay(self, name: str, changed: tuple[Language, str] | None = None) -> ProgramReplay:
        """Run a program once more, or a changed one in its place, with the answers that its calls had."""
        record = self._context.store.programs.get(name)
        if record is None:
            raise NotFound(f"no program is known as `{name[:80]}`", hint="`corral code` prints its id")
        program = record.program
        if changed:
            program = structs.replace(program, language=changed[0], source=changed[1])
        calls = RecordedCalls(record.calls)
        box = ProgramBox(state=self._context.home / "programs", level=await self.level())
        result = await programs.run(program, record.input, calls, list(program_tools.TOOLS), box)
        return ProgramReplay(program=name, differences=tuple(_differences(record.result, result, calls)), result=result)

    def _check(self, place: ProgramPlace) -> Callable[[str, object], Awaitable[None]]:
        """Return what applies the user's rules for tools; nobody waits for an answer here."""
        rules = self._context.settings.load(place.root).policy

        async def check(tool: str, arguments: object) -> None:
            verdict = judge_call(rules, tool, program_tools.logged_arguments(tool, arguments))
            if verdict.word != "allow":
                reason = f"the rule `{verdict.rule}`" if verdict.rule else "its default"
                words = "denies" if verdict.word == "deny" else "asks before each, which only a run can:"
                raise CallFailed("refused", f"[policy] {words} `{verdict.line[:200]}` by {reason}")

        return check

    async def level(self) -> Level:
        """Return the level of the sandbox; BadRequest where programs would not be isolated."""
        found = await probe.probe(self._context.home / "probe.json")
        if not probe.is_at_least(found.level, "strict"):
            lacking = found.lacks("strict")
            raise BadRequest(f"programs need the sandbox level strict: {lacking.reason}", hint=lacking.remedy)
        return found.level

    async def place(self, folder: Path) -> ProgramPlace:
        if not is_folder(folder):
            raise BadRequest(f"--repo {folder}: there is no such folder", hint="a repository, or a folder in one")
        found = await discovery.discover(folder.resolve())
        root = found.repository.folder if found else folder.resolve()
        return ProgramPlace(root, found.repository if found else None, await self._memory.key(folder))

    def _keep(
        self, order: ProgramOrder, place: ProgramPlace, calls: tuple[ToolCall, ...], result: ProgramResult
    ) -> ProgramRecord:
        record = ProgramRecord(
            id=f"p{secrets.token_hex(5)}",
            created=time.time(),
            repo=place.key,
            tool=order.tool,
            hash=hashlib.sha256(order.program.source.encode()).hexdigest(),
            program=order.program,
            input=order.input,
            calls=calls,
            result=result,
        )
        self._context.store.programs.add(record)
        return record

    async def _tools(self, order: ProgramOrder, place: ProgramPlace, level: Level, say: Say) -> dict[str, ProgramTool]:
        settings = self._context.settings.load(place.root)
        ignore = await agentignore(place.repository, "HEAD") if place.repository else ""
        table = ScopeTable(read=order.read or None, write=order.write or None, net=order.net or None)
        asked = (
            [ScopeSource(table=table, where={"read": "--read", "write": "--write", "net": "--net"})]
            if order.read or order.write or order.net
            else []
        )
        fitted = scope.of_agent((*settings.scopes, *asked), "", ignore)
        fitted = await scope.fit(fitted, MachinePaths(tree=place.root, state=self._context.home, checkout=place.root))
        copies = CopiedTree(place.root, fitted, self._context.home / "programs", level)

        async def run_command(command: str, seconds: float) -> CommandOutcome:
            return await copies.run(command, seconds, list(files.names()))

        async def ask_git(words: Sequence[str]) -> tuple[int, str]:
            if place.repository is None:
                raise CallFailed("failed", "this folder is not a git repository")
            found = await place.repository.git(*words, fine=(0, 1, 128, 129))
            return found.code, (found.out if found.code == 0 else found.err).decode(errors="replace")

        checks = settings.defaults.checks or ()
        files = WorkspaceTools(place.root, fitted, run_command, ask_git, next(iter(checks), ""))
        own = {**self._own_tools(place, say), "run_tool": self._run_tool(order, place, say)}
        return {**files.tools(), **own, **_need_a_run()}

    def _run_tool(self, order: ProgramOrder, place: ProgramPlace, say: Say) -> ProgramTool:
        async def run(asked: toolbox.RunTool) -> object:
            if order.depth >= order.program.limits.depth:
                raise CallFailed("limit", f"tools that call each other go {order.program.limits.depth} deep at most")
            stored = StoredTools(place.root if place.repository else None, self._context.home)
            tool = stored.find_approved(asked.name)
            tool.check_input(asked.input)
            inner = structs.replace(
                order, program=tool.program, input=asked.input, tool=tool.name, depth=order.depth + 1
            )
            return take_result(await self.run(inner, say), tool.name)

        return ProgramTool(toolbox.RunTool, run)

    def _own_tools(self, place: ProgramPlace, say: Say) -> dict[str, ProgramTool]:
        async def report(asked: toolbox.ReportProgress) -> dict[str, bool]:
            say(" ".join("".join(each if each.isprintable() else " " for each in asked.text).split()))
            return {"shown": True}

        async def remember(asked: toolbox.Remember) -> object:
            return await self._memory.propose(place.root, asked.text, asked.files)

        async def search(asked: toolbox.SearchMemory) -> object:
            return await self._memory.search(place.root, asked.words)

        return {
            "report": ProgramTool(toolbox.ReportProgress, report),
            "remember": ProgramTool(toolbox.Remember, remember),
            "search_memory": ProgramTool(toolbox.SearchMemory, search),
        }


def _differences(before: ProgramResult, now: ProgramResult, calls: RecordedCalls) -> Iterator[str]:
    """Say what a program did otherwise than before."""
    yield from (f"a new call: {each[:MOST_DIFFERENCE]}" for each in calls.new[:MOST_DIFFERENCES])
    yield from (f"no such call any more: {each[:MOST_DIFFERENCE]}" for each in calls.left[:MOST_DIFFERENCES])
    ends = [each.error.kind if each.error else "done" for each in (before, now)]
    if ends[0] != ends[1]:
        words = f": {now.error.message.strip().rpartition(chr(10))[2][:MOST_DIFFERENCE]}" if now.error else ""
        yield f"it ended as {ends[0]}, and now as {ends[1]}{words}"
    elif before.result != now.result:
        was, is_now = (ENCODER.encode(each.result).decode()[:MOST_DIFFERENCE] for each in (before, now))
        yield f"its result was {was}, and is {is_now}"


def _need_a_run() -> dict[str, ProgramTool]:
    """Return the tools that speak of a run, for a program that is in none."""

    def refusing(name: str) -> Callable[[Any], Any]:
        async def refuse(_: object) -> object:
            raise CallFailed("refused", f"{name} needs a run: use it in run_program or in a program node")

        return refuse

    return {
        name: ProgramTool(facts.arguments, refusing(name))
        for name, facts in program_tools.TOOLS.items()
        if facts.needs_run
    }


def declarations(language: str, names: Sequence[str]) -> str:
    """Return the types of tools, for those who write programs; of all tools where none is named."""
    words = program_tools.python_stubs if language == "python" else program_tools.typescript
    return words(granted_tools(names) or program_tools.TOOLS)


def read_program(file: Path, name: str | None = None) -> tuple[Language, str]:
    """Return the language and the text of a program's file."""
    language = SUFFIXES.get(file.suffix)
    if language is None:
        raise BadRequest(f"{file}: programs are .ts, .js or .py files", hint="rename it")
    hint = "name the file of a program; it reads large data from a file of the workspace"
    source = paths.read_file(file, MOST_SOURCE_BYTES, str(name or file), hint)
    try:
        return language, source.decode()
    except UnicodeDecodeError:
        raise BadRequest(f"{file} is not UTF-8 text", hint="save it as UTF-8") from None
