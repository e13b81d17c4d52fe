"""An agent resolved on this machine: its settings, its program and which variant of it, its environment and login."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field, structs

from corral import agents
from corral.agents import Agent
from corral.agents.protocol import Interactive
from corral.config.paths import is_file
from corral.config.settings import Config
from corral.model.agent_api import (
    AccountProfile,
    AgentProfile,
    AgentTask,
    ClientServer,
    Command,
    Hook,
    McpProfile,
    McpServer,
)
from corral.model.errors import BadRequest, CorralError
from corral.model.money import Budget
from corral.world import process
from corral.world.process import ProcessStart
from corral.world.sandbox import program_files

PACKAGE = Path(__file__).parents[1]  #: of an editable installation it lies outside the virtual environment
LOOP = "corral:loop"
#: Programs of ours that need nothing but the standard library and one file to play.
BRIDGE = PACKAGE / "boxed" / "bridge.py"
HOOK = PACKAGE / "boxed" / "call_hook.py"
TERMINAL = PACKAGE / "boxed" / "terminal.py"
PLAYERS = {"corral:player": PACKAGE / "boxed" / "player.py", "corral:replayer": PACKAGE / "boxed" / "replayer.py"}
INTERPRETERS = ("python", "node", "bash", "sh", "ruby", "perl", "deno", "bun", "zsh")
PYTHONS = (".venv", "venv", "apps/backend/.venv", "apps/backend/venv")
ASK_SECONDS = 30.0


class ProgramSearch(Struct, frozen=True):
    """Where the programs of an agent are looked for on this machine."""

    agent: str
    install: str  #: what installs it
    folder: str = ""  #: what its relative paths mean

    def resolve(self, command: Command) -> tuple[list[str], list[Path]]:
        """Return the argv to start and what must be readable for it."""
        words = list(command.argv)
        folder = Path(self.folder) if self.folder else None
        if words[0] in PLAYERS:
            program, player = Path(os.path.realpath(sys.executable)), PLAYERS[words[0]]
            argv = [str(program), "-IS", str(player), str(Path(words[1]).absolute()), *words[2:]]
            return argv, [*program_files.needs(program, os.environ), player, Path(words[1]).absolute()]
        if words[0] == LOOP:
            program = _with_loop(self.agent)
            # Isolated: nothing that lies in the workspace is taken for a module of ours.
            return [str(program), "-I", "-m", "corral.boxed.loop", *words[1:]], [
                *program_files.needs(program, os.environ),
                PACKAGE,
            ]
        program = self.find(words[0])
        shown = program_files.needs(program, os.environ)
        place = _script_place(words, folder)
        if place:
            script = (folder or Path.cwd()) / words[place]
            words[place] = str(script)
            shown.append(script)
        started = [path for name in command.programs for path in program_files.needs(Path(name).absolute(), os.environ)]
        return [str(program_files.path_to_start(program)), *words[1:]], [*shown, *started]

    def search(self, command: Command) -> list[str]:
        """Return folders that come first on the box's PATH: `env node` must find the node that is the user's."""
        if command.argv[0].startswith("corral:"):
            return []
        found = program_files.interpreter(self.find(command.argv[0]).resolve(), os.environ)
        return [str(found.parent)] if found and not program_files.is_system(found) else []

    def find(self, name: str) -> Path:
        found = program_files.find(name, os.environ, Path(self.folder) if self.folder else None)
        if found is None:
            raise BadRequest(
                f"the agent `{self.agent}` is not installed: there is no program `{name}`",
                hint=f'{self.install}; or name it: [agents.{_key(self.agent)}] program = "..."'
                if self.install
                else "look at its `command`",
            )
        return found

    def scripts(self, command: Command) -> dict[int, Path]:
        """Return the words of a command that name a file of this machine which it plays, reads or is."""
        words = list(command.argv)
        folder = Path(self.folder) if self.folder else None
        if words[0] in PLAYERS:
            return {1: Path(words[1]).absolute()}
        found: dict[int, Path] = {}
        if "/" in words[0] and not Path(words[0]).expanduser().is_absolute():
            found[0] = self.find(words[0])
        if place := _script_place(words, folder):
            found[place] = (folder or Path.cwd()) / words[place]
        return found


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
        argv, shown = self.programs.resolve(command)
        return argv, [*shown, *(path for found in self._server_commands().values() for path in found[1])]

    def login_file(self, name: str) -> Path | None:
        """Return what a login left on this machine, by its name below HOME; of an account it is that one's."""
        if self.account is None:
            return found if (found := Path.home() / name).is_file() else None
        return login_file(self.login, name) if self.login else None

    def servers(self) -> tuple[McpServer, ...]:
        """Return the MCP servers with their programs found and their variables filled in."""
        started = tuple(
            McpServer(
                name=name,
                command=words[0],
                args=tuple(words[1:]),
                env={
                    **{key: os.environ[key] for key in self.mcp[name].env if key in os.environ},
                    **self.mcp[name].settings,
                },
            )
            for name, (words, _) in self._server_commands().items()
        )
        reached = tuple(
            McpServer(name=name, command="", url=each.url, headers=each.headers)
            for name, each in self.mcp.items()
            if isinstance(each, ClientServer) and each.url and self.agent.facts.mcp
        )
        return (*started, *reached)

    def toolbox(self, url: str, token: str) -> tuple[McpServer, list[Path]]:
        """Return the attempt's toolbox as one more server, and what must be readable for those who start it."""
        facts, python = self.agent.facts, Path(os.path.realpath(sys.executable))
        starts = not facts.mcp_url or facts.rules == "hook"  # it, or its hook, is a program of ours
        shown = [*program_files.needs(python, os.environ), BRIDGE, HOOK] if starts else []
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
            if isinstance(profile, ClientServer) and profile.url:
                continue
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

    def search(self, command: Command) -> list[str]:
        """Return folders that come first on the box's PATH: `env node` must find the node that is the user's."""
        return self.programs.search(command)

    def program(self, name: str) -> Path:
        return self._ready_loop() if name == LOOP else self.programs.find(name)

    @property
    def programs(self) -> ProgramSearch:
        return ProgramSearch(self.name, self.agent.facts.install, self.profile.folder)

    def _ready_loop(self) -> Path:
        """Return the loop's interpreter if there is a model it can ask, as far as that shows from here."""
        program, facts = _with_loop(self.name), self.agent.facts
        given = {**os.environ, **self.env, **self.profile.settings}
        if not any(given.get(name) for name in (*facts.keys, *facts.address)):
            raise BadRequest(f"the agent `{self.name}` has neither a key nor an address", hint=facts.install)
        return program


