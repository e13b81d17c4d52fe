"""One attempt, the half that runs beside the agent: its agent at work in its box."""

from __future__ import annotations

import asyncio
import io
import os
from functools import partial
from pathlib import Path

from msgspec import structs

from corral.machines import collect_work, workspace_host
from corral.machines.agent_output import (
    AgentListeners,
    AgentOutput,
    TurnLogs,
    add_toolbox,
    connect_agent,
    follow_to_end,
)
from corral.machines.boxes import BoxedProgram
from corral.machines.resolved_agent import ResolvedAgent
from corral.machines.workspace_host import WorkspaceHost
from corral.model import AttemptRecord, RunPlan
from corral.model.agent_api import AgentTask, Answer, Leave, Telling
from corral.model.events import Noted
from corral.model.flow import Task
from corral.rules.text.names import as_plain_text
from corral.world.git import collect
from corral.world.git.repository import Repository
from corral.world.process import Exit, ProcessLimits
from corral.world.sandbox.confine import has_own_processes
from corral.world.workspace import checkout as workspace
from corral.world.workspace.checkout import Workspace

MOST_READ_BACK = 4 << 20
STARTED_ELSEWHERE = 'cd "$1" && shift && exec "$@"'


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
        connected = await connect_agent(self.level, self.boxes.fitted.scope.net, resolved, listeners)
        resolved, network, self.metered = connected.resolved, connected.network, connected.metered
        self.unmetered |= connected.unmetered
        task, bridge = add_toolbox(task, resolved, network, listeners.tools)
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
        logs = TurnLogs(self.logs, self.redactor)
        program = BoxedProgram(
            argv=argv, stdin=command.stdin, talks=command.talks, wrapped=alone, hear=listening.hear, raw=logs.write
        )
        try:
            listening.talk.before_end = partial(collect_work.before_end, self, made)
            async with collect_work.keep_snapshots(self, partial(collect_work.snapshot, self, made)):
                self._halt = asyncio.Event()
                ended = await follow_to_end(
                    listening,
                    self.stop,
                    self._halt,
                    listeners.tools.finished if listeners.tools else asyncio.Event(),
                    lambda stop: self.boxes.follow(
                        structs.replace(program, stop=stop), box, limits, network, listening.talk
                    ),
                )
        finally:
            self._listening = None
            self.unreached, self.last_words = network.trouble, listening.errors
            logs.close()
        read = {name: workspace.read_below(made.tree, name, MOST_READ_BACK) for name in command.read_back}
        files = {name: content for name, content in read.items() if content is not None}
        listening.close(ended, files)
        if listening.cutting and ended.why in ("exited", "lingered", "stopped") and not self.stop.is_set():
            ended = structs.replace(ended, why="cut")
        logs.note(command, task, ended, files)
        return ended

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
