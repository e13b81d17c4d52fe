"""Small checkouts without git: files written from memory, and what an agent changed in them, found by looking."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from corral.world.git.made_objects import TreeEntry, make_object
from corral.world.workspace.git_index import UnknownIndex, count_entries, index_entries, make_index

MOST_FILES = 999  #: of a checkout; larger ones are overlays, or are left to git
MOST_KEPT_BYTES = 4 << 20  #: of the files of one tree that are remembered
MOST_TREES = 4  #: that are remembered
MOST_WALKED = 4000  #: entries of a workspace
MOST_DEEP = 64  #: folders in folders
MOST_CHANGED_BYTES = 8 << 20
MOST_GIT_BYTES = 1 << 20  #: of a .git besides its objects
SAME_MOMENT_NS = 50_000_000  #: a file that changes so soon after it was written may keep its time
LINK, PLAIN, EXECUTABLE = 0o120000, 0o100644, 0o100755
NAME_SIGNS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=@,.#%() []{}")


class RememberedTree(Struct, frozen=True):
    """The files of a commit, and their contents where these are small."""

    commit: str
    entries: dict[str, TreeEntry]
    contents: dict[str, bytes] | None


class FreshCheckout(Struct, frozen=True):
    """A checkout as it was made: what the kernel knows of each file, and what lies in its .git."""

    remembered: RememberedTree
    stats: dict[str, tuple[int, ...]]
    git: dict[str, bytes]
    home: dict[str, bytes]


class ChangedFiles(Struct, frozen=True):
    """The files of a workspace as they are now, and the contents that its commit does not have."""

    entries: dict[str, TreeEntry]
    contents: list[bytes]


class Ignored(Protocol):
    """Tells whether a new path is no part of the work."""

    def __call__(self, path: str, *, folder: bool) -> bool: ...


class LeftToGit(Exception):
    """A workspace that git has to look at."""


_remembered: dict[tuple[Path, str], RememberedTree] = {}


_left_to_git: dict[tuple[Path, str], None] = {}  #: commits with files that git has to look at
_locks: dict[tuple[Path, str], asyncio.Lock] = {}


@contextlib.asynccontextmanager
async def once(git_dir: Path, commit: str | None) -> AsyncGenerator[None]:
    """Let those wait who need the files of a commit while another one checks them out for the first time."""
    key = (git_dir, commit or "")
    if commit is None or _is_known(key) or not 0 < count_entries(git_dir / "index") <= MOST_FILES:
        yield
        return
    lock = _locks.setdefault(key, asyncio.Lock())
    await lock.acquire()
    if _is_known(key):
        lock.release()
        yield
        return
    try:
        yield
    finally:
        _locks.pop(key, None)
        lock.release()


def _is_known(key: tuple[Path, str]) -> bool:
    return key in _remembered or key in _left_to_git


def recall(git_dir: Path, commit: str) -> RememberedTree | None:
    """Return the files of a commit if they are remembered."""
    return _remembered.get((git_dir, commit))


def remember(git_dir: Path, commit: str, tree: Path) -> RememberedTree | None:
    """Remember the files of a commit that was just checked out; None where git is to look at them."""
    key = (git_dir, commit)
    if key in _left_to_git:
        return None
    try:
        entries = index_entries((tree / ".git" / "index").read_bytes())
    except (OSError, UnknownIndex):
        entries = dict[str, TreeEntry]()
    if not 0 < len(entries) <= MOST_FILES or len(commit) != 40 or not all(map(_is_plain_entry, entries.items())):
        _keep(_left_to_git, key, None)
        return None
    made = RememberedTree(commit, entries, _contents(tree, entries))
    _keep(_remembered, key, made)
    return made


def _contents(tree: Path, entries: dict[str, TreeEntry]) -> dict[str, bytes] | None:
    """Return what the files hold; None where that is too much, or they are not as they are stored."""
    contents, left = dict[str, bytes](), MOST_KEPT_BYTES
    for path, entry in entries.items():
        contents[path] = _content(f"{tree}/{path}", entry.mode)
        left -= len(contents[path])
        if left < 0 or make_object(b"blob", contents[path]).name != entry.name:
            return None
    return contents


def _keep(known: dict[tuple[Path, str], Any], key: tuple[Path, str], value: object) -> None:
    while len(known) >= MOST_TREES:
        del known[next(iter(known))]
    known[key] = value


def _is_plain_entry(row: tuple[str, TreeEntry]) -> bool:
    path, entry = row
    *folders, name = path.split("/")
    if not all(map(is_plain_name, folders)) or entry.mode not in (LINK, PLAIN, EXECUTABLE):
        return False
    return is_plain_name(name) or path == ".gitignore"  # .gitattributes and .gitmodules are git's business


def is_plain_name(name: str) -> bool:
    """Tell whether no system takes this name for another one, and git for none of its own."""
    return NAME_SIGNS.issuperset(name) and not name.lower().startswith(".git") and name[-1] not in ". "


def write(remembered: RememberedTree, tree: Path) -> None:
    """Write the remembered files into a checkout that has none, and their index."""
    made: set[str] = set()
    for path, content in (remembered.contents or {}).items():
        above = path.rpartition("/")[0]
        if above and above not in made:
            _make_folders(tree, above, made)
        mode = remembered.entries[path].mode
        place = f"{tree}/{path}"
        if mode == LINK:
            os.symlink(content, place)  # noqa: PTH211 -- as bytes
            continue
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(place, flags, 0o777 if mode == EXECUTABLE else 0o666)
        try:
            if content and os.write(descriptor, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
        finally:
            os.close(descriptor)
    write_index(remembered, tree)


def write_index(remembered: RememberedTree, tree: Path) -> dict[str, os.stat_result]:
    """Write the index of a checkout by its files as they are now; return what the kernel knows of them."""
    found = {path: os.lstat(f"{tree}/{path}") for path in remembered.entries}
    rows = [(path, entry, found[path]) for path, entry in remembered.entries.items()]
    (tree / ".git" / "index").write_bytes(make_index(rows))
    return found


def _make_folders(tree: Path, path: str, made: set[str]) -> None:
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        folder = "/".join(parts[:count])
        if folder not in made:
            made.add(folder)
            (tree / folder).mkdir()


def note_laid(remembered: RememberedTree, tree: Path, home: Path) -> FreshCheckout:
    """Take down how a checkout was made, once it belongs to its user: its index gets the times that its files have."""
    stats = {path: _marks(about) for path, about in write_index(remembered, tree).items()}
    return FreshCheckout(remembered, stats, _git_files(tree / ".git"), _home_files(home))


def _marks(about: os.stat_result) -> tuple[int, ...]:
    """Return what no program can set back, and what it can: both change with a file."""
    return about.st_ctime_ns, about.st_mtime_ns, about.st_ino, about.st_size, about.st_mode


def _git_files(git_dir: Path) -> dict[str, bytes]:
    """Return all files of a .git besides its objects; no link is followed."""
    found: dict[str, bytes] = {}
    waiting, seen, size = [""], 0, 0
    while waiting:
        below = waiting.pop()
        with os.scandir(f"{git_dir}/{below}") as entries:
            for entry in entries:
                path = f"{below}{entry.name}"
                if path == "objects":
                    continue
                seen += 1
                if seen > MOST_FILES or size > MOST_GIT_BYTES or entry.is_symlink():
                    raise LeftToGit
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{path}/")
                else:
                    found[path] = _content(entry.path, PLAIN)
                    size += len(found[path])
    return found


def _home_files(home: Path) -> dict[str, bytes]:
    """Return the settings of git in an agent's home."""
    found = {".gitconfig": _content(f"{home}/.gitconfig", PLAIN)}
    if os.path.lexists(home / ".config" / "git"):
        raise LeftToGit
    return found


