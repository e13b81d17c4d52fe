"""The connection of this process to one machine, opened when it is needed, and the ports of boxes that it carries."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Raw, structs

from corral import agents
from corral.config.settings import MachineProfile
from corral.machines.calls import (
    PROTOCOL,
    CarriedAttempt,
    Hello,
    MachineFacts,
    PlaceAttempt,
    Placement,
    RelayedPort,
    Renewal,
)
from corral.machines.frames import MOST_WORDS, PIECE, ByteStream, Connection, MachineLost, join_socket
from corral.machines.logs import Tail
from corral.model.agent_api import AgentProfile
from corral.model.errors import BadRequest, CorralError
from corral.rules.text.redact import likely_secrets
from corral.version import __version__
from corral.world import process
from corral.world.process import ProcessStart
from corral.world.sandbox.probe import is_at_least

T = TypeVar("T")
HELLO_SECONDS, LEAST_SECONDS, CLUSTER_SECONDS = 30.0, 5.0, 120.0
BRIDGE = "corral.machines.ray_bridge"
FAILED_SECONDS = 8.0  #: for so long a machine that was not reached is not tried again
AGAIN_SECONDS = 1.0  #: between two tries to connect
KEPT = ("SSH_AUTH_SOCK", "XAUTHORITY")  #: they say where something is, not what it is
OnPort = Callable[[int, ByteStream], Awaitable[None]]


class MachineLink:
    """One machine as this process reaches it."""

    def __init__(self, name: str, profile: MachineProfile, engine: str) -> None:
        self.name, self.profile, self.engine = name, profile, engine
        self.facts: MachineFacts | None = None
        self._is_cluster = profile.ray is not None
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._ports: dict[str, OnPort] = {}  # by attempt
        self._said = Tail()
        self._failure: MachineLost | None = None
        self._failed_at = 0.0

    async def connect(self) -> Connection:
        """Return the connection, made anew where there is none; MachineLost where the machine cannot be reached."""
        async with self._connecting:
            if self._connection is None or self._connection.gone.is_set():
                # Of no run: the connection serves all of them, and outlives each.
                if self._failure and time.monotonic() - self._failed_at < FAILED_SECONDS:
                    raise MachineLost(str(self._failure), hint=self._failure.hint)  # it was just tried
                starting = asyncio.get_running_loop().create_task(self._start(), context=contextvars.Context())
                self._connection = await starting
            return self._connection

    async def ask(self, verb: str, body: object = None, kind: type[T] = object, *, attempt: str = "") -> T:
        return await (await self.connect()).ask(verb, body, kind, attempt=attempt)

    def on_port(self, attempt: str, relay: OnPort | None) -> None:
        """Say who answers the ports of an attempt's box."""
        if relay:
            self._ports[attempt] = relay
        else:
            self._ports.pop(attempt, None)

    @property
    def _patience(self) -> float:
        """How long a first answer may take."""
        if self.profile.ray:
            return CLUSTER_SECONDS if self._is_cluster else HELLO_SECONDS
        return min(HELLO_SECONDS, max(LEAST_SECONDS, self.lease_seconds))

    @property
    def lease_seconds(self) -> float:
        return self.profile.lease_seconds

    async def place(self, order: PlaceAttempt) -> MachineLink | str:
        """Return what reaches the machine of one attempt; words: why it still waits."""
        if not self._is_cluster:
            return self
        found = await self.ask("place", order, Placement)
        if not found.node:
            return found.reason[:MOST_WORDS]
        return ClusterLink(self, structs.replace(order, node=found.node))

    async def release(self, attempt: str) -> None:
        """Give back what was taken for one attempt alone."""

    async def _open(self) -> Connection:
        command = (sys.executable, "-m", BRIDGE, self.profile.ray) if self.profile.ray else self.profile.command
        try:
            program = process.start_piped(command, _environment(os.environ, ray=bool(self.profile.ray)))
        except CorralError as error:
            raise MachineLost(f"the machine `{self.name}` cannot be reached: {error}", hint=self._hint()) from error
        reader, writer = await _open_pipes(program.stdout, program.stdin)
        connection = Connection(reader, writer, first=0)
        connection.start(self._hear_complaints(program.stderr))
        return connection

    async def _start(self) -> Connection:
        self._said = Tail()
        connection = await self._open()
        connection.on_stream = self._serve_stream
        connection.start(connection.serve())
        try:
            async with asyncio.timeout(self._patience):
                hello = Hello(version=__version__, protocol=PROTOCOL, engine=self.engine)
                self.facts = await connection.ask("hello", hello, MachineFacts)
            if (self.facts.version, self.facts.protocol) != (__version__, PROTOCOL):
                raise BadRequest(  # noqa: TRY301 -- as if it had refused us
                    f"this host says that it is corral {self.facts.version[:40]}, the engine is corral {__version__}",
                    hint=f"install corral {__version__} on that machine",
                )
        except BadRequest as error:  # another version
            connection.close()
            raise BadRequest(f"the machine `{self.name}`: {error}", hint=error.hint) from error
        except (CorralError, TimeoutError) as error:
            connection.close()
            raise await self._lost_machine(error) from error
        connection.start(self._keep_alive(connection))
        return connection

    async def _lost_machine(self, error: Exception) -> MachineLost:
        await asyncio.sleep(0.05)  # its last words may come after its end
        refused = type(error) is CorralError  # it says itself why
        words = str(error) if refused else " ".join(self._said.text().split())[-400:]
        reason = words or (
            f"no answer within {self._patience:.0f} s" if isinstance(error, TimeoutError) else str(error)
        )
        hint = (error.hint if isinstance(error, CorralError) else "") or self._hint()
        lost = MachineLost(f"the machine `{self.name}` cannot be reached: {reason}", hint=hint)
        self._failure, self._failed_at = lost, time.monotonic()
        return lost

    def _hint(self) -> str:
        return f"try it: corral machines check {self.name}"

    def check(self, facts: MachineFacts) -> None:
        """Refuse a machine whose sandbox is weaker than its settings ask for; a node of a cluster once it is chosen."""
        if self._is_cluster:
            return
        if not is_at_least(facts.level, self.profile.sandbox):
            raise BadRequest(
                f"the machine `{self.name}` holds the sandbox level `{facts.level}`, not `{self.profile.sandbox}`"
                + (f": {facts.reason}" if facts.reason else ""),
                hint=f'for agents you trust with it: [machines.{self.name}] sandbox = "{facts.level}"',
            )

    async def _keep_alive(self, connection: Connection) -> None:
        """Renew the leases; a machine that does not answer for the time of a lease is lost."""
        every, answered = self.lease_seconds / 4, time.monotonic()
        while not connection.gone.is_set():
            with contextlib.suppress(TimeoutError, CorralError):
                async with asyncio.timeout(every):
                    await connection.ask("renew", Renewal(tuple(self._ports)), list[str])
                    answered = time.monotonic()
            if time.monotonic() - answered > self.lease_seconds:
                connection.reason = f"it did not answer for {self.lease_seconds:.0f} s"
                connection.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every):
                    await connection.gone.wait()

    async def _serve_stream(self, stream: ByteStream, about: Raw) -> None:
        order = msgspec.msgpack.decode(about, type=RelayedPort)
        if relay := self._ports.get(order.attempt):
            await relay(order.port, stream)

    async def _hear_complaints(self, descriptor: int) -> None:
        reader = await _open_reader(descriptor)
        while data := await reader.read(PIECE):
            self._said.write(data)

    def close(self) -> None:
        if self._connection:
            self._connection.close()


