"""Small packs of a repository, folded into one: each attempt, snapshot and note brings one more."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from corral.model.errors import GitTrouble, OutOfResources
from corral.world.git import incoming_objects
from corral.world.git.pack_index import names_of
from corral.world.git.repository import Repository

MOST_PACKS = 32  #: small packs; git itself folds at 50, when a user's command ends
FOLDED_BYTES = 64 << 20  #: of the packs that are folded at a time; larger ones stay as they are
STALE_SECONDS = 12 * 3600.0  #: git too takes an older lock of a gc for one that was left
IN_USE = (".keep", ".promisor", ".bitmap", ".mtimes")  #: beside a pack that is not to be touched


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
        incoming_objects.quarantine(repository) as folder,
    ):
        width = 32 if len(small[0].index.stem) > len("pack-") + 40 else 20  # bytes of an id
        names = {name for pack in small for name in names_of(pack.index, width)}
        stdin = "".join(f"{name}\n" for name in sorted(names)).encode()
        words = ("pack-objects", "-q", "--window=0", f"{folder}/pack/pack")
        await repository.git(*words, stdin=stdin, env=incoming_objects.environment(folder))
        (made,) = folder.glob("pack/*.idx")
        if not names <= set(names_of(made, width)):
            return
        with incoming_objects.move_in(repository, folder):
            _settle(small[0].index.parent)
            if _is_under_maintenance(repository.git_dir):
                return  # another time: what is there twice harms nobody
            for pack in small:
                _remove(pack.index)


def _small(folder: Path) -> Sequence[Pack]:
    """Return the smallest packs, as many as can be folded at a time; none where a table of all packs names them."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        sizes = {entry.name: entry.stat().st_size for entry in entries}
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
    """Remove a pack whose objects are in another one, unless somebody has marked it."""
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
