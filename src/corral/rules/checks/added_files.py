"""New files that a check leaves in its tree, and which of them a later run would read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from corral.model import CheckObservation
from corral.rules.checks.steering import roles, table
from corral.rules.scope import globs

#: Folders of caches, of results and of installed packages: what lies there is no source.
OUTPUT_FOLDERS = frozenset({
    "__pycache__", "__pypackages__", "node_modules", "bower_components", "vendor", "venv", "env", "site-packages",
    "build", "builds", "dist", "out", "output", "outputs", "target", "bin", "obj", "debug", "release", "_build",
    "coverage", "htmlcov", "report", "reports", "results", "test-results", "tmp", "temp", "log", "logs", "site",
    "generated", "gen", "cmakefiles", "testing",
})  # fmt: skip
STEERING = ("runner", "command", "start-up", "mixed")
#: What package managers write when dependencies changed.
LOCKS = re.compile(r"(?i)(^|/)([^/]*\.lock|[^/]*[.-]lock\.(json|ya?ml)|go\.(sum|mod)|npm-shrinkwrap\.json|bun\.lockb)$")
SNAPSHOTS = re.compile(r"(?i)(^|/)__(image_)?snapshots__/|\.(snap|ambr)$")
MOST_KEPT, MOST_NAMED = 100, 3


def is_output_folder(name: str) -> bool:
    """Tell a folder in which programs leave what nobody reads as source."""
    lower = name.lower()
    return lower.startswith((".", "cmake-build")) or lower in OUTPUT_FOLDERS or lower.endswith((".egg-info", ".dsym"))


def telling(paths: Iterable[str], gitignore: str) -> tuple[str, ...]:
    """Return the new files that a later run reads: code, what steers tests, stored snapshots."""
    rules = globs.gitignore(gitignore)
    return tuple(sorted(path for path in paths if _is_read(path, rules)))[:MOST_KEPT]


def _is_read(path: str, rules: Sequence[globs.Glob]) -> bool:
    if LOCKS.search(path) or any(map(is_output_folder, PurePosixPath(path).parts[:-1])):
        return False
    if roles.role_of(path) in STEERING or SNAPSHOTS.search(path):
        return True
    compiled = PurePosixPath(path).suffix.lower() in table.COMPILED_SUFFIXES
    return roles.is_code(path) and not compiled and not globs.is_ignored(rules, path)


def limits(now: CheckObservation) -> list[str]:
    """Say that a check leaves files which change what the next run is given."""
    if not now.added:
        return []
    more = f" and {len(now.added) - MOST_NAMED} more" if len(now.added) > MOST_NAMED else ""
    named = ", ".join(now.added[:MOST_NAMED]) + more
    return [f"`{now.result.command}` adds files to the repository which its next run would read: {named}"]
