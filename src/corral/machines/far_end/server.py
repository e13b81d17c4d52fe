"""`corral host`: answers engines over stdin and stdout; one process of a machine holds all attempts there."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from corral import agents
from corral.machines.calls import (
    PROTOCOL,
    AttemptPlace,
    EngineStream,
    FetchFile,
    Hello,
    MachineFacts,
    MirrorQuestion,
    OpenAttempt,
    Renewal,
    TakePack,
)
from corral.machines.far_end.far_attempt import FarAttempt
from corral.machines.frames import PIECE, ByteStream, CallFrame, Connection
from corral.machines.mirrors import Mirror
from corral.machines.resolved_agent import BRIDGE
from corral.model.agent_api import AgentProfile
from corral.model.errors import BadRequest, CorralError
from corral.version import __version__
from corral.world.sandbox import program_files
from corral.world.sandbox.probe import probe
from corral.world.sandbox.program_files import find
from corral.world.workspace import checkout

LOOK_SECONDS = 0.25  #: between two looks at leases
MOST_PACK = 16 << 30
LEFT = ("workspaces", "spool", "logs")  #: folders that hold what attempts leave
KEEP_SECONDS, CLEAN_SECONDS = 7 * 86_400.0, 3600.0
JOIN_TRIES = 40
SOCKET, LOCK = "host.sock", "host.lock"


class HostServer:
    """All attempts of this machine, and the engines that are connected."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._attempts: dict[str, FarAttempt] = {}
        self._connections: set[Connection] = set()
        self._facts: MachineFacts | None = None
        self._idle = asyncio.Event()

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one engine until it is gone; its attempts stay, for as long as their leases hold."""
        connection = Connection(reader, writer, first=1)
        greeted = False

        async def answer(call: CallFrame) -> object:
            nonlocal greeted
            if call.verb == "hello":
                facts = await self._greet(_decode(call.body, Hello))
                greeted = True
                return facts
            if not greeted:
                raise BadRequest("an engine says hello first")
            return await self._answer(connection, call)

        async def stream(opened: ByteStream, about: Raw) -> None:
            if greeted:
                await self._serve_stream(opened, about)

        connection.on_call, connection.on_stream = answer, stream
        self._connections.add(connection)
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)
            for attempt in self._attempts.values():
                attempt.detach(connection)
            self._look_idle()

    async def _greet(self, hello: Hello) -> MachineFacts:
        if hello.protocol != PROTOCOL or hello.version != __version__:
            raise BadRequest(
                f"this host is corral {__version__}, the engine is corral {hello.version}",
                hint=f"install corral {hello.version} on that machine",
            )
        if self._facts is None:
            self._facts = await gather_facts(self._state, 0)
        return msgspec.structs.replace(self._facts, attempts=len(self._attempts))

    async def _answer(self, connection: Connection, call: CallFrame) -> object:
        match call.verb:
            case "open":
                return await self._open(connection, _decode(call.body, OpenAttempt))
            case "renew":
                return self._renew(_decode(call.body, Renewal))
            case "mirror":
                asked = _decode(call.body, MirrorQuestion)
                return await Mirror(self._state, asked.mirror).state(asked.commits)
            case "programs":
                return {name: str(path) for name in _decode(call.body, list[str]) if (path := find(name, os.environ))}
            case "close":
                return await self._close(call.attempt)
            case _:
                return await self._attempt(call.attempt).answer(call.verb, call.body)

    async def _open(self, connection: Connection, order: OpenAttempt) -> AttemptPlace:
        known = self._attempts.get(order.attempt)
        if known and order.epoch < known.epoch:
            raise BadRequest(f"attempt {order.attempt} belongs to a later epoch ({known.epoch})")
        if known is None:
            facts = self._facts or await gather_facts(self._state, 0)
            known = self._attempts[order.attempt] = FarAttempt(self._state, facts.level, order)
        known.epoch, known.host.base = order.epoch, order.base
        return known.attach(connection)

    def _renew(self, renewal: Renewal) -> list[str]:
        """Renew leases; return the attempts that are here."""
        found = [name for name in renewal.attempts if name in self._attempts]
        for name in found:
            self._attempts[name].renew()
        return found

    async def _close(self, name: str) -> None:
        if attempt := self._attempts.pop(name, None):
            await attempt.close()
        self._look_idle()

    def _attempt(self, name: str) -> FarAttempt:
        found = self._attempts.get(name)
        if found is None:
            raise BadRequest(f"this host does not hold the attempt {name[:100]}")
        return found

    # --- streams

    async def _serve_stream(self, stream: ByteStream, about: Raw) -> None:
        order = msgspec.msgpack.decode(about, type=EngineStream)
        if isinstance(order, TakePack):
            await self._take_pack(order, stream)
        elif isinstance(order, FetchFile):
            await self._attempt(order.attempt).fetch(order, stream)
        else:
            await self._attempt(order.attempt).follow(order, stream)

    async def _take_pack(self, order: TakePack, stream: ByteStream) -> None:
        folder = self._state / "incoming"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            size = 0
            while data := await stream.read():
                size += len(data)
                if size > MOST_PACK:
                    raise CorralError("the pack is too large")
                file.write(data)
            file.flush()
            try:
                await Mirror(self._state, order.mirror).take(order, Path(file.name))
            except (CorralError, OSError) as error:
                await stream.write(str(error).encode() or b"the objects could not be taken")
        await stream.end()

    # --- leases

    async def keep_leases(self) -> None:
        """End attempts whose engine has not renewed them in time, by this machine's own clock."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
            for name, attempt in list(self._attempts.items()):
                if attempt.lease_until < now:
                    await self._close(name)

    async def keep_clean(self) -> None:
        """Remove what attempts left here that nobody asked for in a week: their engine is gone, or gave them up."""
        while True:
            for folder in sorted(each for place in LEFT for each in (self._state / place).glob("*")):
                with contextlib.suppress(CorralError, OSError):  # one that an attempt removes meanwhile
                    if time.time() - _changed_at(folder) > KEEP_SECONDS and not self._holds(folder.name):
                        await checkout.remove(folder)
            await asyncio.sleep(CLEAN_SECONDS)

    def _holds(self, name: str) -> bool:
        return any(f"{name}-".startswith(f"{attempt}-") for attempt in self._attempts)

    def _look_idle(self) -> None:
        if not self._connections and not self._attempts:
            self._idle.set()
        else:
            self._idle.clear()

    async def until_idle(self) -> None:
        """Return when nobody is connected and nothing is held."""
        await self._idle.wait()

    async def close(self) -> None:
        for name in list(self._attempts):
            await self._close(name)


