"""TRANSLATE: one file per agent program; pure: a command out, lines in, events out."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import metadata

from corral.adapter import AgentProfile
from corral.agents import (
    aider,
    api,
    auto_claude,
    claude,
    codex,
    command,
    copilot,
    gemini,
    ollama,
    opencode,
    pi,
    qwen,
    replay,
    scripted,
)
from corral.agents.protocol import Agent
from corral.errors import BadRequest

__all__ = ["Agent", "find", "names"]

BUILT_IN: dict[str, Callable[[AgentProfile], Agent]] = {
    "aider": aider.Aider,
    "anthropic": api.Anthropic,
    "auto-claude": auto_claude.AutoClaude,
    "claude": claude.Claude,
    "codex": codex.Codex,
    "copilot": copilot.Copilot,
    "gemini": gemini.Gemini,
    "google": api.Google,
    "ollama": ollama.Ollama,
    "openai": api.OpenAI,
    "opencode": opencode.OpenCode,
    "pi": pi.Pi,
    "qwen": qwen.Qwen,
    "replay": lambda profile: replay.Replay(profile, lambda name, given: find(name, {name: given})),
    "scripted": scripted.Scripted,
}


def names(profiles: Mapping[str, AgentProfile]) -> list[str]:
    """List every agent that can be asked for by name."""
    return sorted({*BUILT_IN, *profiles, *(entry.name for entry in _plugins())})


def find(name: str, profiles: Mapping[str, AgentProfile]) -> Agent:
    """Return the agent of that name: from settings, built in, or registered by another package."""
    profile = profiles.get(name, AgentProfile())
    if profile.command:
        reader = claude.reader if profile.output == "claude" else None
        return command.AnyCommand(name, profile, reader)
    if name in BUILT_IN:
        return BUILT_IN[name](profile)
    for entry in _plugins():
        if entry.name == name:
            return entry.load()(profile)
    known = names(profiles)
    near = difflib.get_close_matches(name, known, n=1)
    hint = (
        f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}; any command can be one: [agents.{name}]"
    )
    raise BadRequest(f"no agent is called `{name}`", hint=hint)


def _plugins() -> tuple[metadata.EntryPoint, ...]:
    return tuple(metadata.entry_points(group="corral.agents"))
