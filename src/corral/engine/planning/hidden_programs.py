"""Programs of checks, commands and agents that the box does not show: found before a run starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import structs

from corral.config.paths import is_file
from corral.config.settings import Config
from corral.engine.planning import programs_outside_box
from corral.engine.planning.problems import Findings
from corral.engine.planning.programs_outside_box import Lack, Surroundings
from corral.machines.agent_lookup import resolve_agent
from corral.machines.scope import FittedScope
from corral.model.agent_api import AgentTask
from corral.model.errors import BadRequest
from corral.model.flow import AgentChoice, Flow, Node
from corral.rules.shell import starts
from corral.rules.shell.starts import CommandStarts, ProgramStart
from corral.world.sandbox import program_files
from corral.world.sandbox.program_files import VisiblePaths

ReadCommand = Callable[[frozenset[ProgramStart]], CommandStarts]
LONGEST_SCRIPT = 100_000
SCRIPTS_DEEP = 3


def check(flow: Flow, settings: Config, around: Mapping[str, Surroundings], findings: Findings) -> list[str]:
    """Refuse what each try would end with as 127; return a warning for each program that may be started.

    `around` has the surroundings of each agent: what its scope shows.
    """
    notes: list[str] = []
    tried: set[tuple[str, ...] | AgentChoice] = set()
    for node in flow.nodes:
        names = [choice.name for choice in (node.agent, *node.rivals)] if node.kind in ("task", "run") else []
        boxes = [(name, around[name]) for name in dict.fromkeys(names or list(around)[:1])]
        for name, box in boxes:
            if (setup := box.setup) and ("setup", name) not in tried:
                tried.add(("setup", name))
                notes += refuse_missing(f"[workspace] setup {setup}", setup, structs.replace(box, setup=""))
        for key, where, text in _commands(node):
            for name, box in boxes if "{{" not in text else ():
                if (key, text, name) not in tried:
                    tried.add((key, text, name))
                    with findings.at(node.id, key):
                        notes += refuse_missing(where, text, box)
        for choice in (node.agent, *node.rivals, *node.fallback) if node.kind == "task" else ():
            if choice not in tried and findings.has_known_agents(node.id) and findings.tries(node.id):
                tried.add(choice)
                with findings.at(node.id, "agent"):
                    notes += _check_agent(choice, settings, around[choice.name])
    return list(dict.fromkeys(notes))


def _commands(node: Node) -> Iterator[tuple[str, str, str]]:
    """Yield the commands of a node: the key in a flow file, how a user names it, the text."""
    for text in node.task.checks:
        yield "checks", f"--check {text}", text
    if node.kind == "run":
        yield "run", f"run {node.task.prompt}", node.task.prompt


def of_workspace(flow: Flow, settings: Config) -> list[str]:
    """Return the paths of a workspace that the commands of a flow start."""
    texts = [text for node in flow.nodes for _, _, text in _commands(node)]
    texts += [settings.setup.command] if settings.setup.command else []
    found = [start for text in dict.fromkeys(texts) for start in starts.of_text(text).starts]
    return list(dict.fromkeys(path for start in found if (path := programs_outside_box.in_workspace(start))))


def surroundings(settings: Config, folder: Path, fitted: FittedScope, held: Iterable[str]) -> Surroundings:
    """Return what the box of an agent shows; `held` are files of the base commit, of those `of_workspace` names."""
    toolchains, path = program_files.toolchains(os.environ, Path.home())
    masks = fitted.resolved.elsewhere
    shown = VisiblePaths(
        places=(*toolchains, *(mask.path for mask in masks if mask.mode != "hidden")),
        hidden=tuple(mask.path for mask in masks if mask.mode == "hidden"),
    )
    return Surroundings(
        folder=folder,
        shown=shown,
        search=os.pathsep.join([*path, *program_files.SYSTEM_PATH]),
        setup=settings.setup.command or "",
        held=frozenset(held),
        writable=tuple(mask.path for mask in masks if mask.mode == "writable"),
    )


def _check_agent(choice: AgentChoice, settings: Config, around: Surroundings) -> list[str]:
    """Look at what the command of an agent starts besides its program, which is shown to it by itself."""
    profile = settings.agents.get(choice.name)
    words = profile.command if profile else ()
    if not words:
        return []
    resolved_agent = resolve_agent(choice.name, settings, choice.account)
    trial = AgentTask(prompt="", workspace=str(around.folder), home="/", model=choice.model)
    _, readable = resolved_agent.resolve(resolved_agent.agent.start(trial))
    shown = structs.replace(around.shown, places=(*around.shown.places, *readable))
    around = structs.replace(around, shown=shown)
    own = ProgramStart(words[0])

    def read(missing: frozenset[ProgramStart]) -> CommandStarts:
        found = starts.of_words(words, missing)
        return structs.replace(found, starts=[start for start in found.starts if start.word != own.word])

    return _refuse(f"the agent `{choice.name}`", " ".join(words), read, around)


def refuse_missing(where: str, text: str, around: Surroundings) -> list[str]:
    """Refuse a shell command that cannot succeed in the box; return warnings of what else it may start."""
    return _refuse(where, text, lambda missing: starts.of_text(text, missing), around)


def _refuse(where: str, text: str, read: ReadCommand, around: Surroundings) -> list[str]:
    reading = read(frozenset())
    found = programs_outside_box.find_all(text, reading, around)
    if needed := _first_needed(found, read):
        raise BadRequest(f"{where}: `{needed.start.word}` {needed.words}", hint=needed.hint)
    found += _of_scripts(reading, around, SCRIPTS_DEEP)
    return [_warning(where, lack) for lack in found]


def _warning(where: str, lack: Lack) -> str:
    words = (
        "may be started and is not visible in the box" if lack.path.exists() else "may be started and does not exist"
    )
    words = words if lack.start.program else words.replace("started", "read")
    return f"warning: {where.removeprefix('--')}: `{lack.start.word}` {words}; hint: {lack.hint}"


def _first_needed(found: list[Lack], read: ReadCommand) -> Lack | None:
    """Return the first without which the command cannot succeed, alone or together with the others."""
    if not found or not read(frozenset()).can_succeed:  # it does not end by itself, or is meant to fail
        return None
    candidates = [lack for lack in found if lack.sure and not lack.start.sought]
    for lack in candidates:
        same = frozenset(each.start for each in candidates if each.path == lack.path)
        if not read(same).can_succeed:
            return lack
    together = frozenset(lack.start for lack in candidates)
    return candidates[0] if candidates and not read(together).can_succeed else None


def _of_scripts(reading: CommandStarts, around: Surroundings, deep: int) -> list[Lack]:
    """Return what the shell scripts of the repository lack that a command runs: an agent may change them."""
    found: list[Lack] = []
    for start in reading.starts if deep else ():
        inside = programs_outside_box.in_workspace(
            start if "/" in start.word else structs.replace(start, word=f"./{start.word}")
        )
        if inside is None or ("/" not in start.word and start.program):
            continue
        if around.held is not None and inside not in around.held:
            continue
        text = _script(around.folder / inside, start)
        inner = starts.of_text(text)
        found += programs_outside_box.find_all(text, inner, around)
        found += _of_scripts(inner, around, deep - 1)
    return found


def _script(path: Path, start: ProgramStart) -> str:
    """Return the text of a shell script of the checkout; "" where it is none."""
    if not is_file(path):
        return ""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(LONGEST_SCRIPT)
    except OSError:
        return ""
    first = text.partition("\n")[0]
    is_shell = "sh" in Path(first.split(" ")[0]).name or first.endswith(("env sh", "env bash"))
    return text if (first.startswith("#!") and is_shell) or (not start.program and path.suffix in ("", ".sh")) else ""
