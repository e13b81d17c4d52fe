"""One attempt, the half that runs beside the agent: workspace, box, process, bundle, checks."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from corral.adapter import AgentTask, Leave, Telling
from corral.engine.listening import Listening
from corral.engine.logs import Log, Tail
from corral.engine.outfit import Outfit
from corral.errors import CorralError, SetupFailed
from corral.events import Event
from corral.flow import Task
from corral.model import CheckResult, Level, RunPlan
from corral.rules import naming
from corral.world import collecting, process, workspace
from corral.world.collecting import Taken
from corral.world.git import Repository, locked
from corral.world.process import Exit, Limits
from corral.world.sandbox import visible
from corral.world.sandbox.confine import agent_owner, confine, home_in_box
from corral.world.sandbox.profile import Box
from corral.world.workspace import Workspace

MOST_READ_BACK = 4 << 20


class Host:
    """Does the steps of one attempt on this machine."""

    def __init__(self, plan: RunPlan, repository: Repository, state: Path, attempt: str, stop: asyncio.Event) -> None:
        self.plan, self.repository, self.state, self.attempt, self.stop = plan, repository, state, attempt, stop
        self.level: Level = plan.level
        self.logs = state / "logs" / attempt
        self._owner = agent_owner(attempt) if self.level != "none" else None
        self._logins: list[str] = []
        self._listening: Listening | None = None

    # --- the workspace

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

    async def take_over(self, folder: Path) -> Workspace:
        """Go on in the workspace that an earlier attempt left: it belongs to this one's user now."""
        if self._owner:
            for name in ("work", "home", "out", "tmp"):
                await workspace.give(folder / name, self._owner)
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
        self, made: Workspace, dressed: Outfit, task: AgentTask, limits: Limits, emit: Callable[[Event], None]
    ) -> Exit:
        """Run the agent in its box to its end, telling its events as they come."""
        folder, boxed = made.tree.parent, self.level != "none"
        home = home_in_box(self._box(made, folder), self.level)
        task = structs.replace(task, workspace=str(made.tree), home=home, boxed=boxed)
        command = dressed.agent.start(task)
        argv, readable = dressed.resolve(command)
        await self._fill_home(folder / "home", {**self._skills(), **command.files}, dressed)
        env = {**command.env, **dressed.env}
        if boxed and "PATH" not in env and (first := dressed.search(command)):
            env["PATH"] = os.pathsep.join([*first, self._box(made, folder).env["PATH"]])
        box = self._box(made, folder, env=env, readable=readable, writable=(folder / "out",) if boxed else ())
        if boxed:  # one box is quicker than two, and whoever works there may collect there
            argv = collecting.then_collect(argv, made, self._message(), self.plan.base, _emptied(folder / "out"))
        conversation = dressed.agent.converse(task)
        listening = self._listening = Listening(conversation, emit, lambda left: self._leave(made, left))
        logs = {name: Log(self.logs / f"{name}.log") for name in ("stdout", "stderr")}

        def raw(name: str, chunk: bytes) -> None:
            logs[name].write(chunk)

        try:
            with confine(argv, box, self.level, tag=self.attempt, stdin=command.stdin, wrapped=boxed) as confined:
                start = structs.replace(confined, talks=command.talks)
                ended = await process.follow(start, limits, listening.hear, raw, self.stop, listening.talk)
        finally:
            self._listening = None
            for log in logs.values():
                log.close()
        read = {name: workspace.read_below(made.tree, name, MOST_READ_BACK) for name in command.read_back}
        listening.close(ended, {name: content for name, content in read.items() if content is not None})
        return ended

    def tell(self, order: Telling) -> bool:
        """Tell the agent something while it works; return whether it is one that listens, and still does."""
        return self._listening is not None and self._listening.tell(order)

    def _leave(self, made: Workspace, left: Leave) -> None:
        workspace.write_below(made.tree, left.path, io.BytesIO(left.content), self._owner, mode=0o644)

    async def _fill_home(self, home: Path, files: Mapping[str, bytes], dressed: Outfit) -> None:
        for name, content in files.items():
            workspace.write_below(home, name, io.BytesIO(content))
        for name in dressed.agent.facts.login:  # the login alone, never the person's own folder
            source = Path.home() / name
            if source.is_file():
                self._logins.append(name)
                workspace.write_below(home, name, io.BytesIO(source.read_bytes()))
        if self._owner:
            await workspace.give(home, self._owner)

    def _skills(self) -> dict[str, bytes]:
        """Return the files of the task's skills, as they are to lie in HOME."""
        found: dict[str, bytes] = {}
        for name, place in self.plan.flow.nodes[0].task.skills:
            for file in sorted(Path(place).rglob("*")):
                if file.is_file() and not file.is_symlink():
                    found[f"skills/{name}/{file.relative_to(place)}"] = file.read_bytes()
        return found

    def forget_logins(self, folder: Path) -> None:
        """Take a person's login out of a workspace that stays."""
        for name in self._logins:
            (folder / "home" / name).unlink(missing_ok=True)

    def keep(self, name: str, text: str) -> None:
        """Keep a text beside the attempt's logs."""
        self.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.logs / name).write_text(text)

    # --- what it did

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
        await workspace.mend(self.repository, self.plan.base, made.tree, self.attempt, self._owner)
        command = collecting.collect_command(made, self._message(), self.plan.base, _emptied(out))
        with confine(command, self._box(made, out.parent, writable=(out,)), self.level, tag=self.attempt) as start:
            finished = await process.run(start)
        if finished.code != 0:
            words = " ".join(finished.err.decode(errors="replace").split())
            raise CorralError(f"the work cannot be collected: {words[-200:]}")

    def _message(self) -> str:
        return f"{_subject(self.plan.flow.nodes[0].task)}\n\nCorral-Attempt: {self.attempt}\n"

    def repository_lock(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Hold while refs of the repository are written: git's own locks fail instead of waiting."""
        name = str(self.repository.git_dir).strip("/").replace("/", "-")[-200:]
        return locked(self.state / "locks" / name)

    async def check(
        self, folder: Path, commit: str | None, checks: Sequence[str], told: Callable[[CheckResult], None]
    ) -> list[CheckResult]:
        """Run checks in a clean checkout of `commit`, in a box of its own; it is removed afterwards."""
        results: list[CheckResult] = []
        try:
            made = await self.make(folder, commit)
            for place, check in enumerate(checks, 1):
                results.append(await self._check(made, folder, check, f"{folder.name.rpartition('-')[2]}-{place}"))
                told(results[-1])
        finally:
            await workspace.remove(folder)
        return results

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
            readable=(*map(Path, made.objects), *shown, *readable),
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


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def _emptied(out: Path) -> Path:
    for file in out.iterdir():
        file.unlink()
    return out


def _unheard(stream: str, line: bytes, cut: bool) -> None:  # noqa: FBT001
    """Hear no single lines: the log and its tail are enough."""


def _subject(task: Task) -> str:
    first = task.prompt.strip().splitlines()[0]
    return first if len(first) <= 72 else first[:69] + "..."
