"""What an agent's workspace holds is kept: from time to time while it works, and whole at its end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from msgspec import structs

from corral.machines.workspace_host import WorkspaceHost
from corral.model.errors import CorralError
from corral.model.flow import Task
from corral.rules.text import names
from corral.world import machine_limits
from corral.world.git import collect as collecting
from corral.world.git import hidden_refs
from corral.world.git.collect import CollectedWork
from corral.world.process import TooSlow
from corral.world.workspace import checkout
from corral.world.workspace.checkout import Workspace

#: The agent's own settings may name programs that never end; its identity is in its .git.
NO_SETTINGS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
KEEP_SECONDS = 10.0  #: an agent that is to be ended goes on for as long, at most, while its work is kept


async def make_snapshot(host: WorkspaceHost, made: Workspace) -> Path:
    """Lay a bundle of what the workspace holds now beside it, if anything is new; return the folder it is in."""
    place = made.tree.parent / "snap"
    place.mkdir(mode=0o700, exist_ok=True)
    box = host.boxes.box(made, made.tree.parent, writable=(place,))
    box = structs.replace(box, file_mb=None, cpu_seconds=None, processes=None)  # its user may have too many already
    hidden_refs.prepare(made, place, host.owner)
    await host.boxes.aside(hidden_refs.command(place, host.base), box, "be kept")
    return place


async def take_snapshot(host: WorkspaceHost, place: Path) -> str | None:
    """Take what `make_snapshot` laid there, under a hidden ref; None where nothing is new since the last time."""
    async with host.repository_lock():
        return await hidden_refs.take(host.repository, place, host.attempt, datetime.now(UTC), host.base)


async def snapshot(host: WorkspaceHost, made: Workspace) -> str | None:
    """Keep what the workspace holds now, under a hidden ref; None where nothing is new since the last time."""
    async with host.snapping:
        return await take_snapshot(host, await make_snapshot(host, made))


async def before_end(host: WorkspaceHost, made: Workspace) -> None:
    """Keep what is there before the agent hears that it is to end: it may throw its work away then."""
    with contextlib.suppress(CorralError, OSError, TimeoutError):
        async with asyncio.timeout(KEEP_SECONDS):
            await snapshot(host, made)


@contextlib.asynccontextmanager
async def keep_snapshots(host: WorkspaceHost, keep: Callable[[], Awaitable[object]]) -> AsyncGenerator[None]:
    """Make snapshots from time to time; one that fails is no reason to stop the agent."""

    async def keep_on() -> None:
        while True:
            await asyncio.sleep(host.plan.setup.snapshot_seconds)
            with contextlib.suppress(CorralError, OSError):
                await keep()

    active = asyncio.create_task(keep_on())
    try:
        yield
    finally:
        active.cancel()
        await asyncio.gather(active, return_exceptions=True)


class WorkPlaces(Protocol):
    """Where the work of one attempt can be found, in three ways; each returns a folder of this machine."""

    async def boxed(self) -> Path | None:
        """Return what was collected in the agent's own box; None: nothing was."""
        ...

    async def alone(self) -> Path:
        """Collect in a box of its own: the agent was ended, did nothing, broke its .git, or had no box."""
        ...

    async def files(self) -> Path:
        """Collect the files as one commit onto the base, by a git of ours beside the workspace."""
        ...


class LocalPlaces:
    """The work in a workspace of this machine."""

    def __init__(self, host: WorkspaceHost, folder: Path) -> None:
        self._host, self._out = host, folder / "out"
        self._made = checkout.read_workspace(folder / "work")

    async def boxed(self) -> Path | None:
        return self._out if (self._out / "done").exists() and (self._out / "work.bundle").exists() else None

    async def alone(self) -> Path:
        host, made = self._host, self._made
        await checkout.restore_git_folder(host.repository, host.base, made.tree, host.attempt, host.owner)
        command = collecting.collect_command(made, message(host), host.base, empty_folder(self._out))
        await _aside(host, made, command, self._out)
        return self._out

    async def files(self) -> Path:
        place = self._made.tree.parent / "files"
        await checkout.remove(place)
        place.mkdir(mode=0o700)
        hidden_refs.prepare(self._made, place, self._host.owner, alone=True)
        command = hidden_refs.files_command(place, self._host.base)
        await _aside(self._host, structs.replace(self._made, modules=()), command, place)
        return place


