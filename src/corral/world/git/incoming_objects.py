"""Objects from an agent's bundle, examined before the repository takes them, and small packs folded into one."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from corral.model.errors import GitTrouble, OutOfResources
from corral.world.git.made_objects import GitObject, pack_objects, write_durably, write_pack
from corral.world.git.pack_index import Objects, measure_trees, names_of, read_pack
from corral.world.git.repository import Repository

LEFTOVER_MARK = b"corral takes this in\n"  #: in the .keep of a pack
TRIES = 20
LOOK_SECONDS = 10.0  #: how often to look for what killed processes left
PACK_FILES = (".pack", ".idx")  #: the index last: by it git sees the pack
_looked: dict[Path, float] = {}
MOST_PACKS = 32  #: small packs; git itself folds at 50, when a user's command ends
FOLDED_BYTES = 64 << 20  #: of the packs that are folded at a time; larger ones stay as they are
STALE_SECONDS = 12 * 3600.0  #: git too takes an older lock of a gc for one that was left
IN_USE = (".keep", ".promisor", ".bitmap", ".mtimes")  #: beside a pack that is not to be touched


MOST_OBJECTS = 2_000_000  #: of one bundle; their ids are kept in memory


@contextlib.contextmanager
def quarantine(repository: Repository) -> Generator[Path]:
    """Lend a folder for objects beside the repository's own; it borrows those, and none of its own are seen there."""
    remove_leftovers(repository.git_dir / "objects")
    with leftover_folder(repository.git_dir / "objects") as folder:
        made = [folder, folder / "pack", folder / "info"]
        for each in made[1:]:
            each.mkdir(mode=0o700)
        alternates = folder / "info" / "alternates"
        alternates.write_text(f"{repository.git_dir / 'objects'}\n")
        if repository.owner:
            for each in (*made, alternates):
                os.chown(each, repository.owner.uid, repository.owner.gid)
        yield folder


def environment(folder: Path) -> dict[str, str]:
    """Return what makes git write its objects into a quarantine."""
    return {"GIT_OBJECT_DIRECTORY": str(folder)}


