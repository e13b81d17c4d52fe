"""Programs of checks, commands and agents that are on this machine but not in the box: found before a run starts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from corral.config.paths import exists, is_file, person_file
from corral.config.settings import Config
from corral.engine.planning.problems import Findings
from corral.machines.resolved_agent import resolve_agent
from corral.machines.scope import Fitted
from corral.model.agent_api import AgentTask
from corral.model.errors import BadRequest
from corral.model.flow import AgentChoice, Flow, Node
from corral.rules.checks import shell_commands
from corral.rules.checks.shell_commands import Start
from corral.world.sandbox import program_files
from corral.world.sandbox.program_files import Shown

HOMES = ("~/", "$HOME/", "${HOME}/")
INTERPRETERS = 3  #: of a program, each run by the next; what another program reads needs none
CHANGES_PATH = ("PATH=", "activate", "env.sh", "install", "alias ", "hash -p")
#: What is read or defined by the command itself decides what a bare word means: `. FILE`, `eval`, `NAME()`.
DEFINES = re.compile(r"""(?:^|[\s;&|({'"])(?:(?:\.|source|eval|function)\s|[\w-]+\s*\(\s*\))""")
GOES = re.compile(r"\b(?:cd|pushd)\b|--chdir|-C\b")


def changes_path(text: str) -> bool:
    """Tell whether a command may find programs that are on no PATH of ours."""
    return any(each in text for each in CHANGES_PATH)


class Surroundings(Struct, frozen=True, kw_only=True):
    """What decides whether a word of a command leads to a program in the box."""

    folder: Path  #: of the repository
    shown: Shown
    search: str  #: PATH in the box
    setup: str = ""  #: the command that prepares a workspace: it may install what is missing
    held: frozenset[str] | None = None  #: files of the base commit, of those that are asked for; None: not looked up

    @staticmethod
    def is_relative(word: str) -> bool:
        """Tell whether a word names a file of the workspace."""
        return "/" in word and not word.startswith(("/", *HOMES))

    def finds_more(self, text: str) -> bool:
        """Tell whether a command may find programs that its search path does not lead to at first."""
        return bool(self.setup or changes_path(text) or DEFINES.search(text))

    def search_of(self, text: str) -> dict[str, str]:
        """Return where a program is looked for: in the box, and where that cannot find it, on this machine."""
        more = [] if self.finds_more(text) else [os.environ.get("PATH", "")]
        return {"PATH": os.pathsep.join([self.search, *more])}


def check(flow: Flow, settings: Config, around: Mapping[str, Surroundings], findings: Findings) -> None:
    """Refuse what each try would end with as 127: a program that is there outside the box alone.

    `around` has the surroundings of each agent: what its scope shows.
    """
    tried: set[tuple[str, ...] | AgentChoice] = set()
    for node in flow.nodes:
        names = [choice.name for choice in (node.agent, *node.rivals)] if node.kind in ("task", "run") else []
        boxes = [(name, around[name]) for name in dict.fromkeys(names or list(around)[:1])]
        for name, box in boxes:
            if (setup := box.setup) and ("setup", name) not in tried:
                tried.add(("setup", name))
                refuse_missing(f"[workspace] setup {setup}", setup, structs.replace(box, setup=""))
        for key, where, text in _commands(node):
            for name, box in boxes if "{{" not in text else ():
                if (key, text, name) not in tried:
                    tried.add((key, text, name))
                    with findings.at(node.id, key):
                        refuse_missing(where, text, box)
        for choice in (node.agent, *node.rivals, *node.fallback) if node.kind == "task" else ():
            if choice not in tried and findings.known(node.id) and findings.tries(node.id):
                tried.add(choice)
                with findings.at(node.id, "agent"):
                    _check_agent(choice, settings, around[choice.name])


def _commands(node: Node) -> Iterator[tuple[str, str, str]]:
    """Yield the commands of a node: the key in a flow file, how a person names it, the text."""
    for text in node.task.checks:
        yield "checks", f"--check {text}", text
    if node.kind == "run":
        yield "run", f"run {node.task.prompt}", node.task.prompt


def of_workspace(flow: Flow, settings: Config) -> list[str]:
    """Return the paths of a workspace that the commands of a flow start."""
    texts = [text for node in flow.nodes for _, _, text in _commands(node)]
    texts += [settings.setup.command] if settings.setup.command else []
    words = [start.word for text in dict.fromkeys(texts) for start in shell_commands.starts(text)]
    paths = [os.path.normpath(word) for word in words if Surroundings.is_relative(word) and "\0" not in word]
    return [path for path in dict.fromkeys(paths) if not path.startswith("..")]


def surroundings(settings: Config, folder: Path, fitted: Fitted, held: Iterable[str]) -> Surroundings:
    """Return what the box of an agent shows; `held` are files of the base commit, of those `of_workspace` names."""
    toolchains, path = program_files.toolchains(os.environ, Path.home())
    masks = fitted.resolved.elsewhere
    shown = Shown(
        places=(*toolchains, *(mask.path for mask in masks if mask.mode != "hidden")),
        hidden=tuple(mask.path for mask in masks if mask.mode == "hidden"),
    )
    return Surroundings(
        folder=folder,
        shown=shown,
        search=os.pathsep.join([*path, *program_files.SYSTEM_PATH]),
        setup=settings.setup.command or "",
        held=frozenset(held),
    )


def _check_agent(choice: AgentChoice, settings: Config, around: Surroundings) -> None:
    """Look at what the command of an agent starts besides its program, which is shown to it by itself."""
    profile = settings.agents.get(choice.name)
    words = profile.command if profile else ()
    if not words:
        return
    dressed = resolve_agent(choice.name, settings, choice.account)
    trial = AgentTask(prompt="", workspace=str(around.folder), home="/", model=choice.model)
    _, readable = dressed.resolve(dressed.agent.start(trial))
    shown = structs.replace(around.shown, places=(*around.shown.places, *readable))
    around = structs.replace(around, shown=shown)
    text = " ".join(words)
    for start in shell_commands.of_words(words)[1:]:  # other words are data, as far as we know
        _refuse(f"the agent `{choice.name}`", start, text, around)


def _runs(path: Path) -> bool:
    return is_file(path) and os.access(path, os.X_OK)


def refuse_missing(where: str, text: str, around: Surroundings) -> None:
    """Refuse a shell command that is sure to start what the box does not show."""
    for start in shell_commands.starts(text):
        _refuse(where, start, text, around)


def _refuse(where: str, start: Start, text: str, around: Surroundings) -> None:
    path = _on_this_machine(start, text, around)
    if path is None or _is_made(path, start.word, text, around.setup):
        return
    places = (*around.shown.places, *([around.folder] if around.is_relative(start.word) else []))
    shown = structs.replace(around.shown, places=places)
    lacking = shown.lacks(path, around.search_of(text), INTERPRETERS if start.program else 0)
    if start.word.startswith(HOMES):  # another home is in the box
        lacking = lacking or path
    if lacking is None:
        return
    needs = "is" if path == lacking else f"needs {lacking}, which is"
    raise BadRequest(
        f"{where}: `{start.word}` {needs} on this machine, but not in the box",
        hint=_remedy(path, lacking, start.word, around, around.search_of(text)),
    )


def _remedy(path: Path, lacking: Path, word: str, around: Surroundings, search: Mapping[str, str]) -> str:
    """Say which line shows a program in the box, and by which name it is there."""
    in_environment = (path.parent.parent / "pyvenv.cfg").exists()
    if path == lacking and path.is_relative_to(around.folder) and word.startswith("/") and not in_environment:
        return f"name it from the top of the repository: ./{path.relative_to(around.folder)}"
    target = path if in_environment or path != lacking or not path.is_symlink() else path.resolve()
    python = path.with_name("python")
    asked = [target, *([python] if in_environment and python.exists() else [])]
    needed = [need for each in asked for need in program_files.needs(each, search)]
    lacked = [each for each in needed if not around.shown.has(each) and not _is_inside(each, around, word)]
    folders = program_files.outermost(map(_scoped, lacked))
    named = f"name it {target}" if str(target) != word and not around.is_relative(word) else ""
    if not folders:
        return named
    options = " ".join(f"--read {folder}" for folder in folders)
    listed = ", ".join(f'"{folder}"' for folder in ("**", *folders))
    return f"{named}{', and ' if named else ''}show it: {options}, or [scope] read = [{listed}] in {person_file()}"


def _scoped(path: Path) -> Path:
    """Return what a scope can name so that a path is there: of a link the folder it lies in, unless that is much."""
    folder = path.parent.resolve()
    return folder if path.is_symlink() and not Path.home().is_relative_to(folder) else path.resolve()


def _is_inside(path: Path, around: Surroundings, word: str) -> bool:
    """Tell whether a path lies in the workspace, by whose name it was asked for."""
    return around.is_relative(word) and path.is_relative_to(around.folder)


def _on_this_machine(start: Start, text: str, around: Surroundings) -> Path | None:
    """Return the file that a word leads to on this machine; None where that cannot be told, or there is none."""
    word = start.word
    if len(word) > 4096 or "\0" in word or "\n" in word:
        return None
    if word.startswith(HOMES):
        path = Path.home() / word.partition("/")[2]
        return None if around.setup or "install" in text else _existing(path, start)
    if word.startswith("/"):
        return _existing(Path(os.path.normpath(word)), start)
    if "/" in word:
        return None if _is_elsewhere(word, text, around) else _existing(around.folder / os.path.normpath(word), start)
    if not start.program or around.finds_more(text) or exists(around.folder / word):
        return None
    return _found(word, around) or program_files.find(word, os.environ)


def _is_elsewhere(word: str, text: str, around: Surroundings) -> bool:
    """Tell whether a file of the workspace may be another than that of the checkout: made first, or below a folder."""
    if around.setup or GOES.search(text):
        return True
    return around.held is not None and os.path.normpath(word) not in around.held


def _found(word: str, around: Surroundings) -> Path | None:
    """Find a program on the search path of the box; a link that leads out of the box only where there is no other."""
    folders = [Path(entry) for entry in around.search.split(os.pathsep) if entry]
    found = [folder / word for folder in folders if _runs(folder / word)]
    there = [path for path in found if around.shown.lacks(path, {}, 0) is None]
    return next(iter((*there, *found)), None)


def _existing(path: Path, start: Start) -> Path | None:
    return path if (_runs(path) if start.program else is_file(path)) else None


def _is_made(path: Path, word: str, text: str, setup: str) -> bool:
    """Tell whether a command, or the setup before it, speaks of a path elsewhere: it may make what it then starts."""
    others: list[str] = []
    for each in (text, setup):
        tokens = shell_commands.tokenize(each)
        others += _arguments([token.text for token in tokens or ()]) if tokens is not None else each.split()
    paths = [other.rpartition("=")[2] if other.startswith("-") else other for other in others if other != word]
    return any(each.startswith("/") and each != "/" and path.is_relative_to(each) for each in paths)


def _arguments(words: Sequence[str]) -> list[str]:
    """Leave out folders that are only gone to."""
    return [word for place, word in enumerate(words) if not (place and words[place - 1] in ("cd", "pushd"))]
