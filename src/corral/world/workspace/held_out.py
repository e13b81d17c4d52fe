"""Held-out files: copied once into the state folder, by the hash of their contents, and laid over checked trees."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from corral.model.errors import BadRequest, CorralError
from corral.world.process import Owner
from corral.world.workspace.checkout import write_below

FOLDER = "held-out"
MOST_FILES = 10_000
MOST_BYTES = 64 << 20
LEFT_OUT = ".git"  #: a folder of held-out files may be a repository itself


def keep(folder: Path, where: str, state: Path, apart: Collection[Path]) -> str:
    """Copy the files of a folder into the state folder; return the hash by which they are found there.

    `where` is how the user named it, for errors; `apart` are folders that it must not overlap.
    """
    _fit(folder, where, apart)
    if state.resolve().is_relative_to(folder.resolve()):
        raise BadRequest(f"{where}: it holds corral's own state", hint="name the folder of the held-out files alone")
    place = state / FOLDER
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    place.chmod(0o700)
    with tempfile.TemporaryDirectory(prefix="new-", dir=place) as name:
        new = Path(name)
        digest = hashlib.sha256()
        count = size = 0
        for path in _files(folder, where):
            content, mode = _content(path, where)
            count, size = count + 1, size + len(content)
            if count > MOST_FILES or size > MOST_BYTES:
                raise BadRequest(
                    f"{where}: more than {MOST_FILES:,} files or {MOST_BYTES >> 20} MB",
                    hint="name the folder that holds the held-out files alone",
                )
            target = new / "files" / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(mode)
            relative = os.fsencode(path.relative_to(folder))
            digest.update(b"%d %d %o %s\0" % (len(relative), len(content), mode, relative) + content)
        if not count:
            raise BadRequest(f"{where}: there is no file in it", hint="its files are laid over the work, path by path")
        kept = place / digest.hexdigest()[:40]
        if not kept.exists():
            with contextlib.suppress(OSError):  # someone else was quicker
                (new / "files").rename(kept)
        os.utime(kept)
    return kept.name


def _fit(folder: Path, where: str, apart: Collection[Path]) -> None:
    hint = "a folder outside the repository, with files at the paths they have there: tests/test_hidden.py"
    try:
        about = folder.stat()
    except OSError as error:
        raise BadRequest(f"{where}: {error.strerror or error}", hint=hint) from None
    if not stat.S_ISDIR(about.st_mode):
        raise BadRequest(f"{where}: it is not a folder", hint=hint)
    real = folder.resolve()
    for other in (each.resolve() for each in apart):
        if real.is_relative_to(other) or other.is_relative_to(real):
            raise BadRequest(
                f"{where}: it overlaps {other}, which agents see",
                hint="move the held-out files to a folder of their own that no agent can read",
            )


def _files(folder: Path, where: str) -> Iterator[Path]:
    """Walk through a folder in order; what is neither a file nor a folder is refused."""

    def refuse(error: OSError) -> None:
        raise BadRequest(
            f"{where}: {error.filename} cannot be read: {error.strerror}", hint="chmod it, or leave it out"
        )

    for root, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if name != LEFT_OUT)
        for name in (*folders, *sorted(files)):
            if Path(root, name).is_symlink():
                raise BadRequest(f"{where}: {Path(root, name)} is a link", hint="put the file itself there")
        yield from (Path(root, name) for name in sorted(files) if name != LEFT_OUT)


def _content(path: Path, where: str) -> tuple[bytes, int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise BadRequest(f"{where}: {path} is not a plain file", hint="leave it out")
            return file.read(MOST_BYTES + 1), 0o755 if about.st_mode & 0o100 else 0o644
    except OSError as error:
        raise BadRequest(
            f"{where}: {path} cannot be read: {error.strerror}", hint="chmod it, or leave it out"
        ) from None


def files(state: Path, name: str) -> list[str]:
    """Return the paths of kept files, as they are laid over a tree."""
    source = state / FOLDER / name
    return sorted(str(each.relative_to(source)) for each in source.rglob("*") if each.is_file())


def lay(state: Path, name: str, tree: Path, owner: Owner | None) -> list[str]:
    """Lay held-out files over a checkout; what is in their way there goes. Return their paths."""
    laid: list[str] = []
    source = state / FOLDER / name
    if not source.is_dir():
        raise CorralError("the held-out files of this run are gone", hint="start it anew with --held-out")
    for root, folders, files in os.walk(source):
        folders.sort()
        for file in sorted(files):
            path = Path(root, file)
            relative = path.relative_to(source)
            _clear(tree, relative)
            with path.open("rb") as content:
                write_below(tree, str(relative), content, owner, path.stat().st_mode & 0o777)
            laid.append(str(relative))
    return laid


def _clear(tree: Path, relative: Path) -> None:
    """Remove what a file cannot be laid over: links and files where folders must be, and a folder in its own place."""
    for parent in [*reversed(relative.parents)][1:]:
        place = tree / parent
        if os.path.lexists(place) and (place.is_symlink() or not place.is_dir()):
            place.unlink()
    place = tree / relative
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)


def clean(state: Path, needed: Collection[str], now: float) -> list[str]:
    """Remove held-out files that no run needs; one that was just kept may belong to a run that is being made."""
    removed: list[str] = []
    place = state / FOLDER
    if not place.is_dir():
        return removed
    for each in sorted(place.iterdir()):
        if each.name not in needed and each.stat().st_mtime < now - 3600:
            shutil.rmtree(each, ignore_errors=True)
            removed.append(each.name)
    return removed
