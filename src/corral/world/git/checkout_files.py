"""Files of a checkout written from a commit, and left uncommitted."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from corral.model.errors import BadRequest
from corral.world.git.move_branch import Checkout, index_environment, is_half_done, remove_file
from corral.world.git.repository import PLAIN_DIFF
from corral.world.git.resolve_conflicts import scratch

Entry = tuple[str, str]  #: mode and blob; zeros where there is no file
Change = tuple[Entry, Entry]  #: of a file: before, after


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