async def collect(host: WorkspaceHost, folder: Path, node: str, run: str) -> CollectedWork:
    """Take all the work in a workspace of this machine into the repository."""
    made = checkout.read_workspace(folder / "work")
    return await collect_from(host, LocalPlaces(host, folder), made, node, run)


async def collect_from(host: WorkspaceHost, places: WorkPlaces, made: Workspace, node: str, run: str) -> CollectedWork:
    """Take all the agent's work into the repository; where its own history cannot be taken, its files alone.

    Three ways, each only where the one before failed: what was collected in the agent's box, a box of its own, and
    its files by a git that reads nothing of the agent's .git.
    """
    references = [names.hidden_ref(host.attempt), "refs/heads/" + names.branch(run, node, host.attempt)]
    troubles: list[CorralError | OSError] = []
    try:
        if out := await places.boxed():
            taken = await _take(host, made, out, references)
            if taken.commit or taken.saved:  # an agent can write a bundle that holds nothing
                return taken
    except (CorralError, OSError) as error:
        troubles.append(error)
    try:
        return await _take(host, made, await places.alone(), references)
    except (CorralError, OSError) as error:
        troubles.append(error)
    first = troubles[0]
    if _is_out_of_space(first):
        raise first
    try:
        return await _take_files(host, await places.files(), references, str(first))
    except (CorralError, OSError) as error:
        raise first from error


async def _take(host: WorkspaceHost, made: Workspace, out: Path, references: Sequence[str]) -> CollectedWork:
    async with host.repository_lock():
        taken = await collecting.take(host.repository, made, out, host.attempt, references, host.base)
    return structs.replace(taken, left=collecting.omissions(out))


async def _take_files(host: WorkspaceHost, place: Path, references: Sequence[str], reason: str) -> CollectedWork:
    left = (f"its own commits, its files alone were: {reason}", *collecting.omissions(place))
    async with host.repository_lock():
        commit = await hidden_refs.take_files(host.repository, place, references, host.base)
    if commit is None:
        raise CorralError(reason)
    return CollectedWork(commit, left=left)


async def _aside(host: WorkspaceHost, made: Workspace, command: list[str], place: Path) -> None:
    box = host.boxes.box(made, place.parent, writable=(place,), env=NO_SETTINGS)
    there = {name: tuple(path for path in getattr(box, name) if path.exists()) for name in ("pinned", "guarded")}
    box = structs.replace(box, file_mb=None, cpu_seconds=None, **there)
    seconds = host.plan.setup.collect_seconds  # a limit of its own: the agent's time is over by then
    try:
        await host.boxes.aside(command, box, "be collected", seconds)
    except TooSlow as slow:
        hint = "allow more time with `collect` in [workspace], as in `5m`"
        raise TooSlow(f"{slow}; {hint}", hint=hint) from slow


def _is_out_of_space(error: Exception) -> bool:
    return machine_limits.is_disk_full(str(error))


def message(host: WorkspaceHost) -> str:
    """Return what the commit of the work says."""
    return f"{_subject(host.task)}\n\nCorral-Attempt: {host.attempt}\n"


def empty_folder(out: Path) -> Path:
    """Return a folder without what an earlier collection left in it."""
    for file in out.iterdir():
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()
    return out


def _subject(task: Task) -> str:
    first = task.prompt.strip().splitlines()[0]
    return first if len(first) <= 72 else first[:69] + "..."
