"""One attempt, the half that runs beside the agent: workspace, box, process, bundle, checks."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec import Struct, structs

from corral.adapter import AgentTask, Answer, Leave, Telling
from corral.engine import scoping, tape
from corral.engine.boxing import Boxes, Program
from corral.engine.listening import Listening
from corral.engine.logs import CleanLog, Log, Pace, Tail
from corral.engine.network import Network
from corral.engine.outfit import Outfit
from corral.engine.scoping import Fitted
from corral.engine.tape import TurnNote
from corral.errors import CorralError, SetupFailed
from corral.events import Event, Noted
from corral.flow import Task
from corral.model import CheckResult, Level, Net, RunPlan, Tokens
from corral.rules import naming, results
from corral.rules.redact import Redactor, likely
from corral.rules.results import junit
from corral.world import caches, collecting, process, snapshots, workspace
from corral.world.collecting import Taken
from corral.world.git import Repository, locked
from corral.world.process import Exit, Limits, Talk
from corral.world.proxy.provider import Gate
from corral.world.proxy.secret import Secret
from corral.world.sandbox.confine import agent_owner, confine, own_processes
from corral.world.sandbox.links import dangerous_links
from corral.world.sandbox.profile import Box
from corral.world.scope import Machine
from corral.world.workspace import Workspace

MOST_READ_BACK = 4 << 20
MOST_COUNTED = 4 << 20  #: of a check's output, from its end: where test programs tell how many passed
MOST_SHOWN = 8000
IDLE_SECONDS = 3600.0
FINISH_SECONDS = 10.0  #: an agent that has handed in its result may take this long to leave by itself
STARTED_ELSEWHERE = 'cd "$1" && shift && exec "$@"'
KEEP_SECONDS = 10.0  #: an agent that is to be ended goes on for as long, at most, while its work is kept
CANCEL_SECONDS = 2.0  #: an agent that was asked to stop may take this long before it gets a signal


class Tools(Protocol):
    """What an agent at work can call, and what it says with it."""

    token: Secret
    finished: asyncio.Event

    async def answer(self, body: bytes) -> bytes | None: ...


class Ears(Struct, frozen=True):
    """Who hears what happens while an agent works."""

    emit: Callable[[Event], None]
    reached: Callable[[str, int, bool, str], None]
    metered: Callable[[str | None, Tokens, int], None]  #: model, tokens, which answer
    tools: Tools | None = None
    gate: Gate | None = None  #: of the account that it works on


class Host:
    """Does the steps of one attempt on this machine."""

    def __init__(self, plan: RunPlan, task: Task, repository: Repository, state: Path, attempt: str) -> None:
        self.plan, self.task, self.repository, self.state, self.attempt = plan, task, repository, state, attempt
        self.base = plan.base  #: the commit the attempt starts from
        self.stop = asyncio.Event()
        self.level: Level = plan.level
        self.logs = state / "logs" / attempt
        self._owner = agent_owner(attempt) if self.level != "none" else None
        self._logins: list[str] = []
        self.boxes = Boxes(self.level, attempt, self.stop)
        self.redactor = Redactor(likely(os.environ))
        self._listening: Listening | None = None
        self._halt = asyncio.Event()  #: ends its present turn
        self._snapping = asyncio.Lock()
        self.unreached: str | None = None  #: why its provider could not be reached
        self.last_words = ""  #: what it complained of

    # --- the workspace

    @contextlib.asynccontextmanager
    async def with_cache(self, folder: Path) -> AsyncGenerator[None]:
        """Have the project's package caches at hand, for setup, agent and checks."""
        private = folder.with_name(f"{folder.name}-cache")
        async with caches.lent(self.state, self.repository.git_dir, private, self._owner) as self.boxes.cache:
            try:
                yield
            finally:
                await workspace.remove(private)

    async def make(self, folder: Path, commit: str | None) -> Workspace:
        """Make a workspace ready: checked out, ignored files copied, set up. What was half made before goes first."""
        await workspace.remove(folder)
        for name in ("home", "out", "tmp"):
            (folder / name).mkdir(parents=True, mode=0o700)
            if self._owner:
                os.chown(folder / name, self._owner.uid, self._owner.gid)
        made = await workspace.make(self.repository, commit, folder / "work", self.attempt, self._owner)
        person, address = await self.repository.identity()  # for repositories that an agent makes itself
        settings = f"[user]\n\tname = {_quoted(person)}\n\temail = {_quoted(address)}\n"
        workspace.write_below(folder / "home", ".gitconfig", io.BytesIO(settings.encode()), self._owner)
        await workspace.copy_ignored(self.repository, self.plan.setup.copy, made.tree, self._owner)
        if self.plan.setup.command:
            await self._set_up(made, folder, self.plan.setup.command)
        return made

    async def _network(self, net: Net) -> Network:
        """Connect a box that is not an agent's: to what the list names, and to no provider."""
        network = Network(self.level, net, _untold, whole=True)
        await network.allow()
        return network

    async def fit(self, made: Workspace, fitted: Fitted) -> list[str]:
        """Hold the scope against the workspace; return what a person should know of it."""
        checkout = self.repository.folder if (self.repository.folder / ".git").exists() else None
        machine = Machine(tree=made.tree, state=self.state, checkout=checkout)
        self.boxes.fitted = await scoping.fit(fitted, machine)
        resolved = self.boxes.fitted.resolved
        for folder in resolved.missing:
            workspace.make_below(made.tree, folder, self._owner)
        if hidden := self._hidden(made):
            await self._aside(
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
        fitted = scoping.of_agent(self.plan.scopes, agent, self.plan.ignore)
        self.boxes.fitted = await scoping.fit(fitted, machine)

    def _hidden(self, made: Workspace) -> list[str]:
        """Return what of the workspace the agent's box covers up."""
        masks = self.boxes.fitted.resolved.masks if own_processes(self.level) else ()
        return [str(mask.path.relative_to(made.tree)) for mask in masks if mask.mode == "hidden"]

    async def take_over(self, folder: Path) -> Workspace:
        """Go on in the workspace that an earlier attempt left: it belongs to this one's user now."""
        if self._owner:
            for name in ("work", "home", "out", "tmp"):
                await workspace.give(folder / name, self._owner)
        return workspace.made_before(folder / "work")

    async def _set_up(self, made: Workspace, folder: Path, command: str) -> None:
        tail = Tail()
        network = await self._network(self.plan.setup.net)
        box = self.boxes.box(made, folder, network=network)
        log = Log(self.logs / "setup.log")
        ended = await self._in_box(["/bin/sh", "-c", command], box, Limits(), log, tail, network)
        if ended.code != 0 or ended.why != "exited":
            words = tail.text().strip().splitlines()
            raise SetupFailed(f"setup `{command}` ended with {ended.code}" + (f": {words[-1]}" if words else ""))

    # --- the agent

    async def work(self, made: Workspace, dressed: Outfit, task: AgentTask, limits: Limits, ears: Ears) -> Exit:
        """Run the agent in its box to its end, telling its events as they come."""
        folder, boxed, alone = made.tree.parent, self.level != "none", own_processes(self.level)
        task = structs.replace(task, workspace=str(made.tree), home=self.boxes.home(made, folder), boxed=boxed)
        dressed, network = await self._connect(dressed, ears)
        task, bridge = _equipped(task, dressed, network, ears.tools)
        command = dressed.agent.start(task)
        argv, readable = dressed.resolve(command)
        if command.cwd:
            argv = ["/bin/sh", "-c", STARTED_ELSEWHERE, "start", command.cwd, *argv]
        self._fill_home(folder / "home", {**self._skills(), **self._handed(), **command.files}, dressed)
        for name in self._logins:
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
            argv = collecting.then_collect(argv, made, self._message(), self.base, _emptied(folder / "out"))
        conversation = dressed.agent.converse(task)
        listening = self._listening = Listening(conversation, ears.emit, lambda left: self._leave(made, left))
        logs = {name: CleanLog(self.logs / f"{name}.log", self.redactor) for name in ("stdout", "stderr")}
        pace = Pace(self.logs / tape.PACE)

        def raw(name: str, chunk: bytes) -> None:
            logs[name].write(chunk)
            if name == "stdout":
                pace.heard(chunk.count(b"\n"))

        program = Program(
            argv=argv, stdin=command.stdin, talks=command.talks, wrapped=alone, hear=listening.hear, raw=raw
        )
        try:
            listening.talk.before_end = partial(self._before_end, made)
            async with self._keeping(made):
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
        tape.note_turn(self.logs, self.redactor.value(TurnNote.of(command, task, ended, sizes, files)))
        return ended

    async def _connect(self, dressed: Outfit, ears: Ears) -> tuple[Outfit, Network]:
        """Connect an agent to its provider, and to what its scope lets it reach; tell what stays open."""
        network = Network(self.level, self.boxes.fitted.scope.net, ears.reached)
        await network.allow()
        if self.level != "none":
            dressed = network.dress(dressed, ears.metered)
            network.gate = ears.gate
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

    def put(self, folder: Path, name: str, content: bytes) -> None:
        """Lay something into the agent's HOME, without secrets."""
        workspace.write_below(folder / "home", name, io.BytesIO(self.redactor.data(content)), self._owner)

    def _leave(self, made: Workspace, left: Leave) -> None:
        workspace.write_below(made.tree, left.path, io.BytesIO(left.content), self._owner, mode=0o644)

    def _fill_home(self, home: Path, files: Mapping[str, bytes], dressed: Outfit) -> None:
        for name, content in files.items():
            workspace.write_below(home, name, io.BytesIO(content), self._owner)
        for name in dressed.agent.facts.login:  # the login alone, never the person's own folder
            source = dressed.login_file(name)
            if source is None:
                workspace.remove_below(home, name)  # one of another account may lie there
            else:
                self._logins.append(name)
                workspace.write_below(home, name, io.BytesIO(source.read_bytes()), self._owner)

    def _skills(self) -> dict[str, bytes]:
        """Return the files of the task's skills, as they are to lie in HOME."""
        found: dict[str, bytes] = {}
        for name, place in self.task.skills:
            for file in sorted(Path(place).rglob("*")):
                if file.is_file() and not file.is_symlink():
                    found[f"skills/{name}/{file.relative_to(place)}"] = file.read_bytes()
        return found

    def _handed(self) -> dict[str, bytes]:
        return {name: text.encode() for name, text in self.task.handed}

    def forget_logins(self, folder: Path) -> None:
        """Take a person's login out of a workspace that stays."""
        for name in self._logins:
            workspace.remove_below(folder / "home", name)

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

    # --- what it did

    async def snapshot(self, made: Workspace) -> str | None:
        """Keep what the workspace holds now, under a hidden ref; None where nothing is new since the last time."""
        place = made.tree.parent / "snap"
        place.mkdir(mode=0o700, exist_ok=True)
        box = structs.replace(self.boxes.box(made, made.tree.parent, writable=(place,)), file_mb=None, cpu_seconds=None)
        async with self._snapping:
            snapshots.prepare(made, place, self._owner)
            await self._aside(snapshots.command(place, self.base), box, "be kept")
            async with self.repository_lock():
                return await snapshots.take(self.repository, place, self.attempt, datetime.now(UTC))

    async def _before_end(self, made: Workspace) -> None:
        """Keep what is there before the agent hears that it is to end: it may throw its work away then."""
        with contextlib.suppress(CorralError, OSError, TimeoutError):
            async with asyncio.timeout(KEEP_SECONDS):
                await self.snapshot(made)

    @contextlib.asynccontextmanager
    async def _keeping(self, made: Workspace) -> AsyncGenerator[None]:
        """Make snapshots from time to time; one that fails is no reason to stop the agent."""

        async def keep() -> None:
            while True:
                await asyncio.sleep(self.plan.setup.snapshot_seconds)
                with contextlib.suppress(CorralError, OSError):
                    await self.snapshot(made)

        keeping = asyncio.create_task(keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def collect(self, folder: Path, node: str, run: str) -> Taken:
        """Take all the agent's work into the repository."""
        made, out = workspace.made_before(folder / "work"), folder / "out"
        if not ((out / "done").exists() and (out / "work.bundle").exists()):
            await self._collect_alone(made, out)
        references = [naming.hidden_ref(self.attempt), "refs/heads/" + naming.branch(run, node, self.attempt)]
        async with self.repository_lock():
            return await collecting.take(self.repository, made, out, self.attempt, references)

    async def _collect_alone(self, made: Workspace, out: Path) -> None:
        """Collect in a box of its own: the agent was ended, did nothing, broke its .git, or had no box."""
        await workspace.mend(self.repository, self.base, made.tree, self.attempt, self._owner)
        command = collecting.collect_command(made, self._message(), self.base, _emptied(out))
        box = structs.replace(self.boxes.box(made, out.parent, writable=(out,)), file_mb=None, cpu_seconds=None)
        await self._aside(command, box, "be collected")

    async def _aside(self, command: Sequence[str], box: Box, what: str) -> None:
        """Run a command of ours in a box that nobody is in."""
        with confine(command, box, self.level, tag=self.attempt) as start:
            finished = await process.run(start)
        if finished.code != 0:
            words = " ".join(finished.err.decode(errors="replace").split())
            raise CorralError(f"the work cannot {what}: {words[-200:]}")

    def _message(self) -> str:
        return f"{_subject(self.task)}\n\nCorral-Attempt: {self.attempt}\n"

    def repository_lock(self) -> contextlib.AbstractAsyncContextManager[int]:
        """Hold while refs of the repository are written: git's own locks fail instead of waiting."""
        name = str(self.repository.git_dir).strip("/").replace("/", "-")[-200:]
        return locked(self.state / "locks" / name)

    async def check(
        self, folder: Path, commit: str | None, checks: Sequence[str], told: Callable[[CheckResult], None]
    ) -> list[CheckResult]:
        """Run checks in a clean checkout of `commit`, in a box of its own; it is removed afterwards."""
        found: list[CheckResult] = []
        cache, self.boxes.cache = self.boxes.cache, None  # what an agent left there must not sway its checks
        try:
            made = await self.make(folder, commit)
            for place, check in enumerate(checks, 1):
                found.append(await self._check(made, folder, check, f"{folder.name.rpartition('-')[2]}-{place}"))
                told(found[-1])
        finally:
            self.boxes.cache = cache
            await workspace.remove(folder)
        return found

    async def _check(self, made: Workspace, folder: Path, check: str, name: str) -> CheckResult:
        tail = Tail(MOST_COUNTED)
        path = self.logs / f"{name}.log"
        limits = Limits(timeout_seconds=self.task.timeout_seconds)
        started = time.monotonic()
        network = await self._network(self.boxes.fitted.scope.net)
        box = self.boxes.box(made, folder, network=network)
        ended = await self._in_box(["/bin/sh", "-c", check], box, limits, Log(path), tail, network)
        note = {
            "timeout": f"`{check}` was not done in time",
            "stopped": "stopped",
            "flood": f"`{check}` printed more than 4 GB",
            "memory": f"`{check}` used more memory than the scope allows",
            "disk": f"`{check}` used more disk space than the scope allows",
            "processes": f"`{check}` started more processes than the scope allows",
        }
        return CheckResult(
            command=check,
            exit_code=ended.code,
            seconds=round(time.monotonic() - started, 3),
            note=note.get(ended.why, ""),
            output=tail.text(MOST_SHOWN),
            log=str(path.relative_to(self.state)),
            tests=results.tally(tail.text(), self._reports(made, check)),
        )

    def _reports(self, made: Workspace, check: str) -> list[str]:
        """Read the test reports that a check was told to write."""
        found = [workspace.read_below(made.tree, name, MOST_COUNTED) for name in junit.named_by(check)]
        return [content.decode(errors="replace") for content in found if content]

    async def _in_box(self, argv: list[str], box: Box, limits: Limits, log: Log, tail: Tail, network: Network) -> Exit:
        streams = {name: self.redactor.stream() for name in ("stdout", "stderr")}

        def take(clean: bytes) -> None:
            log.write(clean)
            tail.write(clean)

        def raw(name: str, chunk: bytes) -> None:
            take(streams[name].feed(chunk))

        try:
            return await self.boxes.follow(Program(argv=argv, raw=raw), box, limits, network, Talk())
        finally:
            for stream in streams.values():
                take(stream.close())
            log.close()


async def _either(one: asyncio.Event, other: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(each.wait()) for each in (one, other)]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _equipped(
    task: AgentTask, dressed: Outfit, network: Network, tools: Tools | None
) -> tuple[AgentTask, Sequence[Path]]:
    """Give an agent that takes MCP servers its toolbox; return what its box must show besides."""
    if tools is None or not dressed.agent.facts.mcp:
        return task, ()
    url = network.offer(tools.token, tools.answer)
    server, shown = dressed.toolbox(url, tools.token.reveal())
    return structs.replace(task, mcp=(*task.mcp, server)), shown


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def _untold(host: str, port: int, allowed: bool, reason: str) -> None:  # noqa: FBT001
    """Tell nobody: what a check asks for is its own affair."""


def _emptied(out: Path) -> Path:
    for file in out.iterdir():
        file.unlink()
    return out


def _subject(task: Task) -> str:
    first = task.prompt.strip().splitlines()[0]
    return first if len(first) <= 72 else first[:69] + "..."
