"""Programs in a box of their own: one process, no permission, and one connection over which it calls tools."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib.util
import os
import re
import secrets
import shutil
import socket
import sys
import sysconfig
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from corral.machines.logs import Tail
from corral.machines.tool_calls import AnswersCalls, CallFailed
from corral.model import ENCODER, Level
from corral.model.errors import BadRequest, CorralError
from corral.model.program import Program, ProgramErrorClass, ProgramFailure, ProgramResult
from corral.world import process
from corral.world.concurrent import beside
from corral.world.process import Exit, ProcessControl, ProcessLimits, ProcessStart
from corral.world.sandbox import program_files, watchdog
from corral.world.sandbox.confine import agent_owner, confine
from corral.world.sandbox.profile import Box
from corral.world.sandbox.watchdog import Ceiling

CODE = Path(__file__).parents[1] / "boxed" / "code"
PORT = 8121  #: on the box's own loopback
RUNTIME_MB = 48  #: what an engine has before a program does anything
MOST_PRINTED = 20_000
MOST_LINE = 16 << 20
INSTALL = 'pip install "corral[code]"'
CPU_CODES = (137, 152)  #: the kernel ended it for its processor time
DENO_OPTIONS = (
    "run", "--quiet", "--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock", "--cached-only",
    "--no-check",
)  # fmt: skip
_DATA = re.compile(r"data:[a-z/]+;base64,[A-Za-z0-9+/=.]*")
ERROR_WORDS: dict[ProgramErrorClass, str] = {
    "memory": "it used more than {0.memory_mb} MB of memory",
    "cpu": "it used more than {0.cpu_seconds} s of processor time",
    "timeout": "it took longer than {0.timeout_seconds:g} s",
    "output": "its result or what it printed has more than {0.output_bytes} bytes",
}


class _Outcome(Struct, frozen=True):
    """The last message of a program."""

    result: msgspec.Raw | None = None
    failed: ProgramFailure | None = None


class _Message(Struct, frozen=True):
    call: int | None = None
    tool: str = ""
    arguments: Any = None
    result: msgspec.Raw = msgspec.Raw()
    failed: ProgramFailure | None = None


class ProgramBox(Struct, frozen=True, kw_only=True):
    """Where programs run: a folder of ours, and the level this machine holds."""

    state: Path
    level: Level


async def run(
    program: Program, given: object, calls: AnswersCalls, known: Sequence[str], where: ProgramBox
) -> ProgramResult:
    """Run a program to its end or to a limit; nothing of it is left afterwards."""
    started = time.monotonic()
    with _folder(where.state) as folder:
        ended, talk, printed = await _follow(program, given, calls, known, where.level, folder)
    failure = _failure(program, ended, talk, printed.text())
    result = talk.outcome.result if talk.outcome and not failure else None
    return ProgramResult(
        status="failed" if failure else "done",
        result=msgspec.json.decode(result) if result else None,
        calls=calls.count,
        seconds=round(time.monotonic() - started, 3),
        error=failure,
        printed=printed.text()[-MOST_PRINTED:],
        level=where.level,
    )


async def _follow(
    program: Program, given: object, calls: AnswersCalls, known: Sequence[str], level: Level, folder: Path
) -> tuple[Exit, _Talk, Tail]:
    tag = f"program-{secrets.token_hex(6)}"
    limits, printed, count = program.limits, Tail(MOST_PRINTED * 4), 0
    control = ProcessControl()
    talk = _Talk(program, given, calls, known, control)

    def raw(_: str, chunk: bytes) -> None:
        nonlocal count
        count += len(chunk)
        printed.write(chunk)
        if count > limits.output_bytes:
            talk.fail(ProgramFailure("output", "it printed too much"))

    argv, readable = _command(program)
    box = _box(folder, tag, program, readable)
    boxed = confine(argv, box, level, tag=tag)
    with boxed as start:
        seconds = ProcessLimits(timeout_seconds=limits.timeout_seconds, idle_seconds=1e9, grace_seconds=0.1)
        async with _serving(start, talk), _watching(start, box, control):
            ended = await process.follow(start, seconds, None, raw, asyncio.Event(), control)
    if boxed.memory_kills:
        ended = structs.replace(ended, why="memory")
    return ended, talk, printed


class _Talk:
    """Our end of the connection: it starts the program, answers its calls and takes its last word."""

    def __init__(
        self, program: Program, given: object, calls: AnswersCalls, known: Sequence[str], control: ProcessControl
    ) -> None:
        self._program, self._given, self._calls, self._known = program, given, calls, known
        self._control = control
        self._answers: set[asyncio.Task[None]] = set()
        self.outcome: _Outcome | None = None
        self.is_connected = False

    def fail(self, failure: ProgramFailure) -> None:
        self.outcome = self.outcome or _Outcome(failed=failure)
        self._control.end("lingered")

    async def talk(self, connection: socket.socket) -> None:
        self.is_connected = True
        reader, writer = await asyncio.open_connection(sock=connection, limit=MOST_LINE)
        try:
            writer.write(self._start() + b"\n")
            while self.outcome is None:
                await self._hear(reader, writer)
        except (ValueError, asyncio.LimitOverrunError):
            self.fail(ProgramFailure("output", f"one message had more than {MOST_LINE} bytes"))
        except (OSError, asyncio.IncompleteReadError):
            pass  # it is gone: how, its exit says
        finally:
            for task in self._answers:
                task.cancel()
            await asyncio.gather(*self._answers, return_exceptions=True)
            writer.close()
            self._control.end("lingered")

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readuntil(b"\n")
        try:
            message = msgspec.json.decode(line, type=_Message)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            self.fail(ProgramFailure("program", "a message of it is no JSON that can be read"))
            return
        if message.call is not None:
            task = asyncio.create_task(self._answer(message, writer))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
            await asyncio.sleep(0)
        elif message.failed is not None:
            self.outcome = _Outcome(failed=message.failed)
        elif message.result:
            self.outcome = _Outcome(result=msgspec.Raw(bytes(message.result)))

    async def _answer(self, message: _Message, writer: asyncio.StreamWriter) -> None:
        try:
            value = await self._calls.answer(message.tool, message.arguments)
            reply = b'{"reply":%d,"value":%s}\n' % (message.call or 0, value)
        except CallFailed as failed:
            reply = ENCODER.encode({"reply": message.call, "error": failed.error}) + b"\n"
        with contextlib.suppress(OSError):
            writer.write(reply)
            await writer.drain()

    def _start(self) -> bytes:
        program, limits = self._program, self._program.limits
        return ENCODER.encode({
            "language": program.language,
            "source": base64.b64encode(program.source.encode()).decode(),
            "input": self._given,
            "tools": program.tools,
            "known": [*self._known, *(each for each in program.tools if each not in self._known)],
            "most": limits.output_bytes,
            "memory_bytes": limits.memory_mb << 20,
            "cpu_seconds": limits.cpu_seconds,
            "timeout_seconds": limits.timeout_seconds,
            "calls": limits.calls,
        })  # fmt: skip


@contextlib.asynccontextmanager
async def _serving(start: ProcessStart, talk: _Talk) -> AsyncGenerator[None]:
    async def serve() -> None:
        if start.listeners is None:
            raise CorralError("this box cannot be connected")
        (listening,) = await start.listeners()
        try:
            connection, _ = await asyncio.get_running_loop().sock_accept(listening)
        finally:
            listening.close()  # there is one connection, and no other
        await talk.talk(connection)

    serving = asyncio.create_task(serve())
    try:
        yield
        if talk.is_connected:
            await asyncio.wait({serving}, timeout=2.0)  # its last word may be on its way
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@contextlib.asynccontextmanager
async def _watching(start: ProcessStart, box: Box, control: ProcessControl) -> AsyncGenerator[None]:
    async def watch() -> None:
        ceiling = Ceiling(memory_mb=box.memory_mb, processes=box.processes)
        control.end(await watchdog.watch(start, ceiling, (), every_seconds=0.25, first_seconds=0.25))

    async with beside(watch()):
        yield


def _failure(program: Program, ended: Exit, talk: _Talk, printed: str) -> ProgramFailure | None:
    """Return why a program failed; None if it ended with a result."""
    kind: ProgramErrorClass | None = None
    if talk.outcome is not None:
        if talk.outcome.failed is None:
            return None
        failed = talk.outcome.failed
        words = ERROR_WORDS.get(failed.kind)
        return ProgramFailure(failed.kind, words.format(program.limits) if words else _clean(failed.message, program))
    if ended.why in ("memory", "timeout"):
        kind = "memory" if ended.why == "memory" else "timeout"
    elif ended.code in CPU_CODES:
        kind = "cpu"
    elif ended.code and "out of memory" in printed.lower():
        kind = "memory"
    if kind:
        return ProgramFailure(kind, ERROR_WORDS[kind].format(program.limits))
    last = " ".join(printed.split())[-400:]
    return ProgramFailure("program", f"it ended with {ended.code} and no result" + (f": {last}" if last else ""))


def _clean(words: str, program: Program) -> str:
    """Return a program's own words about an error: without our lines, and with its name in place of its text."""
    lines = [line for line in words.splitlines() if "code/program.js" not in line and "ext:" not in line]
    return _DATA.sub(program.name, "\n".join(lines))


