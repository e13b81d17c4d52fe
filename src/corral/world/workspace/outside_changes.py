"""Look before and after an attempt at what no attempt may touch, and tell what is different."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from corral.model import Violation
from corral.model.errors import GitTrouble
from corral.world.git import merge_commits, ref_files
from corral.world.git.repository import PLAIN_DIFF, Repository

#: Of the state folder.
OWN_FOLDERS = ("workspaces", "logs", "locks", "folders", "caches", "objects", "incoming", "host")
OWN_FILES = ("corral.db", "bell", "probe-", "forms.json")  #: there too: how their names begin
OWN_REFS = ("refs/corral/", "refs/heads/corral/", "refs/notes/corral")
MOST_HASHED = 1 << 20  #: a larger file is known by its size and time
MOST_LISTED = 5000  #: entries of a sibling workspace
MOST_ASKED = 100  #: checkouts of which is remembered what git said
MOST_NEW_FILES = 200  #: in a patch
GUARDED = (
    "HEAD", "config", "config.worktree", "info/attributes", "info/exclude",
    "info/grafts", "commondir", "shallow",
)  # fmt: skip
GUARDED_FOLDERS = ("hooks", "objects/info", "worktrees", "modules")
Prints = Mapping[str, str]  #: what -> a word that differs when it does
MOST_ENTRIES = 2000  #: with more of them git is as quick
YOUNG_SECONDS = 2.0  #: what changed so lately can change again without a new time of its own
OWN_GIT_FILES = (b"HEAD", b"index", b"config", b"info/exclude", b"info/attributes", b"info/sparse-checkout")
#: Settings by which files elsewhere have a say in what git tells of a checkout.
ELSEWHERE = re.compile(rb"include|excludesfile|attributesfile|worktree|\[\s*filter", re.IGNORECASE)


class OutsideState(Struct, frozen=True, kw_only=True):
    """How everything was at one moment."""

    commit: str | None = None
    checkout: Prints = field(default_factory=dict[str, str])  #: files that differ from HEAD, or are not in it
    git: Prints = field(default_factory=dict[str, str])
    refs: Prints = field(default_factory=dict[str, str])
    siblings: Prints = field(default_factory=dict[str, str])
    state: Prints = field(default_factory=dict[str, str])


class ProtectedFiles(Struct, frozen=True, kw_only=True):
    """What an attempt must leave alone."""

    repository: Repository
    state: Path
    siblings: tuple[Path, ...] = ()  #: workspaces in which nobody is at work
    watched: tuple[Path, ...] = ()  #: further files, as the user's settings


class OutsideChanges(Struct, frozen=True):
    """What became of differences: foreign writes, or things that happened meanwhile."""

    violations: tuple[Violation, ...] = ()
    notes: tuple[str, ...] = ()


async def look(around: ProtectedFiles, *, thorough: bool = False) -> OutsideState:
    """Take everything down; `thorough` for attempts without a box. git is asked only if the checkout has changed."""
    repository = around.repository
    refs, git, mark = await asyncio.to_thread(_look_at_files, repository)
    if refs is None:
        refs = await _asked_refs(repository)
    commit = _commit(repository, refs)
    return OutsideState(
        commit=commit,
        checkout=await _checkout(repository, (commit, mark), thorough=thorough),
        git=git,
        refs=refs,
        siblings={str(folder): await asyncio.to_thread(_tree, folder) for folder in around.siblings},
        state=_state(around),
    )


def _look_at_files(repository: Repository) -> tuple[dict[str, str] | None, dict[str, str], str | None]:
    """Return the refs, what lies in the git folder, and the mark of the checkout, as far as files tell."""
    git_dir = repository.git_dir
    refs = None if (git_dir / "reftable").is_dir() else _ref_files(git_dir)
    mark = None if _is_bare(repository) else checkout_fingerprint(repository.folder, git_dir)
    return refs, _git_folder(git_dir), mark


def differences(before: OutsideState, after: OutsideState, own_refs: Sequence[str] = OWN_REFS) -> list[Violation]:
    """Return what is not as it was; corral's own refs may be."""
    found: list[Violation] = []
    for kind in ("checkout", "git", "refs", "siblings", "state"):
        old: Prints = getattr(before, kind)
        new: Prints = getattr(after, kind)
        names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        if kind == "refs":
            names = [name for name in names if not name.startswith(tuple(own_refs))]
        found += [Violation(kind, name) for name in names]
    return found


def classify_differences(found: Iterable[Violation], *, boxed: bool) -> OutsideChanges:
    """Say what differences mean: in a box no agent can have made them, so a user was at work meanwhile."""
    found = tuple(found)
    if not boxed:
        return OutsideChanges(violations=found)
    return OutsideChanges(
        notes=tuple(f"changed during the attempt, not by it: {each.kind} {each.path}" for each in found)
    )