def find_changes(laid: FreshCheckout, tree: Path, home: Path, begun_ns: int, ignored: Ignored) -> ChangedFiles:
    """Return what an agent made of a checkout in which nobody is at work any more, or raise `LeftToGit`.

    `begun_ns` is when it could begin; `ignored` tells of new files and folders whether they are no part of the work.
    """
    try:
        if not stat.S_ISDIR(os.lstat(tree).st_mode) or not stat.S_ISDIR(os.lstat(tree / ".git").st_mode):
            raise LeftToGit
        if _home_files(home) != laid.home or not _is_same_git(laid, _git_files(tree / ".git")):
            raise LeftToGit
        return _ChangeSearch(laid, begun_ns, ignored).look_through(tree)
    except OSError as error:  # rights that it took away, and whatever else
        raise LeftToGit from error


class _ChangeSearch:
    """Looks through a workspace for files that are not as its commit has them."""

    def __init__(self, laid: FreshCheckout, begun_ns: int, ignored: Ignored) -> None:
        self._laid, self._begun_ns, self._ignored = laid, begun_ns, ignored
        self._known = laid.remembered.entries
        self._folders = {path[:place] for path in self._known for place, sign in enumerate(path) if sign == "/"}
        self._found = ChangedFiles({}, [])
        self._entries_left, self._bytes_left = MOST_WALKED, MOST_CHANGED_BYTES

    def look_through(self, tree: Path) -> ChangedFiles:
        self._look_into(str(tree), None, "")
        return self._found

    def _look_into(self, name: str, above: int | None, below: str) -> None:
        """Look at a folder that lies in another one: not by its path, in which a process that is left puts links."""
        if below.count("/") > MOST_DEEP:
            raise LeftToGit
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        try:
            inner: list[str] = []
            with os.scandir(folder) as listed:
                for entry in listed:
                    self._entries_left -= 1
                    if self._entries_left < 0 or self._bytes_left < 0:
                        raise LeftToGit
                    if f"{below}{entry.name}" != ".git" and self._look_at(f"{below}{entry.name}", entry, folder):
                        inner.append(entry.name)
            for each in inner:
                self._look_into(each, folder, f"{below}{each}/")
        finally:
            os.close(folder)

    def _look_at(self, path: str, entry: os.DirEntry[str], folder: int) -> bool:
        """Note a file; tell whether it is a folder to look into."""
        about, known = entry.stat(follow_symlinks=False), self._known.get(path)
        if stat.S_ISDIR(about.st_mode):
            if about.st_mode & 0o6700 != 0o700 or not is_plain_name(entry.name):
                raise LeftToGit
            return path in self._folders or not self._ignored(path, folder=True)
        if known and self._is_untouched(path, about):
            self._found.entries[path] = known
        elif known or not is_plain_name(entry.name) or not self._ignored(path, folder=False):
            made, content = _read_file(entry.name, folder, about, known)
            self._found.entries[path] = made
            if content is not None:
                self._found.contents.append(content)
                self._bytes_left -= len(content)
        return False

    def _is_untouched(self, path: str, about: os.stat_result) -> bool:
        same = self._laid.stats[path] == _marks(about)
        precise = about.st_ctime_ns % 1_000_000 != 0  # other disks keep whole seconds, and a change may go unnoticed
        return same and precise and self._begun_ns - about.st_ctime_ns > SAME_MOMENT_NS


