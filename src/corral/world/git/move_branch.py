"""Move a branch by compare-and-swap and let the files of its checkouts follow; what is cut off can be ended."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shlex
import shutil
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from corral.model.errors import BadRequest, GitTrouble
from corral.world import machine_limits
from corral.world.git.command import age, trouble
from corral.world.git.repository import PLAIN_DIFF, Repository, empty_tree
from corral.world.process import Owner
from corral.world.workspace.checkout import WHO, remove

OURS = b"corral merge\n"  #: what we write into an index.lock, by which we know it again after a crash
QUIET_SECONDS = 3.0  #: for which another git is waited for


class BranchMoved(GitTrouble):
    """The ref is not where it was: someone else moved it meanwhile."""


class UnfinishedMove(GitTrouble):
    """Files could neither follow nor go back: the next process can end it."""


class Checkout(Struct, frozen=True):
    """A work tree that has the branch checked out."""

    repository: Repository
    index: Path

    @property
    def folder(self) -> Path:
        return self.repository.folder

    @property
    def lock(self) -> Path:
        return self.index.with_name(self.index.name + ".lock")

    @property
    def private(self) -> Path:
        """The copy of the index that we work on: the original is replaced at the very end."""
        return self.index.with_name(self.index.name + ".corral")


# --- refs


async def move_ref(repository: Repository, ref: str, before: str | None, after: str | None, why: str) -> None:
    """Point a ref to another commit if it is where it is believed to be; None: there is none."""
    like = before or after or ""
    zero = "0" * len(like)
    words = ("update-ref", "-m", why, *([] if after else ["-d"]), ref, *([after] if after else []), before or zero)
    finished = await repository.git(*words, env=WHO, fine=(0, 1, 128))
    if finished.code != 0:
        if await repository.commit_of(ref) != before:
            raise BranchMoved(f"{ref} was moved by someone else meanwhile")
        raise trouble("update-ref", finished)


# --- checkouts


async def checkouts(repository: Repository, ref: str) -> list[Checkout]:
    """Return all work trees that have a branch checked out."""
    listed = await repository.git("worktree", "list", "--porcelain", "-z")
    folders: list[Path] = []
    for block in listed.out.decode(errors="surrogateescape").split("\0\0"):
        lines = block.split("\0")
        if f"branch {ref}" in lines and "bare" not in lines:
            folders.append(Path(lines[0].removeprefix("worktree ")))
    if (repository.folder / ".git").exists() and await _head(repository) == ref:
        folders.append(repository.folder)  # of a submodule git tells another folder
    found: dict[Path, Checkout] = {}
    for folder in folders:
        if (folder / ".git").exists() and folder.resolve() not in found:
            found[folder.resolve()] = await checkout_at(repository, folder)
    return list(found.values())


async def checkout_at(repository: Repository, folder: Path) -> Checkout:
    inner = Repository(folder, repository.git_dir)
    inner.keeps = repository.keeps
    return Checkout(inner, folder / await inner.text("rev-parse", "--git-path", "index"))


async def _head(repository: Repository) -> str:
    return await repository.text("symbolic-ref", "--quiet", "HEAD", fine=(0, 1, 128))


async def unfinished_work(repository: Repository, ref: str) -> str | None:
    """Return what a user has begun with this branch and not ended, in words."""
    git_dirs = [repository.git_dir, *(repository.git_dir / "worktrees").glob("*")]
    for git_dir in git_dirs:
        for name in ("rebase-merge", "rebase-apply"):
            with contextlib.suppress(OSError):
                if (git_dir / name / "head-name").read_text().strip() == ref:
                    return "it is being rebased"
    return None


async def wait_until_quiet(checkout: Checkout) -> None:
    """Wait a moment for a git that is at work in a checkout: a user's own is over soon."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(QUIET_SECONDS):
            while checkout.lock.exists() and not _is_ours(checkout.lock):  # noqa: ASYNC110 -- git tells nobody
                await asyncio.sleep(0.05)


@contextlib.contextmanager
def hold_index(checkout: Checkout) -> Generator[None]:
    """Keep every other git from the index while files follow, and lay a copy of it at hand."""
    owner = checkout.repository.owner
    if _is_ours(checkout.lock):  # left by one of us that died; the caller has the merge lock
        checkout.lock.unlink()
    mark = checkout.index.with_name(checkout.index.name + ".corral.mark")
    try:
        mark.write_bytes(OURS)
        os.link(mark, checkout.lock)  # never half written: an empty lock would be someone else's
    except FileExistsError:
        way = f"{checkout.lock} is in the way{age(checkout.lock)}"
        raise BadRequest(
            f"another git is at work in {checkout.folder}, or was killed: {way}",
            hint=f"wait for it; if no git is running there: rm {shlex.quote(str(checkout.lock))}",
        ) from None
    except OSError as error:
        full = machine_limits.is_disk_full(str(error))
        hint = "the disk is full: make room, then try again" if full else "merge as the owner of the repository"
        raise BadRequest(f"{checkout.lock}: {error.strerror}", hint=hint) from error
    finally:
        mark.unlink(missing_ok=True)
    try:
        for left in (checkout.private, checkout.private.with_name(checkout.private.name + ".lock")):
            left.unlink(missing_ok=True)
        if checkout.index.exists():
            shutil.copy2(checkout.index, checkout.private)
        _give(checkout.lock, owner)
        _give(checkout.private, owner)
        yield
    finally:
        checkout.private.unlink(missing_ok=True)
        checkout.lock.unlink(missing_ok=True)


