"""ACP: one client for every agent that speaks the Agent Client Protocol; the prompt is its first request but two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from corral.agents.formats.acp import wire
from corral.agents.formats.acp.conversation import AcpConversation
from corral.agents.formats.acp.presets import ALIASES, PRESETS, Preset
from corral.agents.protocol import Agent
from corral.model import ErrorClass
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command
from corral.version import __version__

__all__ = ["ALIASES", "PREFIX", "PRESETS", "Acp"]

PREFIX = "acp:"


class Acp:
    """A program that speaks ACP; `kin` is our own agent for the same program, where there is one."""

    def __init__(self, name: str, profile: AgentProfile, preset: Preset, kin: Agent | None) -> None:
        self._profile, self._preset, self._kin = profile, preset, kin
        known = kin.facts if kin else AgentFacts(name=name, family=preset.family, keys=preset.keys, login=preset.login)
        self.facts = structs.replace(
            known,
            name=name,
            programs=(profile.program or preset.program,),
            version=("--version",) if preset.tells_version else (),
            install=preset.install or known.install,
            resumes=True,
            reports_cost=preset.reports_cost,
            steers="turn",
            mcp=True,
            mcp_url=False,  # each says for itself, when it is asked
            acp="",
            rules=preset.rules,
            images=True,  # each says for itself, when it is asked
        )

    def start(self, task: AgentTask) -> Command:
        preset, settings = self._preset, self._profile.settings
        model = task.model or self._profile.model
        argv = [self._profile.program or preset.program, *preset.arguments]
        argv += [preset.model_flag, model] if preset.model_flag and model else []
        variables = {preset.model_variable: model} if preset.model_variable and model else {}
        # The servers go with the session, so its settings need not name them.
        given = self._kin.start(structs.replace(task, mcp=())) if self._kin else None
        if self._profile.command:
            argv = _fill_placeholders(self._profile.command, {"{model}": model or "", "{workspace}": task.workspace})
        return Command(
            argv=tuple(argv),
            env={**(given.env if given else {}), **preset.env, **variables},
            files=given.files if given else {},
            stdin=wire.opening(__version__).text.encode() + b"\n",
            programs=tuple(settings[name] for name in preset.programs if name in settings),
            talks=True,
        )

    def converse(self, task: AgentTask) -> AcpConversation:
        model = task.model or self._profile.model
        chosen = bool(self._preset.model_flag or self._preset.model_variable or self._kin) or any(
            "{model}" in word for word in self._profile.command
        )
        asked = structs.replace(task, model=None if chosen else model)
        keys = f", or set {' or '.join(self.facts.keys)}" if self.facts.keys else ""
        hints: dict[ErrorClass, str] = {
            "auth": f"log in to `{self.facts.programs[0]}`{keys}",
            "not_found": f"is the model's name right? --agent {self.facts.name}:MODEL",
            "context_too_long": "give it a smaller task or fewer files",
            **self._preset.hints,
        }
        return AcpConversation(asked, self._preset, hints)


def of_command(name: str, profile: AgentProfile) -> Acp:
    """Return the agent that a user describes by its command alone."""
    preset = Preset(
        program=profile.command[0],
        called=name,
        family=f"cli:{name}",
        tells_version=False,
        login_method=profile.authenticate or "",
        login_first=True,
        hints={"auth": f"log the agent `{name}` in, or name its method: [agents.{name}] authenticate = ..."},
    )
    return Acp(name, profile, preset, None)


def _fill_placeholders(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    filled: list[str] = []
    for word in words:
        for place, value in values.items():
            word = word.replace(place, value)  # noqa: PLW2901
        filled.append(word)
    return filled
