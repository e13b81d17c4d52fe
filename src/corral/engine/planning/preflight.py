"""What an agent's file or a check would refuse in the middle of a run is refused before anything is started."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from corral.config.paths import exists
from corral.config.settings import Config
from corral.engine.planning.problems import Findings
from corral.machines.agent_lookup import resolve_agent
from corral.model import Request
from corral.model.agent_api import AgentTask
from corral.model.errors import BadRequest, Untrusted
from corral.model.flow import AgentChoice, Flow, Node
from corral.rules.shell import starts
from corral.rules.shell.builtins import SHELL_ONLY
from corral.rules.shell.starts import ProgramStart
from corral.rules.shell.state import SEARCH
from corral.world.sandbox import program_files


def agents(flow: Flow, settings: Config, request: Request, findings: Findings) -> None:
    """Ask each agent's file for its command now: what it refuses is refused before anything is made."""
    tried: set[tuple[AgentChoice, bool, int]] = set()
    for node in flow.nodes:
        judges = tuple(each for each in (node.judge, node.reader) if each)
        for choice in (node.agent, *node.rivals, *node.fallback, *judges) if node.kind in ("task", "run") else ():
            about = (choice, node.task.read_only, len(node.task.prompt))
            if about in tried or not (findings.has_known_agents(node.id) and findings.tries(node.id)):
                continue
            tried.add(about)
            with findings.at(node.id, "agent"):
                _starts(choice, node, settings, str(request.repo))


def _starts(choice: AgentChoice, node: Node, settings: Config, repo: str) -> None:
    resolved = resolve_agent(choice.name, settings, choice.account)
    trial = AgentTask(
        prompt=node.task.prompt,
        workspace=repo,
        home="/",
        model=choice.model,
        read_only=node.task.read_only,
        mcp=resolved.servers(),
    )
    command = resolved.agent.start(trial)
    resolved.resolve(command)
    if resolved.agent.facts.family == "scripted":
        from corral.engine.planning import scripted_files  # noqa: PLC0415 -- the player is not needed otherwise

        scripted_files.check(Path(command.argv[1]).absolute())


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
        for check in node.task.checks:
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
