"""One attempt of an engine elsewhere: its workspaces, its agent's turns and its checks, done on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Raw, structs

from corral.machines import boxes, collect_work, scope
from corral.machines.boxes import Kept
from corral.machines.calls import (
    AgentStart,
    AttemptPlace,
    CheckAnswer,
    CheckOrder,
    CollectedFiles,
    CollectedName,
    CollectOrder,
    EndTurn,
    FetchFile,
    FollowTurn,
    HomeFolders,
    LaidFile,
    LineAnswer,
    LineOrder,
    MakeWorkspace,
    OpenAttempt,
    RelayedPort,
    StdinWords,
    WorkspaceFile,
)  # fmt: skip
from corral.machines.far_end.turn import FarTurn, Spool, plain_name
from corral.machines.frames import PIECE, ByteStream, Connection, join_socket
from corral.machines.host import Host
from corral.machines.local import LocalMachine
from corral.machines.logs import Log, Tail
from corral.machines.machine import Drop
from corral.machines.mirrors import Mirror
from corral.machines.workspace_host import WorkspaceHost
from corral.model import CheckResult, Level
from corral.model.errors import BadRequest
from corral.world.process import ProcessLimits
from corral.world.workspace import checkout, held_out
from corral.world.workspace.checkout import Workspace

MOST_LOG = 4 << 20  #: bytes of a check's log that go back


class FarAttempt:
    """Does the steps of one attempt for whichever connection of its engine is there."""

    def __init__(self, state: Path, level: Level, opened: OpenAttempt) -> None:
        mirror = Mirror(state, opened.mirror, opened.plan.identity)
        folder = str(mirror.folder)
        plan = structs.replace(opened.plan, repo=folder, git_dir=folder, level=level)
        self.name, self.epoch, self.lease_seconds = opened.attempt, opened.epoch, opened.lease_seconds
        self.host = Host(plan, opened.task, mirror.repository(), state, opened.attempt)
        self.host.base = opened.base
        self.host.copied = [structs.replace(file, name=plain_name(file.name)) for file in opened.copied]
        self.machine = LocalMachine(self.host)
        self.host.boxes.fitted = scope.of_agent(plan.scopes, opened.agent, plan.ignore)
        self.connection: Connection | None = None
        self._attached = asyncio.Event()
        self._caches = contextlib.AsyncExitStack()
        self.turn: FarTurn | None = None
        self.lease_until = 0.0
        self.renew()

    def renew(self) -> None:
        self.lease_until = time.monotonic() + self.lease_seconds

    def attach(self, connection: Connection) -> AttemptPlace:
        """Let a connection speak for its engine from now on."""
        self.connection = connection
        self._attached.set()
        self.renew()
        return self.place()

    def detach(self, connection: Connection) -> None:
        if self.connection is connection:
            self.connection = None
            self._attached.clear()

    def place(self) -> AttemptPlace:
        folder, turn = self.host.state / "workspaces", self.turn
        home = self.host.boxes.home(Workspace(folder / self.name / "work"), folder / self.name)
        return AttemptPlace(
            folder=str(folder),
            home=home,
            turn=turn.number if turn else 0,
            working=bool(turn and turn.working),
            note=turn.order.note if turn else b"",
            answered=turn.answered if turn else -1,
        )

    async def close(self) -> None:
        """End what runs and give back what was lent; workspaces stay until they are removed."""
        self.host.stop.set()
        if self.turn and self.turn.task:
            self.turn.stop()
            await asyncio.gather(self.turn.task, return_exceptions=True)
            with contextlib.suppress(OSError):
                await self.machine.forget_logins(self.turn.order.workspace)
        await self._caches.aclose()

    # --- calls

    async def answer(self, verb: str, body: Raw) -> object:
        self.renew()
        known = CALLS.get(verb)
        if known is None:
            raise BadRequest(f"`{verb[:40]}` is nothing that this host does")
        kind, step = known
        try:
            asked: Any = msgspec.msgpack.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadRequest(f"`{verb}`: {error}") from error
        return await step(self, asked)

    async def make(self, order: MakeWorkspace) -> list[str]:
        said: list[str] = []
        await self.machine.make(order.workspace, order.commit, needs=order.needs, say=said.append)
        return said

    async def take_over(self, order: WorkspaceFile) -> None:
        await self.machine.take_over(order.workspace)

    async def fit(self, order: WorkspaceFile) -> list[str]:
        return await self.machine.fit(order.workspace)

    async def fit_again(self, order: WorkspaceFile) -> None:
        await self.machine.fit_again(order.path)

    async def open_caches(self, order: WorkspaceFile) -> None:
        if self.host.boxes.cache is None:
            await self._caches.enter_async_context(self.machine.caches(order.workspace))

    async def close_caches(self, _: WorkspaceFile) -> None:
        await self._caches.aclose()
        self._caches, self.host.boxes.cache = contextlib.AsyncExitStack(), None

    async def lend(self, order: MakeWorkspace) -> None:
        if order.commit:
            await self.machine.lend(order.workspace, order.commit)

    async def has(self, order: WorkspaceFile) -> bool:
        return await self.machine.has(order.workspace, plain_name(order.path) if order.path else "")

    async def read(self, order: WorkspaceFile) -> list[bytes]:
        found = await self.machine.read(order.workspace, plain_name(order.path), order.most)
        return [] if found is None else [found]

    async def put(self, order: WorkspaceFile) -> None:
        await self.machine.put(order.workspace, plain_name(order.path), order.content)

    async def leave(self, order: WorkspaceFile) -> None:
        tree = self.host.state / "workspaces" / order.workspace / "work"
        checkout.write_below(tree, plain_name(order.path), io.BytesIO(order.content), self.host.owner, mode=0o644)

    async def home_files(self, order: HomeFolders) -> list[dict[str, bytes]]:
        folders = [plain_name(each) for each in order.folders]
        found = await self.machine.home_files(order.workspace, folders, order.most_bytes)
        return [] if found is None else [found]

    async def drops(self, order: HomeFolders) -> list[Drop]:
        folder = plain_name(order.folders[0])
        return await self.machine.drops(order.workspace, folder, order.most_files, order.most_bytes)

    async def take_drop(self, order: HomeFolders) -> None:
        folder, name = (plain_name(each) for each in order.folders[:2])
        await self.machine.take_drop(order.workspace, folder, name)

    async def forget_logins(self, order: WorkspaceFile) -> None:
        await self.machine.forget_logins(order.workspace)

    async def remove(self, order: WorkspaceFile) -> None:
        await self.machine.remove(order.workspace)

    # --- the agent

    async def work(self, order: AgentStart) -> int:
        """Start a turn; return its number."""
        if self.turn and self.turn.working:
            raise BadRequest("its agent is at work already")
        number = self.turn.number + 1 if self.turn else 1
        spool = Spool(self.host.state / "spool" / self.name / str(number))
        turn = self.turn = FarTurn(self.host, number, order, spool)
        turn.task = asyncio.create_task(turn.run(self._relay))
        return number

    async def _relay(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry a connection from the box to the engine; while no engine is there it waits."""
        await self._attached.wait()
        if self.connection:
            stream = await self.connection.open(RelayedPort(attempt=self.name, port=port))
            await join_socket(stream, reader, writer)

    async def follow(self, order: FollowTurn, stream: ByteStream) -> None:
        """Send what a turn printed, as it comes."""
        turn = self._turn()
        if turn.number != order.turn:
            raise BadRequest(f"there is no turn {order.turn}")
        async for data in turn.spool.follow(order.offset):
            await stream.write(data)
        await stream.end()

    async def say(self, order: StdinWords) -> None:
        self._turn().say(order.data, order.after)

    async def end_turn(self, order: EndTurn) -> None:
        if order.why == "stopped":
            self._turn().stop()
        else:
            self._turn().talk.end(order.why)

    def _turn(self) -> FarTurn:
        if self.turn is None:
            raise BadRequest("its agent was not started")
        return self.turn

    # --- what it leaves

    async def snapshot(self, order: CollectOrder) -> CollectedFiles:
        folder = self.host.state / "workspaces" / order.workspace
        async with self.host.snapping:
            await collect_work.make_snapshot(self.host, checkout.read_workspace(folder / "work"))
        return self._files(order)

    async def list_collected(self, order: CollectOrder) -> CollectedFiles:
        return self._files(order)

    async def collect(self, order: CollectOrder) -> CollectedFiles:
        places = collect_work.LocalPlaces(self.host, self.host.state / "workspaces" / order.workspace)
        await (places.files() if order.place == "files" else places.alone())
        return self._files(order)

    def _files(self, order: CollectOrder) -> CollectedFiles:
        folder = self.host.state / "workspaces" / order.workspace / order.place
        there = [name for name in get_args(CollectedName) if (folder / name).is_file()]
        return CollectedFiles(names=tuple(there))

    async def fetch(self, order: FetchFile, stream: ByteStream) -> None:
        """Send a file that was collected; an agent may have put anything in its place."""
        path = self.host.state / "workspaces" / order.workspace / order.place / order.name
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            while data := file.read(PIECE):
                await stream.write(data)
        await stream.end()

    # --- checks

    async def observe(self, order: CheckOrder) -> CheckAnswer:
        from corral.machines import checks  # noqa: PLC0415 -- slow to import: a host starts for the agent first

        host = self._host_for(order.beside, order.limit_seconds)
        host.order = order.order
        folder = self.host.state / "workspaces" / order.workspace
        laid = SentFiles(host, order.laid) if order.laid else None
        seen = await checks.observe(host, folder, order.commit, order.checks, _ignore, laid)
        named = [each.result.log for each in seen if each.result.log]
        logs = {Path(name).name: _tail(self.host.state / name) for name in named}
        return CheckAnswer(seen=tuple(seen), logs=logs)

    async def run_line(self, order: LineOrder) -> LineAnswer:
        host, tail = self._host_for(order.beside, order.limit_seconds), Tail(order.most)
        folder = self.host.state / "workspaces" / order.workspace
        try:
            made = await host.make(folder, order.commit)
            network = await host.network(host.boxes.fitted.scope.net)
            box = host.boxes.box(made, folder, network=network)
            limits = ProcessLimits(timeout_seconds=order.limit_seconds)
            kept = Kept(Log(host.logs / "line.log"), tail, network)
            ended = await boxes.run_shell(host.boxes, host.redactor, order.line, box, limits, kept)
        finally:
            await host.remove(folder)
        return LineAnswer(code=ended.code, why=ended.why, output=tail.text())

    def _host_for(self, beside: str | None, limit_seconds: float | None) -> WorkspaceHost:
        return self.host.beside(beside, limit_seconds) if beside else self.host


