"""A pool of checkouts that agents have worked in, restored from what we noted, not from what they left."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from corral.model.errors import CorralError
from corral.world.git import object_cache
from corral.world.git.command import CHECKOUT_SECONDS, ENV, LARGE, SAFE, GitLimits, run_git
from corral.world.git.repository import Repository
from corral.world.process import Owner, ProcessStart
from corral.world.workspace import checkout, git_index
from corral.world.workspace.checkout import Loan, Workspace
from corral.world.workspace.git_index import UnknownIndex

FOLDER, NOTE, FILES = "pool", "pool", "files"
MOST_READY = 4  #: checkouts of one repository that wait; the one that has waited longest goes first
LEAST_FREE = 10  #: one part in so many of a disk that has to stay free
HALF_MADE_SECONDS = 3600.0
PLAIN_FLAGS = 0x10081000  #: of folders that hold many files, or few
GET_FLAGS = 0x80086601  #: asks the file system what is special about a folder
STATS = struct.Struct(">10I")


class NotRestorable(CorralError):
    """A checkout that cannot be used again."""


class PoolNote(Struct, frozen=True):
    """What is noted beside a checkout, where no agent can write."""

    commit: str
    folder_mode: int

    @classmethod
    def read(cls, file: Path) -> PoolNote:
        commit, _, mode = file.read_text().partition(" ")
        if not mode.isdecimal():
            raise NotRestorable(f"{file} was cut off")
        return cls(commit, int(mode, 8))

    def write(self, file: Path) -> None:
        file.write_text(f"{self.commit} {self.folder_mode:o}")


def missing_part() -> str:
    """Return why no checkout can be used again on this machine; nothing if one can."""
    return "" if hasattr(os, "listxattr") else "this system does not show what an agent attached to files"


def place_of(repository: Repository, state: Path) -> Path:
    """Return the folder of a repository's checkouts."""
    return state / FOLDER / object_cache.name_of(repository.git_dir)


