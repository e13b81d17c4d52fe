"""Git objects for workspaces: packs of what is reachable from one base, and nothing else.

Decision 20 says why. Each base has a folder of its own in the state folder. Workspaces get hard links to its packs, so
the folder of a base may be removed at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import mmap
import os
import shutil
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from corral import amounts
from corral.model.errors import GitTrouble
from corral.world import machine_limits, process, process_identity
from corral.world.git.command import ENV, LARGE, SAFE, GitLimits, confine_git, is_over_limit, walk_mb
from corral.world.git.repository import Repository, object_folders
from corral.world.locks import hold_lock
from corral.world.process import ProcessResult, ProcessStart

MOST_BASES = 24  #: of one repository; the one that was used least recently goes first
MOST_LAYERS = 8  #: packs of one base; then the later ones are packed again, as one
SMALL_BYTES = 1 << 20  #: of packs: to pack as much anew is quicker than to look for a base that is known
FEW_COMMITS, MOST_COMMITS = 200, 20_000  #: looked through for a base that is known, first these and then those
MOST_LISTED = 2 << 30  #: bytes
SLOW_SECONDS = 2.0  #: of a pack until it is announced; then it is reported ever more rarely
REPORT_SECONDS = 60.0  #: between reports, at most
PACK_SECONDS = 4 * 3600.0
#: Packs of the cache can be made again, so git does not wait for the disk; `_settle` does where that is worth it.
PACKING = ("-c", "core.fsync=none", "-c", "pack.compression=1", "-c", "pack.writeReverseIndex=false")
LAYERS, SHALLOW = "layers.json", "shallow"

Say = Callable[[str], None]


class Layer(Struct, frozen=True, array_like=True):
    """A pack: what a commit reaches and the layers below it do not."""

    commit: str
    pack: str  #: its name, without the ending


class Base(Struct, frozen=True):
    """What is known of the folder of a base."""

    layers: tuple[Layer, ...]  #: each commit is an ancestor of the next
    boot: str = ""  #: the packs are good until the machine starts anew; empty: for ever


def _quiet(_: str) -> None:
    """Say nothing."""


async def lend(
    repository: Repository, commits: Sequence[str], cache: Path, folder: Path, say: Say = _quiet
) -> list[str]:
    """Let `folder` be an object folder with all that the commits reach; return their shallow boundary."""
    for made in (folder, folder / "pack"):
        made.mkdir(mode=0o755, parents=True, exist_ok=True)
        made.chmod(0o755)  # whatever the umask: the agent may be another user
    place = cache / name_of(repository.git_dir)
    boundary: set[str] = set()
    for commit in dict.fromkeys(commits):
        entry = place / (commit + _form(repository.git_dir))
        if not _link(entry, folder / "pack"):
            for made in (cache, place):
                made.mkdir(parents=True, exist_ok=True, mode=0o700)
            async with hold_lock(place / "lock", holder_seconds=PACK_SECONDS):
                if not _link(entry, folder / "pack"):  # nobody made it meanwhile
                    await _report_if_slow(_Packer(repository, place, entry, commit), say)
                    _forget(place, MOST_BASES)
                    if not _link(entry, folder / "pack"):
                        raise GitTrouble(f"the objects of {commit[:12]} cannot be read from {entry}")
        with contextlib.suppress(FileNotFoundError):
            boundary.update((entry / SHALLOW).read_text().split())
    return sorted(boundary)


def forget(repository: Repository, commit: str, cache: Path) -> None:
    """Remove the folder of a base that proved to be no good; it is made again when it is needed."""
    entry = cache / name_of(repository.git_dir) / (commit + _form(repository.git_dir))
    shutil.rmtree(entry, ignore_errors=True)


def clean(cache: Path) -> None:
    """Remove what no workspace uses: packs without a link outside the cache."""
    for place in [each for each in cache.glob("*") if each.is_dir()]:
        with _locked_now(place / "lock") as free:
            if not free:
                continue  # one is being made
            packs = [file for entry in _entries(place) for file in entry.glob("*.pack")]
            inside = Counter(file.stat().st_ino for file in packs)
            used = {file.parent for file in packs if file.stat().st_nlink > inside[file.stat().st_ino]}
            for entry in _entries(place):
                if entry not in used:
                    shutil.rmtree(entry, ignore_errors=True)
            for left in ("git", "new"):
                shutil.rmtree(place / left, ignore_errors=True)


async def _report_if_slow(packer: _Packer, say: Say) -> None:
    """Wait for a pack; one that takes long is announced, then reported: how far it is, how fast, and when it ends."""
    task, began, pause = asyncio.ensure_future(packer.pack()), time.monotonic(), SLOW_SECONDS
    words = f"packing the history of {packer.repository.folder} for workspaces"
    try:
        await asyncio.wait({task}, timeout=SLOW_SECONDS)
        if not task.done():
            say(f"{words}; later runs build on it")
        while not task.done():
            done, total = await asyncio.to_thread(packer.progress_mb)
            if done:
                say(f"{words}: {amounts.progress(done, total, time.monotonic() - began, 'MB')}")
                pause = min(2 * pause, REPORT_SECONDS)
            await asyncio.wait({task}, timeout=pause)
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _Packer:
    """Makes the folder of one base."""

    def __init__(self, repository: Repository, place: Path, entry: Path, commit: str) -> None:
        self.repository, self._place, self._entry, self._commit = repository, place, entry, commit
        self._git_dir, self._new = place / "git", place / "new"

    def progress_mb(self) -> tuple[float, float]:
        """Return how much of the pack is written, and how much it will be at most: as much as the repository has."""
        written = [*self._new.glob("*.pack"), *(self._git_dir / "objects/pack").glob("tmp_pack_*")]
        return _megabytes(written), _megabytes(
            file for folder in object_folders(self.repository.git_dir) for file in (folder / "pack").glob("*.pack")
        )

    async def pack(self) -> None:
        """Pack what the commit reaches, on top of the packs of a known ancestor where that saves work."""
        boundary = _shallow(self.repository.git_dir)
        for left in (self._git_dir, self._new):
            shutil.rmtree(left, ignore_errors=True)
        self._new.mkdir(mode=0o700)
        _lay(self._git_dir, self.repository, self._commit, boundary)
        below, known = await self._below()
        finished = await self._pack_objects(below)
        if finished.code != 0 and _promisors(self.repository.git_dir):
            finished = await self._pack_listed(below)
        if finished.code != 0 and _is_broken(finished):  # some history is missing: the base itself may be whole
            boundary, below, known = f"{self._commit}\n", (), None
            (self._git_dir / SHALLOW).write_text(boundary)
            finished = await self._pack_objects(below)
        if finished.code != 0:
            raise _trouble(finished)
        if known:
            _link_files(known, below, self._new)
        layers = (*below, Layer(self._commit, f"pack-{finished.out.decode().strip()}"))
        boot = await asyncio.to_thread(_settle, self._new)
        if own := [line for line in boundary.split() if _holds(self._new, line)]:
            (self._new / SHALLOW).write_text("".join(f"{line}\n" for line in own))
        (self._new / LAYERS).write_bytes(msgspec.json.encode(Base(layers, boot)))
        shutil.rmtree(self._entry, ignore_errors=True)  # one of an earlier boot
        self._new.rename(self._entry)

    async def _below(self) -> tuple[tuple[Layer, ...], Path | None]:
        """Return the layers to build on, and the folder they are in."""
        form = self._entry.name[len(self._commit) :]
        known = {entry.name[: len(self._commit)]: entry for entry in _entries(self._place) if _fits(entry, form)}
        if not known or _bytes(max(known.values(), key=lambda entry: entry.stat().st_mtime)) <= SMALL_BYTES:
            return (), None
        nearest = await self._nearest(known)
        found = _read(nearest) if nearest else None
        if nearest is None or found is None:
            return (), None
        if len(found.layers) < MOST_LAYERS:
            return found.layers, nearest
        first = (nearest / f"{found.layers[0].pack}.pack").stat().st_size
        return (found.layers[:1], nearest) if 2 * first > _bytes(nearest) else ((), None)

    async def _nearest(self, known: Mapping[str, Path]) -> Path | None:
        """Return the folder of the newest commit in the history of this one that is known."""
        for count in FEW_COMMITS, MOST_COMMITS:
            listed = (await self._git("rev-list", f"--max-count={count}", self._commit)).out.decode().split()
            if found := next((known[line] for line in listed if line in known), None):
                return found
            if len(listed) < count:
                break
        return None

    async def _pack_objects(self, below: Sequence[Layer]) -> ProcessResult:
        promised = ["--missing=allow-any"] if _promisors(self.repository.git_dir) else []
        words = ["pack-objects", "--revs", "--window=0", "--quiet", *promised, str(self._new / "pack")]
        return await self._git(*words, stdin="".join(f"{line}\n" for line in self._revisions(below)).encode())

    async def _pack_listed(self, below: Sequence[Layer]) -> ProcessResult:
        """Pack what is there of a partial clone without all trees, which `pack-objects` does not go through."""
        words = ("rev-list", "--objects", "--no-object-names", "--missing=allow-any")
        listed = await self._git(*words, *self._revisions(below))
        if listed.code != 0:
            return listed
        return await self._git("pack-objects", "--window=0", "--quiet", str(self._new / "pack"), stdin=listed.out)

    def _revisions(self, below: Sequence[Layer]) -> list[str]:
        return [self._commit, *(f"^{layer.commit}" for layer in below[-1:])]

    async def _git(self, *words: str, stdin: bytes = b"") -> ProcessResult:
        argv = ["git", *SAFE, *LARGE, *PACKING, f"--git-dir={self._git_dir}", *words]
        limits = GitLimits(mb=walk_mb(object_folders(self._git_dir)), seconds=PACK_SECONDS)
        start = confine_git(ProcessStart(argv=argv, env=ENV, cwd="/", stdin=stdin), limits)
        finished = await process.run(start, timeout=PACK_SECONDS, most=MOST_LISTED)
        if finished.code != 0 and is_over_limit(finished.code, finished.err.decode(errors="replace")):
            raise limits.over_limit_error(words[0])
        return finished


def _lay(git_dir: Path, repository: Repository, commit: str, boundary: str) -> None:
    """Write a repository of ours that sees all objects of another, and none of its settings or refs."""
    for folder in ("objects/info", "objects/pack", "refs"):
        (git_dir / folder).mkdir(parents=True)
    sha256 = "\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"
    form = sha256 if len(commit) == 64 else "\trepositoryformatversion = 0\n"
    (git_dir / "config").write_text(f"[core]\n\tbare = true\n{form}")
    (git_dir / "HEAD").write_text("ref: refs/heads/none\n")
    folders = "".join(f"{folder}\n" for folder in object_folders(repository.git_dir))
    (git_dir / "objects/info/alternates").write_text(folders)
    if boundary:
        (git_dir / SHALLOW).write_text(boundary)


def name_of(git_dir: Path) -> str:
    """Return the name of a repository's folder in the state folder."""
    name = git_dir.parent.name if git_dir.name == ".git" else git_dir.name
    short = os.fsdecode(os.fsencode(name)[:100])  # bytes count: a name has 255 at most
    return f"{short}-{hashlib.sha256(os.fsencode(git_dir)).hexdigest()[:12]}"


