"""Scopes as files name them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from corral.config.files import SettingsFile, convert, inner_scope
from corral.config.keys import KEYS
from corral.config.paths import is_file
from corral.model import ScopeSource, ScopeTable
from corral.model.agent_api import AgentProfile
from corral.model.errors import BadRequest


def scope_file(path: Path) -> ScopeSource:
    """Read a file of a scope's keys, at the top or in a table `[scope]`: the person's own word for one run."""
    if not is_file(path):
        raise BadRequest(f"--scope: {path} is not there", hint="a TOML file with keys like those of [scope]")
    file = SettingsFile.read(path, keys=False)
    prefix = ("scope",) if isinstance(file.tables.get("scope"), dict) else ()
    table = file.table("scope") if prefix else file.tables
    file.check(table, prefix, KEYS["scope"])
    return _source(file, table, prefix)


def scopes_of(file: SettingsFile, agents: Mapping[str, AgentProfile], *, narrows: bool) -> list[ScopeSource]:
    found = [_source(file, file.table("scope"), ("scope",))] if "scope" in file.tables else []
    written = file.table("agents")
    for name in dict.fromkeys((*written, *agents)):
        like = agents[name].like if name in agents else None
        for each in (like, name):  # another name for an agent is no way out of its scope
            table = inner_scope(file, each) if each in written else {}
            found += [_source(file, table, ("agents", str(each), "scope"), agent=name)] if table else []
    return [msgspec.structs.replace(source, narrows=narrows, many=not narrows) for source in found]


def _source(file: SettingsFile, table: dict[str, Any], path: tuple[str, ...], agent: str | None = None) -> ScopeSource:
    converted = convert(table, ScopeTable, file, ".".join(path) or "scope")
    return ScopeSource(table=converted, where={key: file.where(*path, key) for key in table}, agent=agent)
