"""Another machine: what an attempt works on when it was asked for; the same steps, over frames to `corral host`."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TypeVar, get_args

import msgspec
from msgspec import structs

from corral.machines import collect_work
from corral.machines.agent_output import AgentListeners
from corral.machines.calls import (
    AttemptPlace,
    CheckAnswer,
    CheckOrder,
    CollectedFiles,
    CollectedName,
    CollectOrder,
    FetchFile,
    HomeFolders,
    LaidFile,
    LineAnswer,
    LineOrder,
    MachineFacts,
    MakeWorkspace,
    OpenAttempt,
    Place,
    WorkspaceFile,
)  # fmt: skip
from corral.machines.frames import Connection, MachineLost
from corral.machines.host import Host, HostScope
from corral.machines.machine import Drop, WorkReport
from corral.machines.mirrors import mirror_name, send_commits
from corral.machines.remote.link import MachineLink
from corral.machines.remote.remote_turn import RemoteTurn, TurnNotes
from corral.machines.resolved_agent import ResolvedAgent
from corral.machines.tool_calls import ProgramTool
from corral.model import CheckObservation, Level
from corral.model.agent_api import AgentTask, Answer, Telling
from corral.model.errors import CorralError, MissingWorkspace
from corral.world.git.collect import MOST_BUNDLE, CollectedWork
from corral.world.process import Exit, ProcessLimits
from corral.world.workspace import checkout
from corral.world.workspace.checkout import Workspace

T = TypeVar("T")
LOG_NAME = re.compile(r"check[A-Za-z0-9-]{0,80}\.log")  #: of what a check printed
MOST_COPIED = 32 << 20  #: bytes of ignored files that go along


class RemoteMachine(HostScope):
    """Does the steps of one attempt on another machine; parsing, keys, money and refs stay here."""

    def __init__(self, link: MachineLink, host: Host, facts: MachineFacts, agent: str, epoch: int) -> None:
        self._link, self._host, self._facts, self._agent, self._epoch = link, host, facts, agent, epoch
        self._connection: Connection | None = None  #: on which the attempt was opened
        self._place: AttemptPlace | None = None
        self._resumed: TurnNotes | None = None  #: of a turn to continue
        self._turn: RemoteTurn | None = None
        self._report = WorkReport()
        self._incoming = host.state / "incoming" / host.attempt

    @property
    def level(self) -> Level:
        return self._facts.level

    # --- the connection

    async def open(self) -> AttemptPlace:
        """Return where the attempt is; opened again where the connection was lost meanwhile."""
        connection = await self._link.connect()
        if self._place is not None and self._connection is connection:
            return self._place
        host, mirror = self._host, self._mirror
        order = OpenAttempt(
            attempt=host.attempt,
            epoch=self._epoch,
            mirror=mirror,
            plan=structs.replace(
                host.plan,
                flow=structs.replace(host.plan.flow, nodes=(), inputs={}),
                setup=structs.replace(host.plan.setup, copy=()),
                repo="",
                git_dir="",
            ),
            task=structs.replace(host.task, skills=(), handed=(), briefing=()),
            base=host.base,
            agent=self._agent,
            lease_seconds=self._link.lease_seconds,
            copied=await self._copied_files(),
        )
        if host.base:
            await send_commits(connection, host.repository, mirror, [host.base], self._incoming)
        self._place = await connection.ask("open", order, AttemptPlace)
        self._connection = connection
        await connection.ask("open_caches", WorkspaceFile(workspace=host.attempt), attempt=host.attempt)
        return self._place

    def note_turn(self, number: int) -> None:
        """Know that a turn of its agent has begun."""
        if self._place is not None:
            self._place = structs.replace(self._place, turn=number)

    @property
    def _mirror(self) -> str:
        return mirror_name(str(self._host.state), self._host.repository.git_dir)

    async def _ask(self, verb: str, body: object, kind: type[T] = object) -> T:
        await self.open()
        try:
            return await self._link.ask(verb, body, kind, attempt=self._host.attempt)
        except MissingWorkspace as error:
            words = f"the machine `{self._link.name}` does not have its workspace any more"
            raise MissingWorkspace(
                words, hint=f"what was kept of it: corral restore {self._host.attempt} --list"
            ) from error

    async def _copied_files(self) -> tuple[LaidFile, ...]:
        repository, found, size = self._host.repository, list[LaidFile](), 0
        for name in await checkout.ignored_files(repository, self._host.plan.setup.copy):
            file = repository.folder / name
            content = file.read_bytes()
            size += len(content)
            if size > MOST_COPIED:
                raise CorralError(f"the ignored files for a workspace are more than {MOST_COPIED >> 20} MB")
            found.append(LaidFile(name, content, file.stat().st_mode & 0o777))
        return tuple(found)

    async def _send(self, commits: Sequence[str | None]) -> None:
        connection = await self._link.connect()
        wanted = [commit for commit in commits if commit]
        if wanted:
            await send_commits(connection, self._host.repository, self._mirror, wanted, self._incoming)

    # --- the workspace

    async def make(
        self, workspace: str, commit: str | None, *, needs: Sequence[str] = (), say: Callable[[str], None]
    ) -> None:
        self._place = None  # its base is known only now
        await self._send([commit, *needs])
        order = MakeWorkspace(workspace=workspace, commit=commit, needs=tuple(needs))
        for line in await self._ask("make", order, list[str]):
            say(line)

    async def take_over(self, workspace: str) -> None:
        await self._ask("take_over", WorkspaceFile(workspace=workspace))

    async def fit(self, workspace: str) -> list[str]:
        return await self._ask("fit", WorkspaceFile(workspace=workspace), list[str])

    async def fit_again(self, agent: str) -> None:
        await self._host.fit_again(agent)
        await self._ask("fit_again", WorkspaceFile(workspace=self._host.attempt, path=agent))

    def caches(self, workspace: str) -> AbstractAsyncContextManager[None]:  # noqa: ARG002
        """Have them there for as long as the attempt is open."""
        return contextlib.nullcontext()

    async def close(self) -> None:
        """Say that nothing more is asked for this attempt."""
        if self._connection is not None:
            with contextlib.suppress(CorralError, OSError):
                await self._link.ask("close", attempt=self._host.attempt)
        await self._link.release(self._host.attempt)
        shutil.rmtree(self._incoming, ignore_errors=True)

    async def lend(self, workspace: str, commit: str) -> None:
        await self._send([commit])
        await self._ask("lend", MakeWorkspace(workspace=workspace, commit=commit))

    async def has(self, workspace: str, path: str = "") -> bool:
        return await self._ask("has", WorkspaceFile(workspace=workspace, path=path), bool)

    async def read(self, workspace: str, path: str, most: int) -> bytes | None:
        found = await self._ask("read", WorkspaceFile(workspace=workspace, path=path, most=most), list[bytes])
        return found[0][:most] if found else None

    async def put(self, workspace: str, path: str, content: bytes) -> None:
        clean = self._host.redactor.data(content)
        await self._ask("put", WorkspaceFile(workspace=workspace, path=path, content=clean))

    async def home_files(self, workspace: str, folders: Sequence[str], most_bytes: int) -> dict[str, bytes] | None:
        order = HomeFolders(workspace=workspace, folders=tuple(folders), most_bytes=most_bytes)
        found = await self._ask("home_files", order, list[dict[str, bytes]])
        if not found or sum(map(len, found[0].values())) > most_bytes:
            return None
        if any(".." in Path(name).parts or not _is_below(name, folders) for name in found[0]):
            raise CorralError(f"the machine `{self._link.name}` sent files that lie elsewhere than those asked for")
        return {name: self._host.redactor.data(content) for name, content in found[0].items()}

    async def drops(self, workspace: str, folder: str, most: int, most_bytes: int) -> list[Drop]:
        order = HomeFolders(workspace=workspace, folders=(folder,), most_files=most, most_bytes=most_bytes)
        found = await self._ask("drops", order, list[Drop])
        return [structs.replace(each, content=each.content[:most_bytes]) for each in found[:most]]

    async def take_drop(self, workspace: str, folder: str, name: str) -> None:
        await self._ask("take_drop", HomeFolders(workspace=workspace, folders=(folder, name), most_bytes=0))

    def path_of(self, workspace: str) -> str:
        folder = self._place.folder if self._place else ""
        return f"{self._link.name}:{folder}/{workspace}"

    def tools(self, workspace: str, check: str) -> dict[str, ProgramTool]:  # noqa: ARG002
        """Offer none: programs that call tools see only workspaces of this machine."""
        return {}

    # --- the agent

    async def work(
        self, workspace: str, resolved: ResolvedAgent, task: AgentTask, limits: ProcessLimits, listeners: AgentListeners
    ) -> Exit:
        place = await self.open()
        turn = self._turn = RemoteTurn(self._link, self._host, self._facts, workspace, self)
        try:
            async with collect_work.keep_snapshots(self._host, partial(self._keep_snapshot, workspace)):
                turn.keep = partial(self._keep_snapshot, workspace)
                notes, self._resumed = self._resumed, None
                if notes:
                    return await turn.resume(place, notes, resolved, listeners)
                return await turn.run(place, resolved, task, limits, listeners)
        finally:
            self._report, self._turn = turn.report(), None

    async def attach(self, workspace: str) -> str | None:  # noqa: ARG002
        self._place = None
        place = await self.open()
        if not place.turn:
            return None
        try:
            self._resumed = msgspec.msgpack.decode(place.note, type=TurnNotes)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        return self._resumed.token

    def tell(self, order: Telling) -> bool:
        return self._turn is not None and self._turn.tell(order)

    def answer(self, order: Answer) -> bool:
        return self._turn is not None and self._turn.answer(order)

    def cut(self) -> None:
        if self._turn is not None:
            self._turn.cut()

    def end(self) -> None:
        self._host.stop.set()

    @property
    def report(self) -> WorkReport:
        return self._turn.report() if self._turn else structs.replace(self._report, ending=self._host.stop.is_set())

    # --- what it leaves

    async def collect(self, workspace: str, node: str, run: str) -> CollectedWork:
        places = RemotePlaces(self, workspace)
        made = Workspace(self._incoming / "out")
        return await collect_work.collect_from(self._host, places, made, node, run)

    async def _keep_snapshot(self, workspace: str) -> None:
        async with self._host.snapping:
            order = CollectOrder(workspace=workspace, place="snap")
            found = await self._ask("snapshot", order, CollectedFiles)
            if "snapshot.bundle" in found.names:
                folder = await self.fetch(workspace, "snap", ["snapshot.bundle"])
                await collect_work.take_snapshot(self._host, folder)

    async def list_collected(self, verb: str, workspace: str, place: Place) -> Sequence[str]:
        found = await self._ask(verb, CollectOrder(workspace=workspace, place=place), CollectedFiles)
        return found.names

    async def fetch(self, workspace: str, place: Place, names: Sequence[str]) -> Path:
        """Bring files here that were collected there; return the folder that holds them."""
        folder = self._incoming / place
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        connection = await self._link.connect()
        for name in get_args(CollectedName):
            (folder / name).unlink(missing_ok=True)
            if name not in names:
                continue
            order = FetchFile(attempt=self._host.attempt, workspace=workspace, place=place, name=name)
            stream, size = await connection.open(order), 0
            with (folder / name).open("wb") as file:
                while data := await stream.read():
                    size += len(data)
                    if size > MOST_BUNDLE:
                        await stream.cut()
                        raise CorralError("the work that came is larger than 4 GB")
                    file.write(data)
            await stream.end()
        return folder

    async def forget_logins(self, workspace: str) -> None:
        with contextlib.suppress(MachineLost):  # they are forgotten there when its lease runs out
            await self._ask("forget_logins", WorkspaceFile(workspace=workspace))

    async def remove(self, workspace: str) -> None:
        with contextlib.suppress(MachineLost):  # it is removed there after a week
            await self._ask("remove", WorkspaceFile(workspace=workspace))

    # --- checks

    async def observe(self, order: CheckOrder) -> Sequence[CheckObservation]:
        """Run checks there; what they printed lies beside the attempt's logs here."""
        await self._send([order.commit])
        found = await self._ask("observe", order, CheckAnswer)
        if tuple(each.result.command for each in found.seen) != order.checks:
            raise CorralError(f"the machine `{self._link.name}` answered for other checks than it was asked for")
        return [self._keep_log(each, found.logs) for each in found.seen]

    def _keep_log(self, seen: CheckObservation, logs: Mapping[str, bytes]) -> CheckObservation:
        """Keep what a check printed; where that is, is ours to say."""
        name = Path(seen.result.log).name
        if name not in logs or not LOG_NAME.fullmatch(name):
            return structs.replace(seen, result=structs.replace(seen.result, log=""))
        kept = self._host.keep(name, logs[name])
        return structs.replace(seen, result=structs.replace(seen.result, log=str(kept.relative_to(self._host.state))))

    async def run_line(self, order: LineOrder) -> LineAnswer:
        await self._send([order.commit])
        return await self._ask("run_line", order, LineAnswer)


def _is_below(name: str, folders: Sequence[str]) -> bool:
    return any(Path(name).is_relative_to(folder) for folder in folders)


class RemotePlaces:
    """The work in a workspace of another machine, brought here."""

    def __init__(self, machine: RemoteMachine, workspace: str) -> None:
        self._machine, self._workspace = machine, workspace

    async def collected_in_box(self) -> Path | None:
        names = await self._machine.list_collected("collected", self._workspace, "out")
        if not {"done", "work.bundle"} <= set(names):
            return None
        return await self._machine.fetch(self._workspace, "out", names)

    async def alone(self) -> Path:
        names = await self._machine.list_collected("collect", self._workspace, "out")
        return await self._machine.fetch(self._workspace, "out", names)

    async def files(self) -> Path:
        names = await self._machine.list_collected("collect", self._workspace, "files")
        return await self._machine.fetch(self._workspace, "files", names)
