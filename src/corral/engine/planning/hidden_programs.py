"""Programs of checks, commands and agents that the box does not show: found before a run starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from corral.config.paths import exists, is_file, user_file
from corral.config.settings import Config
from corral.engine.planning.preflight import Findings
from corral.machines.resolved_agent import resolve_agent
from corral.machines.scope import FittedScope
from corral.model.agent_api import AgentTask
from corral.model.errors import BadRequest
from corral.model.flow import AgentChoice, Flow, Node
from corral.rules.shell import starts
from corral.rules.shell.starts import CommandStarts, ProgramStart
from corral.rules.shell.state import SEARCH
from corral.rules.shell.wrappers import IDLE
from corral.world.sandbox import program_files
from corral.world.sandbox.profile import HOME, SCRATCH
from corral.world.sandbox.program_files import VisiblePaths

ReadCommand = Callable[[frozenset[ProgramStart]], CommandStarts]
LONGEST_SCRIPT = 100_000
SCRIPTS_DEEP = 3
HOMES = ("~/", "$HOME/", "${HOME}/")
INTERPRETERS = 3  #: of a program, each run by the next; what another program reads needs none
LONGEST_PROGRAM = 4096  #: of a path
#: Where a box has files of its own.
OWN_FOLDERS = (*map(Path, SCRATCH), Path(HOME), Path("/proc"), Path("/dev"), Path("/sys"))


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
    if node.kind == "run" and node.program is None:
        yield "run", f"run {node.task.prompt}", node.task.prompt


def of_workspace(flow: Flow, settings: Config) -> list[str]:
    """Return the paths of a workspace that the commands of a flow start."""
    texts = [text for node in flow.nodes for _, _, text in _commands(node)]
    texts += [settings.setup.command] if settings.setup.command else []
    found = [start for text in dict.fromkeys(texts) for start in starts.of_text(text).starts]
    return list(dict.fromkeys(path for start in found if (path := in_workspace(start))))


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
    found = find_all(text, reading, around)
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
        inside = in_workspace(start if "/" in start.word else structs.replace(start, word=f"./{start.word}"))
        if inside is None or ("/" not in start.word and start.program):
            continue
        if around.held is not None and inside not in around.held:
            continue
        text = _script(around.folder / inside, start)
        inner = starts.of_text(text)
        found += find_all(text, inner, around)
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


class Surroundings(Struct, frozen=True, kw_only=True):
    """What decides whether a word of a command leads to a program in the box."""

    folder: Path  #: of the repository
    shown: VisiblePaths
    search: str  #: PATH in the box
    setup: str = ""  #: the command that prepares a workspace: it may install what is missing
    held: frozenset[str] | None = None  #: files of the base commit, of those that are asked for; None: not looked up
    writable: tuple[Path, ...] = ()  #: of this machine


class Lack(Struct, frozen=True):
    """Something that a command starts, or reads, and that is not there in the box."""

    start: ProgramStart
    path: Path
    words: str
    hint: str
    sure: bool = True  #: nothing can take its place


def is_relative(start: ProgramStart) -> bool:
    """Tell whether it is named as a file of the workspace."""
    word = start.word
    return "/" in word and not word.startswith(("/", *HOMES)) and not (start.folder or "").startswith("/")


def in_workspace(start: ProgramStart) -> str | None:
    """Return the path in the workspace that it names."""
    if not is_relative(start) or start.folder is None or "\0" in start.word:
        return None
    path = os.path.normpath(os.path.join(start.folder, start.word))  # noqa: PTH118 -- of no machine
    return None if path.startswith("..") else path


def find_all(text: str, reading: CommandStarts, around: Surroundings) -> list[Lack]:
    """Return what a command starts and the box lacks."""
    found: list[Lack] = []
    ran: list[ProgramStart] = []
    for start in reading.starts:
        if lack := _find_program(start, text, reading, around, ran):
            found.append(lack)
        elif start.program:
            ran.append(start)
    return found


def _find_program(
    start: ProgramStart, text: str, reading: CommandStarts, around: Surroundings, ran: Sequence[ProgramStart]
) -> Lack | None:
    """Return what is wrong with something that a command starts; None where it exists, or that is unknown."""
    path, sure = _on_this_machine(start, text, around)
    if path is None or (not is_relative(start) and _may_be_made(path, reading, around)):
        return None
    if not exists(path):
        return None if start.sought else _nowhere(start, path, around)
    if not is_relative(start):
        before = ran if start.program else ran[:-1]  # the last one reads it
        sure = sure and not (_is_scratch(path, around) and any(Path(each.word).name not in IDLE for each in before))
    places = (*around.shown.places, *([around.folder] if is_relative(start) else []))
    shown = structs.replace(around.shown, places=places)
    search = _search(start, text, around)
    lacking = shown.lacks(path, search, INTERPRETERS if start.program else 0)
    if start.word.startswith(HOMES):  # another home is in the box
        lacking = lacking or path
    if lacking is None:
        return None
    needs = "is" if path == lacking else f"needs {lacking}, which is"
    hint = _remedy(path, lacking, start, around, search)
    return Lack(start, path, f"{needs} on this machine, but not in the box", hint, sure)


def _nowhere(start: ProgramStart, path: Path, around: Surroundings) -> Lack:
    kind = "program" if start.program else "file"
    if path.is_relative_to(around.folder) and start.word.startswith("/"):
        hint = f"name it from the top of the repository: ./{path.relative_to(around.folder)}"
        return Lack(start, path, "is not in the box, where the repository has another path", hint)
    return Lack(
        start, path, f"does not exist: there is no such {kind} on this machine", "install it, or correct the path"
    )


def _search(start: ProgramStart, text: str, around: Surroundings) -> dict[str, str]:
    """Return where a program is looked for: in the box, and where that cannot find it, on this machine."""
    more = [os.environ.get("PATH", "")] if start.search == SEARCH and not _installs(text, around) else []
    return {"PATH": os.pathsep.join([around.search, *more])}


def _installs(text: str, around: Surroundings) -> bool:
    return bool(around.setup) or "install" in text


def _on_this_machine(start: ProgramStart, text: str, around: Surroundings) -> tuple[Path | None, bool]:
    """Return the file on this machine that a word leads to, or None, and whether it is surely that one."""
    word = start.word
    if not word or len(word) > LONGEST_PROGRAM or "\0" in word or "\n" in word:
        return None, False
    if word.startswith(HOMES):
        path = Path.home() / word.partition("/")[2]
        return (None if _installs(text, around) else _existing(path, start)), True
    if word.startswith("/"):
        return _absolute(word, start, around), True
    if "/" in word:
        return _from_folder(word, start, around), True
    if not start.program or start.search is None or _installs(text, around) or exists(around.folder / word):
        return None, False
    if start.search != SEARCH:
        return _find_on_path(word, start.search, around)
    return _find_in_box(word, around) or program_files.find(word, os.environ), True


def _absolute(word: str, start: ProgramStart, around: Surroundings) -> Path | None:
    """Return a path that is written out; one that is nowhere only where nothing could make it in a box."""
    path = Path(os.path.normpath(word))
    if found := _existing(path, start):
        return found
    return None if _is_scratch(path, around) or exists(path) else path


def _from_folder(word: str, start: ProgramStart, around: Surroundings) -> Path | None:
    """Return a file that is named from a folder: of the workspace the one of the checkout, if the commit holds it."""
    if start.folder is not None and start.folder.startswith("/"):
        return _existing(Path(os.path.normpath(Path(start.folder, word))), start)
    inside = in_workspace(start)
    if inside is None or around.setup or (around.held is not None and inside not in around.held):
        return None
    return _existing(around.folder / inside, start)


def _find_on_path(word: str, search: str, around: Surroundings) -> tuple[Path | None, bool]:
    """Find a program on a PATH that the command sets: the first one, and whether the box has no other."""
    first: Path | None = None
    for entry in search.split(os.pathsep):
        if entry == SEARCH:
            found = _find_in_box(word, around)
        elif entry.startswith("/"):
            found = Path(entry, word) if _runs(Path(entry, word)) else None
        else:
            return None, False  # a folder of the workspace
        first = first or found
        if found and around.shown.lacks(found, {}, 0) is None:
            return first, False
    return first, True


def _find_in_box(word: str, around: Surroundings) -> Path | None:
    """Find a program on the search path of the box; a link that leads out of the box only where there is no other."""
    folders = [Path(entry) for entry in around.search.split(os.pathsep) if entry]
    found = [folder / word for folder in folders if _runs(folder / word)]
    there = [path for path in found if around.shown.lacks(path, {}, 0) is None]
    return next(iter((*there, *found)), None)


def _existing(path: Path, start: ProgramStart) -> Path | None:
    return path if (_runs(path) if start.program else is_file(path)) else None


def _runs(path: Path) -> bool:
    return is_file(path) and os.access(path, os.X_OK)


def _is_scratch(path: Path, around: Surroundings) -> bool:
    """Tell whether a command in the box could make a file of that path."""
    own = any(path.is_relative_to(each) for each in (*OWN_FOLDERS, *around.writable))
    return own and not path.is_relative_to(around.folder)


def _may_be_made(path: Path, reading: CommandStarts, around: Surroundings) -> bool:
    """Tell whether the command, which speaks of the path elsewhere, or the setup may make what is then started."""
    if not _is_scratch(path, around):
        return False
    return bool(around.setup) or any(each != "/" and path.is_relative_to(each) for each in reading.mentioned)


def _remedy(path: Path, lacking: Path, start: ProgramStart, around: Surroundings, search: Mapping[str, str]) -> str:
    """Say which line shows a program in the box, and by which name it is there."""
    word, inside = start.word, is_relative(start)
    in_environment = (path.parent.parent / "pyvenv.cfg").exists()
    if path == lacking and path.is_relative_to(around.folder) and word.startswith("/") and not in_environment:
        return f"name it from the top of the repository: ./{path.relative_to(around.folder)}"
    target = path if in_environment or path != lacking or not path.is_symlink() else path.resolve()
    python = path.with_name("python")
    asked = [target, *([python] if in_environment and python.exists() else [])]
    needed = [need for each in asked for need in program_files.needs(each, search)]
    lacked = [
        each for each in needed if not around.shown.has(each) and not (inside and each.is_relative_to(around.folder))
    ]
    folders = program_files.outermost(map(_scope_path, lacked))
    by_path = start.search not in (None, SEARCH) and "/" not in word and target == path
    there = by_path or inside or "/" in (start.folder or "")[:1] or str(target) == word
    named = "" if there else f"name it {target}"
    if not folders:
        return named
    options = " ".join(f"--read {folder}" for folder in folders)
    listed = ", ".join(f'"{folder}"' for folder in ("**", *folders))
    return f"{named}{', and ' if named else ''}show it: {options}, or [scope] read = [{listed}] in {user_file()}"


def _scope_path(path: Path) -> Path:
    """Return what a scope can name so that a path is there: of a link the folder it lies in, unless that is much."""
    folder = path.parent.resolve()
    return folder if path.is_symlink() and not Path.home().is_relative_to(folder) else path.resolve()
