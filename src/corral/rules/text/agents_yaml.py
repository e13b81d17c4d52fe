"""Agents as other programs list them in an agents.yaml, read into what our settings can say; and those as TOML."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import cast

import msgspec
from msgspec import Struct, structs

from corral.rules.flows import tree
from corral.rules.flows.tree import Mistake, Position, UnreadableYaml

#: what roles are called there -> our names
ROLES = {"qa": "tester", "spec": "spec-writer"}
TEXTS = ("role", "description", "model", "instructions")
KNOWN = ("name", "scope", *TEXTS)
SHAPE = "write it like: agents: [{name: qa, role: qa, instructions: ...}]"
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  #: not allowed in a comment of TOML
HINTS = {  #: where the tree's own are about flows
    "anchors and aliases are not read here": "write it out",
    "there is more than one document": "one file holds one list of agents",
}


class ListedAgent(Struct, frozen=True, kw_only=True):
    """One agent of the list."""

    name: str
    place: Position
    role: str | None = None
    description: str | None = None
    model: str | None = None
    instructions: str | None = None
    write: tuple[str, ...] | None = None
    readonly: tuple[str, ...] = ()


class AgentList(Struct, frozen=True):
    """All agents of a file, and what of it has no place in our settings."""

    agents: tuple[ListedAgent, ...]
    left_out: tuple[str, ...] = ()


def read(text: str, roles: Collection[str]) -> AgentList:
    """Read a file; `roles` are those that we know. The first mistake raises `Unreadable`."""
    try:
        top = tree.read(text)
    except UnreadableYaml as error:
        mistake = error.mistake
        raise UnreadableYaml(structs.replace(mistake, hint=HINTS.get(mistake.message, mistake.hint))) from None
    left_out: list[str] = []
    found: dict[str, ListedAgent] = {}
    for named, place in _entries(top, left_out):
        agent = _with_role(_agent(named, place, left_out), roles, left_out)
        if agent.name in found:
            first = found[agent.name].place.line
            raise _wrong(agent.place, f"the agent `{agent.name}` is here twice", f"first in line {first}")
        found[agent.name] = agent
    if not found:
        raise _wrong(top, "there are no agents in it", SHAPE)
    return AgentList(tuple(found.values()), tuple(left_out))


def _entries(top: Position, left_out: list[str]) -> list[tuple[Position | None, Position]]:
    """List the agents, each with its name if that is a key: a list, a list below `agents`, or a table there."""
    listed, fields = top, _fields(top)
    if fields is not None:
        if "agents" not in fields:
            raise _wrong(top, "there is no `agents` in it", SHAPE)
        listed = fields["agents"][1]
        left_out += [f"`{key}` (line {at.line})" for key, (at, _) in fields.items() if key not in ("agents", "version")]
    named = _fields(listed)
    if named is not None:
        return list(named.values())
    return [(None, place) for place in _items(listed, "the agents are a list", SHAPE)]


def _agent(named: Position | None, place: Position, left_out: list[str]) -> ListedAgent:
    fields = _fields(place)
    if fields is None:
        raise _wrong(place, "an agent is a table", SHAPE)
    name = fields["name"][1] if "name" in fields else named
    if name is None:
        raise _wrong(place, "an agent has a `name`", SHAPE)
    if not isinstance(name.value, str) or not re.fullmatch(r"\w[\w .-]{0,79}", name.value):
        raise _wrong(
            name, f"`{name.plain()}` cannot be the name of an agent", "letters, digits, spaces and . _ -; at most 80"
        )
    left_out += [f"`{key}` of `{name.value}` (line {at.line})" for key, (at, _) in fields.items() if key not in KNOWN]
    texts = {key: _text(key, fields[key][1]) for key in TEXTS if key in fields}
    write, readonly = _scope(fields["scope"][1]) if "scope" in fields else (None, ())
    if "scope" in fields and write is None:
        left_out.append(f"the empty `scope` of `{name.value}`: it may change any file")
    return ListedAgent(name=name.value, place=name, write=write, readonly=readonly, **texts)


def _with_role(agent: ListedAgent, roles: Collection[str], left_out: list[str]) -> ListedAgent:
    """Name the role as we do; one that we have no file for becomes a sentence of the instructions."""
    if not agent.role:
        return structs.replace(agent, role=None)
    role = agent.role.strip().lower()
    role = ROLES.get(role, role)
    if role in roles:
        return structs.replace(agent, role=role)
    left_out.append(f"the role `{agent.role}` of `{agent.name}`, which we do not know: it is in the instructions")
    words = "\n\n".join(part for part in (f"Your role: {agent.role}", agent.instructions) if part)
    return structs.replace(agent, role=None, instructions=words)


def _text(key: str, place: Position) -> str | None:
    if place.value is not None and not isinstance(place.value, str):
        raise _wrong(place, f"`{key}` is text", "put it in quotes")
    return place.value or None


def _scope(place: Position) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return what may be written and what only read: patterns, or tables of them with `readOnly`."""
    parts = cast("list[Position]", place.value) if isinstance(place.value, list) else [place]
    if not parts or parts[0].value is None:
        return None, ()
    found: dict[bool, list[str]] = {False: [], True: []}
    for part in parts:
        locked, patterns = _patterns(part)
        found[locked] += [_pattern(each) for each in patterns]
    return tuple(found[False]), tuple(found[True])


