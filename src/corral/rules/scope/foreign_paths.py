"""What an agent asked its tools for that is not its own: told on the result, whether or not anything came of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from corral.model import Violation

PATH = re.compile(r"(?<![\w./~-])(?:~|/)[^\s'\"`;|&<>(){}$*,]+")
MOST_WORDS = 2000


class PathOwners(Struct, frozen=True, kw_only=True):
    """Whose ground is whose, as absolute paths."""

    own: tuple[str, ...]  #: its workspace and home
    others: tuple[str, ...]  #: the person's checkout, corral's own folder
    secrets: Sequence[str]  #: patterns
    homes: tuple[str, ...]  #: what `~` may stand for


def strays(words: str, grounds: PathOwners) -> list[Violation]:
    """Return the paths in a tool's arguments that lie on others' ground."""
    found: dict[str, None] = {}
    for match in PATH.finditer(words[:MOST_WORDS]):
        for path in _meant_paths(match.group().rstrip(".:"), grounds.homes):
            if not _below(path, grounds.own) and (_below(path, grounds.others) or _is_secret(path, grounds.secrets)):
                found[path] = None
    return [Violation("tried", path) for path in found]


def _meant_paths(path: str, homes: Sequence[str]) -> list[str]:
    return [home + path[1:] for home in homes] if path.startswith("~") else [path]


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _is_secret(path: str, patterns: Sequence[str]) -> bool:
    parts = path.split("/")
    above = ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]
    return any(fnmatchcase(each, pattern) for pattern in patterns for each in above)
