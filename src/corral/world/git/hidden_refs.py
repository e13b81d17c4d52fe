"""Hidden refs: snapshots of workspaces while agents work in them, and the commits that runs start from."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from corral.world.git import commit_heads, incoming_objects, ref_files
from corral.world.git.collect import TIDY, fetch
from corral.world.git.merge_commits import CombinedCommit
from corral.world.git.repository import Repository
from corral.world.git.resolve_conflicts import scratch
from corral.world.process import Owner
from corral.world.workspace import checkout
from corral.world.workspace.checkout import WHO, Workspace

SCRIPT = (Path(__file__).with_name("snapshot.sh")).read_text(encoding="utf-8")
KEPT = 10  #: of each attempt
MOST_READ = 1 << 20
FOLDER = "refs/corral/bases"
CHECKPOINTS = "refs/corral/checkpoints"
NAMED = ("snapshots", "checkpoints")  #: folders of refs that are listed by their times or names


class Snapshot(Struct, frozen=True):
    """A state of an attempt's work that is kept."""

    ref: str
    commit: str
    at: str  #: 20260131T120000000000Z, or the name of a checkpoint; empty: as it was collected at its end


def prepare(made: Workspace, place: Path, owner: Owner | None, *, alone: bool = False) -> None:
    """Lay a repository beside a workspace that borrows its objects; done once for each workspace.

    `alone`: it borrows only what the workspace was made from, for an agent may have broken its own .git.
    """
    if not (place / "git" / "HEAD").exists():
        _lay(made, place / "git", [] if alone else [str(made.tree / ".git" / "objects")])
        with contextlib.suppress(FileNotFoundError):  # so that no file is read again that is as it was
            shutil.copyfile(made.tree.parent / checkout.INDEX, place / "git" / "index")
    if owner and place.stat().st_uid != owner.uid:  # new, or its attempt continued under another user
        os.chown(place, owner.uid, owner.gid)
        for root, folders, files in os.walk(place):
            for name in (*folders, *files):
                os.chown(Path(root, name), owner.uid, owner.gid, follow_symlinks=False)


def _lay(made: Workspace, git_dir: Path, own: Sequence[str]) -> None:
    for folder in ("objects/info", "objects/pack", "refs/heads", "info"):
        (git_dir / folder).mkdir(parents=True, exist_ok=True)
    borrowed = [*own, *made.objects]
    (git_dir / "objects/info/alternates").write_text("".join(f"{folder}\n" for folder in borrowed))
    config = checkout.read_below(made.tree, ".git/config", MOST_READ) or b""
    sha256 = b"objectformat = sha256" in config
    form = "\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"
    (git_dir / "config").write_text(
        "[core]\n\tbare = false\n" + (form if sha256 else "\trepositoryformatversion = 0\n")
    )
    (git_dir / "info/exclude").write_bytes(checkout.exclude_rules(made.tree) or checkout.DROPPINGS.encode())
    (git_dir / "HEAD").write_text("ref: refs/heads/snapshot\n")


def command(place: Path, base: str | None) -> list[str]:
    """Return the command that makes a snapshot, to be run in a box at the workspace."""
    return ["/bin/sh", "-c", SCRIPT, "snapshot", str(place), base or ""]


def files_command(place: Path, base: str | None) -> list[str]:
    """Return the command that makes a snapshot of the files alone, when nobody is at work in the workspace."""
    here = 'git_here() { git -c core.excludesFile=/dev/null --git-dir="$place/git" --work-tree=. "$@"; }\n'
    tidy = f'place=$1\n{here}tidy "$1/git/info/exclude" "$1/left"\nunnest\n'
    return ["/bin/sh", "-c", f"{TIDY}\n{tidy}{SCRIPT}", "files", str(place), base or ""]


async def take(repository: Repository, place: Path, attempt: str, now: datetime, base: str | None = None) -> str | None:
    """Fetch what the command left, under a hidden ref; return that, or None where nothing was new."""
    bundle = place / "snapshot.bundle"
    if not bundle.exists():
        return None
    ref = f"refs/corral/snapshots/{attempt}/{stamp(now)}"
    await fetch(repository, bundle, [f"refs/heads/snapshot:{ref}"], base or "")
    bundle.unlink()
    kept = await list_snapshots(repository, [f"refs/corral/snapshots/{attempt}"])
    for old in kept[:-KEPT]:
        await repository.git("update-ref", "-d", old.ref)
    return ref


