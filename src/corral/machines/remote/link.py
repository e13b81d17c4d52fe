"""The connection of this process to one machine: started when it is needed, kept, and made again when it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Raw

from corral import agents
from corral.config.settings import MachineProfile
from corral.machines.calls import PROTOCOL, Hello, MachineFacts, RelayedPort, Renewal
from corral.machines.frames import PIECE, ByteStream, Connection, MachineLost
from corral.machines.logs import Tail
from corral.model.agent_api import AgentProfile
from corral.model.errors import BadRequest, CorralError
from corral.rules.text.redact import likely_secrets
from corral.version import __version__
from corral.world import process
from corral.world.sandbox.probe import is_at_least

T = TypeVar("T")
HELLO_SECONDS, LEAST_SECONDS = 30.0, 5.0
FAILED_SECONDS = 8.0  #: for so long a machine that was not reached is not tried again
AGAIN_SECONDS = 1.0  #: between two tries to connect
KEPT = ("SSH_AUTH_SOCK", "XAUTHORITY")  #: they say where something is, not what it is
OnPort = Callable[[int, ByteStream], Awaitable[None]]


class MachineLink:
    """One machine as this process reaches it."""

    def __init__(self, name: str, profile: MachineProfile, engine: str) -> None:
        self.name, self.profile, self._engine = name, profile, engine
        self.facts: MachineFacts | None = None
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
        return min(HELLO_SECONDS, max(LEAST_SECONDS, self.lease_seconds))

    @property
    def lease_seconds(self) -> float:
        return self.profile.lease_seconds

    async def _start(self) -> Connection:
        self._said = Tail()
        try:
            program = process.start_piped(self.profile.command, _environment(os.environ))
        except CorralError as error:
            raise MachineLost(f"the machine `{self.name}` cannot be reached: {error}", hint=self._hint()) from error
        reader, writer = await _open_pipes(program.stdout, program.stdin)
        connection = Connection(reader, writer, first=0)
        connection.on_stream = self._serve_stream
        connection.start(self._hear_complaints(program.stderr))
        connection.start(connection.serve())
        try:
            async with asyncio.timeout(self._patience):
                hello = Hello(version=__version__, protocol=PROTOCOL, engine=self._engine)
                self.facts = await connection.ask("hello", hello, MachineFacts)
        except BadRequest as error:  # another version
            connection.close()
            raise BadRequest(f"the machine `{self.name}`: {error}", hint=error.hint) from error
        except (CorralError, TimeoutError) as error:
            connection.close()
            raise await self._unreached(error) from error
        connection.start(self._keep_alive(connection))
        return connection

    async def _unreached(self, error: Exception) -> MachineLost:
        await asyncio.sleep(0.05)  # its last words may come after its end
        words = " ".join(self._said.text().split())[-400:]
        reason = words or (
            f"no answer within {self._patience:.0f} s" if isinstance(error, TimeoutError) else str(error)
        )
        lost = MachineLost(f"the machine `{self.name}` cannot be reached: {reason}", hint=self._hint())
        self._failure, self._failed_at = lost, time.monotonic()
        return lost

    def _hint(self) -> str:
        return f"try it: corral machines check {self.name}"

    def check(self, facts: MachineFacts) -> None:
        """Refuse a machine whose sandbox is weaker than its settings ask for."""
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


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the command is started with: all but keys, for a host on this machine would have them too."""
    keys: set[str] = set()
    for name in agents.names({}):
        with contextlib.suppress(CorralError):  # one that needs more than its name
            keys |= {*agents.find(name, {name: AgentProfile()}).facts.keys}
    secret = ({*likely_secrets(environment)} | keys) - {*KEPT}
    return {name: value for name, value in environment.items() if name not in secret}


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