def _is_ours(lock: Path) -> bool:
    try:
        return lock.read_bytes() == OURS
    except OSError:
        return False


def _give(path: Path, owner: Owner | None) -> None:
    if owner and path.exists():
        os.chown(path, owner.uid, owner.gid)


async def dirty_files(checkout: Checkout, env: Mapping[str, str]) -> list[str]:
    """Return tracked files that are not as the checkout's commit has them. The index must be held."""
    return await _status(checkout, index_environment(checkout, env, locks=True))


async def dirty_files_now(checkout: Checkout, env: Mapping[str, str]) -> list[str]:
    """Return the same without holding or writing anything."""
    return await _status(checkout, env)


async def _status(checkout: Checkout, env: Mapping[str, str]) -> list[str]:
    listed = await checkout.repository.git(
        "status", "--porcelain=v1", "-z", "--untracked-files=no", "--ignore-submodules=all", "--no-renames", env=env
    )
    return [row[3:].decode(errors="replace") for row in listed.out.split(b"\0") if row]


async def in_the_way(checkout: Checkout, before: str | None, after: str) -> list[str]:
    """Return files that git does not know and that would be overwritten, ignored ones too."""
    old = before or empty_tree(after)
    listed = await checkout.repository.git("diff", "--name-only", "-z", "--diff-filter=A", *PLAIN_DIFF, old, after)
    found: list[str] = []
    gone: set[str] | None = None
    for row in listed.out.split(b"\0"):
        path = os.fsdecode(row)
        if path and (blocking := _blocking(checkout.folder, path)):
            if gone is None:
                words = ("diff", "--name-only", "-z", "--diff-filter=D", *PLAIN_DIFF, old, after)
                gone = {os.fsdecode(each) for each in (await checkout.repository.git(*words)).out.split(b"\0")}
            if not _goes_away(checkout.folder, blocking, gone):
                found.append(blocking)
    return sorted(set(found))


def _blocking(folder: Path, path: str) -> str | None:
    """Return what lies where a file is to be made: the file itself, or one where a folder must be."""
    parts = Path(path).parts
    for count in range(1, len(parts)):
        place = folder.joinpath(*parts[:count])
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            return str(Path(*parts[:count]))
        if not place.exists():
            return None
    return path if os.path.lexists(folder / path) else None


def _goes_away(folder: Path, path: str, gone: set[str]) -> bool:
    """Tell whether a path is free once the files that the commit removes are gone."""
    if path in gone:
        return True
    place = folder / path
    if place.is_symlink() or not place.is_dir():
        return False
    inside = [str(Path(root, name).relative_to(folder)) for root, _, names in os.walk(place) for name in names]
    return bool(inside) and all(each in gone for each in inside)


async def follow(checkout: Checkout, before: str | None, after: str | None, env: Mapping[str, str]) -> None:
    """Bring the files of a held checkout from one commit to another; nothing is changed where git refuses.

    Where it fails on the way, as on a full disk, files are half done: `back_out`.
    """
    like = before or after or ""
    words = ("read-tree", "-m", "-u", before or empty_tree(like), after or empty_tree(like))
    await checkout.repository.git(*words, env=index_environment(checkout, env))


def adopt(checkout: Checkout) -> None:
    """Make the copy of the index that was worked on the checkout's own."""
    if checkout.private.exists():
        checkout.private.replace(checkout.index)


async def end_following(checkout: Checkout, before: str | None, after: str | None, env: Mapping[str, str]) -> None:
    """End what was cut off in the middle; a file that is neither the old nor the new one is someone's."""
    like = before or after or ""
    old, new = before or empty_tree(like), after or empty_tree(like)
    git, with_index = checkout.repository.git, index_environment(checkout, env)
    if checkout.private.exists() and (
        (await git("diff-index", "--cached", "--quiet", new, "--", env=with_index, fine=(0, 1))).code == 0
    ):
        return
    if (await git("read-tree", "-m", "-u", old, new, env=with_index, fine=(0, 1, 128))).code == 0:
        return
    listed = (await git("diff", "--raw", "--no-abbrev", "-z", *PLAIN_DIFF, old, new)).out
    rows = listed.decode(errors="surrogateescape").split("\0")
    gone: list[str] = []
    kept: list[str] = []
    for about, path in zip(rows[::2], rows[1::2], strict=False):
        _, mode, old_blob, new_blob, _ = about.removeprefix(":").split(" ")
        if not await is_half_done(checkout, path, (old_blob, new_blob), env):
            raise BadRequest(
                f"{checkout.folder / path} was changed after a merge was cut off there",
                hint="save it elsewhere, `git checkout` the file, and merge again",
            )
        (kept if mode.strip("0") else gone).append(path)
    await git("read-tree", "-m", "-i", old, new, env=with_index)
    names = b"".join(os.fsencode(path) + b"\0" for path in kept)
    for path in (*gone, *kept):
        await remove_file(checkout.folder, path)
    await git("checkout-index", "--force", "-u", "-z", "--stdin", stdin=names, env=with_index)


