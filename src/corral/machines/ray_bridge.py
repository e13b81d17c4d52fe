"""The driver of a Ray cluster in a process of its own: places attempts on nodes and carries their frames.

An engine starts `python -m corral.machines.ray_bridge ADDRESS` and speaks frames with it. Ray ends a driver whose head
is gone for a minute: that costs a connection, and no engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from corral.machines.calls import PROTOCOL, CarriedAttempt, Hello, MachineFacts, PlaceAttempt, Placement, RayNode
from corral.machines.far_end.server import open_stdio
from corral.machines.frames import ByteStream, CallFrame, Connection
from corral.model.errors import BadRequest, CorralError
from corral.version import __version__

T = TypeVar("T")
NAMESPACE = "corral"  #: of our actors; engines that share a store find each other's
CARRIER = "corral.machines.ray_carrier"  #: its source is sent to the nodes
PIECE = 512 << 10  #: bytes that one call of an actor carries
POLL_SECONDS = 10.0
TCP_SECONDS, CALL_SECONDS = 5.0, 30.0
MOST_WORDS = 400
AGAIN = "corral machines check"
SLOW_START = "Initialization failure from server"  #: a busy head gives up its own process for us after half a minute


class ClusterDriver:
    """The actors of one engine in one cluster."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._ray: Any = None
        self._carrier: Any = None  #: the class of our actors
        self._carriers: dict[str, Any] = {}
        self._last_words: dict[str, str] = {}  #: of hosts that ended, by attempt

    async def answer(self, call: CallFrame) -> object:
        match call.verb:
            case "hello":
                return await self._greet(msgspec.msgpack.decode(call.body, type=Hello))
            case "renew":
                return []
            case "nodes":
                return await self._call_ray(self._nodes)
            case "place":
                return await self._place(msgspec.msgpack.decode(call.body, type=PlaceAttempt))
            case "release":
                return await self._release(msgspec.msgpack.decode(call.body, type=CarriedAttempt))
            case "last_words":
                return self._last_words.pop(call.attempt, "")
            case _:
                raise BadRequest(f"a cluster does not answer `{call.verb[:40]}`", hint=AGAIN)

    async def _greet(self, hello: Hello) -> MachineFacts:
        if hello.protocol != PROTOCOL:
            raise BadRequest("the bridge to Ray is of another version", hint="install corral anew, then start it again")
        if self._ray is None:
            await asyncio.to_thread(self._connect)
        nodes = await self._call_ray(self._nodes)
        ray: Any = importlib.import_module("ray")
        return MachineFacts(version=__version__, python=f"ray {ray.__version__}", nodes=tuple(nodes))

    def _connect(self) -> None:
        if importlib.util.find_spec("ray") is None:
            raise BadRequest("Ray is not installed beside corral", hint="pip install 'corral[ray]'")
        _knock(self._address)
        ray = importlib.import_module("ray")
        for tries_left in (2, 1, 0):
            try:
                ray.init(self._address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
                break
            except Exception as error:  # Ray raises errors of many kinds; each is one line here
                words = " ".join(str(error).split())
                if not tries_left or SLOW_START not in words:
                    raise _refusal(self._address, words) from error
        carrier = importlib.import_module(CARRIER)
        ray.cloudpickle.register_pickle_by_value(carrier)
        self._ray, self._carrier = ray, ray.remote(carrier.Carrier)

    async def _call_ray(self, work: Any, *words: Any) -> Any:  # noqa: ANN401
        """Do what Ray may never come back from; without an answer this process is of no use any more."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await asyncio.to_thread(work, *words)
        except TimeoutError as error:
            asyncio.get_running_loop().call_later(1, os._exit, 1)
            raise CorralError(f"the Ray cluster at {self._address} did not answer for {CALL_SECONDS:.0f} s") from error

    def _nodes(self) -> list[RayNode]:
        found: list[dict[str, Any]] = self._ray.nodes()
        return [
            RayNode(
                id=each["NodeID"],
                name=each.get("NodeManagerHostname", ""),
                resources={name: float(value) for name, value in each.get("Resources", {}).items()},
                labels=msgspec.convert(each.get("Labels") or {}, dict[str, str], strict=False),
            )
            for each in found
            if each.get("Alive")
        ]

    # --- places

    async def _place(self, order: PlaceAttempt) -> Placement:
        """Return the node of an attempt's actor, made where there is none; idempotent."""
        if order.attempt not in self._carriers:
            found = await self._call_ray(self._find, order)
            if (
                found is None
                and order.node
                and order.node not in {each.id for each in await self._call_ray(self._nodes)}
            ):
                return Placement(lost=True, reason="its node is gone from the Ray cluster")
            self._carriers[order.attempt] = found or await self._call_ray(self._make, order)
        try:
            async with asyncio.timeout(order.wait_seconds):
                node, name = await _result(self._carriers[order.attempt].where.remote())
        except TimeoutError:
            return Placement(reason=_why_pending(order, await self._call_ray(self._nodes)))
        except Exception as error:  # noqa: BLE001 -- Ray's errors about an actor share no base in all versions
            self._carriers.pop(order.attempt, None)
            return Placement(reason=f"Ray lost its actor: {' '.join(str(error).split())[:MOST_WORDS]}")
        return Placement(node=node, name=name)

    def _find(self, order: PlaceAttempt) -> Any:  # noqa: ANN401
        """Return the actor that this attempt has already: of this epoch, or of one before."""
        start = f"attempt:{order.attempt}:"
        names = [name for name in self._ray.util.list_named_actors() if name.startswith(start)]
        epochs = sorted(int(name.removeprefix(start)) for name in names)
        if epochs and epochs[-1] > order.epoch:
            raise BadRequest(f"attempt {order.attempt} belongs to a later epoch ({epochs[-1]})", hint=AGAIN)
        with contextlib.suppress(ValueError):  # it ended meanwhile
            return self._ray.get_actor(f"{start}{epochs[-1]}", namespace=NAMESPACE) if epochs else None
        return None

    def _make(self, order: PlaceAttempt) -> Any:  # noqa: ANN401
        options: dict[str, Any] = {"resources": dict(order.resources)} if order.resources else {}
        if order.node:  # its host is there: the actor alone was lost
            strategies = importlib.import_module("ray.util.scheduling_strategies")
            options["scheduling_strategy"] = strategies.NodeAffinitySchedulingStrategy(order.node, soft=False)
        elif order.labels:
            options["label_selector"] = dict(order.labels)
        actor = self._carrier.options(
            name=f"attempt:{order.attempt}:{order.epoch}",
            lifetime="detached",
            get_if_exists=True,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=8,
            num_cpus=0,
            **options,
        )
        return actor.remote(list(order.command), order.lease_seconds)

    async def _release(self, order: CarriedAttempt) -> None:
        carrier = self._carriers.pop(order.attempt, None)
        if carrier is not None:
            await self._call_ray(self._ray.kill, carrier)

    # --- bytes

    async def carry(self, stream: ByteStream, about: Raw) -> None:
        """Carry the frames of one attempt between its engine and the host on its node."""
        order = msgspec.msgpack.decode(about, type=CarriedAttempt)
        carrier = self._carriers.get(order.attempt)
        if carrier is None:
            raise BadRequest("it has no place yet", hint=AGAIN)
        try:
            channel, trouble = await _result(carrier.open.remote(order.epoch))
            if not channel:
                self._last_words[order.attempt] = trouble
                raise BadRequest(trouble, hint=AGAIN)  # noqa: TRY301 -- it is not Ray's
            tasks = [
                asyncio.create_task(self._outward(order.attempt, carrier, channel, stream)),
                asyncio.create_task(_inward(carrier, channel, stream)),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        except CorralError:
            raise
        except Exception as error:
            self._carriers.pop(order.attempt, None)
            raise CorralError(f"Ray lost its actor: {error}") from error

    async def _outward(self, attempt: str, carrier: Any, channel: int, stream: ByteStream) -> None:  # noqa: ANN401
        ended = False
        while not ended:
            data, ended, words = await _result(carrier.read.remote(channel, POLL_SECONDS))
            if data:
                await stream.write(data)
            if words:
                self._last_words[attempt] = words
        await stream.end()


async def _inward(carrier: Any, channel: int, stream: ByteStream) -> None:  # noqa: ANN401
    while data := await stream.read(PIECE):
        if not await _result(carrier.write.remote(channel, data)):
            return
    await _result(carrier.write.remote(channel, b""))


def _result(reference: Any) -> Awaitable[Any]:  # noqa: ANN401
    """Wait for a call of an actor, on a node of the cluster as from outside."""
    return asyncio.wrap_future(reference.future())


def _refusal(address: str, words: str) -> CorralError:
    """Say why a cluster did not take us."""
    if "ersion mismatch" in words:
        hint = "one minor version of Python and one version of Ray for engine and cluster"
        return BadRequest(f"the Ray cluster is of another version: {words[:MOST_WORDS]}", hint=hint)
    if "UNAUTHENTICATED" in words or "uthentication" in words:
        hint = "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH=FILE in the environment of the engine"
        return BadRequest(f"the Ray cluster at {address} refused the token", hint=hint)
    if "connection timeout" in words:  # all that Ray says of a wrong token, too
        hint = "is it a Ray head, and its token in RAY_AUTH_TOKEN_PATH=FILE with RAY_AUTH_MODE=token?"
        return CorralError(f"Ray at {address} did not answer: {words[-MOST_WORDS:]}", hint=hint)
    return CorralError(f"Ray at {address}: {words[-MOST_WORDS:]}")


def _knock(address: str) -> None:
    """Find out whether anything listens there: Ray itself would wait for minutes."""
    place, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        try:
            socket.create_connection((place.strip("[]"), int(port)), TCP_SECONDS).close()
        except OSError as error:
            raise CorralError(f"nothing answers at {address}: {error.strerror or error}") from error


def _why_pending(order: PlaceAttempt, nodes: Sequence[RayNode]) -> str:
    """Say what the cluster lacks now; a node that the autoscaler brings may have it."""
    asked = ", ".join(f"{name} = {value}" for name, value in order.labels.items())
    fitting = [each for each in nodes if order.labels.items() <= dict(each.labels).items()]
    if not fitting:
        return f"no node of the Ray cluster has {asked or 'joined yet'}"
    counted = ", ".join(f"{name} = {value:g}" for name, value in order.resources.items())
    if not any(_offers(each.resources, order.resources) for each in fitting):
        return f"no node of the Ray cluster offers {counted}"
    return f"no place yet on a node of the Ray cluster{' that offers ' if counted else ''}{counted}"


def _offers(there: Mapping[str, float], asked: Mapping[str, float]) -> bool:
    return all(there.get(name, 0.0) >= value for name, value in asked.items())


async def serve(address: str) -> None:
    reader, writer = await open_stdio()
    connection = Connection(reader, writer, first=1)
    bridge = ClusterDriver(address)
    connection.on_call, connection.on_stream = bridge.answer, bridge.carry
    await connection.serve()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its engine tells it when to leave
    os.chdir(Path(tempfile.gettempdir()))
    try:
        asyncio.run(serve(sys.argv[1]))
    finally:
        os._exit(0)  # whatever Ray still waits for


if __name__ == "__main__":
    main()
