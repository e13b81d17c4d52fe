"""One attempt, the half that runs beside the agent: its agent at work in its box."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from pathlib import Path

from msgspec import structs

from corral.machines import collect_work, workspace_host
from corral.machines.agent_output import (
    AgentListeners,
    AgentOutput,
    TurnLogs,
    TurnOrders,
    add_toolbox,
    connect_agent,
    follow_to_end,
)
from corral.machines.boxes import BoxedProgram
from corral.machines.network import Network
from corral.machines.resolved_agent import ResolvedAgent, interactive_command, put_on_terminal
from corral.machines.scope import FittedScope
from corral.machines.workspace_host import WorkspaceHost
from corral.model import AttemptRecord, RunPlan
from corral.model.agent_api import AgentTask, Command, End, Leave
from corral.model.events import BY_HAND, AgentEvent, Ended, Noted
from corral.model.flow import Task
from corral.rules.text.names import as_plain_text
from corral.rules.text.redact import Redactor
from corral.world.git import collect
from corral.world.git.repository import Repository
from corral.world.process import Exit, ProcessLimits
from corral.world.sandbox.confine import has_own_processes
from corral.world.sandbox.profile import Box
from corral.world.terminal import UserTerminal
from corral.world.workspace import checkout as workspace
from corral.world.workspace.checkout import Workspace

MOST_READ_BACK = 4 << 20
STARTED_ELSEWHERE = 'cd "$1" && shift && exec "$@"'


class ByHand:
    """Reads nothing from a screen; a user who leaves has finished, however the program ended."""

    def read(self, line: str) -> list[AgentEvent]:  # noqa: ARG002
        return []

    def exited(self, end: End) -> list[AgentEvent]:  # noqa: ARG002
        return [Ended(ok=True, text=BY_HAND)]


def _start(
    resolved: ResolvedAgent, task: AgentTask, terminal: UserTerminal | None
) -> tuple[Command, list[str], list[Path]]:
    """Return what an agent is started by, the words of it on this machine, and what must be readable for them."""
    command = interactive_command(resolved, task) if terminal else resolved.agent.start(task)
    argv, readable = resolved.resolve(command)
    if terminal is None:
        return command, argv, readable
    argv, shown = put_on_terminal(argv)
    env = {**terminal.env(), **command.env}
    return structs.replace(command, env=env, stdin=terminal.size(), talks=True), argv, [*readable, *shown]


@contextlib.contextmanager
def _lend(terminal: UserTerminal | None, listening: AgentOutput) -> Generator[None]:
    """Let an agent's program have a user's terminal while it runs; one that we end leaves it as it is, so we do not."""
    with terminal.lend(listening.talk.say) if terminal else contextlib.nullcontext():
        yield
    if terminal and listening.talk.ending:
        terminal.reset()


class Host(WorkspaceHost, TurnOrders):
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
        self.begun_ns = self.begun_ns or time.time_ns()
        folder = made.tree.parent
        home, words = self.boxes.home(made, folder), as_plain_text(task.prompt)
        task = structs.replace(task, prompt=words, workspace=str(made.tree), home=home, boxed=self.level != "none")
        connected = await connect_agent(self.level, self.boxes.fitted.scope.net, resolved, listeners)
        resolved, network, self.metered = connected.resolved, connected.network, connected.metered
        self.unmetered |= connected.unmetered
        task, bridge = add_toolbox(task, resolved, network, listeners.tools)
        command, argv, readable = _start(
            resolved, structs.replace(task, placeholder=network.placeholder), listeners.terminal
        )
        workspace_host.fill_home(self, folder / "home", command.files, resolved)
        for name in self.logins:
            listeners.emit(Noted(f"a private copy of the login ~/{name} is in its box"))
        box = self._agent_box(made, command, resolved, network, [*readable, *bridge])
        argv, wrapped = await self._agent_argv(made, command, argv)
        conversation = ByHand() if listeners.terminal else resolved.agent.converse(task)
        listening = AgentOutput(conversation, listeners.emit, partial(self._leave, made))
        logs = TurnLogs(self.logs, self.redactor, listeners.terminal)
        program = BoxedProgram(
            argv=argv, stdin=command.stdin, talks=command.talks, wrapped=wrapped, hear=listening.hear, raw=logs.write
        )
        try:
            with _lend(listeners.terminal, listening):
                ended = await self._follow(
                    made,
                    listening,
                    listeners.tools.finished if listeners.tools else asyncio.Event(),
                    lambda stop: self.boxes.follow(
                        structs.replace(program, stop=stop), box, limits, network, listening.talk
                    ),
                )
        finally:
            self.unreached, self.last_words = network.trouble, listening.errors
            logs.close()
        read = {name: workspace.read_below(made.tree, name, MOST_READ_BACK) for name in command.read_back}
        files = {name: content for name, content in read.items() if content is not None}
        listening.close(ended, files)
        if listening.cutting and ended.why in ("exited", "lingered", "stopped") and not self.stop.is_set():
            ended = structs.replace(ended, why="cut")
        logs.note(command, task, ended, files)
        return ended

    def _agent_box(
        self, made: Workspace, command: Command, resolved: ResolvedAgent, network: Network, readable: Sequence[Path]
    ) -> Box:
        folder, boxed = made.tree.parent, self.level != "none"
        env = {**command.env, **resolved.env}
        if boxed and "PATH" not in env and (first := resolved.search(command)):
            env["PATH"] = os.pathsep.join([*first, self.boxes.box(made, folder).env["PATH"]])
        writable = (folder / "out",) if boxed else ()
        return self.boxes.box(made, folder, network=network, env=env, readable=readable, writable=writable)

    async def _agent_argv(self, made: Workspace, command: Command, argv: list[str]) -> tuple[list[str], bool]:
        """Return what starts the agent, and whether the same program collects its work in the same box."""
        if command.cwd:
            argv = ["/bin/sh", "-c", STARTED_ELSEWHERE, "start", command.cwd, *argv]
        # One box is quicker than two, and the same program may collect there; but it must see what is to be kept.
        limited = self.boxes.fitted.scope.file_mb or self.boxes.fitted.scope.cpu_seconds
        # An overlay knows what was changed in it: then a box of its own is quicker.
        # What is found by looking at the files needs no program at all.
        if self.laid or limited or made.kind != "clone" or not has_own_processes(self.level) or self.hidden_paths(made):
            return argv, False
        out = await collect_work.empty_folder(made.tree.parent / "out")
        return collect.then_collect(argv, made, collect_work.message(self), self.base, out), True

    async def _follow(
        self,
        made: Workspace,
        listening: AgentOutput,
        finished: asyncio.Event,
        follow: Callable[[asyncio.Event], Awaitable[Exit]],
    ) -> Exit:
        """Follow the agent to its end, with a snapshot of its work now and then, and before it is ended."""
        self._listening = listening
        try:
            listening.talk.before_end = partial(collect_work.before_end, self, made)
            async with collect_work.keep_snapshots(self, partial(collect_work.snapshot, self, made)):
                self._halt = asyncio.Event()
                return await follow_to_end(listening, self.stop, self._halt, finished, follow)
        finally:
            self._listening = None

    @property
    def is_at_work(self) -> bool:
        return self._listening is not None

    @property
    def is_ending(self) -> bool:
        """Tell whether its agent is being ended by us: then it is too late to hand anything in."""
        return self.stop.is_set() or (self._listening is not None and self._listening.talk.ending is not None)

    def _leave(self, made: Workspace, left: Leave) -> None:
        workspace.write_below(made.tree, left.path, io.BytesIO(left.content), self.owner, mode=0o644)


class HostScope:
    """What every machine of an attempt leaves to its host here: where the work starts, and its scope."""

    _host: Host

    @property
    def fitted(self) -> FittedScope:
        return self._host.boxes.fitted

    def start_from(self, base: str | None) -> None:
        self._host.base = base

    def confine(self, fitted: FittedScope, redactor: Redactor) -> None:
        self._host.boxes.fitted, self._host.redactor = fitted, redactor


def host_of(plan: RunPlan, task: Task, repository: Repository, state: Path, record: AttemptRecord) -> Host:
    """Return the host of an attempt that is stored: its work begins at its own base, else at the run's."""
    host = Host(plan, task, repository, state, record.attempt.id)
    host.base = record.base if record.base is not None else plan.base
    return host
