"""One attempt, the half that runs beside the agent: workspace, box, process, bundle, checks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from corral.engine.logs import Log, Tail
from corral.engine.outfit import Outfit
from corral.errors import CorralError, SetupFailed
from corral.events import Ended, Event, Noted, Unparsed
from corral.model import AgentTask, CheckResult, Level, RunPlan, Task
from corral.rules import naming
from corral.world import process, workspace
from corral.world.git import Repository, locked
from corral.world.process import Exit, Limits
from corral.world.sandbox import visible
from corral.world.sandbox.confine import agent_owner, confine, home_in_box
from corral.world.sandbox.profile import Box
from corral.world.workspace import Workspace

MOST_UNPARSED = 2000


class Worked(Struct, frozen=True):
    """How the agent's own part ended."""

    ended: Ended | None
    exit: Exit


class Host:
    """Does the steps of one attempt on this machine."""

    def __init__(self, plan: RunPlan, repository: Repository, state: Path, attempt: str, stop: asyncio.Event) -> None:
        self.plan, self.repository, self.state, self.attempt, self.stop = plan, repository, state, attempt, stop
        self.level: Level = plan.level
        self.logs = state / "logs" / attempt
        self._owner = agent_owner(attempt) if self.level != "none" else None

    # --- the workspace

    async def make(self, folder: Path, commit: str | None) -> Workspace:
        """Make a workspace ready: checked out, ignored files copied, set up. What was half made before goes first."""
        workspace.remove(folder)
        for name in ("home", "out", "tmp"):
            (folder / name).mkdir(parents=True)
            if self._owner:
                os.chown(folder / name, self._owner.uid, self._owner.gid)
        made = await workspace.make(self.repository, commit, folder / "work", self.attempt, self._owner)
        await workspace.copy_ignored(self.repository, self.plan.setup.copy, made.tree, self._owner)
        if self.plan.setup.command:
            await self._set_up(made, folder, self.plan.setup.command)
        return made

    def take_over(self, folder: Path) -> Workspace:
        """Go on in the workspace that an earlier attempt left: it belongs to this one's user now."""
        if self._owner:
            for name in ("work", "home", "out", "tmp"):
                workspace.give(folder / name, self._owner)
        return workspace.made_before(folder / "work")

    async def _set_up(self, made: Workspace, folder: Path, command: str) -> None:
        tail = Tail()
        box = self._box(made, folder)
        ended = await self._in_box(["/bin/sh", "-c", command], box, Limits(), Log(self.logs / "setup.log"), tail)
        if ended.code != 0 or ended.why != "exited":
            words = tail.text().strip().splitlines()
            raise SetupFailed(f"setup `{command}` ended with {ended.code}" + (f": {words[-1]}" if words else ""))

    # --- the agent

    async def work(
        self,
        made: Workspace,
        folder: Path,
        dressed: Outfit,
        task: AgentTask,
        limits: Limits,
        emit: Callable[[Event], None],
    ) -> Worked:
        """Run the agent in its box to its end, telling its events as they come."""
        box = self._box(made, folder)
        task = structs.replace(
            task, workspace=str(made.tree), home=home_in_box(box, self.level), boxed=self.level != "none"
        )
        command = dressed.agent.start(task)
        argv, readable = dressed.resolve(command)
        self._fill_home(folder / "home", command.files, dressed)
        boxed = self.level != "none"
        env = {**command.env, **dressed.env}
        box = self._box(made, folder, env=env, readable=readable, writable=(folder / "out",) if boxed else ())
        if boxed:  # one box is quicker than two, and whoever works there may collect there
            argv = workspace.then_collect(argv, self._message(), self.plan.base, self._fresh_bundle(folder))
        conversation = dressed.agent.converse()
        last: list[Ended] = []
        errors = Tail()

        def tell(events: Sequence[Event]) -> None:
            for event in events:
                if isinstance(event, Ended):
                    last.append(event)
                emit(event)

        def heard(stream: str, line: bytes, cut: bool) -> None:  # noqa: FBT001
            if stream == "stderr":
                errors.write(line + b"\n")
            elif cut:
                emit(Unparsed(line[:MOST_UNPARSED].decode(errors="replace")))
            else:
                tell(conversation.read(line.decode(errors="replace")))

        logs = {name: Log(self.logs / f"{name}.log") for name in ("stdout", "stderr")}
        try:
            with confine(argv, box, self.level, tag=self.attempt, stdin=command.stdin, wrapped=boxed) as start:
                ended = await process.follow(
                    start, limits, heard, lambda name, chunk: logs[name].write(chunk), self.stop
                )
        finally:
            for log in logs.values():
                log.close()
        tell(conversation.exited(ended.code, errors.text()))
        for leftover in ended.leftovers:
            emit(Noted(f"ended {leftover.name} (process {leftover.pid}), which it had left running"))
        return Worked(last[-1] if last else None, ended)

    def _fill_home(self, home: Path, files: Mapping[str, bytes], dressed: Outfit) -> None:
        for name, content in files.items():
            workspace.write_below(home, name, content)
        for name in dressed.agent.facts.login:  # the login alone, never the person's own folder
            source = Path.home() / name
            if source.is_file():
                workspace.write_below(home, name, source.read_bytes())
        if self._owner:
            workspace.give(home, self._owner)

    # --- what it did

    async def collect(self, folder: Path, node: str, run: str) -> str | None:
        """Take all the agent's work into the repository; return its last commit, or None when it changed nothing."""
        bundle = folder / "out" / "work.bundle"
        if not (folder / "out" / "work.bundle.done").exists():
            await self._collect_alone(folder)
        if not bundle.exists():
            return None
        references = [naming.hidden_ref(self.attempt), "refs/heads/" + naming.branch(run, node, self.attempt)]
        async with self.repository_lock():
            return await workspace.fetch(self.repository, bundle, references)

    async def _collect_alone(self, folder: Path) -> None:
        """Collect in a box of its own: the agent was ended, or broke its .git, or there was no box."""
        made = workspace.made_before(folder / "work")
        await workspace.mend(self.repository, self.plan.base, made.tree, self.attempt, self._owner)
        command = workspace.collect_command(self._message(), self.plan.base, self._fresh_bundle(folder))
        box = self._box(made, folder, writable=(folder / "out",))
        with confine(command, box, self.level, tag=self.attempt) as start:
            finished = await process.run(start)
        if finished.code != 0:
            words = finished.err.decode(errors="replace").strip()
            raise CorralError(f"the work cannot be collected: {words[-400:]}")

    def _message(self) -> str:
        return f"{_subject(self.plan.flow.nodes[0].task)}\n\nCorral-Attempt: {self.attempt}\n"

    def _fresh_bundle(self, folder: Path) -> Path:
        bundle = folder / "out" / "work.bundle"
        for file in (bundle, bundle.with_name("work.bundle.done")):
            file.unlink(missing_ok=True)
        return bundle

    def repository_lock(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Hold while refs of the repository are written: git's own locks fail instead of waiting."""
        name = str(self.repository.git_dir).strip("/").replace("/", "-")[-200:]
        return locked(self.state / "locks" / name)

    async def check(self, folder: Path, commit: str | None, checks: Sequence[str], name: str) -> list[CheckResult]:
        """Run checks in a clean checkout of `commit`, in a box of its own; it is removed afterwards."""
        try:
            made = await self.make(folder, commit)
            return [await self._check(made, folder, check, f"{name}-{place}") for place, check in enumerate(checks, 1)]
        finally:
            workspace.remove(folder)

    async def _check(self, made: Workspace, folder: Path, check: str, name: str) -> CheckResult:
        tail = Tail()
        path = self.logs / f"{name}.log"
        limits = Limits(timeout_seconds=self.plan.flow.nodes[0].task.timeout_seconds)
        started = time.monotonic()
        ended = await self._in_box(["/bin/sh", "-c", check], self._box(made, folder), limits, Log(path), tail)
        note = {
            "timeout": f"`{check}` was not done in time",
            "stopped": "stopped",
            "flood": f"`{check}` printed more than 4 GB",
        }
        return CheckResult(
            command=check,
            exit_code=ended.code,
            seconds=round(time.monotonic() - started, 3),
            note=note.get(ended.why, ""),
            output=tail.text(),
            log=str(path.relative_to(self.state)),
        )

    # --- the box

    def _box(
        self,
        made: Workspace,
        folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        readable: Sequence[Path] = (),
        writable: tuple[Path, ...] = (),
    ) -> Box:
        shown, path = visible.toolchains(os.environ, Path.home())
        boxed = self.level != "none"
        home = home_in_box(Box(folder=folder, workspace=made.tree, home=folder / "home"), self.level)
        base = {
            "PATH": os.pathsep.join([*path, *visible.SYSTEM_PATH]) if boxed else os.environ.get("PATH", ""),
            "HOME": home,
            "TMPDIR": "/tmp" if boxed else str(folder / "tmp"),  # noqa: S108 -- the box's own
            "USER": "agent",
            "LOGNAME": "agent",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }
        rustup = Path.home() / ".rustup"
        if rustup / "toolchains" in shown:
            base["RUSTUP_HOME"] = str(rustup)
        return Box(
            folder=folder,
            workspace=made.tree,
            home=folder / "home",
            readable=(*made.objects, *shown, *readable),
            pinned=made.pinned,
            guarded=made.guarded,
            writable=writable,
            env={**base, **(env or {})},
        )

    async def _in_box(self, argv: list[str], box: Box, limits: Limits, log: Log, tail: Tail) -> Exit:
        def raw(_: str, chunk: bytes) -> None:
            log.write(chunk)
            tail.write(chunk)

        try:
            with confine(argv, box, self.level, tag=self.attempt) as start:
                return await process.follow(start, limits, _unheard, raw, self.stop)
        finally:
            log.close()


def _unheard(stream: str, line: bytes, cut: bool) -> None:  # noqa: FBT001
    """Hear no single lines: the log and its tail are enough."""


def _subject(task: Task) -> str:
    first = task.prompt.strip().splitlines()[0]
    return first if len(first) <= 72 else first[:69] + "..."