def _form(git_dir: Path) -> str:
    """Return what else than a commit decides what it reaches here: a shallow boundary, and what is not fetched yet."""
    signs = [_shallow(git_dir), *_promisors(git_dir)]
    return f"-{hashlib.sha256(repr(signs).encode()).hexdigest()[:12]}" if any(signs) else ""


def _shallow(git_dir: Path) -> str:
    try:
        return (git_dir / SHALLOW).read_text()
    except FileNotFoundError:
        return ""


def _promisors(git_dir: Path) -> list[str]:
    """Return the packs of a partial clone; each fetch makes another."""
    return sorted(file.name for folder in object_folders(git_dir) for file in (folder / "pack").glob("*.promisor"))


def _entries(place: Path) -> list[Path]:
    return [file.parent for file in place.glob(f"*/{LAYERS}") if file.parent.name != "new"]


def _fits(entry: Path, form: str) -> bool:
    return entry.name.partition("-")[2] == form.removeprefix("-") and _read(entry) is not None


def _megabytes(files: Iterable[Path]) -> float:
    total = 0
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # git has given it its name meanwhile
            total += file.stat().st_size
    return total / 1e6


def _bytes(entry: Path) -> int:
    return sum(file.stat().st_size for file in entry.glob("*.pack"))


def _read(entry: Path) -> Base | None:
    """Return what is known of a base; None where there is nothing of use."""
    try:
        base = msgspec.json.decode((entry / LAYERS).read_bytes(), type=Base)
    except (OSError, msgspec.MsgspecError):
        return None
    return base if base.boot in ("", process_identity.boot()) else None


