"""Uncommitted files of a checkout: as a commit, compared with one, and written from one."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from corral.model.errors import BadRequest
from corral.world.git import merge_commits
from corral.world.git.move_branch import Checkout, index_environment, is_half_done, remove_file
from corral.world.git.repository import PLAIN_DIFF, Repository
from corral.world.git.resolve_conflicts import scratch

Entry = tuple[str, str]  #: mode and blob; zeros where there is no file
Change = tuple[Entry, Entry]  #: of a file: before, after
MESSAGE = "Uncommitted changes of the checkout\n\nA snapshot that Corral made as the start of a run.\n"


async def commit_checkout(repository: Repository, head: str | None) -> str | None:
    """Return a commit of what lies in the checkout: staged, unstaged and untracked, without what is ignored.

    The checkout and its index stay untouched. Where nothing differs from `head`, that is returned.
    """
    if repository.folder == repository.git_dir:
        raise BadRequest(f"{repository.folder} has no checkout", hint="leave out --with-changes")
    quiet = await merge_commits.neutral_environment(repository)
    own = Path(await repository.text("rev-parse", "--path-format=absolute", "--git-path", "index"))
    with scratch(repository) as folder:
        index = folder / "index"
        if own.is_file():  # it knows which files are unchanged: they need not be read
            await asyncio.to_thread(shutil.copyfile, own, index)
            if repository.owner:
                shutil.chown(index, repository.owner.uid, repository.owner.gid)
        env = {**quiet, "GIT_INDEX_FILE": str(index)}
        await repository.git("add", "--all", "--", ":/", env=env)
        tree = (await repository.git("write-tree", env=env)).out.decode().strip()
    if head and tree == await repository.tree_of(head):
        return head
    parents = [head] if head else []
    return await merge_commits.commit_tree(repository, tree, parents, MESSAGE, await repository.identity())


async def changed_files(repository: Repository, commit: str, folder: Path) -> list[str]:
    """Return the files of a folder that differ from a commit; those that the commit ignores are not meant."""
    quiet = await merge_commits.neutral_environment(repository)
    with scratch(repository) as own:
        env = {**quiet, "GIT_INDEX_FILE": str(own / "index")}
        await repository.git("read-tree", commit, env=env)
        place = f"--work-tree={folder}"
        await repository.git(place, "update-index", "-q", "--refresh", env=env, fine=(0, 1))
        listed = [
            *(await repository.git(place, "diff-files", "--name-only", "-z", env=env)).out.split(b"\0"),
            *(await repository.git(place, "ls-files", "--others", "--exclude-standard", "-z", env=env)).out.split(
                b"\0"
            ),
        ]
    return sorted({each.decode(errors="replace") for each in listed if each})


async def file_changes(checkout: Checkout, before: str, after: str) -> dict[str, Change]:
    """Return the files that differ between two commits."""
    words = ("diff", "--raw", "--no-abbrev", "-z", *PLAIN_DIFF, before, after)
    rows = (await checkout.repository.git(*words)).out.split(b"\0")
    found: dict[str, Change] = {}
    for about, name in zip(rows[::2], rows[1::2], strict=False):
        old_mode, new_mode, old, new, _ = about.decode().removeprefix(":").split(" ")
        found[os.fsdecode(name)] = (old_mode, old), (new_mode, new)
    return found


async def differing_files(checkout: Checkout, commit: str, paths: Collection[str], env: Mapping[str, str]) -> list[str]:
    """Return which of some files are not in the checkout as a commit has them."""
    git = checkout.repository.git
    with scratch(checkout.repository) as folder:
        index = {**env, "GIT_INDEX_FILE": str(folder / "index")}
        await git("read-tree", commit, env=index)
        await git("update-index", "-q", "--refresh", env=index, fine=(0, 1))
        changed = (await git("diff-files", "--name-only", "-z", env=index)).out.split(b"\0")
        known = set((await git("ls-files", "-z", env=index)).out.split(b"\0"))
    differ = {os.fsdecode(each) for each in changed if each}
    there = {path for path in paths if os.fsencode(path) not in known and os.path.lexists(checkout.folder / path)}
    return sorted(path for path in paths if path in differ or path in there)


async def write_files(checkout: Checkout, commit: str, entries: Mapping[str, Entry], env: Mapping[str, str]) -> None:
    """Make files of a checkout those of a commit; its index stays as it is."""
    for path in entries:
        await remove_file(checkout.folder, path)
    kept = b"".join(os.fsencode(path) + b"\0" for path, (mode, _) in entries.items() if mode.strip("0"))
    with scratch(checkout.repository) as folder:
        index = {**env, "GIT_INDEX_FILE": str(folder / "index")}
        await checkout.repository.git("read-tree", commit, env=index)
        await checkout.repository.git("checkout-index", "--force", "-z", "--stdin", stdin=kept, env=index)


async def put_back(checkout: Checkout, before: str, changes: Mapping[str, Change], env: Mapping[str, str]) -> None:
    """Write the old files of a change that was cut off; a file that is neither old nor new stays as it is."""
    back: dict[str, Entry] = {}
    for path, (old, new) in changes.items():
        if not await is_half_done(checkout, path, (old[1], new[1]), env):
            raise BadRequest(
                f"{checkout.folder / path} was changed after a merge was cut off there",
                hint="save it elsewhere, `git checkout` the file, and merge again",
            )
        back[path] = old
    await write_files(checkout, before, back, env)


async def unstage(checkout: Checkout, changes: Mapping[str, Change], env: Mapping[str, str]) -> None:
    """Put index entries back that have the new files of a change; the index must be held."""
    index = index_environment(checkout, env)
    staged: dict[str, Entry] = {}
    for row in (await checkout.repository.git("ls-files", "--stage", "-z", env=index)).out.split(b"\0"):
        about, _, name = row.partition(b"\t")
        if name:
            mode, blob, _ = about.decode().split(" ")
            staged[os.fsdecode(name)] = mode, blob
    lines = b""
    for path, (old, new) in changes.items():
        if staged.get(path, ("000000", "0" * len(new[1]))) == new:
            mode = old[0] if old[0].strip("0") else "0"
            lines += f"{mode} {old[1]}\t".encode() + os.fsencode(path) + b"\0"
    await checkout.repository.git("update-index", "-z", "--index-info", stdin=lines, env=index)