class ClusterLink(MachineLink):
    """The node of a Ray cluster on which one attempt was placed, reached through the bridge."""

    def __init__(self, cluster: MachineLink, order: PlaceAttempt) -> None:
        super().__init__(cluster.name, cluster.profile, cluster.engine)
        self._cluster, self._order = cluster, order
        self._is_cluster = False

    async def _open(self) -> Connection:
        bridge = await self._cluster.connect()
        placed = await bridge.ask("place", self._order, Placement)
        if placed.lost:
            raise CorralError(f"the machine `{self.name}` lost it: {placed.reason[:MOST_WORDS]}")
        if not placed.node:
            raise MachineLost(f"the machine `{self.name}` cannot be reached: {placed.reason[:MOST_WORDS]}")
        stream = await bridge.open(CarriedAttempt(attempt=self._order.attempt, epoch=self._order.epoch))
        ours, theirs = socket.socketpair()
        bridge.start(join_socket(stream, *await asyncio.open_connection(sock=theirs)))
        return Connection(*await asyncio.open_connection(sock=ours), first=0)

    async def _lost_machine(self, error: Exception) -> MachineLost:
        with contextlib.suppress(CorralError, TimeoutError):
            async with asyncio.timeout(LEAST_SECONDS):
                words = await self._cluster.ask("last_words", None, str, attempt=self._order.attempt)
                self._said.write(words.encode())
        return await super()._lost_machine(error)

    async def release(self, attempt: str) -> None:
        self.close()
        with contextlib.suppress(CorralError, TimeoutError):  # without an engine the place is given back anyway
            async with asyncio.timeout(LEAST_SECONDS):
                await self._cluster.ask("release", CarriedAttempt(attempt=attempt, epoch=self._order.epoch))