def _link(entry: Path, folder: Path) -> bool:
    """Link the packs of a base into a folder; tell whether they are all there."""
    base = _read(entry)
    if base is None:
        return False
    try:
        _link_files(entry, base.layers, folder)
        os.utime(entry)
    except FileNotFoundError:  # removed meanwhile
        return False
    return True


def _link_files(entry: Path, layers: Sequence[Layer], folder: Path) -> None:
    for name in [f"{layer.pack}{ending}" for layer in layers for ending in (".pack", ".idx")]:
        try:
            os.link(entry / name, folder / name)
        except FileExistsError:
            pass  # the same content by the same name
        except FileNotFoundError:
            raise
        except OSError:  # a file system without links, or too many of one
            shutil.copyfile(entry / name, folder / name)
            (folder / name).chmod(0o444)


def _holds(folder: Path, commit: str) -> bool:
    """Tell whether a pack in a folder has an object, by its index (version 2: a fan-out table, then sorted names)."""
    wanted = bytes.fromhex(commit)
    for file in folder.glob("*.idx"):
        with file.open("rb") as index, mmap.mmap(index.fileno(), 0, access=mmap.ACCESS_READ) as table:
            ends = [int.from_bytes(table[at : at + 4]) for at in (8 + 4 * (wanted[0] - 1), 8 + 4 * wanted[0])]
            first, last = ends[0] if wanted[0] else 0, ends[1]
            size = len(wanted)
            names = range(8 + 1024 + first * size, 8 + 1024 + last * size, size)
            place = bisect_left(names, wanted, key=lambda at: table[at : at + size])
            if place < len(names) and table[names[place] : names[place] + size] == wanted:
                return True
    return False


