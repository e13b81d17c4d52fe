"""One attempt, the half that runs beside the agent: its agent at work in its box."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec import Struct, structs

from corral.agents.protocol import Answers, Conversation, Heard, Listens
from corral.machines import collect_work, workspace_host
from corral.machines.boxes import BoxedProgram
from corral.machines.logs import PACE_FILE, CleanLog, Pace, Tail, TurnNote, note_turn
from corral.machines.network import Network
from corral.machines.request_count import RequestCount
from corral.machines.resolved_agent import ResolvedAgent
from corral.machines.workspace_host import WorkspaceHost
from corral.model import AttemptRecord, Failure, RunPlan, Status, Tokens
from corral.model.agent_api import AgentTask, Answer, Cancel, End, HangUp, Leave, Line, Pause, Telling
from corral.model.events import Ended, Event, Limited, Noted, Unparsed
from corral.model.flow import Task
from corral.rules.text.names import as_plain_text
from corral.world.git import collect
from corral.world.git.repository import Repository
from corral.world.process import Exit, ProcessControl, ProcessLimits, Why
from corral.world.proxy.provider import RequestLimiter
from corral.world.proxy.secret import SecretValue
from corral.world.sandbox.confine import has_own_processes
from corral.world.workspace import checkout as workspace
from corral.world.workspace.checkout import Workspace

MOST_READ_BACK = 4 << 20
FINISH_SECONDS = 10.0  #: an agent that has handed in its result may take this long to leave by itself
STARTED_ELSEWHERE = 'cd "$1" && shift && exec "$@"'
CANCEL_SECONDS = 2.0  #: an agent that was asked to stop may take this long before it gets a signal
MOST_UNPARSED = 2000
OUTPUT_PAUSE_SECONDS = 5.0  #: an agent that is asked to end its turn may take this long before it gets a signal
LINGER_SECONDS = 20.0  #: an agent that has said its last word may take this long to leave
OWN_EVENTS: dict[Why, Status] = {"timeout": "timed_out", "idle": "timed_out", "stopped": "stopped"}


class AgentOutput:
    """One conversation with one running program."""

    def __init__(
        self, conversation: Conversation, emit: Callable[[Event], None], leave: Callable[[Leave], None]
    ) -> None:
        self._conversation, self._emit, self._leave = conversation, emit, leave
        self._errors = Tail()
        self.talk = ProcessControl()
        self._over = False
        self._spoke = False  #: its last word
        self.cutting = False

    def hear(self, stream: str, line: bytes, cut: bool) -> None:  # noqa: FBT001
        if stream == "stderr":
            self._errors.write(line + b"\n")
        elif cut:
            self._emit(Unparsed(line[:MOST_UNPARSED].decode(errors="replace")))
        else:
            self._act(self._read(line.decode(errors="replace")))

    def _read(self, line: str) -> Sequence[Heard]:
        """Return what a line says; one that its reader fails on is unread, and the attempt continues."""
        try:
            return self._conversation.read(line)
        except Exception:  # noqa: BLE001 -- an agent's line must not end the engine's part of its attempt
            return [Unparsed(line[:MOST_UNPARSED])]

    def _last_words(self, end: End) -> Sequence[Heard]:
        try:
            return self._conversation.exited(end)
        except Exception as error:  # noqa: BLE001 -- its work is collected all the same
            words = f"what it printed cannot be read: {type(error).__name__}"
            return [Ended(ok=False, error=Failure("bad_output", words, "`corral logs` shows what it printed"))]

    @property
    def errors(self) -> str:
        """Return the end of what it wrote to stderr."""
        return self._errors.text()

    def tell(self, order: Telling) -> bool:
        """Tell the agent something while it works; return whether it is one that listens."""
        if self._over or not isinstance(self._conversation, Listens):
            return False
        self._act(self._conversation.tell(order))
        return True

    def answer(self, order: Answer) -> bool:
        """Answer a question of the agent's; return whether it is one that waits for it."""
        if self._over or not isinstance(self._conversation, Answers):
            return False
        told = self._conversation.answer(order)
        self._act(told)
        return bool(told)

    def cancel(self) -> bool:
        """Ask the agent in its own language to stop; return whether it has one."""
        if self._over or not isinstance(self._conversation, Listens):
            return False
        told = self._conversation.tell(Cancel())
        self._act(told)
        return bool(told)

    def cut(self, end: Callable[[], None]) -> None:
        """End the agent's turn as it stands: asked for in its own language where it has one, and soon in any case."""
        if self.cutting or self._over:
            return
        self.cutting = True
        told = self._conversation.tell(Pause()) if isinstance(self._conversation, Listens) else ()
        self._act(told)
        asyncio.get_running_loop().call_later(OUTPUT_PAUSE_SECONDS if told else 0.0, end)

    def close(self, ended: Exit, files: Mapping[str, bytes]) -> None:
        spoke, self._over = self._over, True
        self._act(self._last_words(End(ended.code, self._errors.text(), files)))
        for leftover in ended.leftovers:
            self._emit(Noted(f"ended {leftover.name} (process {leftover.pid}), which it had left running"))
        if self.talk.why == "flood" and not spoke:
            self._emit(Noted("it asked and asked and never listened to an answer: its process was ended"))
        elif ended.why == "lingered":
            self._emit(Noted("it had ended but did not leave: its process was ended"))

    def _act(self, heard: Sequence[Heard]) -> None:
        for each in heard:
            match each:
                case Ended(ok=False) | Limited() if self.cutting:
                    pass  # cut off between two steps, it has not failed: it goes on in another session
                case Ended() if self.talk.ending and (self._spoke or self.cutting):
                    pass  # its last word was said before we ended it, or it goes on in another session
                case Ended() if self.talk.ending:
                    self._spoke = True
                    self._emit(structs.replace(each, ok=False, status=OWN_EVENTS.get(self.talk.ending)))
                case Line(text=text):
                    self.talk.say(text.encode() + b"\n")
                case HangUp():
                    self.talk.say(None)
                case Leave():
                    self._leave(each)
                case _:
                    self._emit(each)
                    self._spoke = self._spoke or isinstance(each, Ended)
                    if isinstance(each, Ended) and not self._over:
                        self._over = True
                        asyncio.get_running_loop().call_later(LINGER_SECONDS, self.talk.enough.set)


