"""Agents brought along from another program's agents.yaml: shown as settings, or added to the person's own."""

from __future__ import annotations

import tomllib
from pathlib import Path

from msgspec import Struct, structs

from corral import agents
from corral.attempt import briefing
from corral.config import loader
from corral.config.paths import user_file
from corral.model.agent_api import AgentProfile
from corral.model.errors import BadRequest
from corral.rules.flows.tree import MOST_CHARACTERS, UnreadableYaml
from corral.rules.text import agents_yaml
from corral.rules.text.agents_yaml import AgentList


class ImportedAgents(Struct, frozen=True):
    """Tables for a settings file, and what could not be said in them."""

    names: tuple[str, ...]
    toml: str
    left_out: tuple[str, ...] = ()


def import_agents(path: Path, like: str) -> ImportedAgents:
    """Read an agents.yaml; each agent becomes the known one `like`, with a role, a model and words of its own."""
    found, known = _read(path), agents.names({})
    for agent in found.agents:
        if agent.name in known:
            where = f"{path}:{agent.place.line}:{agent.place.column}"
            raise BadRequest(f"{where}: `{agent.name}` is a built-in agent", hint="give yours another name")
    names = tuple(agent.name for agent in found.agents)
    base = loader.load(None).agents.get(like, AgentProfile())
    if base.like:
        raise BadRequest(f"--like {like}: it is itself like another agent", hint=f"--like {base.like}")
    agents.find(names[0], {names[0]: structs.replace(base, like=like)})  # raises if there is none
    return ImportedAgents(names, agents_yaml.toml(found.agents, like), found.left_out)


def add(imported: ImportedAgents) -> Path:
    """Append them to the person's settings, if none is there already; return that file."""
    path = user_file()
    taken = [name for name in imported.names if name in loader.load(None).agents]
    if taken:
        raise BadRequest(
            f"{path}: there already: {', '.join(f'[agents.{name}]' for name in taken)}",
            hint="take them out of one of the files, or leave out --write and choose",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    try:
        tomllib.loads(f"{before}{gap}{imported.toml}")
    except tomllib.TOMLDecodeError as error:
        raise BadRequest(
            f"{path}: the agents cannot be added at its end: {error}",
            hint="leave out --write and put them in by hand",
        ) from error
    with path.open("a", encoding="utf-8") as file:
        file.write(gap + imported.toml)
    return path


def _read(path: Path) -> AgentList:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path}: cannot be read: {error}", hint="an agents.yaml is UTF-8 text") from error
    if len(text) > MOST_CHARACTERS:
        raise BadRequest(f"{path}: it is longer than 512 KB", hint="put long instructions into roles or skills")
    try:
        return agents_yaml.read(text, briefing.role_names())
    except UnreadableYaml as error:
        wrong = error.mistake
        raise BadRequest(f"{path}:{wrong.line}:{wrong.column}: {wrong.message}", hint=wrong.hint) from error