def put_on_terminal(argv: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Return a command that gives another a terminal inside the box, and what must be readable for it."""
    python = Path(os.path.realpath(sys.executable))
    return [str(python), "-IS", str(TERMINAL), *argv], [*program_files.needs(python, os.environ), TERMINAL]


def interactive_command(resolved: ResolvedAgent, task: AgentTask) -> Command:
    """Return what a user works with on a terminal, in the session that the task names."""
    agent = resolved.agent
    found = agent.interact(task) if isinstance(agent, Interactive) else None
    if found is None:
        raise BadRequest(
            f"the agent `{resolved.name}` has no program to work with by hand",
            hint=f"tell it what to do: corral revise RUN TEXT; or name one: [agents.{_key(resolved.name)}] "
            'interactive = ["..."]',
        )
    return found


def login_file(folder: Path, name: str) -> Path | None:
    """Find what a login leaves: below a folder that is a home, or in one that is the agent's own."""
    places = (folder / name, folder / Path(name).name)
    return next((place for place in places if place.is_file()), None)


def _key(name: str) -> str:
    """Return a name as it is written in the head of a TOML table."""
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


def resolve_agent(name: str, config: Config, account: str | None = None) -> ResolvedAgent:
    """Dress an agent: who it is, which variables it is given, and on which account it works."""
    if f"agents.{name}" in config.untrusted:
        raise config.refusal(f"agents.{name}", f"the agent `{name}` comes from a file you have not trusted")
    agent, profile = locate_agent(name, config)
    facts = agent.facts
    passed = {key: os.environ[key] for key in (*facts.keys, *facts.address, *profile.env) if key in os.environ}
    env = {**passed, **profile.settings}
    resolved = ResolvedAgent(name, agent, profile, env, config.hooks, config.mcp, config.budget)
    named = account or _usual(resolved, config.accounts)
    return _signed_in(resolved, config.accounts, named) if named else resolved


def locate_agent(name: str, config: Config) -> tuple[Agent, AgentProfile]:
    """Return an agent and its settings; of one that lies in a folder of its own, the interpreter is looked up there."""
    agent = agents.find(name, config.agents)
    profile = config.agents.get(name, AgentProfile())
    # Which key an agent sends may depend on the address: it must know one of the environment like one of its settings.
    addresses = {each: os.environ[each] for each in agent.facts.address if os.environ.get(each)}
    if addresses.keys() - profile.settings.keys():
        profile = structs.replace(profile, settings={**addresses, **profile.settings})
        agent = agents.find(name, {**config.agents, name: profile})
    variable = agent.facts.place
    named = profile.program or os.environ.get(variable, "") if variable else ""
    if not named:
        return agent, profile
    folder = Path(profile.folder or ".").joinpath(Path(named).expanduser()).absolute()
    if is_file(folder):
        return agent, profile
    for python in (folder / part / "bin" / "python" for part in PYTHONS):
        if os.access(python, os.X_OK):
            profile = structs.replace(profile, program=str(python))
            return agents.find(name, {name: profile}), profile
    missing = structs.replace(profile, program=str(folder / ".venv" / "bin" / "python"))
    return agents.find(name, {name: missing}), missing


def _usual(resolved: ResolvedAgent, accounts: Mapping[str, AccountProfile]) -> str | None:
    """Return the account that is used where none is asked for; None: whatever the agent is logged in with."""
    if resolved.profile.account or not resolved.profile.rotate:
        return resolved.profile.account
    return next((name for name, account in accounts.items() if _fits(account, resolved)), None)


def _signed_in(resolved: ResolvedAgent, accounts: Mapping[str, AccountProfile], name: str) -> ResolvedAgent:
    """Give an agent one of its accounts: that key or that login, and no other."""
    account = accounts.get(name)
    if account is None or not _fits(account, resolved):
        known = [each for each, found in accounts.items() if _fits(found, resolved)]
        hint = f"it has: {', '.join(known)}" if known else f'[accounts.{name}] with agent = "{resolved.name}" makes one'
        raise BadRequest(f"`{resolved.name}` has no account `{name}`", hint=hint)
    facts = resolved.agent.facts
    env = {key: value for key, value in resolved.env.items() if key not in facts.keys} | {**account.settings}
    if account.key_env:
        env[_variable(account, name, facts.keys)] = _key_of(account.key_env, name)
    settings = {key: value for key, value in resolved.profile.settings.items() if key not in facts.keys}
    profile = structs.replace(resolved.profile, settings={**settings, **account.settings})
    names = [each for each, found in accounts.items() if _fits(found, resolved)]
    place = names.index(name)
    return structs.replace(
        resolved,
        agent=agents.find(resolved.name, {resolved.name: profile}),
        profile=profile,
        env=env,
        account=name,
        login=_folder(account, name, facts.login),
        others=(*names[place + 1 :], *names[:place]) if profile.rotate else (),
    )


def _fits(account: AccountProfile, resolved: ResolvedAgent) -> bool:
    return account.agent in (resolved.name, resolved.profile.like, resolved.agent.facts.name)


def _variable(account: AccountProfile, name: str, keys: Sequence[str]) -> str:
    if not (account.key_as or keys):
        raise BadRequest(
            f"[accounts.{name}] key_env: `{account.agent}` is known to take no key", hint="say where it looks: key_as"
        )
    return account.key_as or keys[0]


def _key_of(variable: str, name: str) -> str:
    if not os.environ.get(variable):
        raise BadRequest(f"the account `{name}` has no key: {variable} is not set", hint=f"export {variable}=...")
    return os.environ[variable]


def _folder(account: AccountProfile, name: str, files: Sequence[str]) -> Path | None:
    if not account.folder:
        return None
    folder = (Path(account.base) / Path(account.folder).expanduser()).absolute()
    if not any(login_file(folder, file) for file in files):
        wanted = " or ".join(Path(file).name for file in files) or "login"
        hint = f"log in once with `{account.agent}` using that folder as its own, or say key_env"
        raise BadRequest(f"the account `{name}` is not logged in: {folder} holds no {wanted}", hint=hint)
    return folder


async def resolve_variant(resolved: ResolvedAgent, state: Path) -> ResolvedAgent:
    """Return the agent, set up for the program that is really there."""
    form = resolved.agent.facts.form
    if form is None or form.otherwise[0] in resolved.profile.settings:
        return resolved
    program = resolved.program(resolved.profile.program or resolved.agent.facts.programs[0])
    if await _has_sign(program, form.ask, form.sign, state / "forms.json"):
        return resolved
    profile = structs.replace(
        resolved.profile, settings={**resolved.profile.settings, form.otherwise[0]: form.otherwise[1]}
    )
    return structs.replace(resolved, agent=agents.find(resolved.name, {resolved.name: profile}), profile=profile)


async def _has_sign(program: Path, ask: tuple[str, ...], sign: str, cache: Path) -> bool:
    key = f"{program.resolve()} {program.stat().st_mtime_ns} {sign}"
    known: dict[str, bool] = {}
    with contextlib.suppress(OSError, msgspec.DecodeError):
        known = msgspec.json.decode(cache.read_bytes(), type=dict[str, bool])
    if key in known:
        return known[key]
    try:
        env = {"PATH": os.environ.get("PATH", ""), "HOME": str(cache.parent), "NO_COLOR": "1"}
        answered = await process.run(ProcessStart(argv=[str(program), *ask], env=env), timeout=ASK_SECONDS)
    except CorralError:
        return True  # it cannot say: it is taken for the usual one, and its own failure will tell
    answer = sign.encode() in answered.out + answered.err
    with contextlib.suppress(OSError):
        cache.write_bytes(msgspec.json.encode({**known, key: answer}))
    return answer