def _settle(folder: Path) -> str:
    """Let all read the packs; wait for the disk where they are large. Return the boot that they are good for."""
    files = [*folder.glob("*.pack"), *folder.glob("*.idx")]
    boot = process_identity.boot()
    wait = boot == "-" or sum(file.stat().st_size for file in files) > SMALL_BYTES
    for file in files:
        file.chmod(0o444)
        if wait:
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
    return "" if wait else boot


def _forget(place: Path, most: int) -> None:
    """Remove the bases that were used least recently."""
    for entry in sorted(_entries(place), key=lambda entry: entry.stat().st_mtime, reverse=True)[most:]:
        shutil.rmtree(entry, ignore_errors=True)


def _is_broken(finished: ProcessResult) -> bool:
    words = finished.err.decode(errors="replace")
    return any(sign in words for sign in ("bad object", "bad tree", "missing", "unable to read", "traverse parents"))


def _trouble(finished: ProcessResult) -> GitTrouble:
    words = finished.err.decode(errors="replace").strip()[-400:]
    full = machine_limits.is_disk_full(words)
    hint = "the disk is full: make room, then try again" if full else "is the repository whole? try `git fsck` there"
    return GitTrouble(f"the repository's history cannot be packed for a workspace: {words}", hint=hint)


@contextlib.contextmanager
def _locked_now(file: Path) -> Generator[bool]:
    """Hold a lock if nobody else does; tell whether it is held."""
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)