async def take_files(repository: Repository, place: Path, references: Sequence[str], base: str | None) -> str | None:
    """Fetch what `files_command` left, under these refs; return its commit, or None where nothing was new."""
    bundle = place / "snapshot.bundle"
    if not bundle.exists():
        return None
    await fetch(repository, bundle, [f"refs/heads/snapshot:{reference}" for reference in references], base or "")
    return await repository.commit_of(references[0])


def stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")


async def list_snapshots(repository: Repository, prefixes: Sequence[str]) -> list[Snapshot]:
    """Return what is kept below these refs, oldest first."""
    out = await repository.text("for-each-ref", "--format=%(refname) %(objectname)", "--sort=refname", *prefixes)
    found: list[Snapshot] = []
    for line in out.splitlines():
        ref, _, commit = line.partition(" ")
        parts = ref.split("/")
        found.append(Snapshot(ref, commit, "/".join(parts[4:]) if len(parts) > 4 and parts[2] in NAMED else ""))
    return found


async def lay_files(repository: Repository, commit: str, folder: Path, env: Mapping[str, str]) -> None:
    """Write the files of a commit into a folder that is new or empty."""
    with scratch(repository) as own:
        index = {**env, "GIT_INDEX_FILE": str(own / "index")}
        await repository.git("read-tree", commit, env=index)
        (own / "files").mkdir()
        if repository.owner:
            os.chown(own / "files", repository.owner.uid, repository.owner.gid)
        await repository.git("checkout-index", "--all", f"--prefix={own}/files/", env=index)
        await asyncio.to_thread(shutil.copytree, own / "files", folder, symlinks=True, dirs_exist_ok=True)


async def edit_refs(repository: Repository, moves: Sequence[tuple[str, str | None]]) -> None:
    """Set refs, or delete them (None), all at once."""
    lines = "".join(f"update {ref} {commit}\n" if commit else f"delete {ref}\n" for ref, commit in moves)
    if lines:
        await repository.git("update-ref", "--stdin", stdin=lines.encode(), env=WHO)


async def pin(repository: Repository, name: str, commit: str) -> None:
    """Hold a commit for a run, or for an attempt, until `release` or `clean`."""
    ref = f"{FOLDER}/{name}"
    if ref_files.read(repository.git_dir, ref) == commit:
        return
    if not await asyncio.to_thread(ref_files.write, repository.git_dir, ref, commit, repository.owner):
        await repository.git("update-ref", ref, commit)


async def combine_and_pin(
    repository: Repository, name: str, combine: Callable[[Repository], Awaitable[CombinedCommit]]
) -> CombinedCommit:
    """Hold a commit that is combined just now: what no ref leads to yet lies where no `git gc` looks."""
    with incoming_objects.quarantine(repository) as folder:
        found = await combine(repository.apart(incoming_objects.environment(folder)))
        if found.commit is None:
            return found
        await incoming_objects.pack_up(repository, folder)
        with incoming_objects.move_in(repository, folder):
            await pin(repository, name, found.commit)
    return found


async def release(repository: Repository, run: str, commits: Sequence[str]) -> None:
    """Let go of what the work of a run that is done leads to by itself; the rest stays until `clean`."""
    git_dir = repository.git_dir
    held = [
        each
        for each in await pinned_commits(repository, run)
        if any(commit_heads.is_surely_in_history(git_dir, each.commit, commit) for commit in commits)
        or await _is_in_history(repository, each.commit, commits)
    ]
    await edit_refs(
        repository, [(each.ref, None) for each in held if not ref_files.delete(git_dir, each.ref, each.commit)]
    )


async def remove(repository: Repository, run: str) -> None:
    """Let go of all that is held for a run and its attempts."""
    await edit_refs(repository, [(each.ref, None) for each in await pinned_commits(repository, run)])


async def pinned_commits(repository: Repository, run: str) -> list[Snapshot]:
    """Return what is held for a run and its attempts."""
    found = ref_files.list_below(repository.git_dir, FOLDER, run)
    if found is None:
        return await list_snapshots(repository, [f"{FOLDER}/{run}", f"{FOLDER}/{run}-*"])
    return [Snapshot(ref, commit, "") for ref, commit in found.items()]


async def _is_in_history(repository: Repository, commit: str, commits: Sequence[str]) -> bool:
    for each in commits:
        if (await repository.git("merge-base", "--is-ancestor", commit, each, fine=(0, 1, 128))).code == 0:
            return True
    return False