async def save(repository: Repository, before: OutsideState, found: Iterable[Violation]) -> bytes:
    """Return the foreign change of the checkout as a patch that `git apply` takes, against the commit of before."""
    paths = sorted(each.path for each in found if each.kind == "checkout" and not each.path.startswith(FLAG))
    if not paths or _is_bare(repository):
        return b""
    literal = {**await merge_commits.neutral_environment(repository, again=True), "GIT_LITERAL_PATHSPECS": "1"}
    words = ("diff", "--binary", "--full-index", *PLAIN_DIFF)
    parts: list[bytes] = []
    known: set[str] = set()
    if before.commit:
        listed = (await repository.git("ls-tree", "-r", "-z", "--name-only", before.commit)).out
        known = {os.fsdecode(name) for name in listed.split(b"\0")} & {*paths}
        if known:
            tracked = [path for path in paths if path in known]
            parts.append((await repository.git(*words, before.commit, "--", *tracked, env=literal)).out)
    for path in [path for path in paths if path not in known][:MOST_NEW_FILES]:
        if (repository.folder / path).is_file() or (repository.folder / path).is_symlink():
            made = await repository.git(*words, "--no-index", "--", "/dev/null", path, fine=(0, 1), env=literal)
            parts.append(made.out)
    return b"".join(parts)


# --- the checkout

_asked: dict[tuple[str, bool], tuple[tuple[str | None, str | None], dict[str, str]]] = {}  # what git said, and when


FLAG = "(hidden from git status) "


def _is_bare(repository: Repository) -> bool:
    return repository.folder == repository.git_dir or not (repository.folder / ".git").exists()


async def _checkout(repository: Repository, state: tuple[str | None, str | None], *, thorough: bool) -> dict[str, str]:
    """Ask git what is not as in HEAD, unless nothing at all has changed since it was asked: commit and mark tell."""
    if _is_bare(repository):
        return {}
    key = (str(repository.folder), thorough)
    if state[1] is not None and (known := _asked.get(key)) and known[0] == state:
        return known[1]
    found = await _ask(repository, thorough=thorough)
    if len(_asked) >= MOST_ASKED:
        _asked.clear()
    _asked[key] = state, found
    return found


async def _ask(repository: Repository, *, thorough: bool) -> dict[str, str]:
    asked = ("status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")
    # A checkout that git itself cannot look at (a filter that is not installed) is no reason to fail an attempt.
    # Its settings are asked for each time: an agent without a box may have named programs there since.
    quiet = await merge_commits.neutral_environment(repository, again=True)
    out = (await repository.git(*asked, env=quiet, fine=(0, 1, 128))).out
    rows: dict[str, str] = {}
    for row in out.split(b"\0"):
        if row[:2] in (b"1 ", b"u ", b"? "):
            *about, name = row.split(b" ", {b"1 ": 8, b"u ": 10, b"? ": 1}[row[:2]])
            rows[os.fsdecode(name)] = b" ".join(about).decode()
    found = await asyncio.to_thread(
        lambda: {name: f"{about} {_file(repository.folder / name)}" for name, about in rows.items()}
    )
    if thorough:  # a file can be marked so that `git status` ignores it
        listed = (await repository.git("ls-files", "-v", "-z")).out.split(b"\0")
        overlooked = [os.fsdecode(row[2:]) for row in listed if row[:1].islower() or row[:1] == b"S"]
        found |= {f"{FLAG}{name}": _file(repository.folder / name) for name in overlooked}
    return found


def _file(path: Path) -> str:
    """Return a word for a file as it is: mode and content, or size and time of a large one."""
    try:
        about = path.lstat()
    except OSError:
        return "gone"
    if stat.S_ISLNK(about.st_mode):
        with contextlib.suppress(OSError):
            return f"link {os.readlink(path)}"  # noqa: PTH115 -- as it is written
    if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_HASHED:
        return f"{about.st_mode:o} {about.st_size} {about.st_mtime_ns}"
    try:
        return f"{about.st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError:
        return f"{about.st_mode:o} {about.st_size} {about.st_mtime_ns}"


# --- its .git


def _git_folder(git_dir: Path) -> dict[str, str]:
    found = {name: _file(git_dir / name) for name in GUARDED}
    for folder in GUARDED_FOLDERS:
        for path in sorted((git_dir / folder).glob("*")):
            about = path.lstat()
            name = f"{folder}/{path.name}"
            found[name] = _file(path) if not stat.S_ISDIR(about.st_mode) else f"folder {about.st_mode:o}"
    for inner in sorted((git_dir / "modules").glob("**/hooks/*")):
        found[str(inner.relative_to(git_dir))] = _file(inner)
    return {name: word for name, word in found.items() if word != "gone"}