async def back_out(checkout: Checkout, before: str | None, after: str | None, env: Mapping[str, str]) -> None:
    """Put files back that were on the way from one commit to another; the held index is still that of the first."""
    like = before or after or ""
    git = checkout.repository.git
    old, new = before or empty_tree(like), after or empty_tree(like)
    rows = (await git("diff", "--raw", "--no-abbrev", "-z", *PLAIN_DIFF, old, new)).out.split(b"\0")
    back: list[str] = []
    for about, name in zip(rows[::2], rows[1::2], strict=False):
        mode, _, old_blob, new_blob, _ = about.decode().removeprefix(":").split(" ")
        path = os.fsdecode(name)
        if await is_half_done(checkout, path, (old_blob, new_blob), env):
            await remove_file(checkout.folder, path)  # what is new goes first: there may be no room for both
            back += [path] if mode.strip("0") else []
    names = b"".join(os.fsencode(path) + b"\0" for path in back)
    await git("checkout-index", "--force", "-u", "-z", "--stdin", stdin=names, env=index_environment(checkout, env))


async def is_half_done(checkout: Checkout, path: str, blobs: Sequence[str], env: Mapping[str, str]) -> bool:
    """Tell whether a file is the old one, the new one, the beginning of the new one, or gone."""
    place = checkout.folder / path
    if not os.path.lexists(place) or (place.is_dir() and not place.is_symlink()):
        return True
    content = os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes()
    if _blob_id(content, len(blobs[0])) in blobs:
        return True
    hashed = await checkout.repository.git("hash-object", "--stdin", f"--path={path}", stdin=content, env=env)
    if hashed.out.decode().strip() in blobs:
        return True
    new = blobs[1]
    return bool(new.strip("0")) and (await checkout.repository.blob(new)).startswith(content)


def _blob_id(content: bytes, length: int) -> str:
    digest = hashlib.sha256() if length == 64 else hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % len(content))
    digest.update(content)
    return digest.hexdigest()


async def remove_file(folder: Path, path: str) -> None:
    """Remove a file and the folders that are empty without it; no link above it is followed."""
    place = folder / path
    if any(above.is_symlink() for above in place.parents if above.is_relative_to(folder) and above != folder):
        return
    if os.path.lexists(place) and (place.is_symlink() or not place.is_dir()):
        await remove(place)
    for above in place.parents:
        if above == folder or not above.is_relative_to(folder):
            return
        with contextlib.suppress(OSError):
            above.rmdir()


def index_environment(checkout: Checkout, env: Mapping[str, str], *, locks: bool = False) -> dict[str, str]:
    optional = {"GIT_OPTIONAL_LOCKS": "1"} if locks else {}
    return {**env, **optional, "GIT_INDEX_FILE": str(checkout.private)}


# --- what is put aside


async def put_aside(checkout: Checkout, ref: str, env: Mapping[str, str]) -> str | None:
    """Make a commit of what is not committed in a held checkout, held by `ref`; None where there is nothing."""
    git, with_index = checkout.repository.git, {**index_environment(checkout, env), **WHO}
    made = (await git("stash", "create", "put aside by corral", env=with_index)).out.decode().strip()
    if made:
        await git("update-ref", ref, made)
    return made or None


async def clear(checkout: Checkout, commit: str, env: Mapping[str, str]) -> None:
    """Make the tracked files of a held checkout those of its commit; what was different must have been put aside."""
    await checkout.repository.git("read-tree", "--reset", "-u", commit, env=index_environment(checkout, env))


async def bring_back(checkout: Checkout, stash: str, commit: str, env: Mapping[str, str]) -> bool:
    """Apply what was put aside; where it does not fit any more it stays in `git stash list`, and False is returned."""
    git, with_index = checkout.repository.git, {**index_environment(checkout, env), **WHO}
    if not await dirty_files(checkout, env):
        applied = await git("stash", "apply", "--index", "--quiet", stash, env=with_index, fine=(0, 1, 128))
        if applied.code == 0:
            return True
        await clear(checkout, commit, env)
    await git("stash", "store", "-m", "put aside by corral before a merge", stash, env=WHO)
    return False
