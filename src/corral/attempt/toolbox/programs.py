"""Programs of an attempt: on its workspace, within its scope, with the tools of its toolbox."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any, Protocol

import msgspec
from msgspec import structs

from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.events import AttemptEvents
from corral.attempt.repositories import common_dir
from corral.attempt.toolbox.call_rules import CallRules
from corral.attempt.toolbox.stored_tools import StoredTools
from corral.machines import programs
from corral.machines.programs import ProgramBox
from corral.machines.tool_calls import CallFailed, ProgramTool, ToolCalls
from corral.model import ENCODER, ErrorClass, Failure, Tokens
from corral.model.errors import BadRequest
from corral.model.events import CalledTool, Ended, Event, Noted, Spent, ToolReturned
from corral.model.flow import Node, ProgramSpec
from corral.model.program import Program, ProgramLimits, ProgramRecord, ToolCall
from corral.rules.context import program_tools, tools
from corral.rules.flows.schemas import misfits
from corral.world.process import Exit, ProcessLimits
from corral.world.sandbox import probe

MOST_PROGRAMS = 200  #: of one attempt
MOST_SHOWN = 4000  #: characters of what a program printed, as its agent sees them
MOST_NODE_SECONDS = 600.0  #: of a node's program, whose limit is else that of an agent
FAILURES: dict[str, ErrorClass] = {"memory": "memory", "refused": "denied"}
MOST_INPUT = 200  #: characters of a call in the log


class ToolAnswers(Protocol):
    """What answers the tools of an agent."""

    async def do(self, asked: tools.Arguments) -> Any: ...  # noqa: ANN401


class AttemptPrograms:
    """Runs the programs of one attempt, one after another or side by side."""

    def __init__(self, answers: ToolAnswers, attempt_events: AttemptEvents, node: Node, where: AttemptMachine) -> None:
        self._answers, self._events, self._node = answers, attempt_events, node
        self._machine, self._host = where.machine, where.host
        self._count = 0
        self._rules = CallRules(attempt_events, where.host.plan)

    async def run(self, program: Program, given: object, tool: str | None = None, *, depth: int = 1) -> ProgramRecord:
        """Run a program; each of its calls is an event of the attempt."""
        self._count += 1
        if self._count > MOST_PROGRAMS:
            raise BadRequest(
                f"{MOST_PROGRAMS} programs are the most of one attempt", hint="do the rest with your own tools"
            )
        if not probe.is_at_least(self._machine.level, "strict"):
            raise BadRequest(
                f"programs need the sandbox level strict, and this is {self._machine.level}",
                hint="do it with your own tools",
            )
        record = self._events.record
        name = f"{record.attempt.id}-p{self._count}"
        log: list[ToolCall] = []

        def note(call: ToolCall) -> None:
            log.append(call)
            self._note(name, call)

        calls = ToolCalls(self._tools(program, depth), program.tools, program.limits, note, check=self._rules.check)
        where = ProgramBox(state=self._host.state / "programs", level=self._machine.level)
        self._events.emit(Noted(f"program {name}: {program.language}, tools: {', '.join(program.tools) or 'none'}"))
        result = await programs.run(program, given, calls, list(program_tools.TOOLS), where)
        self._events.emit(
            Noted(f"program {name}: {result.error.kind if result.error else 'done'}, {result.calls} calls")
        )
        kept = ProgramRecord(
            id=name,
            created=time.time(),
            repo=str(common_dir(Path(self._host.plan.git_dir))),
            run=record.run,
            tool=tool,
            hash=hashlib.sha256(program.source.encode()).hexdigest(),
            program=program,
            input=given,
            calls=tuple(log),
            result=result,
        )
        self._events.store.programs.add(self._events.redactor.value(kept))
        return kept

    async def run_node(
        self, spec: ProgramSpec, text: str, limits: ProcessLimits, emit: Callable[[Event], None]
    ) -> Exit:
        """Run the program of a node in place of an agent; its result is the node's output."""
        kept, given = spec.kept, msgspec.json.decode(text)
        bounds = kept.limits if kept else ProgramLimits(timeout_seconds=MOST_NODE_SECONDS)
        seconds = min(limits.timeout_seconds, bounds.timeout_seconds)
        program = Program(
            name=spec.name,
            language=spec.language,
            source=spec.source,
            tools=spec.tools,
            limits=structs.replace(bounds, timeout_seconds=seconds),
        )
        emit(Spent(Tokens(), 0.0))
        if kept and (wrong := list(misfits(given, kept.input_schema))):
            words = f"the input of {kept.name} does not fit: {'; '.join(wrong[:5])}"
            emit(Ended(ok=False, error=Failure("crash", words, f"corral tools show {kept.name}", lasting=True)))
            return Exit(code=1, why="exited")
        running = asyncio.create_task(self.run(program, given, kept.name if kept else None))
        stopping = asyncio.create_task(self._host.stop.wait())
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not running.done():
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return Exit(code=130, why="stopped")
        result = running.result().result
        if kept:
            done = result.error is None
            self._events.store.programs.use(kept.folder, kept.name, kept.hash, time.time(), succeeded=done)
        if result.error is None:
            emit(Ended(ok=True, text=ENCODER.encode(result.result).decode()))
            return Exit(code=0, why="exited")
        if result.error.kind == "timeout":
            return Exit(code=1, why="timeout")
        kind = FAILURES.get(result.error.kind, "crash")
        failure = Failure(kind, f"{result.error.kind}: {result.error.message}", "corral logs", lasting=True)
        emit(Ended(ok=False, error=failure))
        return Exit(code=1, why="exited")

    async def run_asked(self, asked: tools.RunProgram) -> dict[str, Any]:
        """Run what an agent wrote."""
        granted = granted_tools(asked.tools)
        limits = ProgramLimits(timeout_seconds=asked.timeout_seconds)
        suffix = "py" if asked.language == "python" else "ts" if asked.language == "typescript" else "js"
        program = Program(
            name=f"program.{suffix}",
            language=asked.language,
            source=asked.source,
            tools=granted or tuple(program_tools.TOOLS),
            limits=limits,
        )
        return shown_record(await self.run(program, asked.input))

    def _note(self, name: str, call: ToolCall) -> None:
        key = f"{name}/{call.number}"
        self._events.emit(CalledTool(f"program:{call.tool}", str(call.arguments)[:MOST_INPUT], key))
        words = f"{call.error.kind}: {call.error.message}" if call.error else ""
        self._events.emit(ToolReturned(key, call.error is None, words[:MOST_INPUT]))

    async def run_stored(self, asked: tools.RunTool) -> dict[str, Any]:
        """Run a tool that the user approved, for the agent itself."""
        return shown_record(await self._run_stored(asked.name, asked.input, 1))

    async def _run_stored(self, name: str, given: object, depth: int) -> ProgramRecord:
        # From where the user keeps it, never from the workspace, in which an agent writes.
        stored = StoredTools(Path(self._host.plan.repo), self._host.state)
        tool = stored.find_approved(name)
        tool.check_input(given)
        record = await self.run(tool.program, given, name, depth=depth)
        done = record.result.error is None
        self._events.store.programs.use(tool.folder, tool.name, tool.hash, time.time(), succeeded=done)
        return record

    async def use(self, asked: tools.Git | tools.RunTests | tools.Packages) -> Any:  # noqa: ANN401
        """Answer a tool about the workspace that programs have too, for the agent itself."""
        workspace = PurePath(self._events.record.folder).name
        offered = self._machine.tools(workspace, next(iter(self._node.task.checks), ""))
        found = next((tool for tool in offered.values() if tool.arguments is type(asked)), None)
        if found is None:
            raise BadRequest("this is for workspaces of the engine's own machine", hint="use your own shell")
        return await found.answer(asked)

    def _tools(self, program: Program, depth: int) -> dict[str, ProgramTool]:
        workspace = PurePath(self._events.record.folder).name
        files = self._machine.tools(workspace, next(iter(self._node.task.checks), ""))
        if self._node.task.read_only:
            files["write_file"] = ProgramTool(program_tools.WriteFile, _refuse_write)

        async def run_tool(asked: tools.RunTool) -> object:
            if depth >= program.limits.depth:
                raise CallFailed("limit", f"tools that call each other go {program.limits.depth} deep at most")
            return take_result(await self._run_stored(asked.name, asked.input, depth + 1), asked.name)

        files["run_tool"] = ProgramTool(tools.RunTool, run_tool)

        async def answer(asked: Any) -> Any:  # noqa: ANN401 -- arguments of any tool
            return await self._answers.do(asked)

        kinds = {
            "remember": tools.Remember,
            "search_memory": tools.SearchMemory,
            "report": tools.ReportProgress,
            "ask_user": tools.AskUser,
            "read_answer": tools.ReadAnswer,
            "spawn_task": tools.SpawnTask,
            "wait": tools.ChildResult,
            "read_output": tools.ReadOutput,
            "send_mail": tools.SendMail,
            "read_mail": tools.ReadMail,
            "ack_mail": tools.AckMail,
        }
        return {**files, **{name: ProgramTool(kind, answer) for name, kind in kinds.items()}}


async def _refuse_write(_: object) -> object:
    raise CallFailed("refused", "this task is read-only")


def take_result(record: ProgramRecord, name: str) -> object:
    """Return the result of a tool for the program that called it."""
    if error := record.result.error:
        raise CallFailed("refused" if error.kind == "refused" else "failed", f"{name}: {error.kind}: {error.message}")
    return record.result.result


def granted_tools(names: Sequence[str]) -> tuple[str, ...]:
    """Return the tools of these names, each once; BadRequest if there is none."""
    found = tuple(dict.fromkeys(program_tools.ALIASES.get(name, name) for name in names))
    for name in found:
        if name not in program_tools.TOOLS:
            known = ", ".join(program_tools.TOOLS)
            raise BadRequest(f"there is no tool `{name[:80]}` for programs", hint=f"there are: {known}")
    return found


def shown_record(record: ProgramRecord) -> dict[str, Any]:
    """Return what every surface shows of a program that ran."""
    shown: dict[str, Any] = msgspec.to_builtins(record.result)
    return {**shown, "program": record.id, "printed": record.result.printed[-MOST_SHOWN:]}