async def make(
    repository: Repository, commits: Sequence[str], tree: Path, name: str, owner: Owner | None, loan: Loan
) -> Workspace:
    """Take a ready checkout, or make one that can be used again, with the first of `commits` in it."""
    commit = commits[0]
    note = _take(place_of(repository, loan.templates.parent), commit, tree)
    if note is None:
        made = await checkout.make(repository, commits, tree, name, None, loan)
        note = PoolNote(commit, stat.S_IMODE(tree.stat().st_mode))
    else:
        objects: list[Path] = []
        shallow = await checkout.lay_repository(repository, commits, tree, name, (loan, objects))
        shutil.copyfile(tree.parent / checkout.INDEX, tree / ".git" / "index")
        if note.commit != commit:
            await checkout.check_out(tree)
        made = Workspace(tree, tuple(map(str, objects)), shallow=tuple(shallow))
        await checkout.fill_submodules(repository, commit, tree, loan, (tree, objects, modules := []))
        made = structs.replace(made, objects=tuple(map(str, objects)), modules=tuple(modules))
    if owner:
        await asyncio.to_thread(_give, tree, owner, len(commit) // 2)
    if owner or note.commit != commit or not (tree.parent / checkout.INDEX).exists():
        shutil.copyfile(tree / ".git" / "index", tree.parent / checkout.INDEX)
    structs.replace(note, commit=commit).write(tree.parent / NOTE)
    return structs.replace(made, kind="pool")


def _take(place: Path, commit: str, tree: Path) -> PoolNote | None:
    """Move a ready checkout to where a workspace is to be; of two processes only one gets it."""
    own = tree.parent / "taken"
    ready = _ready(place)
    for each in (*(path for path in ready if path.name.startswith(commit)), *reversed(ready)):
        with contextlib.suppress(FileNotFoundError):  # another process was quicker
            each.rename(own)
            break
    else:
        return None
    for name, target in ((checkout.INDEX, checkout.INDEX), (NOTE, NOTE), (FILES, tree.name)):
        (own / name).rename(tree.parent / target)
    own.rmdir()
    return PoolNote.read(tree.parent / NOTE)


def _ready(place: Path) -> list[Path]:
    """Return the checkouts that wait, the one that came last at the end."""
    try:
        found = [(entry.stat().st_mtime, entry.path) for entry in os.scandir(place) if not entry.name.startswith(".")]
    except FileNotFoundError:
        return []
    return [Path(path) for _, path in sorted(found)]


def _give(tree: Path, owner: Owner, hash_bytes: int) -> None:
    """Make a tree in which nobody works its agent's, with an index that says so: git reads no file again."""
    for root, folders, files in os.walk(tree):
        for name in (*folders, *files):
            os.chown(os.path.join(root, name), owner.uid, owner.gid, follow_symlinks=False)  # noqa: PTH118
    os.chown(tree, owner.uid, owner.gid)
    index = tree / ".git" / "index"
    data, top = bytearray(index.read_bytes()), os.fsencode(tree) + b"/"
    with contextlib.suppress(UnknownIndex):  # then git reads all files once more
        for place, path in git_index.entry_paths(bytes(data), hash_bytes):
            about = os.lstat(top + path)
            struct.pack_into(">II", data, place, *divmod(about.st_ctime_ns, 10**9))
            struct.pack_into(">II", data, place + git_index.OWNER, owner.uid, owner.gid)
        index.write_bytes(git_index.with_digest(data, hash_bytes))


async def give_back(folder: Path, repository: Repository, state: Path) -> bool:
    """Restore the checkout of a workspace in which nobody works any more, and keep it; tell whether it was."""
    tree, saved = folder / "work", folder / checkout.INDEX
    if not (folder / NOTE).is_file() or checkout.read_workspace(tree).modules:
        return False
    note, place = PoolNote.read(folder / NOTE), place_of(repository, state)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    room = os.statvfs(place)
    if room.f_bavail < room.f_blocks // LEAST_FREE:
        return False
    await checkout.remove(tree / ".git")
    os.chown(tree, os.getuid(), os.getgid())  # git refuses a tree of another user
    with contextlib.suppress(UnknownIndex):
        found = await asyncio.to_thread(_sweep, tree, saved, note)
        for path in found.unknown:
            await checkout.remove(path)
        if found.missing:
            await _write_again(repository, note.commit, folder, found.missing)
        fresh = place / f".new-{secrets.token_hex(6)}"
        fresh.mkdir(mode=0o700)
        for source, name in ((saved, checkout.INDEX), (folder / NOTE, NOTE), (tree, FILES)):
            source.rename(fresh / name)
        fresh.rename(place / f"{note.commit}.{secrets.token_hex(6)}")
        await _prune(place, MOST_READY)
        return True
    return False


class _SweptTree(Struct):
    """What of a checkout is not as we made it."""

    unknown: list[Path]  #: folders that are not part of it
    missing: list[bytes]  #: files of it that are gone, or were touched


def _sweep(tree: Path, saved: Path, note: PoolNote) -> _SweptTree:
    """Remove every file that is not, to the nanosecond, the one that we wrote; set folders right.

    Whatever is done to a file changes its ctime, which nobody can set: its content, mode, attributes, links to it.
    """
    data, written = saved.read_bytes(), saved.stat().st_mtime_ns
    places: dict[bytes, int] = {}
    for place, path in git_index.entry_paths(data, len(note.commit) // 2):
        if int.from_bytes(data[place + 24 : place + 28]) >> 12 == git_index.MODULE:
            raise UnknownIndex("an index with submodules")
        places[path] = place
    folders = {path[:end] for path in places for end in _slashes(path)}
    top, flags, unknown = os.fsencode(tree) + b"/", _flags(os.fsencode(saved.parent)), list[Path]()
    waiting = [b""]
    while waiting:
        below = waiting.pop()
        _set_right(top + below, note.folder_mode, flags)
        with os.scandir(top + below) as entries:
            for entry in entries:
                path = below + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if path in folders:
                        waiting.append(path + b"/")
                    else:
                        unknown.append(Path(os.fsdecode(entry.path)))
                elif path in places and _is_same(data, places[path], entry.stat(follow_symlinks=False), written):
                    del places[path]
                else:
                    os.unlink(entry.path)  # noqa: PTH108 -- bytes
    return _SweptTree(unknown, list(places))


def _slashes(path: bytes) -> list[int]:
    return [place for place, sign in enumerate(path) if sign == 0x2F]


def _is_same(data: bytes, place: int, about: os.stat_result, written: int) -> bool:
    """Tell whether a file is the one that our index lists, untouched since before that was saved."""
    changed, changed_ns, modified, modified_ns, _, inode, mode, uid, gid, size = STATS.unpack_from(data, place)
    return (
        about.st_ctime_ns == changed * 10**9 + changed_ns
        and about.st_ctime_ns < written
        and about.st_mtime_ns == modified * 10**9 + modified_ns
        and about.st_ino & 0xFFFFFFFF == inode
        and stat.S_IFMT(about.st_mode) == stat.S_IFMT(mode)
        and (about.st_uid, about.st_gid, about.st_size & 0xFFFFFFFF) == (uid, gid, size)
    )


def _set_right(folder: bytes, mode: int, flags: int) -> None:
    """Take from a folder what an agent may have attached to it."""
    if stat.S_IMODE(os.lstat(folder).st_mode) != mode:
        os.chmod(folder, mode)  # noqa: PTH101 -- bytes
    for name in os.listxattr(folder, follow_symlinks=False):
        os.removexattr(folder, name, follow_symlinks=False)
    if _flags(folder) != flags:
        raise NotRestorable(f"{os.fsdecode(folder)} has another kind of folder in its place")


def _flags(folder: bytes) -> int:
    """Return what the file system says of a folder, as that it ignores case; -1 where it says nothing."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return struct.unpack("l", fcntl.ioctl(opened, GET_FLAGS, bytes(8)))[0] & ~PLAIN_FLAGS
    except OSError:
        return -1
    finally:
        os.close(opened)


async def _write_again(repository: Repository, commit: str, folder: Path, paths: Sequence[bytes]) -> None:
    """Write files of the commit that are missing, by a .git of ours that is gone afterwards."""
    tree, saved = folder / "work", folder / checkout.INDEX
    lent = Loan(folder.parents[1] / "objects", folder / "objects-again", _unsaid)
    await checkout.lay_repository(repository, [commit], tree, "pool", (lent, []))
    shutil.copyfile(saved, tree / ".git" / "index")
    start = ProcessStart(
        argv=["git", *SAFE, *LARGE, "checkout-index", "--force", "--index", "--quiet", "-z", "--stdin"],
        env=ENV,
        cwd=str(tree),
        stdin=b"\0".join(paths) + b"\0",
    )
    await run_git(start, "checkout-index", GitLimits(seconds=CHECKOUT_SECONDS))
    shutil.copyfile(tree / ".git" / "index", saved)
    await checkout.remove(tree / ".git")


def _unsaid(_: str) -> None:
    """Say nothing: what is waited for here holds nobody up."""


async def _prune(place: Path, most: int) -> None:
    for each in _ready(place)[: -most or None]:
        gone = each.with_name(f".old-{secrets.token_hex(6)}")
        with contextlib.suppress(FileNotFoundError):  # it was taken, or another process removes it
            each.rename(gone)
            await checkout.remove(gone)
    for left in (*place.glob(".new-*"), *place.glob(".old-*")):
        with contextlib.suppress(FileNotFoundError):
            if left.stat().st_mtime < time.time() - HALF_MADE_SECONDS:
                await checkout.remove(left)


async def clean(state: Path) -> None:
    """Remove the checkouts that wait."""
    for place in (state / FOLDER).glob("*"):
        await _prune(place, 0)
