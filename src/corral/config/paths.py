"""Where things lie: state, the user's settings, a repository's; and files that a user names, read with a limit."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from corral.config import places
from corral.model.errors import BadRequest

REPOSITORY_FILE = "corral.toml"
DEPTH = "CORRAL_DEPTH"  #: set for agents: in how many attempts of corral, one in another, they work
MOST_TEXT = 10 << 20  #: bytes of a task, of tasks, of a flow, of a payload
MOST_SETTINGS = 4 << 20
KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFBLK: "a device"}


def home() -> Path:
    """Where state lives: `$CORRAL_HOME`, or the XDG state folder."""
    return Path(places.home())


def depth() -> int:
    """Return in how many attempts of corral this process runs, one in another."""
    named = os.environ.get(DEPTH, "")
    return int(named) if named.isdecimal() and len(named) < 4 else 0


def user_file() -> Path:
    """Return the path of the user's own settings."""
    return Path(places.user_file())


def is_file(path: Path) -> bool:
    """Tell whether a file is there; one with an impossible name is not."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Tell whether a folder is there; one with an impossible name is not."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def exists(path: Path) -> bool:
    """Tell whether anything is there; one with an impossible name is not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def fingerprint(path: Path, content: bytes | None = None) -> str:
    """Return what is remembered when a user trusts a file: where it lies, every byte in it, and what it starts."""
    from corral.config import started_files  # noqa: PLC0415 -- as below: commands that only look at runs start without it

    content = path.read_bytes() if content is None else content
    starts = started_files.digest(path.parent, content)
    return file_mark(path, content + b"\0" + starts if starts else content)


def file_mark(path: Path, content: bytes) -> str:
    """Return a mark of where a file lies and of every byte in it."""
    import hashlib  # noqa: PLC0415

    return hashlib.sha256(str(path).encode(errors="surrogateescape") + b"\0" + content).hexdigest()


def read_file(path: Path, most: int, named: str, hint: str, *, pipe: bool = True) -> bytes:
    """Return what a file holds, or what comes through a pipe, as of `<(command)`.

    A folder, a device and more than `most` bytes are refused; without `pipe` a pipe is not waited for. `named` says in
    the error what the file was given for.
    """
    try:
        wait = 0 if pipe else os.O_NONBLOCK
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | wait), "rb") as file:
            kind = _kind(os.fstat(file.fileno()))
            if kind and not (pipe and kind == KINDS[stat.S_IFIFO]):
                raise BadRequest(f"{named}: it is {kind}, not a file", hint=hint)
            content = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise BadRequest(f"{named}: {getattr(error, 'strerror', None) or error}", hint=hint) from error
    if len(content) > most:
        raise BadRequest(f"{named}: it is larger than {_size(most)}", hint=hint)
    return content


def read_settings(path: Path) -> bytes:
    """Return what a settings file holds; a pipe is not waited for."""
    return read_file(path, MOST_SETTINGS, f"{path}: cannot be read", "settings are UTF-8 text in TOML", pipe=False)


def read_stdin(most: int, named: str, hint: str) -> bytes:
    content = sys.stdin.buffer.read(most + 1)
    if len(content) > most:
        raise BadRequest(f"{named}: it is larger than {_size(most)}", hint=hint)
    return content


def _kind(about: os.stat_result) -> str | None:
    """Return what is there instead of a file; /dev/null is an empty file."""
    if stat.S_ISREG(about.st_mode):
        return None
    if stat.S_ISCHR(about.st_mode):
        return None if about.st_rdev == Path(os.devnull).stat().st_rdev else "a device"
    return KINDS.get(stat.S_IFMT(about.st_mode), "of no known kind")


def _size(most: int) -> str:
    return f"{most >> 20} MB" if most >= 1 << 20 else f"{most >> 10} kB"
