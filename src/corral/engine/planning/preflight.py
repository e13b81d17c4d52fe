"""Problems of a request on this machine: agents, scripts, checks and machines that it asks for and cannot have."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tomllib
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import cast

from corral.boxed.player import CLASSES, KINDS
from corral.config import paths
from corral.config.paths import MOST_TEXT, exists
from corral.config.settings import Config
from corral.machines.frames import MachineLost
from corral.machines.remote.link import MachineLink, current_links
from corral.machines.resolved_agent import PLAYERS, ResolvedAgent, resolve_agent
from corral.model import Request
from corral.model.agent_api import AgentTask
from corral.model.errors import BadFlow, BadRequest, FlowMistake, Untrusted, refusal_of
from corral.model.flow import AgentChoice, Flow, Node
from corral.rules.flows.reader import FlowReading
from corral.rules.flows.tree import NodeLocation
from corral.rules.schedule.placement import MachineRoom, fitting_machines
from corral.rules.shell import starts
from corral.rules.shell.builtins import SHELL_ONLY
from corral.rules.shell.starts import ProgramStart
from corral.rules.shell.state import SEARCH
from corral.world.sandbox import program_files

SCRIPT_HINT = "see docs: scripted agent"
SCRIPT_STEP = re.compile(r"^[ \t]*\[\[[ \t]*step[ \t]*\]\]", re.MULTILINE)


def agents(flow: Flow, settings: Config, request: Request, findings: Findings) -> tuple[ResolvedAgent, ...]:
    """Ask each agent's file for its command now: what it refuses is refused before anything is made.

    Return those that ask their provider with a key.
    """
    keyed: dict[tuple[str, str | None], ResolvedAgent] = {}
    tried: set[tuple[AgentChoice, bool, int]] = set()
    for node in flow.nodes:
        judges = tuple(each for each in (node.judge, node.reader) if each)
        for choice in (node.agent, *node.rivals, *node.fallback, *judges) if node.kind in ("task", "run") else ():
            about = (choice, node.task.read_only, len(node.task.prompt))
            if about in tried or not (findings.has_known_agents(node.id) and findings.tries(node.id)):
                continue
            tried.add(about)
            with findings.at(node.id, "agent"):
                resolved = _starts(choice, node, settings, str(request.repo))
                provider = resolved.agent.facts.provider
                if provider and any(resolved.env.get(name) for name in provider.keys):
                    keyed[choice.name, choice.account] = resolved
    return tuple(keyed.values())


def _starts(choice: AgentChoice, node: Node, settings: Config, repo: str) -> ResolvedAgent:
    resolved = resolve_agent(choice.name, settings, choice.account)
    if node.task.images and node.kind == "task" and not resolved.agent.facts.images:
        hint = "claude, codex, opencode, openai, anthropic, google, ollama and agents over ACP do"
        raise BadRequest(f"--image: the agent `{choice.name}` takes no images", hint=hint)
    trial = AgentTask(
        prompt=node.task.prompt,
        workspace=repo,
        home="/",
        model=choice.model,
        read_only=node.task.read_only,
        mcp=resolved.servers() if node.machine is None else (),
    )
    command = resolved.agent.start(trial)
    if node.machine is None:
        resolved.resolve(command)
    else:
        resolved.programs.scripts(command)  # these go along; the rest is looked for there
    if resolved.agent.facts.family == "scripted":
        check_script(Path(command.argv[1]).absolute())
    return resolved


def writer(settings: Config) -> None:
    """Refuse an agent that is to write summaries and does not exist: hours later would be too late to say so."""
    if named := settings.condense.agent:
        try:
            choice = AgentChoice.read(named)
            resolve_agent(choice.name, settings, choice.account)
        except Untrusted:
            raise
        except BadRequest as error:
            raise BadRequest(f"[condense] agent: {error}", hint=error.hint) from error


def checks(flow: Flow, settings: Config, folder: Path, findings: Findings) -> None:
    """Refuse a check whose program is nowhere; what a setup might install, or a path, is left to the run."""
    _, path = program_files.toolchains(os.environ, Path.home())
    searched = os.pathsep.join([*path, *program_files.SYSTEM_PATH])
    tried: set[str] = set()
    for node in flow.nodes:
        for check in node.task.checks if node.machine is None else ():
            if check in tried or (flow.fills and "{{" in check):
                continue
            tried.add(check)
            with findings.at(node.id, "checks"):
                _is_there(check, settings, folder, searched)


def _is_there(check: str, settings: Config, folder: Path, searched: str) -> None:
    if "\0" in check:
        raise BadRequest("--check holds a NUL byte", hint="it is a shell command, plain text")
    try:
        words = shlex.split(check)
    except ValueError as error:
        raise BadRequest(f"--check {check}: {error}", hint="it is a shell command; mind the quotes") from error
    if not words:
        raise BadRequest("--check is empty", hint='name a command: --check "pytest -q"')
    if settings.setup.command or "install" in check:
        return
    absent = [each for each in starts.of_text(check).starts if _is_nowhere(each, folder, searched)]
    for each in absent:
        same = frozenset(other for other in absent if other.word == each.word)
        if not starts.of_text(check, same).can_succeed:
            raise BadRequest(
                f"--check {check}: there is no program `{each.word}`",
                hint="install it, activate its environment, or have [workspace] setup install it",
            )


def _is_nowhere(start: ProgramStart, folder: Path, searched: str) -> bool:
    """Tell whether a bare name is no program; what only the command itself finds, or looks for, is left to the run."""
    is_plain = start.program and start.search == SEARCH and not start.sought and re.fullmatch(r"[\w.+-]+", start.word)
    if not is_plain or start.word in SHELL_ONLY or exists(folder / start.word):
        return False
    # One that is on the user's PATH alone is not there in a box: `programs` says so, and how to show it.
    return not any(program_files.find(start.word, {"PATH": path}) for path in (searched, os.environ.get("PATH", "")))


def check_script(path: Path) -> None:
    """Refuse a script that cannot be played; one that is not there, or not to be read, is refused elsewhere."""
    if not exists(path):
        return
    try:
        text = paths.read_file(path, MOST_TEXT, str(path), SCRIPT_HINT, pipe=False).decode()
    except UnicodeError:
        return
    try:
        steps: object = tomllib.loads(text).get("step", [])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadRequest(f"{path}: {error}", hint=f"it is to be TOML; {SCRIPT_HINT}") from error
    if not isinstance(steps, list):
        raise BadRequest(f"{path}: `step` is not a list of steps", hint=f"write [[step]]; {SCRIPT_HINT}")
    found = cast("list[object]", steps)
    lines = [text.count("\n", 0, each.start()) + 1 for each in SCRIPT_STEP.finditer(text)]
    for number, step in enumerate(found, 1):
        _check_step(f"{path}:{lines[number - 1]}" if len(lines) == len(found) else f"{path}: step {number}", step)


def _check_step(place: str, step: object) -> None:
    keys = cast("dict[str, object]", step) if isinstance(step, dict) else {}
    kind = next((kind for kind in KINDS if kind in keys), None)
    if kind is None:
        raise BadRequest(f"{place}: a step has none of: {', '.join(KINDS)}", hint=SCRIPT_HINT)
    if kind == "fail" and keys["fail"] not in CLASSES:
        raise BadRequest(f"{place}: fail = {keys['fail']!r} is none of: {', '.join(CLASSES)}", hint=SCRIPT_HINT)


class Findings:
    """Gathers what speaks against a flow file; without one, the first that does is raised at once."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._spots: Mapping[str, NodeLocation] = {}
        self._found: dict[tuple[int, int, str], FlowMistake] = {}
        self._bad: set[str] = set()
        self._wrong = False  # the file itself has mistakes
        self._named: set[str] = set()  # nodes whose agents are in the file

    def read(self, found: FlowReading) -> None:
        """Take in what is wrong with the file itself, and where its nodes are."""
        self._spots, self._wrong = found.spots, bool(found.mistakes)
        self._named = {node.id for node in found.flow.nodes if node.agent.name}
        for each in found.mistakes:
            self._add(FlowMistake(self._file or "flow", each.line, each.column, each.message, each.hint))

    @contextlib.contextmanager
    def at(self, node: str, key: str) -> Generator[None]:
        """Hold what is refused inside against a key of a node."""
        try:
            yield
        except Untrusted:
            raise
        except (BadRequest, OSError, ValueError, OverflowError, RecursionError) as caught:
            error = refusal_of(caught)
            if self._file is None or error is None:
                raise
            self._bad.update({node} if key == "agent" else ())
            words = str(error).removeprefix("--")
            if not any(words == each.message for each in self._found.values()):  # many nodes may have one agent
                self._add(FlowMistake(self._file, *self._place(node, key), words, error.hint))

    def has_known_agents(self, node: str) -> bool:
        """Tell whether all agents of a node could be found by name."""
        return node not in self._bad

    def tries(self, node: str) -> bool:
        """Tell whether the agents of a node are to be tried: of a file with mistakes only those that it names."""
        return not self._wrong or node in self._named

    def tell(self) -> None:
        """Raise all that was found."""
        if self._found:
            raise BadFlow([self._found[key] for key in sorted(self._found)])

    def _place(self, node: str, key: str) -> tuple[int, int]:
        spot = self._spots.get(node)
        if spot is None:
            return 1, 1
        return next((spot.keys[name] for name in (key, *NEAR_ENOUGH.get(key, ())) if name in spot.keys), spot.start)

    def _add(self, mistake: FlowMistake) -> None:
        self._found.setdefault((mistake.line, mistake.column, mistake.message), mistake)


