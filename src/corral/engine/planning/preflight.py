"""What an agent's file or a check would refuse in the middle of a run is refused before anything is started."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from corral.config.paths import exists
from corral.config.settings import Config
from corral.engine.planning.hidden_programs import changes_path
from corral.engine.planning.problems import Findings
from corral.machines.resolved_agent import resolve_agent
from corral.model import Request
from corral.model.agent_api import AgentTask
from corral.model.errors import BadRequest, Untrusted
from corral.model.flow import AgentChoice, Flow, Node
from corral.world.sandbox import program_files

SHELL_WORDS = {
    "!", "{", "(", "[", "[[", ".", ":", "cd", "test", "if", "for", "while", "case", "exit", "set", "export", "true",
    "false", "echo", "printf", "exec", "eval", "command", "source", "time", "until", "trap", "umask", "unset", "read",
}  # fmt: skip


def agents(flow: Flow, settings: Config, request: Request, findings: Findings) -> None:
    """Ask each agent's file for its command now: what it refuses is refused before anything is made."""
    tried: set[tuple[AgentChoice, bool, int]] = set()
    for node in flow.nodes:
        judges = tuple(each for each in (node.judge, node.reader) if each)
        for choice in (node.agent, *node.rivals, *node.fallback, *judges) if node.kind in ("task", "run") else ():
            about = (choice, node.task.read_only, len(node.task.prompt))
            if about in tried or not (findings.known(node.id) and findings.tries(node.id)):
                continue
            tried.add(about)
            with findings.at(node.id, "agent"):
                _starts(choice, node, settings, str(request.repo))


def _starts(choice: AgentChoice, node: Node, settings: Config, repo: str) -> None:
    dressed = resolve_agent(choice.name, settings, choice.account)
    trial = AgentTask(
        prompt=node.task.prompt,
        workspace=repo,
        home="/",
        model=choice.model,
        read_only=node.task.read_only,
        mcp=dressed.servers(),
    )
    command = dressed.agent.start(trial)
    dressed.resolve(command)
    if dressed.agent.facts.family == "scripted":
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
    try:
        words = shlex.split(check)
    except ValueError as error:
        raise BadRequest(f"--check {check}: {error}", hint="it is a shell command; mind the quotes") from error
    if not words:
        raise BadRequest("--check is empty", hint='name a command: --check "pytest -q"')
    first = next((word for word in words if not re.fullmatch(r"\w+=.*", word)), ":")
    # A command that changes PATH may start what only it finds.
    plain = re.fullmatch(r"[\w.+-]+", first) and first not in SHELL_WORDS and not changes_path(check)
    absent = plain and not settings.setup.command and not exists(folder / first)
    # One that is on the user's PATH alone is not there in a box: `programs` says so, and how to show it.
    if absent and not any(program_files.find(first, {"PATH": path}) for path in (searched, os.environ.get("PATH", ""))):
        raise BadRequest(
            f"--check {check}: there is no program `{first}`",
            hint="install it, activate its environment, or have [workspace] setup install it",
        )
