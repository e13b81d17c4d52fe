"""What an agent's workspace holds is kept: from time to time while it works, and whole at its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec import structs

from corral.machines.workspace_host import WorkspaceHost
from corral.model.errors import CorralError
from corral.model.flow import Task
from corral.rules.scope import globs
from corral.rules.text import names
from corral.world import locks, machine_limits
from corral.world.git import collect as collecting
from corral.world.git import commit_heads, hidden_refs, incoming_objects, ref_files
from corral.world.git.collect import CollectedWork
from corral.world.git.made_objects import GitObject, make_commit, make_object, make_trees
from corral.world.process import TooSlow
from corral.world.workspace import checkout, overlay, plain_files
from corral.world.workspace.checkout import Workspace
from corral.world.workspace.plain_files import ChangedFiles, FreshCheckout, Ignored, LeftToGit

#: Lines of a .gitignore that are read here just as git reads them.
PLAIN_RULE = re.compile(r"#.*|!?[\w.*/ +@-]*(\[[A-Za-z0-9]+\][\w.*/ +@-]*)?", re.ASCII)
OWN_RULES = globs.gitignore(checkout.DROPPINGS)
#: The agent's own settings may name programs that never end; its identity is in its .git.
NO_SETTINGS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
KEEP_SECONDS = 10.0  #: an agent that is to be ended continues for as long, at most, while its work is kept


async def make_snapshot(host: WorkspaceHost, made: Workspace) -> Path:
    """Lay a bundle of what the workspace holds now beside it, if anything is new; return the folder it is in."""
    await host.open_workspace(made.tree.parent)
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

    async def collected_in_box(self) -> Path | None:
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

    async def collected_in_box(self) -> Path | None:
        return self._out if (self._out / "done").exists() and (self._out / "work.bundle").exists() else None

    async def alone(self) -> Path:
        host, made = self._host, self._made
        await checkout.restore_git_folder(host.repository, host.base, made.tree, host.attempt, host.owner)
        if await self._changed_alone():
            return self._out
        command = collecting.collect_command(made, message(host), host.base, await empty_folder(self._out))
        await _aside(host, made, command, self._out)
        return self._out

    async def _changed_alone(self) -> bool:
        """Collect the paths that an overlay says have changed; tell whether they were plain enough."""
        host, made = self._host, self._made
        if made.kind != "overlay" or made.modules or host.base is None:
            return False
        try:
            changes = await asyncio.to_thread(overlay.changed_paths, made.tree.parent)
            if changes is None:
                return False
            out = await empty_folder(self._out)
            command = collecting.changed_command(made, message(host), host.base, out, structs.asdict(changes))
            for name in ("there", "gone", "index"):
                if host.owner:
                    os.chown(out / name, host.owner.uid, host.owner.gid)
            await _aside(host, made, command, out)
        except (CorralError, OSError):
            return False
        return True

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
    made = await host.open_workspace(folder)
    if host.laid:
        taken = await _collect_plain(host, host.laid, made, message(host), _references(host, node, run))
        if taken is not None:
            return taken
    return await collect_from(host, LocalPlaces(host, folder), made, node, run)


def _references(host: WorkspaceHost, node: str, run: str) -> list[str]:
    return [names.hidden_ref(host.attempt), "refs/heads/" + names.branch(run, node, host.attempt)]


async def collect_from(host: WorkspaceHost, places: WorkPlaces, made: Workspace, node: str, run: str) -> CollectedWork:
    """Take all the agent's work into the repository; where its own history cannot be taken, its files alone.

    Three ways, each only where the one before failed: what was collected in the agent's box, a box of its own, and
    its files by a git that reads nothing of the agent's .git.
    """
    references = _references(host, node, run)
    troubles: list[CorralError | OSError] = []
    try:
        if out := await places.collected_in_box():
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


async def empty_folder(out: Path) -> Path:
    """Return a folder without what an earlier collection, or an agent, left in it: of any depth, with any rights."""
    for file in list(out.iterdir()):
        await checkout.remove(file)
    return out


def _subject(task: Task) -> str:
    first = task.prompt.strip().splitlines()[0]
    return first if len(first) <= 72 else first[:69] + "..."


# --- plain work: changed files of a small workspace, taken into the repository by reading them, without git


def look_at_made(host: WorkspaceHost, made: Workspace, commit: str | None) -> FreshCheckout | None:
    """Take down how a workspace was made, where what is changed in it can be found without git."""
    setup = host.plan.setup
    if commit is None or made.kind != "clone" or made.modules or setup.command or setup.copy:
        return None
    git_dir = host.repository.git_dir
    known = plain_files.recall(git_dir, commit) or plain_files.remember(git_dir, commit, made.tree)
    if known is None or checkout.exclude_rules(made.tree) != checkout.DROPPINGS.encode() or _plain_rules(known) is None:
        return None
    try:
        return plain_files.note_laid(known, made.tree, made.tree.parent / "home")
    except (LeftToGit, OSError):
        return None


def _plain_rules(known: plain_files.RememberedTree) -> list[globs.Glob] | None:
    """Return the rules for new files; None where git is to read them."""
    if ".gitignore" not in known.entries:
        return OWN_RULES
    text = (known.contents or {}).get(".gitignore", b"\\").decode(errors="replace")
    if not all(PLAIN_RULE.fullmatch(line) for line in text.split("\n")):
        return None
    return [*OWN_RULES, *globs.gitignore(text)]


async def _collect_plain(
    host: WorkspaceHost, laid: FreshCheckout, made: Workspace, message: str, references: Sequence[str]
) -> CollectedWork | None:
    """Take the changed files of a workspace as one commit; None: git is to collect them."""
    rules = _plain_rules(laid.remembered)
    if rules is None or host.hidden_paths(made):
        return None
    ignored: Ignored = partial(globs.is_ignored, rules)
    home = made.tree.parent / "home"
    try:
        changed = plain_files.find_changes(laid, made.tree, home, host.begun_ns, ignored)
    except LeftToGit:
        return None
    commit = laid.remembered.commit
    if changed.entries == laid.remembered.entries:
        return CollectedWork(None) if commit == host.base else None
    objects = _new_objects(changed, laid, message, await host.repository.identity())
    if objects is None:
        return None
    name = objects[-1].name.hex()
    locks.check()
    async with host.repository_lock():
        with contextlib.ExitStack() as stack:
            rest = await asyncio.to_thread(_lay_objects, stack, host, objects, references)
            await hidden_refs.edit_refs(host.repository, [(reference, name) for reference in rest])
        await incoming_objects.fold(host.repository)
    commit_heads.remember(name, objects[-1].content)
    return CollectedWork(name)


def _lay_objects(
    stack: contextlib.ExitStack, host: WorkspaceHost, objects: Sequence[GitObject], references: Sequence[str]
) -> list[str]:
    """Lay objects into the repository, and refs to the last of them; return those that git is to write."""
    repository = host.repository
    stack.enter_context(incoming_objects.add_objects(repository, objects))
    commit = objects[-1].name.hex()
    return [each for each in references if not ref_files.write(repository.git_dir, each, commit, repository.owner)]


def _new_objects(
    changed: ChangedFiles, laid: FreshCheckout, message: str, identity: tuple[str, str]
) -> list[GitObject] | None:
    """Return what the repository does not have yet, the commit last."""
    before = {tree.name for tree in make_trees(laid.remembered.entries)}
    trees = make_trees(changed.entries)
    commit = make_commit(trees[-1].name, [laid.remembered.commit], identity, message)
    if commit is None:
        return None
    new = [tree for tree in trees if tree.name not in before]
    return [*(make_object(b"blob", content) for content in changed.contents), *new, commit]