class ToolboxEndpoint(Protocol):
    """What an agent at work can call, and what it says with it."""

    token: SecretValue
    finished: asyncio.Event

    async def answer(self, body: bytes) -> bytes | None: ...


class AgentListeners(Struct, frozen=True):
    """Who hears what happens while an agent works."""

    emit: Callable[[Event], None]
    reached: Callable[[str, int, bool, str], None]
    metered: Callable[[str | None, Tokens, int], None]  #: model, tokens, which answer
    tools: ToolboxEndpoint | None = None
    gate: RequestLimiter | None = None  #: of the account that it works on
    count: RequestCount | None = None  #: of its requests to its provider


class Host(WorkspaceHost):
    """Does the steps of one attempt on this machine."""

    def __init__(self, plan: RunPlan, task: Task, repository: Repository, state: Path, attempt: str) -> None:
        super().__init__(plan, task, repository, state, attempt)
        self.metered = False  #: requests of its agent to its provider pass by us
        self.unmetered = False  #: its agent may ask a provider past us
        self.unreached: str | None = None  #: why its provider could not be reached
        self.last_words = ""  #: what it complained of
        self._listening: AgentOutput | None = None
        self._halt = asyncio.Event()  #: ends its present turn

    async def work(
        self,
        made: Workspace,
        resolved: ResolvedAgent,
        task: AgentTask,
        limits: ProcessLimits,
        listeners: AgentListeners,
    ) -> Exit:
        """Run the agent in its box to its end, telling its events as they come."""
        folder, boxed, alone = made.tree.parent, self.level != "none", has_own_processes(self.level)
        home, words = self.boxes.home(made, folder), as_plain_text(task.prompt)
        task = structs.replace(task, prompt=words, workspace=str(made.tree), home=home, boxed=boxed)
        resolved, network = await self._connect(resolved, listeners)
        task, bridge = _add_toolbox(task, resolved, network, listeners.tools)
        command = resolved.agent.start(task)
        argv, readable = resolved.resolve(command)
        if command.cwd:
            argv = ["/bin/sh", "-c", STARTED_ELSEWHERE, "start", command.cwd, *argv]
        workspace_host.fill_home(self, folder / "home", command.files, resolved)
        for name in self.logins:
            listeners.emit(Noted(f"a private copy of the login ~/{name} is in its box"))
        env = {**command.env, **resolved.env}
        if boxed and "PATH" not in env and (first := resolved.search(command)):
            env["PATH"] = os.pathsep.join([*first, self.boxes.box(made, folder).env["PATH"]])
        writable = (folder / "out",) if boxed else ()
        box = self.boxes.box(made, folder, network=network, env=env, readable=[*readable, *bridge], writable=writable)
        # One box is quicker than two, and whoever works there may collect there; but it must see what is to be kept.
        limited = self.boxes.fitted.scope.file_mb or self.boxes.fitted.scope.cpu_seconds
        alone = alone and not limited and not self.hidden(made)
        if alone:
            argv = collect.then_collect(
                argv, made, collect_work.message(self), self.base, collect_work.empty_folder(folder / "out")
            )
        conversation = resolved.agent.converse(task)
        listening = self._listening = AgentOutput(conversation, listeners.emit, lambda left: self._leave(made, left))
        logs = {name: CleanLog(self.logs / f"{name}.log", self.redactor) for name in ("stdout", "stderr")}
        pace = Pace(self.logs / PACE_FILE)

        def raw(name: str, chunk: bytes) -> None:
            logs[name].write(chunk)
            if name == "stdout":
                pace.note_lines(chunk.count(b"\n"))

        program = BoxedProgram(
            argv=argv, stdin=command.stdin, talks=command.talks, wrapped=alone, hear=listening.hear, raw=raw
        )
        try:
            listening.talk.before_end = partial(collect_work.before_end, self, made)
            async with collect_work.keep_snapshots(self, made):
                ended = await self._follow(
                    listening,
                    listeners.tools.finished if listeners.tools else asyncio.Event(),
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
        note_turn(self.logs, self.redactor.value(TurnNote.of(command, task, ended, sizes, files)))
        return ended

    async def _connect(self, resolved: ResolvedAgent, listeners: AgentListeners) -> tuple[ResolvedAgent, Network]:
        """Connect an agent to its provider, and to what its scope lets it reach; tell what stays open."""
        network = Network(self.level, self.boxes.fitted.scope.net, listeners.reached)
        await network.allow()
        if self.level != "none":
            resolved = network.connect_agent(resolved, listeners.metered, listeners.count or RequestCount())
            network.gate = listeners.gate
        self.metered = network.counts_requests
        self.unmetered |= network.open and (not network.counts_requests or bool(network.left))
        if resolved.profile.requests_per_minute and not network.counts_requests:
            listeners.emit(
                Noted(f"requests_per_minute is not held: {resolved.name} does not ask its provider through us")
            )
        if self.boxes.fitted.scope.net == "on":
            listeners.emit(Noted("it may reach every host, this machine's own servers too: its scope says net on"))
        for name in network.left:
            listeners.emit(Noted(f"the key in {name} is in its box: {resolved.name} cannot be told another address"))
        return resolved, network

    async def _follow(
        self, listening: AgentOutput, finished: asyncio.Event, follow: Callable[[asyncio.Event], Awaitable[Exit]]
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
    def is_at_work(self) -> bool:
        return self._listening is not None

    @property
    def is_ending(self) -> bool:
        """Tell whether its agent is being ended by us: then it is too late to hand anything in."""
        return self.stop.is_set() or (self._listening is not None and self._listening.talk.ending is not None)

    def _leave(self, made: Workspace, left: Leave) -> None:
        workspace.write_below(made.tree, left.path, io.BytesIO(left.content), self.owner, mode=0o644)


def host_of(plan: RunPlan, task: Task, repository: Repository, state: Path, record: AttemptRecord) -> Host:
    """Return the host of an attempt that is stored: its work begins at its own base, else at the run's."""
    host = Host(plan, task, repository, state, record.attempt.id)
    host.base = record.base if record.base is not None else plan.base
    return host


async def _either(one: asyncio.Event, other: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(each.wait()) for each in (one, other)]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _add_toolbox(
    task: AgentTask, resolved: ResolvedAgent, network: Network, tools: ToolboxEndpoint | None
) -> tuple[AgentTask, Sequence[Path]]:
    """Give an agent that takes MCP servers its toolbox; return what its box must show besides."""
    if tools is None or not resolved.agent.facts.mcp:
        return task, ()
    url = network.offer(tools.token, tools.answer)
    server, shown = resolved.toolbox(url, tools.token.reveal())
    return structs.replace(task, mcp=(*task.mcp, server)), shown
