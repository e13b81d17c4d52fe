"""One attempt, the half that runs beside the agent: its workspace, its box, its process."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec import Struct, structs

from corral.machines import agent_home, checks, collect_work, scope, turn_log
from corral.machines.agent_output import Listening
from corral.machines.boxes import Boxes, Program
from corral.machines.logs import CleanLog, Log, Pace, Tail
from corral.machines.network import Network
from corral.machines.request_count import RequestCount
from corral.machines.resolved_agent import ResolvedAgent
from corral.machines.scope import Fitted
from corral.machines.turn_log import TurnNote
from corral.model import Level, Net, RunPlan, TestOrder, Tokens
from corral.model.agent_api import AgentTask, Answer, Leave, Telling
from corral.model.errors import SetupFailed
from corral.model.events import Event, Noted
from corral.model.flow import Task
from corral.rules.text.redact import Redactor, likely
from corral.world.git import collect, object_cache
from corral.world.git.repository import Repository
from corral.world.locks import locked
from corral.world.process import Exit, Limits
from corral.world.proxy.provider import Gate
from corral.world.proxy.secret import Secret
from corral.world.sandbox.confine import agent_owner, own_processes
from corral.world.sandbox.outside_links import dangerous_links
from corral.world.sandbox.scope_paths import Machine
from corral.world.workspace import checkout as workspace
from corral.world.workspace import package_caches
from corral.world.workspace.checkout import Loan, Workspace

MOST_READ_BACK = 4 << 20
IDLE_SECONDS = 3600.0
FINISH_SECONDS = 10.0  #: an agent that has handed in its result may take this long to leave by itself
STARTED_ELSEWHERE = 'cd "$1" && shift && exec "$@"'
CANCEL_SECONDS = 2.0  #: an agent that was asked to stop may take this long before it gets a signal


def _unsaid(_: str) -> None:
    """Say nothing."""


ROOM_BYTES = 64 << 20  #: free on a disk that is not full


class Tools(Protocol):
    """What an agent at work can call, and what it says with it."""

    token: Secret
    finished: asyncio.Event

    async def answer(self, body: bytes) -> bytes | None: ...


class AgentListeners(Struct, frozen=True):
    """Who hears what happens while an agent works."""

    emit: Callable[[Event], None]
    reached: Callable[[str, int, bool, str], None]
    metered: Callable[[str | None, Tokens, int], None]  #: model, tokens, which answer
    tools: Tools | None = None
    gate: Gate | None = None  #: of the account that it works on
    count: RequestCount | None = None  #: of its requests to its provider


class Host:
    """Does the steps of one attempt on this machine."""

    def __init__(self, plan: RunPlan, task: Task, repository: Repository, state: Path, attempt: str) -> None:
        self.plan, self.task, self.repository, self.state, self.attempt = plan, task, repository, state, attempt
        self.base = plan.base  #: the commit the attempt starts from
        self.stop = asyncio.Event()
        self.metered = False  #: requests of its agent to its provider pass by us
        self.unmetered = False  #: its agent may ask a provider past us
        self.level: Level = plan.level
        self.logs = state / "logs" / attempt
        self.owner = agent_owner(attempt) if self.level != "none" else None
        self.logins: list[str] = []
        self.boxes = Boxes(self.level, attempt, self.stop)
        self.redactor = Redactor(likely(os.environ))
        self._listening: Listening | None = None
        self._halt = asyncio.Event()  #: ends its present turn
        self.snapping = asyncio.Lock()
        self.unreached: str | None = None  #: why its provider could not be reached
        self.last_words = ""  #: what it complained of
        self.order: TestOrder | None = None  #: which tests its checks run; None: all

    def beside(self, name: str, time_limit_seconds: float | None = None) -> Host:
        """Return a host for checks that run beside this one's, as another user: the end of one is not the other's."""
        task = self.task
        if time_limit_seconds is not None:
            task = structs.replace(task, timeout_seconds=time_limit_seconds)
        other = Host(self.plan, task, self.repository, self.state, beside_name(self.attempt, name))
        other.base, other.stop, other.logs, other.redactor = self.base, self.stop, self.logs, self.redactor
        other.boxes = Boxes(self.level, other.attempt, self.stop)
        other.boxes.fitted = self.boxes.fitted
        return other

    # --- the workspace

    @contextlib.asynccontextmanager
    async def with_cache(self, folder: Path) -> AsyncGenerator[None]:
        """Have the project's package caches at hand, for setup, agent and checks."""
        private = folder.with_name(f"{folder.name}-cache")
        async with package_caches.lent(self.state, self.repository.git_dir, private, self.owner) as self.boxes.cache:
            try:
                yield
            finally:
                await workspace.remove(private)

    async def make(
        self, folder: Path, commit: str | None, *, needs: Sequence[str] = (), say: Callable[[str], None] = _unsaid
    ) -> Workspace:
        """Make a workspace ready: checked out, ignored files copied, set up. What was half made before goes first.

        It sees what the commit and its `needs` reach, and no other git object.
        """
        await workspace.remove(folder)
        workspace.close_to_others(folder.parent)
        for name in ("home", "out", "tmp"):
            (folder / name).mkdir(parents=True, mode=0o700)
            if self.owner:
                os.chown(folder / name, self.owner.uid, self.owner.gid)
        loan = Loan(self.state / "objects", folder / "objects", say)
        commits = [commit, *needs] if commit else []
        made = await workspace.make(self.repository, commits, folder / "work", self.attempt, self.owner, loan)
        person, address = await self.repository.identity()  # for repositories that an agent makes itself
        settings = f"[user]\n\tname = {_quoted(person)}\n\temail = {_quoted(address)}\n"
        workspace.write_below(folder / "home", ".gitconfig", io.BytesIO(settings.encode()), self.owner)
        await workspace.copy_ignored(self.repository, self.plan.setup.copy, made.tree, self.owner)
        if self.plan.setup.command:
            await self._set_up(made, folder, self.plan.setup.command)
        return made

    async def lend(self, folder: Path, commit: str) -> None:
        """Let a workspace see what one more commit reaches: work that was handed to its agent."""
        await object_cache.lend(self.repository, [commit], self.state / "objects", folder / "objects" / "0")

    async def network(self, net: Net) -> Network:
        """Connect a box that is not an agent's: to what the list names, and to no provider."""
        network = Network(self.level, net, _untold, whole=True)
        await network.allow()
        return network

    async def fit(self, made: Workspace, fitted: Fitted) -> list[str]:
        """Hold the scope against the workspace; return what a person should know of it."""
        checkout = self.repository.folder if (self.repository.folder / ".git").exists() else None
        machine = Machine(tree=made.tree, state=self.state, checkout=checkout)
        self.boxes.fitted = await scope.fit(fitted, machine)
        resolved = self.boxes.fitted.resolved
        for folder in resolved.missing:
            workspace.make_below(made.tree, folder, self.owner)
        if hidden := self._hidden(made):
            await self.boxes.aside(
                workspace.leave_alone(hidden), self.boxes.box(made, made.tree.parent), "be hidden from git"
            )
        notes: list[str] = []
        if self.plan.setup.command or self.plan.setup.copy:  # our own checkout holds none
            found = await asyncio.to_thread(dangerous_links, made.tree)
            notes = [f"{each.path.relative_to(made.tree)} was a {each.kind}: it is none any more" for each in found]
        return [*notes, *resolved.notes]

    async def fit_again(self, agent: str) -> None:
        """Have an agent's scope at hand where it does not work any more: after a crash, and for its checks."""
        folder = self.repository.folder
        machine = Machine(tree=folder, state=self.state, checkout=folder if (folder / ".git").exists() else None)
        fitted = scope.of_agent(self.plan.scopes, agent, self.plan.ignore)
        self.boxes.fitted = await scope.fit(fitted, machine)

    @property
    def disk_has_room(self) -> bool:
        """Tell whether a box that found no space can have found that only in its own folders that are memory."""
        about = os.statvfs(self.state)
        return own_processes(self.level) and about.f_bavail * about.f_frsize > ROOM_BYTES

    def _hidden(self, made: Workspace) -> list[str]:
        """Return what of the workspace the agent's box covers up."""
        masks = self.boxes.fitted.resolved.masks if own_processes(self.level) else ()
        return [str(mask.path.relative_to(made.tree)) for mask in masks if mask.mode == "hidden"]

    async def take_over(self, folder: Path) -> Workspace:
        """Go on in the workspace that an earlier attempt left: it belongs to this one's user now."""
        if self.owner:
            for name in ("work", "home", "out", "tmp"):
                await workspace.give(folder / name, self.owner)
        return workspace.made_before(folder / "work")

    async def _set_up(self, made: Workspace, folder: Path, command: str) -> None:
        tail = Tail()
        network = await self.network(self.plan.setup.net)
        box = self.boxes.box(made, folder, network=network)
        log = Log(self.logs / "setup.log")
        ended = await checks.shell(self, command, box, Limits(), (log, tail), network)
        if ended.code != 0 or ended.why != "exited":
            words = tail.text().strip().splitlines()
            raise SetupFailed(f"setup `{command}` ended with {ended.code}" + (f": {words[-1]}" if words else ""))

    # --- the agent

    async def work(
        self, made: Workspace, dressed: ResolvedAgent, task: AgentTask, limits: Limits, ears: AgentListeners
    ) -> Exit:
        """Run the agent in its box to its end, telling its events as they come."""
        folder, boxed, alone = made.tree.parent, self.level != "none", own_processes(self.level)
        task = structs.replace(task, workspace=str(made.tree), home=self.boxes.home(made, folder), boxed=boxed)
        dressed, network = await self._connect(dressed, ears)
        task, bridge = _equipped(task, dressed, network, ears.tools)
        command = dressed.agent.start(task)
        argv, readable = dressed.resolve(command)
        if command.cwd:
            argv = ["/bin/sh", "-c", STARTED_ELSEWHERE, "start", command.cwd, *argv]
        agent_home.fill(self, folder / "home", command.files, dressed)
        for name in self.logins:
            ears.emit(Noted(f"a private copy of the login ~/{name} is in its box"))
        env = {**command.env, **dressed.env}
        if boxed and "PATH" not in env and (first := dressed.search(command)):
            env["PATH"] = os.pathsep.join([*first, self.boxes.box(made, folder).env["PATH"]])
        writable = (folder / "out",) if boxed else ()
        box = self.boxes.box(made, folder, network=network, env=env, readable=[*readable, *bridge], writable=writable)
        # One box is quicker than two, and whoever works there may collect there; but it must see what is to be kept.
        limited = self.boxes.fitted.scope.file_mb or self.boxes.fitted.scope.cpu_seconds
        alone = alone and not limited and not self._hidden(made)
        if alone:
            argv = collect.then_collect(
                argv, made, collect_work.message(self), self.base, collect_work.emptied(folder / "out")
            )
        conversation = dressed.agent.converse(task)
        listening = self._listening = Listening(conversation, ears.emit, lambda left: self._leave(made, left))
        logs = {name: CleanLog(self.logs / f"{name}.log", self.redactor) for name in ("stdout", "stderr")}
        pace = Pace(self.logs / turn_log.PACE)

        def raw(name: str, chunk: bytes) -> None:
            logs[name].write(chunk)
            if name == "stdout":
                pace.heard(chunk.count(b"\n"))

        program = Program(
            argv=argv, stdin=command.stdin, talks=command.talks, wrapped=alone, hear=listening.hear, raw=raw
        )
        try:
            listening.talk.before_end = partial(collect_work.before_end, self, made)
            async with collect_work.keeping(self, made):
                ended = await self._follow(
                    listening,
                    ears.tools.finished if ears.tools else asyncio.Event(),
                    lambda stop: self.boxes.follow(
                        structs.replace(program, stop=stop), box, limits, network, listening.talk
                    ),
                )
        finally:
            self._listening = None
            self.unreached, self.last_words = network.trouble, listening.errors
            for log in (*logs.values(), pace):
                log.close()
        read = {name: workspace.read_below(made.tree, name, MOST_READ_BACK) for name in command.read_back}
        files = {name: content for name, content in read.items() if content is not None}
        listening.close(ended, files)
        if listening.cutting and ended.why in ("exited", "lingered", "stopped") and not self.stop.is_set():
            ended = structs.replace(ended, why="cut")
        sizes = {name: log.size for name, log in logs.items()}
        turn_log.note_turn(self.logs, self.redactor.value(TurnNote.of(command, task, ended, sizes, files)))
        return ended

    async def _connect(self, dressed: ResolvedAgent, ears: AgentListeners) -> tuple[ResolvedAgent, Network]:
        """Connect an agent to its provider, and to what its scope lets it reach; tell what stays open."""
        network = Network(self.level, self.boxes.fitted.scope.net, ears.reached)
        await network.allow()
        if self.level != "none":
            dressed = network.dress(dressed, ears.metered, ears.count or RequestCount())
            network.gate = ears.gate
        self.metered = network.counts
        self.unmetered |= network.open and (not network.counts or bool(network.left))
        if dressed.profile.requests_per_minute and not network.counts:
            ears.emit(Noted(f"requests_per_minute is not held: {dressed.name} does not ask its provider through us"))
        if self.boxes.fitted.scope.net == "on":
            ears.emit(Noted("it may reach every host, this machine's own servers too: its scope says net on"))
        for name in network.left:
            ears.emit(Noted(f"the key in {name} is in its box: {dressed.name} cannot be told another address"))
        return dressed, network

    async def _follow(
        self, listening: Listening, finished: asyncio.Event, follow: Callable[[asyncio.Event], Awaitable[Exit]]
    ) -> Exit:
        """Follow the agent to its end; one that can be asked to stop is asked before it is told by a signal."""
        halt = self._halt = asyncio.Event()
        asked = asyncio.Event()

        async def stopping() -> None:
            await _either(self.stop, finished)
            if not self.stop.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FINISH_SECONDS):
                        await self.stop.wait()
            if self.stop.is_set():
                listening.talk.ending = listening.talk.ending or "stopped"
            if keep := listening.talk.before_end:
                await keep()
                listening.talk.before_end = None
            if listening.cancel():
                asked.set()
                await asyncio.sleep(CANCEL_SECONDS)
            halt.set()

        watching = asyncio.create_task(stopping())
        try:
            ended = await follow(halt)
        finally:
            watching.cancel()
        if finished.is_set() and not self.stop.is_set():
            return structs.replace(ended, why="exited")
        left = self.stop.is_set() and ended.why in ("exited", "lingered")  # while its work was kept
        return structs.replace(ended, why="stopped") if asked.is_set() or left else ended

    def tell(self, order: Telling) -> bool:
        """Tell the agent something while it works; return whether it is one that listens, and still does."""
        return self._listening is not None and self._listening.tell(order)

    def answer(self, order: Answer) -> bool:
        """Answer a question of the agent's; return whether it waits for it."""
        return self._listening is not None and self._listening.answer(order)

    def cut(self) -> None:
        """End the agent's present turn, as it stands; the attempt goes on."""
        if self._listening is not None:
            self._listening.cut(self._halt.set)

    @property
    def at_work(self) -> bool:
        return self._listening is not None

    @property
    def ending(self) -> bool:
        """Tell whether its agent is being ended by us: then it is too late to hand anything in."""
        return self.stop.is_set() or (self._listening is not None and self._listening.talk.ending is not None)

    def _leave(self, made: Workspace, left: Leave) -> None:
        workspace.write_below(made.tree, left.path, io.BytesIO(left.content), self.owner, mode=0o644)

    def keep(self, name: str, content: str | bytes) -> Path:
        """Keep something beside the attempt's logs, without secrets; return where."""
        self.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = content.encode(errors="replace") if isinstance(content, str) else content
        (self.logs / name).write_bytes(self.redactor.data(data))
        return self.logs / name

    def siblings(self) -> tuple[Path, ...]:
        """Return the workspaces in which nobody can be at work: nothing was made in them for long."""
        folder = self.state / "workspaces"
        old = time.time() - IDLE_SECONDS
        return tuple(each for each in sorted(folder.glob("*")) if each.stat().st_mtime < old)

    def repository_lock(self) -> contextlib.AbstractAsyncContextManager[int]:
        """Hold while refs of the repository are written: git's own locks fail instead of waiting."""
        name = str(self.repository.git_dir).strip("/").replace("/", "-")[-200:]
        return locked(self.state / "locks" / name)


async def _either(one: asyncio.Event, other: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(each.wait()) for each in (one, other)]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _equipped(
    task: AgentTask, dressed: ResolvedAgent, network: Network, tools: Tools | None
) -> tuple[AgentTask, Sequence[Path]]:
    """Give an agent that takes MCP servers its toolbox; return what its box must show besides."""
    if tools is None or not dressed.agent.facts.mcp:
        return task, ()
    url = network.offer(tools.token, tools.answer)
    server, shown = dressed.toolbox(url, tools.token.reveal())
    return structs.replace(task, mcp=(*task.mcp, server)), shown


def beside_name(attempt: str, name: str) -> str:
    return f"{attempt}-{name}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def _untold(host: str, port: int, allowed: bool, reason: str) -> None:  # noqa: FBT001
    """Tell nobody: what a check asks for is its own affair."""
