"""The workspaces and boxes of one attempt on this machine: made, set up, limited by its scope."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import structs

from corral.machines import boxes, scope
from corral.machines.boxes import Boxes, Kept
from corral.machines.calls import CheckOrder, LaidFile, LineAnswer, LineOrder
from corral.machines.logs import Log, Tail
from corral.machines.network import Network, is_open
from corral.machines.resolved_agent import ResolvedAgent
from corral.machines.scope import FittedScope, MachinePaths
from corral.model import CheckObservation, Level, Net, RunPlan, TestOrder
from corral.model.errors import CorralError, SetupFailed
from corral.model.flow import Task
from corral.rules.text.redact import Redactor, likely_secrets
from corral.world import package_managers, untrusted_files
from corral.world.git import object_cache
from corral.world.git.repository import Repository
from corral.world.locks import hold_lock
from corral.world.process import ProcessLimits
from corral.world.sandbox.confine import agent_owner, has_own_processes
from corral.world.untrusted_files import dangerous_links
from corral.world.workspace import checkout as workspace
from corral.world.workspace import kinds, overlay
from corral.world.workspace.checkout import Loan, Workspace
from corral.world.workspace.mounts import OVERLAY
from corral.world.workspace.plain_files import FreshCheckout

IDLE_SECONDS = 3600.0
FREE_DISK_BYTES = 64 << 20  #: free on a disk that is not full
MOST_SKILL_FILE = 64 << 20
MOST_FILES = 500  #: of a conversation


class CheckMachine(Protocol):
    """Another machine that runs checks of one attempt."""

    async def observe(self, order: CheckOrder) -> Sequence[CheckObservation]: ...
    async def run_line(self, order: LineOrder) -> LineAnswer: ...


def _unsaid(_: str) -> None:
    """Say nothing."""


class WorkspaceHost:
    """The workspaces and boxes of one attempt on this machine."""

    def __init__(self, plan: RunPlan, task: Task, repository: Repository, state: Path, attempt: str) -> None:
        self.plan, self.task, self.repository, self.state, self.attempt = plan, task, repository, state, attempt
        self.base = plan.base  #: the commit the attempt starts from
        self.stop = asyncio.Event()
        self.level: Level = plan.level
        self.logs = state / "logs" / attempt
        self.owner = agent_owner(attempt) if self.level != "none" else None
        self.logins: list[str] = []
        self.boxes = Boxes(self.level, attempt, self.stop)
        self.redactor = Redactor(likely_secrets(os.environ))
        self.snapping = asyncio.Lock()
        self.copied: Sequence[LaidFile] | None = None  #: ignored files that came along; None: the repository's own
        self.elsewhere: CheckMachine | None = None  #: where its checks run; None: here
        self.beside_name: str | None = None  #: of a host beside an attempt's own
        self.laid: FreshCheckout | None = (
            None  #: how its workspace was made, if what changes in it is found without git
        )
        self.begun_ns = 0  #: when its agent was started first
        self.order: TestOrder | None = None  #: which tests its checks run; None: all

    def beside(self, name: str, time_limit_seconds: float | None = None) -> WorkspaceHost:
        """Return a host for checks that run beside this one's, as another user: the end of one is not the other's."""
        task = self.task
        if time_limit_seconds is not None:
            task = structs.replace(task, timeout_seconds=time_limit_seconds)
        other = WorkspaceHost(self.plan, task, self.repository, self.state, beside_name(self.attempt, name))
        other.base, other.stop, other.logs, other.redactor = self.base, self.stop, self.logs, self.redactor
        other.boxes = Boxes(self.level, other.attempt, self.stop)
        other.boxes.fitted, other.copied = self.boxes.fitted, self.copied
        other.elsewhere, other.beside_name = self.elsewhere, name
        return other

    # --- the workspace

    @contextlib.asynccontextmanager
    async def with_cache(self, folder: Path) -> AsyncGenerator[None]:
        """Have the project's package caches at hand, for setup, agent and checks."""
        private = folder.with_name(f"{folder.name}-cache")
        async with package_managers.lend_cache(
            self.state, self.repository.git_dir, private, self.owner
        ) as self.boxes.cache:
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
        loan = Loan(self.state / "objects", folder / "objects", say, self.state / "templates")
        commits = [commit, *needs] if commit else []
        branch = (self.attempt, self.owner)
        made = await kinds.make(self.plan.setup.kind, self.repository, commits, folder / "work", branch, loan)
        name, address = await self.repository.identity()  # for repositories that an agent makes itself
        settings = f"[user]\n\tname = {_quote(name)}\n\temail = {_quote(address)}\n"
        workspace.write_below(folder / "home", ".gitconfig", io.BytesIO(settings.encode()), self.owner)
        await self._copy_ignored(made)
        if self.plan.setup.command:
            await self._set_up(made, folder, self.plan.setup.command)
        return made

    async def _copy_ignored(self, made: Workspace) -> None:
        if self.copied is None:
            await workspace.copy_ignored(self.repository, self.plan.setup.copy, made.tree, self.owner)
            return
        laid = [
            file.name
            for file in self.copied
            if workspace.lay_ignored(made.tree, file.name, io.BytesIO(file.content), self.owner, file.mode & 0o777)
        ]
        workspace.exclude_copied(made.tree, laid)

    async def lend(self, folder: Path, commit: str) -> None:
        """Let a workspace see what one more commit reaches: work that was handed to its agent."""
        await object_cache.lend(self.repository, [commit], self.state / "objects", folder / "objects" / "0")

    async def network(self, net: Net) -> Network:
        """Connect a box that is not an agent's: to what the list names, and to no provider."""
        network = Network(self.level, net, _report_nothing, whole=True)
        await network.allow()
        return network

    async def fit(self, made: Workspace, fitted: FittedScope) -> list[str]:
        """Hold the scope against the workspace; return what a user should know of it."""
        checkout = self.repository.folder if (self.repository.folder / ".git").exists() else None
        machine = MachinePaths(tree=made.tree, state=self.state, checkout=checkout)
        self.boxes.fitted = await scope.fit(fitted, machine)
        resolved = self.boxes.fitted.resolved
        for folder in resolved.missing:
            workspace.make_below(made.tree, folder, self.owner)
        if hidden := self.hidden_paths(made):
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
        machine = MachinePaths(tree=folder, state=self.state, checkout=folder if (folder / ".git").exists() else None)
        fitted = scope.of_agent(self.plan.scopes, agent, self.plan.ignore)
        self.boxes.fitted = await scope.fit(fitted, machine)

    @property
    def disk_has_room(self) -> bool:
        """Tell whether a box that found no space can have found that only in its own folders that are memory."""
        about = os.statvfs(self.state)
        return has_own_processes(self.level) and about.f_bavail * about.f_frsize > FREE_DISK_BYTES

    def hidden_paths(self, made: Workspace) -> list[str]:
        """Return what of the workspace the agent's box covers up."""
        masks = self.boxes.fitted.resolved.masks if has_own_processes(self.level) else ()
        return [str(mask.path.relative_to(made.tree)) for mask in masks if mask.mode == "hidden"]

    async def take_over(self, folder: Path) -> Workspace:
        """Continue in the workspace that an earlier attempt left: it belongs to this one's user now."""
        if self.owner:
            overlaid = (folder / OVERLAY).is_dir()
            for name in ("home", "out", "tmp", *(() if overlaid else ("work",))):
                await workspace.give(folder / name, self.owner)
            if overlaid:
                await overlay.give(folder, self.owner)
        return await self.open_workspace(folder)

    async def open_workspace(self, folder: Path) -> Workspace:
        """Return a workspace as it was made, with its files in it: those of an overlay are gone after a restart."""
        if (folder / OVERLAY).is_dir():
            await overlay.mount_again(folder, self.owner)
        return workspace.read_workspace(folder / "work")

    async def remove(self, folder: Path) -> None:
        """Remove a workspace; its checkout may serve again where none of its files can still be open elsewhere.

        A box can hand open files to another one: by the machine's network, or by a socket in a folder that both see.
        """
        fitted = self.boxes.fitted
        shares = fitted.resolved.elsewhere or is_open(self.level, fitted.scope.net)
        if shares or not has_own_processes(self.level):
            await workspace.remove(folder)
        else:
            await kinds.remove(folder, self.repository, self.state)

    async def _set_up(self, made: Workspace, folder: Path, command: str) -> None:
        tail = Tail()
        network = await self.network(self.plan.setup.net)
        box = self.boxes.box(made, folder, network=network)
        log = Log(self.logs / "setup.log")
        ended = await boxes.run_shell(
            self.boxes, self.redactor, command, box, ProcessLimits(), Kept(log, tail, network)
        )
        if ended.code != 0 or ended.why != "exited":
            words = tail.text().strip().splitlines()
            raise SetupFailed(
                f"setup `{command}` ended with {ended.code}" + (f": {words[-1]}" if words else ""),
                hint="[workspace] setup in corral.toml; try it in a fresh clone",
            )

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
        return hold_lock(self.state / "locks" / name)