class MachineLinks:
    """The machines of this process, by name."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._links: dict[str, MachineLink] = {}

    def link(self, name: str, profile: MachineProfile) -> MachineLink:
        known = self._links.get(name)
        if known is None or known.profile != profile:
            known = self._links[name] = MachineLink(name, profile, self._engine)
        return known

    def close(self) -> None:
        for link in self._links.values():
            link.close()


_LINKS: WeakKeyDictionary[asyncio.AbstractEventLoop, MachineLinks] = WeakKeyDictionary()


def current_links(state: Path) -> MachineLinks:
    """Return the machines of this process, as far as the event loop that runs now has reached them."""
    return _LINKS.setdefault(asyncio.get_running_loop(), MachineLinks(str(state)))


def _environment(environment: Mapping[str, str], *, ray: bool) -> dict[str, str]:
    """Return what the command is started with: all but keys, for a host on this machine would have them too.

    The bridge to Ray runs here, beside the engine, and shows its cluster's token to the cluster alone.
    """
    keys: set[str] = set()
    for name in agents.names({}):
        with contextlib.suppress(CorralError):  # one that needs more than its name
            keys |= {*agents.find(name, {name: AgentProfile()}).facts.keys}
    secret = ({*likely_secrets(environment)} | keys) - {*KEPT}
    return {
        name: value for name, value in environment.items() if name not in secret or (ray and name.startswith("RAY_"))
    }


async def _open_reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=PIECE)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _open_pipes(inward: int, outward: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = await _open_reader(inward)
    pipe = os.fdopen(outward, "wb", buffering=0)
    transport, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    return reader, asyncio.StreamWriter(transport, flow, reader, loop)


class PortRelay:
    """One private socket for each port; closed with the box."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="corral-")
        self._paths = {port: Path(self._folder.name, str(port)) for port in ports}

    def start(self) -> ProcessStart:
        """Return what a network is served by in the place of a process with a box of this machine."""
        return ProcessStart(argv=(), env={}, listeners=self._listen)

    async def _listen(self) -> list[socket.socket]:
        found: list[socket.socket] = []
        for path in self._paths.values():
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(str(path))
            listener.listen(64)
            listener.setblocking(False)  # noqa: FBT003
            found.append(listener)
        return found

    async def carry(self, port: int, stream: ByteStream) -> None:
        """Carry a connection that came from the box to the program that answers that port."""
        path = self._paths.get(port)
        if path is None:
            return
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_unix_connection(path)
            await join_socket(stream, reader, writer)

    def close(self) -> None:
        self._folder.cleanup()
