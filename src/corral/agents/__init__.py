"""TRANSLATE: one file per agent program; pure: a command out, lines in, events out."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from corral.agents import acp, command, replay
from corral.agents.formats import command_output
from corral.agents.protocol import Agent, Conversation
from corral.model.agent_api import AgentProfile
from corral.model.errors import BadRequest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Agent", "find", "names"]

Maker = Callable[[AgentProfile], Agent]


def _read_tables(name: str) -> dict[str, Any]:
    """Return the tables of that name in the files of this folder, as one."""
    found: dict[str, Any] = {}
    for each in pkgutil.iter_modules(__path__, f"{__name__}."):
        found |= getattr(importlib.import_module(each.name), name, {})
    return dict(sorted(found.items()))


def _replay(profile: AgentProfile) -> Agent:
    return replay.Replay(profile, lambda name, given: find(name, {name: given}))


#: The agent of ours that asks the same models, without their own program.
MODELS_OF = {"claude": "anthropic", "codex": "openai", "gemini": "google"}


BUILT_IN: dict[str, Maker] = _read_tables("AGENTS") | {"replay": _replay}
#: Readers of output that a program of the user may print as a known one does, by its name in the settings.
OUTPUTS: dict[str, Callable[[], Conversation]] = _read_tables("OUTPUTS")


def names(profiles: Mapping[str, AgentProfile]) -> list[str]:
    """List every agent that can be asked for by name."""
    spoken = (acp.PREFIX + name for name in acp.PRESETS if name not in acp.ALIASES)
    return sorted({*BUILT_IN, *profiles, *spoken, *(entry.name for entry in _plugins())})


def find(name: str, profiles: Mapping[str, AgentProfile]) -> Agent:
    """Return the agent of that name: from settings, built in, or registered by another package."""
    profile = profiles.get(name, AgentProfile())
    if profile.like:
        return _alike(name, profile, profiles)
    if profile.method in ("acp", "api"):
        return _by_method(profile.method, name, profile, profiles)
    if profile.command and (profile.output == "acp" or name.startswith(acp.PREFIX)):
        spoken = acp.of_command(name, profile)
        return command_output.ClassifiedAgent(spoken, profile.errors) if profile.errors else spoken
    if profile.command:
        return command.AnyCommand(name, profile, OUTPUTS.get(profile.output))
    if name in BUILT_IN:
        return BUILT_IN[name](profile)
    if name == command.NAME:  # not to be asked for by a user: flows have commands of their own
        return command.Shell()
    if name.startswith(acp.PREFIX):
        return _acp(name, profile)
    for entry in _plugins():
        if entry.name == name:
            return entry.load()(profile)
    known = [each for each in names(profiles) if each != name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = (
        f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}; any command can be one: [agents.{name}]"
    )
    raise BadRequest(f"no agent is called `{name}`", hint=hint)


def _alike(name: str, profile: AgentProfile, profiles: Mapping[str, AgentProfile]) -> Agent:
    """Return the known agent that one of the user's is like, set up as that one's table says."""
    known = str(profile.like)
    if name in BUILT_IN:
        raise BadRequest(f"[agents.{name}] like: `{name}` is a built-in agent", hint="give yours another name")
    if known in ("scripted", name):
        raise BadRequest(f"[agents.{name}] like: no agent is like `{known}`", hint="name another, e.g. claude")
    try:
        return find(known, {**profiles, known: structs.replace(profile, like=None)})
    except BadRequest as error:
        raise BadRequest(f"[agents.{name}] like: {error}", hint=error.hint) from error


def _by_method(method: str, name: str, profile: AgentProfile, profiles: Mapping[str, AgentProfile]) -> Agent:
    """Return the same agent as it is reached in another way: by the protocol of editors, or its models alone."""
    known = {kin: acp.PREFIX + kin for kin in acp.PRESETS} if method == "acp" else MODELS_OF
    if name not in known:
        hint = f"known: {', '.join(sorted(known))}"
        raise BadRequest(f'[agents.{name}] method: `{name}` cannot be driven by "{method}"', hint=hint)
    return find(known[name], {**profiles, known[name]: structs.replace(profile, method=None)})


def _acp(name: str, profile: AgentProfile) -> Agent:
    preset = acp.PRESETS.get(name.removeprefix(acp.PREFIX))
    if preset is None:
        raise BadRequest(
            f"no ACP agent is called `{name}`",
            hint=f'known: {", ".join(sorted(acp.PRESETS))}; any other: [agents.NAME] command = [...], output = "acp"',
        )
    return acp.Acp(name, profile, preset, BUILT_IN[preset.kin](profile) if preset.kin else None)


def _plugins() -> tuple[EntryPoint, ...]:
    from importlib import metadata  # noqa: PLC0415 -- slow to load, and the built-in agents need none

    return tuple(metadata.entry_points(group="corral.agents"))
