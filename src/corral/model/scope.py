"""What an attempt may read, write, see, reach and use up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field


class PathRules(Struct, frozen=True, kw_only=True):
    """Patterns of paths: within the workspace, or absolute; the most specific that fits decides."""

    read: tuple[str, ...] = ("**",)
    write: tuple[str, ...] = ("**",)
    readonly: tuple[str, ...] = ()


Net = Literal["off", "on"] | tuple[str, ...]  #: a list: these hosts besides the agent's own provider


class Scope(PathRules, frozen=True, kw_only=True):
    """What an attempt may read, write, see, reach and use up."""

    bounds: tuple[PathRules, ...] = ()  #: rules of those it was narrowed by; a path must be allowed by all
    env: tuple[str, ...] = ()
    net: Net = ()
    memory_mb: int = 4096
    processes: int = 512
    cpu_seconds: int | None = None
    disk_mb: int | None = 20_480
    file_mb: int | None = None
    timeout_seconds: float | None = None


class ScopeTable(Struct, frozen=True, kw_only=True):
    """A scope as someone wrote it: only what was named."""

    #: what may be read: patterns of paths in the workspace, or absolute ones
    read: tuple[str, ...] | None = None
    #: what may be written; in the workspace only where it may also be read
    write: tuple[str, ...] | None = None
    #: what may be read but not written, against a broader pattern of `write`
    readonly: tuple[str, ...] | None = None
    #: names of variables that are passed on from your environment, besides the agent's own
    env: tuple[str, ...] | None = None
    #: hosts that may be reached besides the agent's own provider; `off`: none; `on`: the open network
    net: Net | None = None
    #: memory of all its processes together; not set: 4096
    memory_mb: int | None = None
    #: processes at a time; not set: 512
    processes: int | None = None
    #: time on the processor, for each process
    cpu_seconds: int | None = None
    #: what its workspace, home and temporary folder may grow to; not set: 20480
    disk_mb: int | None = None
    #: the largest file it may write
    file_mb: int | None = None
    #: wall clock for each try, as `--timeout`; the lower of the two applies
    timeout: str | None = None


class ScopeSource(Struct, frozen=True, kw_only=True):
    """Who says so: the table, where each key of it is, and whether it may only narrow."""

    table: ScopeTable
    where: Mapping[str, str] = field(default_factory=dict[str, str])
    narrows: bool = False
    agent: str | None = None  #: holds for this agent alone
    many: bool = False  #: holds for many repositories, so a path in the workspace need not be in each


class NamedPath(Struct, frozen=True, kw_only=True):
    """A path that a pattern of a scope names."""

    key: str  #: read, write or readonly
    where: str  #: file and line, or option
    text: str
    prefix: str  #: its parts before the first wildcard: the folder or file that holds all it fits
    literal: bool
    outside: bool
    excludes: bool
    many: bool