async def _asked_refs(repository: Repository) -> dict[str, str]:
    out = await repository.text("for-each-ref", "--format=%(refname) %(objectname)")
    return dict(line.split(" ", 1) for line in out.splitlines())


def _ref_files(git_dir: Path) -> dict[str, str]:
    """Read refs as git lays them down; a loose one counts before a packed one."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in (git_dir / "packed-refs").read_text(errors="replace").splitlines():
            value, _, name = line.partition(" ")
            if name and line[0] not in "#^":
                found[name] = value
    start = len(f"{git_dir}/")
    for folder, folders, names in os.walk(git_dir / "refs"):
        below = folder[start:]
        folders[:] = [name for name in folders if f"{below}/{name}/" not in OWN_REFS]  # they grow with each task
        for name in names:
            if not name.endswith(".lock"):
                with contextlib.suppress(OSError), open(f"{folder}/{name}", errors="replace") as file:  # noqa: PTH123
                    found[f"{below}/{name}"] = file.read().strip()
    return found


def _commit(repository: Repository, refs: Prints) -> str | None:
    try:
        head = (repository.git_dir / "HEAD").read_text(errors="replace").strip()
    except OSError as error:
        raise GitTrouble(f"{repository.git_dir}/HEAD cannot be read: {error.strerror}") from error
    if not head.startswith("ref: "):
        return head or None
    name = head.removeprefix("ref: ")
    return refs.get(name) or ref_files.read(repository.git_dir, name)


# --- the rest


def _tree(folder: Path) -> str:
    """Return a word for a whole workspace: what lies in it, by size and time, and what its git would do."""
    digest = hashlib.sha256()
    for name in ("HEAD", "config"):
        digest.update(_file(folder / ".git" / name).encode())
    left = MOST_LISTED
    waiting = [str(folder)]
    while waiting and left > 0:
        with contextlib.suppress(OSError), os.scandir(waiting.pop(0)) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                about = entry.stat(follow_symlinks=False)
                digest.update(
                    os.fsencode(entry.path) + f" {about.st_mode} {about.st_size} {about.st_mtime_ns}\n".encode()
                )
                left -= 1
                if entry.is_dir(follow_symlinks=False) and entry.name != "objects":
                    waiting.append(entry.path)
    return digest.hexdigest()


def _state(around: ProtectedFiles) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in (around.state, around.state / "corral.db"):  # the database changes all the time, but stays itself
        with contextlib.suppress(OSError):
            about = path.lstat()
            found[str(path)] = f"{about.st_mode:o} {about.st_uid} {about.st_ino}"
    with contextlib.suppress(OSError), os.scandir(around.state) as entries:
        # what others of us may add or change at any time says nothing
        found |= {entry.path: _file(Path(entry.path)) for entry in entries if not _is_ours(entry.name)}
    for path in (around.state / "trusted", *around.watched):
        found[str(path)] = _file(path)
    return found


def _is_ours(name: str) -> bool:
    return name in OWN_FOLDERS or name.startswith(OWN_FILES)


class _NoMark(Exception):
    """A checkout that can have no mark."""


def checkout_fingerprint(folder: Path, git_dir: Path) -> str | None:
    """Return the mark; None where there is none: a large or young checkout, or one that is not all in one place.

    It is made of what the kernel knows of each entry. No program can set the time of an entry's last change.
    """
    if git_dir != folder / ".git" or git_dir.is_symlink() or not git_dir.is_dir():
        return None
    digest, newest = hashlib.sha256(), 0
    try:
        for path, about in itertools.chain(_setting_lines(os.fsencode(git_dir)), _file_lines(os.fsencode(folder))):
            newest = max(newest, about.st_ctime_ns)
            digest.update(path + _stat_line(about))
    except (OSError, _NoMark):
        return None
    return None if newest > time.time_ns() - int(YOUNG_SECONDS * 1e9) else digest.hexdigest()


def _setting_lines(git_dir: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    if ELSEWHERE.search(Path(os.fsdecode(git_dir), "config").read_bytes()):
        raise _NoMark
    for name in OWN_GIT_FILES:
        with contextlib.suppress(FileNotFoundError):
            path = git_dir + b"/" + name
            yield path, os.lstat(path)


def _file_lines(folder: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    left, waiting, own = MOST_ENTRIES, [folder], folder + b"/.git"
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.path == own:
                    continue
                left -= 1
                if not left or entry.name == b".git":  # another repository: what it holds may lie elsewhere
                    raise _NoMark
                yield entry.path, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _stat_line(about: os.stat_result) -> bytes:
    times = (about.st_mtime_ns, about.st_ctime_ns)
    return b"\0%o %d %d %d %d %d\n" % (about.st_mode, about.st_uid, about.st_size, about.st_ino, *times)
