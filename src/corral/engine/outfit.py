"""What an agent needs on this machine: its program found, its environment, what its box must show."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from corral import agents
from corral.agents import Agent
from corral.config import Config
from corral.errors import BadRequest
from corral.model import AgentProfile, Command
from corral.world.sandbox import visible

PLAYER = Path(__file__).parent.parent / "player.py"
INTERPRETERS = ("python", "node", "bash", "sh", "ruby", "perl", "deno", "bun", "zsh")


class Outfit(Struct, frozen=True):
    """An agent, ready for this machine."""

    name: str
    agent: Agent
    profile: AgentProfile
    env: Mapping[str, str]

    def resolve(self, command: Command) -> tuple[list[str], list[Path]]:
        """Return the argv to start and what must be readable for it."""
        words = list(command.argv)
        folder = Path(self.profile.folder) if self.profile.folder else None
        if words[0] == "corral:player":
            program = Path(os.path.realpath(sys.executable))
            argv = [str(program), "-IS", str(PLAYER), str(Path(words[1]).absolute()), *words[2:]]
            return argv, [*visible.needs(program, os.environ), PLAYER, Path(words[1]).absolute()]
        program = self.program(words[0])
        shown = visible.needs(program, os.environ)
        place = _script_place(words, folder)
        if place:
            script = (folder or Path.cwd()) / words[place]
            words[place] = str(script)
            shown.append(script)
        return [str(program), *words[1:]], [*shown, *(Path(path).absolute() for path in command.programs)]

    def program(self, name: str) -> Path:
        folder = Path(self.profile.folder) if self.profile.folder else None
        found = visible.find(name, os.environ, folder)
        if found is None:
            install = self.agent.facts.install
            raise BadRequest(
                f"the agent `{self.name}` is not installed: there is no program `{name}`",
                hint=f'{install}; or name it: [agents.{self.name}] program = "..."'
                if install
                else "look at its `command`",
            )
        return found


def outfit(name: str, config: Config) -> Outfit:
    """Dress an agent: who it is, and which variables it is given."""
    if f"agents.{name}" in config.untrusted:
        raise BadRequest(
            f"{config.untrusted[f'agents.{name}']}: the agent `{name}` comes from a file you have not trusted",
            hint="read it, then `corral trust`, or run with --trust",
        )
    agent = agents.find(name, config.agents)
    profile = config.agents.get(name, AgentProfile())
    passed = {key: os.environ[key] for key in (*agent.facts.keys, *profile.env) if key in os.environ}
    return Outfit(name, agent, profile, {**passed, **profile.settings})


def _script_place(words: list[str], folder: Path | None) -> int | None:
    """Find the argument that names a program of ours: `python3 agent.py`, `sh ./agent.sh`."""
    if not Path(words[0]).name.startswith(INTERPRETERS):
        return None
    for place, word in enumerate(words[1:], 1):
        if not word.startswith("-"):
            path = (folder or Path.cwd()) / word
            return place if "\n" not in word and len(word) < 4096 and path.is_file() else None
    return None
