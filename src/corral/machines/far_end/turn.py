"""One turn of an agent on this machine: its process in its box, and a file of its output that can be read again."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from corral.machines import collect_work
from corral.machines.boxes import BoxedProgram
from corral.machines.calls import AgentStart, LaidFile, TurnEnd
from corral.machines.host import MOST_READ_BACK, STARTED_ELSEWHERE, Host
from corral.machines.resolved_agent import BRIDGE, HOOK, ProgramSearch
from corral.model.agent_api import Command
from corral.model.errors import BadRequest, CorralError
from corral.world.git import collect
from corral.world.process import Exit, ProcessControl, ProcessStart
from corral.world.sandbox import program_files
from corral.world.sandbox.confine import has_own_processes
from corral.world.workspace import checkout
from corral.world.workspace.checkout import Workspace

Relay = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
STDOUT, STDERR, ENDING, END = 1, 2, 3, 4
HEAD_BYTES = 5  #: of a record: its kind, then the length of its data
PIECE = 128 << 10
MOST_REST = 8 << 20  #: bytes of records that a full disk has no room for
RecordKind = Literal[1, 2, 3, 4]


class RelayedNetwork(Struct, frozen=True):
    """The network of a box whose ports are answered by the engine."""

    listeners: tuple[int, ...]
    open: bool
    env: Mapping[str, str]
    relay: Relay
    whole: bool = False

    @contextlib.asynccontextmanager
    async def serve(self, start: ProcessStart, talk: ProcessControl) -> AsyncGenerator[None]:  # noqa: ARG002
        """Relay every connection to a port of the box for as long as the box runs."""
        servers: list[asyncio.Server] = []

        async def listen() -> None:
            with contextlib.suppress(CorralError):  # the box did not come up: what went wrong there says so itself
                sockets = await start.listeners() if start.listeners else []
                for port, listener in zip(self.listeners, sockets, strict=False):
                    servers.append(await asyncio.start_server(self._accept(port), sock=listener))

        listening = asyncio.create_task(listen())
        try:
            yield
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            for server in servers:
                server.close()

    def _accept(self, port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(CorralError, OSError):
                await self.relay(port, reader, writer)
            writer.close()

        return accept


class FarTurn:
    """An agent at work, or what it left when it ended."""

    def __init__(self, host: Host, number: int, order: AgentStart, spool: Spool) -> None:
        self.number, self.order, self.spool = number, order, spool
        self._host = host
        self.talk, self.halt = ProcessControl(), asyncio.Event()
        self.working = True
        self.answered = -1  #: the offset of the last output that was answered
        self.task: asyncio.Task[None] | None = None

    async def run(self, relay: Relay) -> None:
        """Run it to its end; what went wrong is the last record of its spool."""
        kills = self._host.boxes.memory_kills
        try:
            made = checkout.read_workspace(self._host.state / "workspaces" / self.order.workspace / "work")
            ended = await self._follow(made, relay)
            files = {name: checkout.read_below(made.tree, name, MOST_READ_BACK) for name in self.order.read_back}
            end = TurnEnd(
                code=ended.code,
                why=ended.why,
                leftovers=tuple(ended.leftovers),
                files={name: content for name, content in files.items() if content is not None},
                memory_kills=self._host.boxes.memory_kills - kills,
                disk_has_room=self._host.disk_has_room,
            )
            if self.spool.full:
                end = TurnEnd(code=1, error=self.spool.full)
        except Exception as error:  # noqa: BLE001 -- its engine waits for the end, however that came
            end = TurnEnd(code=1, error=str(error) or type(error).__name__)
        self.spool.write(END, msgspec.msgpack.encode(end))
        self.spool.close()
        self.working = False

    async def _follow(self, made: Workspace, relay: Relay) -> Exit:
        host, order, folder = self._host, self.order, made.tree.parent
        network = RelayedNetwork(order.ports, order.open, order.network_env, relay)
        argv, readable = self._resolve(folder)
        env = dict(order.env)
        boxed = host.level != "none"
        if boxed and "PATH" not in env and (first := self._programs(folder).search(Command(argv=tuple(self._words)))):
            env["PATH"] = os.pathsep.join([*first, host.boxes.box(made, folder).env["PATH"]])
        self._fill_home(folder / "home")
        writable = (folder / "out",) if boxed else ()
        box = host.boxes.box(made, folder, network=network, env=env, readable=readable, writable=writable)
        scope = host.boxes.fitted.scope
        alone = (
            has_own_processes(host.level) and not (scope.file_mb or scope.cpu_seconds) and not host.hidden_paths(made)
        )
        if alone:
            out = await collect_work.empty_folder(folder / "out")
            argv = collect.then_collect(argv, made, collect_work.message(host), host.base, out)
        program = BoxedProgram(
            argv=argv, stdin=order.stdin, talks=order.talks, wrapped=alone, raw=self._spool_output, stop=self.halt
        )

        async def before_end() -> None:
            self.spool.write(ENDING, (self.talk.ending or "").encode())
            with contextlib.suppress(CorralError, OSError, TimeoutError):
                async with asyncio.timeout(collect_work.KEEP_SECONDS), host.snapping:
                    await collect_work.make_snapshot(host, made)

        self.talk.before_end = before_end
        return await host.boxes.follow(program, box, order.limits, network, self.talk)

    def _spool_output(self, name: str, chunk: bytes) -> None:
        self.spool.write(STDOUT if name == "stdout" else STDERR, chunk)
        if self.spool.full:
            self.halt.set()

    def _programs(self, folder: Path) -> ProgramSearch:
        return ProgramSearch(self.order.agent, self.order.install, str(folder / "shipped"))

    def _resolve(self, folder: Path) -> tuple[list[str], list[Path]]:
        """Return the argv with the paths of this machine, and what must be readable for it."""
        order = self.order
        self._words = list(order.argv)
        place = folder / "shipped"
        place.mkdir(exist_ok=True, mode=0o755)
        for word, file in order.shipped.items():
            if not 0 <= word < len(self._words):
                raise BadRequest("a file came for a word that the command does not have")
            self._words[word] = str(_lay(place / str(word), file))
        command = Command(argv=tuple(self._words), programs=order.programs)
        argv, readable = self._programs(folder).resolve(command)
        if order.bridged:
            python = Path(os.path.realpath(sys.executable))
            readable = [*readable, *program_files.needs(python, os.environ), BRIDGE, HOOK]
        if order.cwd:
            argv = ["/bin/sh", "-c", STARTED_ELSEWHERE, "start", order.cwd, *argv]
        return argv, [*readable, place]

    def _fill_home(self, home: Path) -> None:
        for name, content in {**self.order.files, **self.order.logins}.items():
            checkout.write_below(home, plain_name(name), io.BytesIO(content), self._host.owner)
        self._host.logins += [plain_name(name) for name in self.order.logins]

    def say(self, data: bytes | None, after: int) -> None:
        self.answered = max(self.answered, after)
        self.talk.say(data)

    def stop(self) -> None:
        self.halt.set()


def _lay(place: Path, file: LaidFile) -> Path:
    place.mkdir(exist_ok=True, mode=0o755)
    path = place / Path(file.name).name
    path.write_bytes(file.content)
    path.chmod(0o755 if file.mode & 0o111 else 0o644)
    return path


def plain_name(name: str) -> str:
    """Return a path below a folder; BadRequest where it leads out of it."""
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise BadRequest(f"`{name[:100]}` is not a path below the folder that it is for")
    return name


class Spool:
    """An append-only file of records, and its followers; where the disk is full, the rest is kept in memory."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = path
        self._file = path.open("wb", buffering=0)
        self._size, self._rest = 0, bytearray()  # of the file; what comes after it
        self._changed = asyncio.Event()
        self.closed = False
        self.full = ""  #: why records were left out

    def write(self, kind: RecordKind, data: bytes) -> None:
        record = memoryview(bytes([kind]) + len(data).to_bytes(4) + data)
        error: OSError | None = None
        while record and not self._rest and error is None:
            try:
                written = self._file.write(record)
            except OSError as failed:
                error = failed
            else:
                self._size, record = self._size + written, record[written:]
        if kind != END and len(self._rest) + len(record) > MOST_REST:
            self.full = "No space left on device: what it prints cannot be kept"
        else:
            self._rest += record
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def close(self) -> None:
        """Say that nothing more comes."""
        self.closed = True
        self._file.close()
        self._changed.set()

    async def follow(self, offset: int) -> AsyncGenerator[bytes]:
        """Yield what is in the file from an offset on, and what comes, to its end."""
        with self._path.open("rb") as file:
            file.seek(offset)
            while True:
                changed, closed = self._changed, self.closed
                while data := file.read(PIECE) or bytes(self._rest[max(0, offset - self._size) :][:PIECE]):
                    offset += len(data)
                    yield data
                if closed:
                    return
                await changed.wait()


class RecordReader:
    """Puts records together from the pieces in which they come."""

    def __init__(self, offset: int = 0) -> None:
        self._part, self.offset = bytearray(), offset  #: after the last whole record

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the records that are whole by now; each is counted in before it is passed on."""
        self._part += data
        while len(self._part) >= HEAD_BYTES:
            size = int.from_bytes(self._part[1:HEAD_BYTES])
            if len(self._part) - HEAD_BYTES < size:
                return
            kind, content = self._part[0], bytes(self._part[HEAD_BYTES : HEAD_BYTES + size])
            del self._part[: HEAD_BYTES + size]
            self.offset += HEAD_BYTES + size
            yield kind, content

    @property
    def waiting_bytes(self) -> int:
        """How much of a record has come that is not whole yet."""
        return len(self._part)