def _read_file(
    name: str, folder: int, about: os.stat_result, known: TreeEntry | None
) -> tuple[TreeEntry, bytes | None]:
    """Return a file as it is now, and its content if that is another one than the commit has."""
    mode = about.st_mode
    if stat.S_ISLNK(mode):
        kind = LINK
    elif stat.S_ISREG(mode) and not mode & 0o6000 and mode & 0o400 and about.st_size <= MOST_CHANGED_BYTES:
        kind = EXECUTABLE if mode & 0o100 else PLAIN
    else:
        raise LeftToGit
    content = _content(name, kind, folder)
    made = TreeEntry(kind, make_object(b"blob", content).name)
    if made == known:
        return made, None
    if not is_plain_name(name):  # rules of git's own are its business
        raise LeftToGit
    return made, content if known is None or known.name != made.name else None


def _content(file: str, mode: int, folder: int | None = None) -> bytes:
    """Return what a file holds, or where a link leads; no link is followed, and no pipe waited for."""
    if mode == LINK:
        return os.fsencode(os.readlink(file, dir_fd=folder))
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_CHANGED_BYTES:
            raise LeftToGit
        content = os.read(descriptor, about.st_size + 1)
        if len(content) != about.st_size:  # it is being written, or is no plain file after all
            raise LeftToGit
        return content
    finally:
        os.close(descriptor)


def _is_same_git(laid: FreshCheckout, now: dict[str, bytes]) -> bool:
    """Tell whether no git wrote anything but what its looking writes: other times in the same index."""
    if now.keys() != laid.git.keys() or any(now[name] != laid.git[name] for name in now if name != "index"):
        return False
    try:
        return now["index"] == laid.git["index"] or index_entries(now["index"]) == laid.remembered.entries
    except (ValueError, IndexError):  # also what an agent wrote there that is none at all
        return False