NEAR_ENOUGH = {"agent": ("race", "fallback", "judge")}


async def check(flow: Flow, settings: Config, state: Path, findings: Findings, *, connect: bool) -> None:
    """Refuse machines that nobody set up, that cannot be reached, or that lack what their attempts need."""
    rooms = [MachineRoom(name=name, slots=each.slots, labels=each.labels) for name, each in settings.machines.items()]
    for node in flow.nodes:
        if node.machine is None:
            continue
        with findings.at(node.id, "machine"):
            fitting = fitting_machines(node.machine, rooms)
            if connect:
                await _check_any(node, [current_links(state).link(each.name, settings.machines[each.name])
                                        for each in fitting], settings)  # fmt: skip


async def _check_any(node: Node, links: list[MachineLink], settings: Config) -> None:
    """Look for one machine that will do; the first that does not says why."""
    troubles: list[BadRequest] = []
    for link in links:
        try:
            await _check_machine(node, link, settings)
        except BadRequest as error:
            troubles.append(error)
        except MachineLost as error:
            troubles.append(BadRequest(str(error), hint=error.hint))
        else:
            return
    raise troubles[0]


async def _check_machine(node: Node, link: MachineLink, settings: Config) -> None:
    connection = await link.connect()
    if link.facts is None or link.profile.ray:  # which node it will be, and what that has, is not known yet
        return
    link.check(link.facts)
    wanted = {choice.name: _program(choice, node, settings) for choice in (node.agent, *node.rivals, *node.fallback)}
    named = [program for program in wanted.values() if program]
    found = await connection.ask("programs", named, dict[str, str]) if named else {}
    for agent, program in wanted.items():
        if program and program not in found:
            install = resolve_agent(agent, settings).agent.facts.install
            raise BadRequest(
                f"the machine `{link.name}` has no program `{program}`, which the agent `{agent}` needs",
                hint=f"there: {install}" if install else f"install it on `{link.name}`",
            )


def _program(choice: AgentChoice, node: Node, settings: Config) -> str | None:
    """Return the program that a machine must have for an agent; None: it has it, or it goes along."""
    resolved = resolve_agent(choice.name, settings, choice.account)
    trial = AgentTask(prompt=node.task.prompt, workspace="/", home="/", model=choice.model)
    command = resolved.agent.start(trial)
    first = command.argv[0]
    own = first in PLAYERS or first.startswith("corral:") or 0 in resolved.programs.scripts(command)
    return None if own else first
