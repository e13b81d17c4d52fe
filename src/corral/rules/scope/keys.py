"""What a scope may say at all: every key of a table is looked at before anything is done with it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from corral.config.durations import duration
from corral.model import ScopeSource
from corral.model.errors import BadRequest
from corral.rules.scope import net
from corral.rules.scope.globs import glob

#: Below these the agents we know do not start.
LEAST = {"memory_mb": 256, "processes": 16, "cpu_seconds": 10, "disk_mb": 64, "file_mb": 1}
UNITS = {"memory_mb": " MB", "disk_mb": " MB", "file_mb": " MB", "cpu_seconds": " s", "processes": ""}
MOST_PATTERNS, LONGEST = 1000, 4096


def check(source: ScopeSource) -> None:
    """Raise BadRequest, with where it stands, for what cannot be meant."""
    for key, what, hint in _troubles(source):
        where = source.where.get(key, f"--{key}")
        raise BadRequest(f"{where}: [scope] {key}: {what}", hint=hint)


def _troubles(source: ScopeSource) -> Iterator[tuple[str, str, str]]:
    table = source.table
    for key, patterns in (("read", table.read), ("write", table.write), ("readonly", table.readonly)):
        yield from ((key, *trouble) for trouble in _patterns(patterns or ()))
    for name in table.env or ():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            yield "env", f"`{name}` is no name of a variable", "the name alone: its value comes from your environment"
    if isinstance(table.net, tuple):
        for item in table.net:
            if found := net.trouble(item):
                yield "net", *found
    for key, least in LEAST.items():
        limit = getattr(table, key)
        if limit is not None and limit < least:
            yield key, f"{limit}{UNITS[key]} is less than an agent needs", f"at least {least}{UNITS[key]}"
    if table.timeout is not None:
        duration(table.timeout, source.where.get("timeout", "--timeout"))


def _patterns(patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if len(patterns) > MOST_PATTERNS:
        yield f"more than {MOST_PATTERNS} patterns", "name folders"
    for text in patterns:
        if len(text) > LONGEST:
            yield "a pattern of more than 4096 characters", "name a folder"
            return
        try:
            glob(text)
        except ValueError as error:
            yield f"`{text}`: {error}", "patterns are like src/**, *.md, !secret/** or /data/in"