async def examine(repository: Repository, folder: Path, heads: Sequence[str], known: str | None) -> None:
    """Refuse objects that would be too much for git, or that make a commit of others an agent's result.

    `known` is the commit that the work started from: what its history holds may be named, and nothing else that the
    repository has. Empty where there was none; None where that is not to be looked at.
    """
    (index,) = folder.glob("pack/*.idx")
    objects = await asyncio.to_thread(read_pack, index, len(heads[0]) // 2 if heads else 20)
    await measure_trees(repository, repository.apart(environment(folder)), objects, known)
    if known is not None:
        await _refuse_foreign(repository, folder, objects, heads, known)


# --- whose it is


async def _refuse_foreign(
    repository: Repository, folder: Path, objects: Objects, heads: Sequence[str], known: str
) -> None:
    """Refuse objects of the repository that neither came with the bundle nor belong to what the work started from."""
    strange = {head for head in heads if head not in objects and head != known}
    rest = bytearray()

    def note_listed(chunk: bytes) -> None:
        rest.extend(chunk)
        *lines, last = bytes(rest).split(b"\n")
        rest[:] = last
        strange.update(name for line in lines if (name := line[: len(heads[0])].decode()) not in objects)

    wanted = "\n".join([*heads, *([f"^{known}"] if known else [])]) + "\n"
    env = environment(folder)
    await repository.git("rev-list", "--objects", "--stdin", stdin=wanted.encode(), env=env, sink=note_listed)
    if strange and known:  # git leaves out of a bundle what any earlier commit had, and lists it all the same

        def drop_known(chunk: bytes) -> None:
            rest.extend(chunk)
            *lines, last = bytes(rest).split(b"\n")
            rest[:] = last
            strange.difference_update(line[: len(known)].decode() for line in lines)

        rest.clear()
        await repository.git("rev-list", "--objects", known, "--", sink=drop_known)
    if strange:
        raise GitTrouble(f"its work names {min(strange)[:12]}, an object that it was not given: it is not taken")


# --- into the repository


async def pack_up(repository: Repository, folder: Path) -> None:
    """Make one pack of the objects that git wrote into a quarantine."""
    loose = [file for file in folder.glob("[0-9a-f][0-9a-f]/*") if re.fullmatch(r"[0-9a-f]+", file.name)]
    if not loose or write_pack(folder / "pack", loose):
        if owner := repository.owner:
            for file in folder.glob("pack/pack-*"):
                os.chown(file, owner.uid, owner.gid)
        return
    names = "".join(f"{file.parent.name}{file.name}\n" for file in loose).encode()
    words = ("pack-objects", "-q", f"{folder}/pack/pack")
    await repository.git(*words, stdin=names, env=environment(folder))


@contextlib.contextmanager
def move_in(repository: Repository, folder: Path) -> Generator[Path | None]:
    """Move a quarantine's pack into the repository; marked, so that no git drops it, until a ref leads to it.

    It gets a name of its own: a `git repack` that has seen a pack of this name drops it at its end, marked or not.
    """
    target: Path | None = None
    with contextlib.ExitStack() as stack:
        for index in folder.glob("pack/*.idx"):
            name = f"pack-{secrets.token_hex((len(index.stem) - len('pack-')) // 2)}.idx"
            target = repository.git_dir / "objects" / "pack" / name
            target.parent.mkdir(exist_ok=True)
            mark = stack.enter_context(mark_leftover(target.with_suffix(".keep")))
            if repository.owner:
                os.chown(mark, repository.owner.uid, repository.owner.gid)
            for suffix in (".pack", ".rev", ".idx"):  # the index last: by it git sees the pack
                source = index.with_suffix(suffix)
                if source.exists():
                    source.rename(target.with_suffix(suffix))
        yield target


@contextlib.contextmanager
def stage(repository: Repository) -> Generator[None]:
    """Keep what git writes from `git gc` while no ref leads to it: first apart, then, published, in marked packs."""
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(quarantine(repository))
        except OSError:  # gone, or not to be written: git says so in its own words
            yield
            return
        marks = stack.enter_context(contextlib.ExitStack())

        async def publish() -> None:
            try:
                await pack_up(repository, folder)
                marks.enter_context(move_in(repository, folder))
            except OSError as error:
                hint = "the disk is full: make room, then try again" if error.errno == errno.ENOSPC else ""
                raise GitTrouble(f"objects cannot be written: {error.strerror}", hint=hint) from error
            for loose in folder.glob("[0-9a-f][0-9a-f]"):
                shutil.rmtree(loose, ignore_errors=True)

        with repository.write_apart(environment(folder), publish):
            yield


@contextlib.contextmanager
def add_objects(repository: Repository, objects: Iterable[GitObject]) -> Generator[Path]:
    """Lay objects of ours into the repository as one pack, marked until a ref leads to them; lend its index.

    They are written aside, where no git looks, and get their names when the disk has them. A process that is killed
    meanwhile leaves what `remove_leftovers` removes.
    """
    place, name = repository.git_dir / "objects", secrets.token_hex(20)
    _remove_leftovers_at_times(place)
    folder = place / "pack"
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        _give(folder, repository)
    with contextlib.ExitStack() as stack:
        with leftover_folder(place) as aside:
            for suffix, content in zip(PACK_FILES, pack_objects(objects), strict=True):
                write_durably(aside / f"pack{suffix}", content)
                _give(aside / f"pack{suffix}", repository)
            _give(stack.enter_context(mark_leftover(folder / f"pack-{name}.keep")), repository)
            for suffix in PACK_FILES:
                (aside / f"pack{suffix}").rename(folder / f"pack-{name}{suffix}")
        _settle(folder)
        yield folder / f"pack-{name}.idx"


def _give(path: Path, repository: Repository) -> None:
    if repository.owner:
        os.chown(path, repository.owner.uid, repository.owner.gid)


@contextlib.contextmanager
def leftover_folder(objects: Path) -> Generator[Path]:
    """Lend a new folder among a repository's objects."""
    for _ in range(TRIES):
        place = objects / f"corral-{secrets.token_hex(6)}"
        place.mkdir(mode=0o700)
        descriptor = _open_locked(place, os.O_RDONLY | os.O_DIRECTORY, fcntl.LOCK_EX)
        if descriptor is None:
            continue  # another corral took it for one that was left
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
            os.close(descriptor)
        return
    raise OSError(f"no folder can be made in {objects}")


@contextlib.contextmanager
def mark_leftover(file: Path) -> Generator[Path]:
    """Lay a .keep beside a pack for a while; several may need it, and the last of them removes it."""
    for _ in range(TRIES):
        descriptor = _open_locked(file, os.O_RDWR | os.O_CREAT, fcntl.LOCK_SH)
        if descriptor is None:
            continue
        try:
            os.pwrite(descriptor, LEFTOVER_MARK, 0)
            yield file
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.unlink(missing_ok=True)
            os.close(descriptor)
        return
    raise OSError(f"{file} cannot be made")


def _remove_leftovers_at_times(objects: Path) -> None:
    if time.monotonic() < _looked.get(objects, -LOOK_SECONDS) + LOOK_SECONDS:
        return
    _looked[objects] = time.monotonic()
    remove_leftovers(objects)


def remove_leftovers(objects: Path) -> None:
    """Remove what a corral left that was killed: nobody holds it."""
    for place in objects.glob("corral-*"):
        descriptor = _open_locked(place, os.O_RDONLY | os.O_DIRECTORY, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if descriptor is not None:
            shutil.rmtree(place, ignore_errors=True)
            os.close(descriptor)
    for file in objects.glob("pack/*.keep"):
        descriptor = _open_locked(file, os.O_RDONLY, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if descriptor is not None:
            with contextlib.suppress(OSError):
                if os.pread(descriptor, len(LEFTOVER_MARK) + 1, 0) == LEFTOVER_MARK:
                    file.unlink()
            os.close(descriptor)


def _open_locked(path: Path, flags: int, how: int) -> int | None:
    """Open a file or folder and hold a lock on it; None where it was removed meanwhile, or is held by others."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError:
        if flags & os.O_CREAT:
            raise
        return None
    try:
        fcntl.flock(descriptor, how)
        about, there = os.fstat(descriptor), path.lstat()
        if (there.st_dev, there.st_ino) == (about.st_dev, about.st_ino):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass  # another process has the lock, or removed the file: the descriptor is closed below
    except OSError:  # a disk without such locks: nothing is taken for left there
        if not how & fcntl.LOCK_NB:
            return descriptor
    os.close(descriptor)
    return None


class Pack(Struct, frozen=True, order=True):
    """A pack and its size."""

    size: int
    index: Path


async def fold(repository: Repository) -> None:
    """Fold the small packs into one if there are many; nothing is lost at any moment, whatever git runs beside it.

    The new pack is there, marked, before the old ones go; each object stays, also one that no ref leads to. Where a
    pack is gone meanwhile, another process folds.
    """
    small = _small(repository.git_dir / "objects" / "pack")
    if len(small) <= MOST_PACKS or _is_under_maintenance(repository.git_dir):
        return
    with (
        contextlib.suppress(GitTrouble, OutOfResources, FileNotFoundError),
        quarantine(repository) as folder,
    ):
        width = 32 if len(small[0].index.stem) > len("pack-") + 40 else 20  # bytes of an id
        names = {name for pack in small for name in names_of(pack.index, width)}
        stdin = "".join(f"{name}\n" for name in sorted(names)).encode()
        words = ("pack-objects", "-q", "--window=0", f"{folder}/pack/pack")
        await repository.git(*words, stdin=stdin, env=environment(folder))
        (made,) = folder.glob("pack/*.idx")
        if not names <= set(names_of(made, width)):
            return
        with move_in(repository, folder):
            _settle(small[0].index.parent)
            if _is_under_maintenance(repository.git_dir):
                return  # another time: what is there twice harms nobody
            for pack in small:
                _remove(pack.index)


def _small(folder: Path) -> Sequence[Pack]:
    """Return the smallest packs, as many as can be folded at a time; none where a table of all packs names them."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        listed = list(entries)
        if sum(entry.name.endswith(".idx") for entry in listed) <= MOST_PACKS:
            return ()
        sizes = {entry.name: entry.stat().st_size for entry in listed}
        if "multi-pack-index" in sizes:
            return ()  # the user has git maintain the packs
        packs: list[Pack] = []
        for name in sizes:
            stem, ending = os.path.splitext(name)  # noqa: PTH122 -- of many names
            if ending == ".idx" and f"{stem}.pack" in sizes and not any(stem + each in sizes for each in IN_USE):
                packs.append(Pack(sizes[f"{stem}.pack"], folder / name))
        total, small = 0, list[Pack]()
        for pack in sorted(packs):
            total += pack.size
            if total > FOLDED_BYTES:
                break
            small.append(pack)
        return small
    return ()


def _remove(index: Path) -> None:
    """Remove a pack whose objects are in another one, unless someone has marked it."""
    if not index.with_suffix(".keep").exists():
        for suffix in (".idx", ".pack", ".rev"):  # the index first: by it git sees the pack
            index.with_suffix(suffix).unlink(missing_ok=True)


def _is_under_maintenance(git_dir: Path) -> bool:
    """Return whether a `git gc` or `git maintenance` is at work: it fails where a pack goes that it reads."""
    for file in (git_dir / "gc.pid", git_dir / "gc.pid.lock", git_dir / "objects" / "maintenance.lock"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime < STALE_SECONDS:
                return True
    return False


def _settle(folder: Path) -> None:
    """Wait until the disk has the names in a folder: only then may what they replace go."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
