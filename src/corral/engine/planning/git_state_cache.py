"""What git said of a repository a moment ago, while none of its own files changed: for many submissions in a row."""

from __future__ import annotations

import os
import time
from pathlib import Path

from msgspec import Struct, field

from corral.machines.scope import FittedScope
from corral.world.git.discovery import DiscoveredRepository

SECONDS = 2.0  #: files that are not committed are not looked at, and programs may come and go
MOST = 100
#: Files of a repository that change whenever a commit, a branch or a setting does.
FILES = ("HEAD", "index", "config", "packed-refs", "logs/HEAD", "reftable/tables.list", "config.worktree")


class GitState(Struct, frozen=True, kw_only=True):
    """What a submission needs to know of a repository at its HEAD."""

    found: DiscoveredRepository
    notes: tuple[str, ...]
    ignore: str
    identity: tuple[str, str] | None


class _CachedState(Struct):
    found: DiscoveredRepository
    scopes: dict[bytes, FittedScope] = field(
        default_factory=dict[bytes, FittedScope]
    )  #: by who says so: what they come to
    glance: GitState | None = None
    signs: tuple[object, ...] = ()
    at: float = 0.0


class GitStateCache:
    """Glances at the repositories that one long-lived process is asked about."""

    def __init__(self) -> None:
        self._kept: dict[str, _CachedState] = {}

    def recall(self, folder: Path) -> tuple[GitState | None, tuple[object, ...]]:
        """Return what still holds of a folder; and signs, taken before anything else is looked at."""
        kept = self._kept.get(str(folder))
        if kept is None:
            return None, ()
        signs = _signs(kept.found)
        fresh = kept.glance is not None and kept.signs == signs and time.monotonic() - kept.at < SECONDS
        return (kept.glance if fresh else None), signs

    def keep(self, folder: Path, glance: GitState, signs: tuple[object, ...]) -> None:
        """Remember a glance. Without signs from before it, only where to look for them the next time."""
        if len(self._kept) >= MOST:
            self._kept.clear()
        if signs:
            self._kept[str(folder)] = _CachedState(found=glance.found, glance=glance, signs=signs, at=time.monotonic())
        else:
            self._kept[str(folder)] = _CachedState(found=glance.found)

    def scope(self, folder: Path, asked: bytes) -> FittedScope | None:
        """Return what a scope came to in this folder, as long as the glance at it holds."""
        kept = self._kept.get(str(folder))
        return kept.scopes.get(asked) if kept and time.monotonic() - kept.at < SECONDS else None

    def keep_scope(self, folder: Path, asked: bytes, fitted: FittedScope) -> None:
        if kept := self._kept.get(str(folder)):
            kept.scopes[asked] = fitted


def _signs(found: DiscoveredRepository) -> tuple[object, ...]:
    own = Path(found.repository.git_dir)
    places = [own / name for name in FILES]
    if (own / "commondir").exists():  # a worktree: its branches lie in the repository it belongs to
        common = (own / (own / "commondir").read_text().strip()).resolve()
        places += [common / name for name in FILES]
    else:
        common = own
    if found.branch:
        places.append(common / "refs" / "heads" / found.branch)
    home = Path(os.environ.get("HOME", "/"))
    places += [
        home / ".gitconfig",
        home / ".config/git/config",
        Path("/etc/gitconfig"),
        found.repository.folder / ".git",
    ]
    return tuple(sign(place) for place in places)


def sign(place: Path) -> object:
    """Return what changes whenever a file does, without reading it."""
    try:
        found = place.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