class SentFiles:
    """Files that an engine sent, to be laid over a checkout."""

    def __init__(self, host: WorkspaceHost, sent: Sequence[LaidFile]) -> None:
        self._host, self._sent = host, sent

    async def lay(self, made: Workspace) -> list[str]:
        state = self._host.state
        with tempfile.TemporaryDirectory(dir=state) as name:
            folder = Path(name, held_out.FOLDER, "sent")
            for file in self._sent:
                path = folder / plain_name(file.name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.content)
                path.chmod(file.mode & 0o777)
            return await asyncio.to_thread(held_out.lay, Path(name), "sent", made.tree, self._host.owner)

    def files(self) -> Sequence[LaidFile]:
        return self._sent


def _ignore(_: CheckResult) -> None:
    """Tell nobody: the answer holds it."""


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MOST_LOG))
        return file.read(MOST_LOG)


Step = Callable[[FarAttempt, Any], Awaitable[object]]
CALLS: dict[str, tuple[Any, Step]] = {
    "make": (MakeWorkspace, FarAttempt.make),
    "take_over": (WorkspaceFile, FarAttempt.take_over),
    "fit": (WorkspaceFile, FarAttempt.fit),
    "fit_again": (WorkspaceFile, FarAttempt.fit_again),
    "open_caches": (WorkspaceFile, FarAttempt.open_caches),
    "close_caches": (WorkspaceFile, FarAttempt.close_caches),
    "lend": (MakeWorkspace, FarAttempt.lend),
    "has": (WorkspaceFile, FarAttempt.has),
    "read": (WorkspaceFile, FarAttempt.read),
    "put": (WorkspaceFile, FarAttempt.put),
    "leave": (WorkspaceFile, FarAttempt.leave),
    "home_files": (HomeFolders, FarAttempt.home_files),
    "drops": (HomeFolders, FarAttempt.drops),
    "take_drop": (HomeFolders, FarAttempt.take_drop),
    "forget_logins": (WorkspaceFile, FarAttempt.forget_logins),
    "remove": (WorkspaceFile, FarAttempt.remove),
    "work": (AgentStart, FarAttempt.work),
    "say": (StdinWords, FarAttempt.say),
    "end_turn": (EndTurn, FarAttempt.end_turn),
    "snapshot": (CollectOrder, FarAttempt.snapshot),
    "collected": (CollectOrder, FarAttempt.list_collected),
    "collect": (CollectOrder, FarAttempt.collect),
    "observe": (CheckOrder, FarAttempt.observe),
    "run_line": (LineOrder, FarAttempt.run_line),
}