def _changed_at(folder: Path) -> float:
    """Return when a folder, or something right in it, was last changed."""
    return max(each.lstat().st_mtime for each in (folder, *(folder.iterdir() if folder.is_dir() else ())))


def _decode(body: Raw, kind: Any) -> Any:  # noqa: ANN401
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(f"it cannot be read: {error}") from error


@contextlib.contextmanager
def _socket_path(state: Path) -> Generator[str]:
    """Yield a path of the socket that is short enough, wherever the state folder lies."""
    folder = os.open(state, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}" if sys.platform == "linux" else str(state / SOCKET)
    finally:
        os.close(folder)


async def open_stdio() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return stdin and stdout as streams; whatever else prints to stdout goes to stderr from here on."""
    loop = asyncio.get_running_loop()
    inward, outward = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=PIECE)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(inward, "rb", buffering=0))
    transport, flow = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(outward, "wb", buffering=0)
    )
    return reader, asyncio.StreamWriter(transport, flow, reader, loop)


async def run_host(state: Path) -> int:
    """Serve the process that started this program; where another host of this machine is there, pass on to that one."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    state.chmod(0o700)
    reader, writer = await open_stdio()
    lock = os.open(state / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    for _ in range(JOIN_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with contextlib.suppress(OSError), _socket_path(state) as path:
                there, back = await asyncio.open_unix_connection(path)
                await _pass_on(reader, writer, there, back)
                return 0
            await asyncio.sleep(LOOK_SECONDS)  # it starts, or is about to leave
        else:
            await _hold(state, reader, writer)
            return 0
    raise CorralError(f"another host holds {state / LOCK} and does not answer")


async def _hold(state: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    server = HostServer(state)
    (state / SOCKET).unlink(missing_ok=True)
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    for ignored in (signal.SIGHUP, signal.SIGINT):
        signal.signal(ignored, signal.SIG_IGN)
    with _socket_path(state) as path:
        listening = await asyncio.start_unix_server(server.attend, path)
    tasks = [
        asyncio.create_task(work)
        for work in (
            server.attend(reader, writer),
            server.until_idle(),
            stopped.wait(),
            server.keep_leases(),
            server.keep_clean(),
        )
    ]
    try:
        await asyncio.wait(tasks[1:], return_when=asyncio.FIRST_COMPLETED)
    finally:
        listening.close()
        (state / SOCKET).unlink(missing_ok=True)
        await server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: asyncio.StreamReader, back: asyncio.StreamWriter
) -> None:
    """Carry bytes between our own stdin and stdout and the host that is there."""

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(PIECE):
            target.write(data)
            await target.drain()

    tasks = [asyncio.create_task(carry(reader, back)), asyncio.create_task(carry(there, writer))]
    with contextlib.suppress(OSError):
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    back.close()


async def gather_facts(state: Path, attempts: int) -> MachineFacts:
    """Look at this machine: its sandbox, its programs, its size."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    held = await probe(state / "probe.json")
    pages, page = (os.sysconf(name) if name in os.sysconf_names else 0 for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
    return MachineFacts(
        version=__version__,
        python=platform.python_version(),
        interpreter=os.path.realpath(sys.executable),
        bridge=str(BRIDGE),
        platform=sys.platform,
        arch=platform.machine(),
        level=held.level,
        reason=held.reason,
        programs=_programs(),
        memory_mb=pages * page >> 20,
        cores=os.cpu_count() or 1,
        attempts=attempts,
    )


def _programs() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in agents.names({}):
        try:
            programs = agents.find(name, {name: AgentProfile()}).facts.programs
        except CorralError:
            continue
        paths = [program_files.find(program, os.environ) for program in programs]
        if first := next((path for path in paths if path), None):
            found[name] = str(first)
    return found