def _patterns(part: Position) -> tuple[bool, list[Position]]:
    fields = _fields(part)
    if fields is None:
        return False, [part]
    for key, (at, _) in fields.items():
        if key not in ("patterns", "readOnly"):
            raise _wrong(at, f"`{key}` is not known in a scope", "known: patterns, readOnly")
    listed = fields["patterns"][1] if "patterns" in fields else part
    patterns = _items(listed, "a scope has `patterns`, a list", "patterns: [src/**]")
    if "readOnly" not in fields:
        return False, patterns
    locked = fields["readOnly"][1]
    if not isinstance(locked.value, bool):
        raise _wrong(locked, "`readOnly` is true or false", "")
    return locked.value, patterns


def _pattern(place: Position) -> str:
    if not isinstance(place.value, str) or not place.value.strip():
        raise _wrong(place, "a pattern of a scope is text", "e.g. src/**")
    text = place.value.strip().removeprefix("./") or "**"
    if text.lstrip("!").startswith(("/", "~")) or ".." in text.split("/"):
        raise _wrong(place, f"the scope `{text}` leaves the repository", "name paths of the repository, e.g. src/**")
    return "**" if text == "." else text


def _fields(place: Position) -> dict[str, tuple[Position, Position]] | None:
    return cast("dict[str, tuple[Position, Position]]", place.value) if isinstance(place.value, dict) else None


def _items(place: Position, message: str, hint: str) -> list[Position]:
    if not isinstance(place.value, list):
        raise _wrong(place, message, hint)
    return cast("list[Position]", place.value)


def _wrong(place: Position, message: str, hint: str) -> UnreadableYaml:
    return UnreadableYaml(Mistake(place.line, place.column, message, hint))


# --- as TOML


def toml(agents: Sequence[ListedAgent], like: str) -> str:
    """Write agents as tables of a settings file, each a known one with another role."""
    return "\n".join(_table(agent, like) for agent in agents)


def _table(agent: ListedAgent, like: str) -> str:
    name = agent.name if re.fullmatch(r"[A-Za-z0-9_-]+", agent.name) else _quote(agent.name)
    lines = [f"# {CONTROL.sub(' ', line)}" for line in (agent.description or "").splitlines()]
    lines += [f"[agents.{name}]", f"like = {_quote(like)}"]
    for key, value in (("role", agent.role), ("model", agent.model), ("instructions", agent.instructions)):
        if value:
            lines.append(f"{key} = {_quote(value)}")
    if agent.write is not None:
        parts = {"write": agent.write, **({"readonly": agent.readonly} if agent.readonly else {})}
        inner = ", ".join(f"{key} = [{', '.join(map(_quote, value))}]" for key, value in parts.items())
        lines.append(f"scope = {{ {inner} }}")
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    """Quote as JSON does, which TOML reads too; lines stay lines."""
    lines = [msgspec.json.encode(line).decode()[1:-1].replace("\x7f", "\\u007f") for line in text.split("\n")]
    return '"""\n{}"""'.format("\n".join(lines)) if len(lines) > 1 else f'"{lines[0]}"'
