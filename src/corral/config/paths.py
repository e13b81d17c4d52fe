"""Where things lie: state, the user's settings, a repository's."""

from __future__ import annotations

import os
from pathlib import Path

from corral.config import places

REPOSITORY_FILE = "corral.toml"
DEPTH = "CORRAL_DEPTH"  #: set for agents: in how many attempts of corral, one in another, they work


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
