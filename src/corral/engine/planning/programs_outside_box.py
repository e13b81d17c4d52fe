"""Programs and scripts that the box does not show: where they are on this machine, and the line that shows them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from corral.config.paths import exists, is_file, user_file
from corral.rules.shell.starts import CommandStarts, ProgramStart
from corral.rules.shell.state import SEARCH
from corral.rules.shell.wrappers import IDLE
from corral.world.sandbox import program_files
from corral.world.sandbox.profile import HOME, SCRATCH
from corral.world.sandbox.program_files import VisiblePaths

HOMES = ("~/", "$HOME/", "${HOME}/")
INTERPRETERS = 3  #: of a program, each run by the next; what another program reads needs none
LONGEST = 4096  #: of a path
#: Where a box has files of its own.
OWN = (*map(Path, SCRATCH), Path(HOME), Path("/proc"), Path("/dev"), Path("/sys"))


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
        if lack := _find(start, text, reading, around, ran):
            found.append(lack)
        elif start.program:
            ran.append(start)
    return found


def _find(
    start: ProgramStart, text: str, reading: CommandStarts, around: Surroundings, ran: Sequence[ProgramStart]
) -> Lack | None:
    """Return what is wrong with something that a command starts; None where it is there, or that cannot be told."""
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
    if not word or len(word) > LONGEST or "\0" in word or "\n" in word:
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
    own = any(path.is_relative_to(each) for each in (*OWN, *around.writable))
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
