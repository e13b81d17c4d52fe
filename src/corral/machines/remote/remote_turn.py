"""One turn of an agent on another machine, as its engine follows it: its words read, its ports answered here."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import PurePath
from typing import Protocol, TypeVar, cast, get_args

import msgspec
from msgspec import Struct, structs

from corral.machines import workspace_host
from corral.machines.agent_output import (
    AgentListeners,
    AgentNetwork,
    AgentOutput,
    TurnLogs,
    TurnOrders,
    add_toolbox,
    connect_agent,
    follow_to_end,
)
from corral.machines.calls import (
    AgentStart,
    AttemptPlace,
    EndTurn,
    FollowTurn,
    LaidFile,
    MachineFacts,
    StdinWords,
    TurnEnd,
)
from corral.machines.calls import WorkspaceFile as FileOrder
from corral.machines.far_end.turn import END, ENDING, STDERR, STDOUT, RecordReader
from corral.machines.frames import MOST_FRAME, BrokenFrames, MachineLost
from corral.machines.host import Host
from corral.machines.machine import WorkReport
from corral.machines.network import OWN
from corral.machines.remote.link import AGAIN_SECONDS, MachineLink, PortRelay
from corral.machines.resolved_agent import HOOK, ResolvedAgent
from corral.model.agent_api import AgentTask, Command, Leave
from corral.model.errors import BadRequest, CorralError
from corral.model.events import Noted
from corral.rules.text.names import as_plain_text
from corral.rules.text.redact import likely_secrets
from corral.world.concurrent import beside
from corral.world.process import Exit, ProcessControl, ProcessLimits, Why
from corral.world.process_pipes import LineSplitter

T = TypeVar("T")
GRACE_SECONDS = 10.0  #: after a lease has run out, until an attempt that cannot be reached is given up
MOST_SHIPPED = 16 << 20


class OpenedAttempt(Protocol):
    """An attempt that is open on its machine."""

    async def open(self) -> AttemptPlace:
        """Return where it is; opened again where the connection is a new one."""
        ...

    def note_turn(self, number: int) -> None:
        """Know that a turn has begun."""
        ...


class TurnNotes(Struct, frozen=True, kw_only=True):
    """What an engine that comes later needs to continue a turn; it lies with the machine, and holds no key."""

    task: AgentTask
    placeholder: str = ""  #: what stands for the key
    token: str = ""  #: of the toolbox


class RemoteTurn(TurnOrders):
    """Follows one turn to its end, through as many connections as it takes."""

    def __init__(
        self, link: MachineLink, host: Host, facts: MachineFacts, workspace: str, opened: OpenedAttempt
    ) -> None:
        self._link, self._host, self._facts, self._workspace, self._opened = link, host, facts, workspace, opened
        self.keep: Callable[[], Awaitable[object]] | None = None  #: makes a snapshot
        self._listening: AgentOutput | None = None
        self._halt = asyncio.Event()
        self._report = WorkReport()
        self._answered = -1
        self._leaving: set[asyncio.Task[object]] = set()

    async def run(
        self,
        place: AttemptPlace,
        resolved: ResolvedAgent,
        task: AgentTask,
        limits: ProcessLimits,
        listeners: AgentListeners,
    ) -> Exit:
        """Start the agent there, and follow it to its end."""
        tree = f"{place.folder}/{self._workspace}/work"
        prompt = as_plain_text(task.prompt)
        task = structs.replace(task, prompt=prompt, workspace=tree, home=place.home, boxed=True, mcp=())
        if resolved.mcp and resolved.agent.facts.mcp:
            listeners.emit(
                Noted(f"its MCP servers ([mcp]) are not there on `{self._link.name}`: it works without them")
            )
        resolved = structs.replace(resolved, mcp={})
        connected = await self._connect(resolved, listeners, "")
        resolved = connected.resolved
        task, _ = add_toolbox(task, resolved, connected.network, listeners.tools)
        task = structs.replace(task, mcp=tuple(structs.replace(each, command=self._facts.interpreter,
            args=("-IS", self._facts.bridge)) for each in task.mcp))  # fmt: skip
        if task.hook:
            script = PurePath(self._facts.bridge).with_name(HOOK.name)
            there = (self._facts.interpreter, "-IS", str(script))
            task = structs.replace(task, hook=structs.replace(task.hook, command=there))
        command = resolved.agent.start(task)
        token = listeners.tools.token.reveal() if listeners.tools else ""
        notes = TurnNotes(task=task, placeholder=connected.network.placeholder, token=token)
        order = structs.replace(self._order(command, task, connected, limits), note=msgspec.msgpack.encode(notes))
        for name in order.logins:
            listeners.emit(Noted(f"a private copy of the login ~/{name} is in its box on `{self._link.name}`"))
        number = await self._ask("work", order, int)
        self._opened.note_turn(number)
        return await self._follow(number, command, task, connected, listeners)

    async def resume(
        self, place: AttemptPlace, notes: TurnNotes, resolved: ResolvedAgent, listeners: AgentListeners
    ) -> Exit:
        """Continue a turn that an engine before this one started, from its first line on."""
        self._answered = place.answered
        resolved = structs.replace(resolved, mcp={})
        connected = await self._connect(resolved, listeners, notes.placeholder)
        task, _ = add_toolbox(
            structs.replace(notes.task, mcp=()), connected.resolved, connected.network, listeners.tools
        )
        del task  # its agent has the one that is noted
        command = connected.resolved.agent.start(notes.task)
        return await self._follow(place.turn, command, notes.task, connected, listeners)

    async def _connect(self, resolved: ResolvedAgent, listeners: AgentListeners, placeholder: str) -> AgentNetwork:
        if self._facts.level not in OWN and resolved.agent.facts.provider:
            raise BadRequest(
                f"at the sandbox level `{self._facts.level}` requests of `{resolved.name}` cannot be relayed from "
                f"`{self._link.name}`",
                hint="have the level strict there: corral machines check",
            )
        net = self._host.boxes.fitted.scope.net
        connected = await connect_agent(self._facts.level, net, resolved, listeners, placeholder)
        if self._link.profile.keys == "never" and (left := _secrets_left(connected)):
            names = ", ".join(left)
            raise BadRequest(
                f"the key in {names} would have to be on `{self._link.name}`: `{resolved.name}` cannot be relayed",
                hint=f'[machines.{self._link.name}] keys = "send" allows it',
            )
        return connected

    def _order(self, command: Command, task: AgentTask, connected: AgentNetwork, limits: ProcessLimits) -> AgentStart:
        resolved, network = connected.resolved, connected.network
        files = {**workspace_host.task_files(self._host.task), **command.files}
        return AgentStart(
            workspace=self._workspace,
            agent=resolved.name,
            install=resolved.agent.facts.install,
            argv=command.argv,
            shipped=_ship(resolved, command),
            programs=command.programs,
            cwd=command.cwd,
            stdin=command.stdin,
            talks=command.talks,
            env={**self._passed_variables(), **command.env, **resolved.env},
            files=files,
            logins=self._logins(resolved),
            read_back=command.read_back,
            limits=limits,
            bridged=bool(task.mcp or task.hook),
            ports=network.listeners,
            open=network.open,
            network_env=network.env,
        )

    def _passed_variables(self) -> dict[str, str]:
        """Return the variables of ours that its scope names."""
        return {name: os.environ[name] for name in self._host.boxes.fitted.scope.env if name in os.environ}

    def _logins(self, resolved: ResolvedAgent) -> dict[str, bytes]:
        found = {name: path for name in resolved.agent.facts.login if (path := resolved.login_file(name))}
        if not found or self._link.profile.logins == "copy":
            return {name: path.read_bytes() for name, path in found.items()}
        if any(resolved.env.get(key) for key in resolved.agent.facts.keys):
            return {}
        raise BadRequest(
            f"`{resolved.name}` works by a login, and logins stay here",
            hint=f'[machines.{self._link.name}] logins = "copy", or give it a key'
            + "".join(f": export {key}=..." for key in resolved.agent.facts.keys[:1]),
        )

    async def _ask(self, verb: str, body: object, kind: type[T] = object) -> T:
        return await self._link.ask(verb, body, kind, attempt=self._host.attempt)

    # --- following it

    async def _follow(
        self, number: int, command: Command, task: AgentTask, connected: AgentNetwork, listeners: AgentListeners
    ) -> Exit:
        network, name = connected.network, self._host.attempt
        conversation = connected.resolved.agent.converse(task)
        listening = self._listening = AgentOutput(conversation, listeners.emit, self._leave)
        output = _TurnOutput(listening, TurnLogs(self._host.logs, self._host.redactor))
        listening.talk = talk = _TurnControl(output, self._answered)
        talk.before_end = self._keep_soon
        logs, relay = output.logs, PortRelay(network.listeners)
        self._report = WorkReport(metered=connected.metered, unmetered=connected.unmetered)
        self._link.on_port(name, relay.carry)
        files: dict[str, bytes] = {}
        try:
            async with network.serve(relay.start(), listening.talk):
                self._halt = asyncio.Event()
                finished = listeners.tools.finished if listeners.tools else asyncio.Event()
                end = TurnEnd()

                async def follow(halt: asyncio.Event) -> Exit:
                    nonlocal end
                    async with self._steering(talk, halt, talks=command.talks):
                        end = await self._read(number, output)
                    return Exit(code=end.code, why=end.why, leftovers=list(end.leftovers))

                ended = await follow_to_end(listening, self._host.stop, self._halt, finished, follow)
                files = {each: end.files[each] for each in command.read_back if each in end.files}
        finally:
            self._listening = None
            self._link.on_port(name, None)
            relay.close()
            logs.close()
            self._report = structs.replace(self._report, unreached=network.trouble, last_words=listening.errors)
        self._report = structs.replace(
            self._report,
            memory_kills=self._report.memory_kills + end.memory_kills,
            disk_has_room=end.disk_has_room,
        )
        if end.error:
            raise CorralError(f"on `{self._link.name}`: {end.error}")
        listening.close(ended, files)
        if listening.cutting and ended.why in ("exited", "lingered", "stopped") and not self._host.stop.is_set():
            ended = structs.replace(ended, why="cut")
        logs.note(command, task, ended, files)
        return ended

    async def _read(self, number: int, output: _TurnOutput) -> TurnEnd:
        """Read what the turn prints to its end; where the connection breaks, from the same record on."""
        heard_at = time.monotonic()
        while True:
            offset = output.records.offset
            try:
                if end := await self._read_stream(number, output):
                    return end
                error: CorralError = MachineLost("what it printed ends in the middle")
            except MachineLost as lost:
                error = lost
            if output.records.offset > offset:
                heard_at = time.monotonic()
            if time.monotonic() - heard_at > self._link.lease_seconds + GRACE_SECONDS:
                raise MachineLost(f"the machine `{self._link.name}` lost it: {error}") from error
            await asyncio.sleep(AGAIN_SECONDS)

    async def _read_stream(self, number: int, output: _TurnOutput) -> TurnEnd | None:
        """Read as far as one connection carries; return how the turn ended, if that came."""
        connection = await self._link.connect()
        if (await self._opened.open()).turn < number:
            raise CorralError(f"the machine `{self._link.name}` lost it: its host was ended meanwhile")
        output.records = RecordReader(output.records.offset)
        order = FollowTurn(attempt=self._host.attempt, turn=number, offset=output.records.offset)
        stream = await connection.open(order)
        while data := await stream.read():
            if end := output.feed(data):
                await stream.end()
                return end
            await asyncio.sleep(0)
        return None

    @contextlib.asynccontextmanager
    async def _steering(self, talk: _TurnControl, halt: asyncio.Event, *, talks: bool) -> AsyncGenerator[None]:
        """Pass on what the agent gets, and the order to end."""

        async def say() -> None:
            while talks:
                await talk.words.get()
                with contextlib.suppress(CorralError):
                    await self._ask("say", talk.answers.pop(0))

        async def end() -> None:
            waits = [asyncio.ensure_future(each.wait()) for each in (halt, talk.enough)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waits:
                    each.cancel()
            while True:
                with contextlib.suppress(MachineLost):
                    await self._ask("end_turn", EndTurn("stopped" if halt.is_set() else talk.why))
                    return
                await asyncio.sleep(AGAIN_SECONDS)

        async with beside(say(), end()):
            yield

    async def _keep_soon(self) -> None:
        if self.keep:
            with contextlib.suppress(CorralError, OSError, TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await self.keep()

    def _leave(self, left: Leave) -> None:
        order = FileOrder(workspace=self._workspace, path=left.path, content=left.content)
        task = asyncio.get_running_loop().create_task(self._ask("leave", order))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    # --- orders of its engine

    def report(self) -> WorkReport:
        listening = self._listening
        ending = self._host.stop.is_set() or (listening is not None and listening.talk.ending is not None)
        return structs.replace(self._report, at_work=listening is not None, ending=ending)


def _secrets_left(connected: AgentNetwork) -> list[str]:
    """Return the variables of an agent whose values would be secrets on its machine."""
    network, env = connected.network, connected.resolved.env
    likely = [name for name, value in likely_secrets(env).items() if value and value != network.placeholder]
    return list(dict.fromkeys([*network.left, *likely]))


class _TurnOutput:
    """What came of a turn: its records put together, and passed on as lines."""

    def __init__(self, listening: AgentOutput, logs: TurnLogs) -> None:
        self._listening, self.logs = listening, logs
        self.records = RecordReader()
        self._lines = {STDOUT: LineSplitter(), STDERR: LineSplitter()}

    def feed(self, data: bytes) -> TurnEnd | None:
        """Take in what came; return how the turn ended, if that came."""
        for kind, content in self.records.feed(data):
            if kind == END:
                return self._end(content)
            self._take(kind, content)
        if self.records.waiting_bytes > MOST_FRAME:
            raise BrokenFrames("a record came that is too large")
        return None

    def _take(self, kind: int, content: bytes) -> None:
        listening = self._listening
        if kind == ENDING:
            why = content.decode(errors="replace")
            listening.talk.ending = listening.talk.ending or (cast("Why", why) if why in get_args(Why) else "stopped")
        elif splitter := self._lines.get(kind):
            name = "stdout" if kind == STDOUT else "stderr"
            self.logs.write(name, content)
            for line, cut in splitter.feed(content):
                listening.hear(name, line, cut)

    def _end(self, content: bytes) -> TurnEnd:
        for kind, splitter in self._lines.items():
            for line, cut in splitter.last():
                self._listening.hear("stdout" if kind == STDOUT else "stderr", line, cut)
        try:
            return msgspec.msgpack.decode(content, type=TurnEnd)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BrokenFrames(f"how it ended cannot be read: {error}") from error


class _TurnControl(ProcessControl):
    """What the agent gets, each with the output that it answers: nothing is answered twice."""

    def __init__(self, output: _TurnOutput, answered: int) -> None:
        super().__init__()
        self._output, self._answered = output, answered
        self.answers: list[StdinWords] = []  #: as many as wait in `words`

    def say(self, data: bytes | None) -> None:
        offset = self._output.records.offset
        if offset > self._answered:
            self.answers.append(StdinWords(data, offset))
            super().say(data)


def _ship(resolved: ResolvedAgent, command: Command) -> dict[int, LaidFile]:
    """Return the files of this machine that its command names, by the place of their words."""
    found: dict[int, LaidFile] = {}
    for word, path in resolved.programs.scripts(command).items():
        if path.stat().st_size > MOST_SHIPPED:
            raise BadRequest(
                f"{path} is larger than {MOST_SHIPPED >> 20} MB: it cannot go along to another machine",
                hint="make it smaller, or let the attempt run on this machine",
            )
        found[word] = LaidFile(path.name, path.read_bytes(), path.stat().st_mode & 0o777)
    return found