def beside_name(attempt: str, name: str) -> str:
    return f"{attempt}-{name}"


def _quote(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def _report_nothing(host: str, port: int, allowed: bool, reason: str) -> None:  # noqa: FBT001
    """Tell nobody: what a check asks for is its own affair."""


def fill_home(host: WorkspaceHost, home: Path, files: Mapping[str, bytes], resolved: ResolvedAgent) -> None:
    """Lay files into HOME, and a copy of the login beside them."""
    for name, content in {**task_files(host.task), **files}.items():
        workspace.write_below(home, name, io.BytesIO(content), host.owner)
    for name in resolved.agent.facts.login:  # the login alone, never the user's own folder
        source = resolved.login_file(name)
        if source is None:
            workspace.remove_below(home, name)  # one of another account may lie there
        else:
            host.logins.append(name)
            workspace.write_below(home, name, io.BytesIO(source.read_bytes()), host.owner)


def put_file(host: WorkspaceHost, folder: Path, name: str, content: bytes) -> None:
    """Lay something into the agent's HOME, without secrets."""
    workspace.write_below(folder / "home", name, io.BytesIO(host.redactor.data(content)), host.owner)


def home_files(host: WorkspaceHost, folder: Path, places: Sequence[str], most_bytes: int) -> dict[str, bytes] | None:
    """Return the files in folders of the agent's HOME, without secrets; None if they are too many or too long."""
    home, found = folder / "home", dict[str, bytes]()
    listed = (Path(place, name) for each in places for place, _, names in os.walk(home / each) for name in names)
    for path in listed:
        name = str(path.relative_to(home))
        content = workspace.read_below(home, name, most_bytes + 1)
        most_bytes -= len(content or b"")
        if most_bytes < 0 or len(found) >= MOST_FILES:
            return None
        if content is not None:
            found[name] = host.redactor.data(content)
    return found


async def leave_workspace(host: WorkspaceHost, folder: Path) -> None:
    """Leave a workspace that stays: without the user's login, and with all its files on the disk."""
    for name in host.logins:
        workspace.remove_below(folder / "home", name)
    with contextlib.suppress(CorralError, OSError):  # no room: then it stays an overlay
        await overlay.flatten(folder)


def task_files(task: Task) -> dict[str, bytes]:
    """Return the files that come with a task, as they are to lie in HOME."""
    return {**_put_skills(task), **_handed_files(task), **_image_files(task)}


def _put_skills(task: Task) -> dict[str, bytes]:
    """Return the files of the task's skills, as they are to lie in HOME."""
    found: dict[str, bytes] = {}
    for name, place in task.skills:
        for file, content in untrusted_files.files(Path(place), MOST_SKILL_FILE):
            found[f"skills/{name}/{file}"] = content
    return found


def _image_files(task: Task) -> dict[str, bytes]:
    return {f"images/{image.name}": base64.b64decode(image.data) for image in task.images}


def _handed_files(task: Task) -> dict[str, bytes]:
    return {name: text.encode() for name, text in task.handed}