@contextlib.contextmanager
def _folder(state: Path) -> Generator[Path]:
    state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="program-", dir=state, ignore_cleanup_errors=True) as name:
        yield Path(name)


def _box(folder: Path, tag: str, program: Program, readable: Sequence[Path]) -> Box:
    folder.chmod(0o711)
    owner = agent_owner(tag)
    for made in (folder / "home", folder / "work"):
        made.mkdir()
        if owner:
            os.chown(made, owner.uid, owner.gid)
    limits = program.limits
    return Box(
        folder=folder,
        workspace=folder / "work",
        home=folder / "home",
        readable=tuple(readable),
        env={"DENO_DIR": "/tmp/deno", "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1", "LANG": "C.UTF-8"},  # noqa: S108
        network=False,
        listeners=(PORT,),
        memory_mb=limits.memory_mb + RUNTIME_MB,
        processes=128,
        file_mb=16,
        cpu_seconds=limits.cpu_seconds,
        nofile=256,
    )


def _command(program: Program) -> tuple[list[str], list[Path]]:
    """Return what runs a program, and what must be readable for it."""
    if program.language == "python":
        binary, packages = engine_program("monty", "pydantic_monty")
        python = Path(os.path.realpath(sys.executable))
        readable = [
            binary,
            packages / "pydantic_monty",
            packages / "typing_extensions.py",
            CODE,
            *program_files.needs(python, os.environ),
        ]
        return [str(python), "-I", "-S", str(CODE / "program.py"), str(PORT), str(binary), str(packages)], readable
    binary, _ = engine_program("deno", "deno")
    limits = program.limits
    flags = f"--v8-flags=--jitless,--max-old-space-size={limits.memory_mb}"
    allowed = f"--allow-net=127.0.0.1:{PORT}"
    return [str(binary), *DENO_OPTIONS, allowed, flags, str(CODE / "program.js"), str(PORT)], [binary, CODE]


def engine_program(name: str, module: str) -> tuple[Path, Path]:
    """Return the program of an engine, and the folder of its Python package; BadRequest if it is not installed."""
    spec = importlib.util.find_spec(module)
    packages = Path(spec.origin).parents[1] if spec and spec.origin else None
    places = [Path(sysconfig.get_path("scripts"))]
    if packages:
        places += [packages / "bin", packages.parents[2] / "bin"]
    found = next((place / name for place in places if os.access(place / name, os.X_OK)), None)
    if found is None and (listed := shutil.which(name)):
        found = Path(listed)
    if found is None or (packages is None and name == "monty"):
        raise BadRequest(f"{name} is not installed: it runs programs", hint=INSTALL)
    return found, packages or found.parent
