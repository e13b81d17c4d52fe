"""What an agent needs on this machine: its program found, its environment, what its box must show."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from corral.agents import Agent
from corral.config.paths import is_file
from corral.model.agent_api import AgentProfile, Command, Hook, McpProfile, McpServer
from corral.model.errors import BadRequest
from corral.model.money import Budget
from corral.world.sandbox import program_files

PACKAGE = Path(__file__).parents[1]  #: of an editable installation it lies outside the virtual environment
LOOP = "corral:loop"
#: Programs of ours that need nothing but the standard library and one file to play.
BRIDGE = PACKAGE / "boxed" / "bridge.py"
PLAYERS = {"corral:player": PACKAGE / "boxed" / "player.py", "corral:replayer": PACKAGE / "boxed" / "replayer.py"}
INTERPRETERS = ("python", "node", "bash", "sh", "ruby", "perl", "deno", "bun", "zsh")


class ResolvedAgent(Struct, frozen=True):
    """An agent, ready for this machine."""

    name: str
    agent: Agent
    profile: AgentProfile
    env: Mapping[str, str]
    hooks: tuple[Hook, ...] = ()
    mcp: Mapping[str, McpProfile] = field(default_factory=dict[str, McpProfile])
    budget: Budget = Budget()
    account: str | None = None
    login: Path | None = None  #: the folder of that account, where its login lies
    others: tuple[str, ...] = ()  #: accounts that may be used instead when this one is limited, in order

    def resolve(self, command: Command) -> tuple[list[str], list[Path]]:
        """Return the argv to start and what must be readable for it, and for the servers it starts itself."""
        argv, shown = self._resolve(command)
        return argv, [*shown, *(path for found in self._server_commands().values() for path in found[1])]

    def login_file(self, name: str) -> Path | None:
        """Return what a login left on this machine, by its name below HOME; of an account it is that one's."""
        if self.account is None:
            return found if (found := Path.home() / name).is_file() else None
        return login_file(self.login, name) if self.login else None

    def servers(self) -> tuple[McpServer, ...]:
        """Return the MCP servers with their programs found and their variables filled in."""
        return tuple(
            McpServer(
                name=name,
                command=words[0],
                args=tuple(words[1:]),
                env={**{key: os.environ[key] for key in profile.env if key in os.environ}, **profile.settings},
            )
            for (name, profile), (words, _) in zip(self.mcp.items(), self._server_commands().values(), strict=False)
        )

    def toolbox(self, url: str, token: str) -> tuple[McpServer, list[Path]]:
        """Return the attempt's toolbox as one more server, and what must be readable for those who start it."""
        facts, python = self.agent.facts, Path(os.path.realpath(sys.executable))
        shown = [] if facts.mcp_url else [*program_files.needs(python, os.environ), BRIDGE]
        server = McpServer(
            name="corral" if "corral" not in self.mcp else "corral_toolbox",
            command=str(python),
            args=("-IS", str(BRIDGE)),
            env={"CORRAL_TOOLBOX": url, "CORRAL_TOOLBOX_TOKEN": token},
            url=url,
            headers={"Authorization": f"Bearer {token}"},
        )
        return server, shown

    def _server_commands(self) -> dict[str, tuple[list[str], list[Path]]]:
        """Return for each MCP server its command with whole paths, and what must be readable for it."""
        found: dict[str, tuple[list[str], list[Path]]] = {}
        for name, profile in self.mcp.items() if self.agent.facts.mcp else ():
            folder = Path(profile.folder)
            program = program_files.find(profile.command[0], os.environ, folder)
            if program is None:
                raise BadRequest(
                    f"[mcp.{name}]: there is no program `{profile.command[0]}`",
                    hint="install it, or give its whole path",
                )
            words, shown = list(profile.command[1:]), program_files.needs(program, os.environ)
            if place := _script_place([str(program), *words], folder):
                script = folder / words[place - 1]
                words[place - 1] = str(script)
                shown.append(script)
            found[name] = [str(program), *words], shown
        return found

    def _resolve(self, command: Command) -> tuple[list[str], list[Path]]:
        words = list(command.argv)
        folder = Path(self.profile.folder) if self.profile.folder else None
        if words[0] in PLAYERS:
            program, player = Path(os.path.realpath(sys.executable)), PLAYERS[words[0]]
            argv = [str(program), "-IS", str(player), str(Path(words[1]).absolute()), *words[2:]]
            return argv, [*program_files.needs(program, os.environ), player, Path(words[1]).absolute()]
        if words[0] == LOOP:
            program = _with_loop(self.name)
            # Isolated: nothing that lies in the workspace is taken for a module of ours.
            return [str(program), "-I", "-m", "corral.boxed.loop", *words[1:]], [
                *program_files.needs(program, os.environ),
                PACKAGE,
            ]
        program = self.program(words[0])
        shown = program_files.needs(program, os.environ)
        place = _script_place(words, folder)
        if place:
            script = (folder or Path.cwd()) / words[place]
            words[place] = str(script)
            shown.append(script)
        started = [path for name in command.programs for path in program_files.needs(Path(name).absolute(), os.environ)]
        return [str(program), *words[1:]], [*shown, *started]

    def search(self, command: Command) -> list[str]:
        """Return folders that come first on the box's PATH: `env node` must find the node that is the person's."""
        if command.argv[0].startswith("corral:"):
            return []
        found = program_files.interpreter(self.program(command.argv[0]).resolve(), os.environ)
        return [str(found.parent)] if found and not program_files.is_system(found) else []

    def program(self, name: str) -> Path:
        if name == LOOP:
            return self._ready_loop()
        folder = Path(self.profile.folder) if self.profile.folder else None
        found = program_files.find(name, os.environ, folder)
        if found is None:
            install = self.agent.facts.install
            raise BadRequest(
                f"the agent `{self.name}` is not installed: there is no program `{name}`",
                hint=f'{install}; or name it: [agents.{_key(self.name)}] program = "..."'
                if install
                else "look at its `command`",
            )
        return found

    def _ready_loop(self) -> Path:
        """Return the loop's interpreter if there is a model it can ask, as far as that shows from here."""
        program, facts = _with_loop(self.name), self.agent.facts
        given = {**os.environ, **self.env, **self.profile.settings}
        if not any(given.get(name) for name in (*facts.keys, *facts.address)):
            raise BadRequest(f"the agent `{self.name}` has neither a key nor an address", hint=facts.install)
        return program


def login_file(folder: Path, name: str) -> Path | None:
    """Find what a login leaves: below a folder that is a home, or in one that is the agent's own."""
    places = (folder / name, folder / Path(name).name)
    return next((place for place in places if place.is_file()), None)


def _key(name: str) -> str:
    """Return a name as TOML wants it in a table's head."""
    return f'"{name}"' if ":" in name else name


def _with_loop(agent: str) -> Path:
    """Return the interpreter that runs our own agent loop: this one, in its virtual environment."""
    if importlib.util.find_spec("pydantic_ai") is None:
        raise BadRequest(f"the agent `{agent}` needs packages that are not installed", hint="pip install 'corral[api]'")
    return Path(sys.executable).absolute()


def _script_place(words: list[str], folder: Path | None) -> int | None:
    """Find the argument that names a program of ours: `python3 agent.py`, `sh ./agent.sh`."""
    if not Path(words[0]).name.startswith(INTERPRETERS):
        return None
    for place, word in enumerate(words[1:], 1):
        if not word.startswith("-"):
            path = (folder or Path.cwd()) / word
            return place if "\n" not in word and is_file(path) else None
    return None
