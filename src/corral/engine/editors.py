"""Corral set up in editors: the files as they are and as they should be, written with a backup."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from corral.config import paths
from corral.model.errors import BadRequest
from corral.rules.editors.commented_json import Unmergeable
from corral.rules.editors.editors import EDITORS, Editor
from corral.rules.editors.files import EditorFile
from corral.rules.editors.own_files import PLUGIN, vsix_parts
from corral.world.git.discovery import top_folder

State = Literal["absent", "differs", "current", "written", "merged", "unchanged"]
NAMES = tuple(each.name for each in EDITORS)
NO_IDE = "IDE-AND-VERSION"  #: stands for the folder of an IDE where none was started yet
MOST_BYTES = 4 << 20  #: of a settings file


class FileReport(Struct, frozen=True, kw_only=True):
    """One file: where it is, what belongs into it, and what is there or was done."""

    path: str
    state: State
    content: str  #: what belongs into it
    backup: str | None = None


class EditorReport(Struct, frozen=True, kw_only=True):
    """One editor and its files."""

    editor: str
    title: str
    what: str
    command: tuple[str, ...]
    files: tuple[FileReport, ...]
    notes: tuple[str, ...] = ()


def own_command() -> tuple[str, ...]:
    """Return the words that start Corral from anywhere: the absolute path of the command that was called."""
    for place in (sys.argv[0], str(Path(sys.executable).parent / "corral"), shutil.which("corral") or ""):
        path = Path(place).absolute()
        if path.name == "corral" and path.is_file() and os.access(path, os.X_OK):
            return (str(path),)
    return (sys.executable, "-P", "-m", "corral")


def plugin_folder(name: str) -> Path:
    """Return where an editor's plug-in is: within the package, or in the source tree beside it."""
    package = Path(__file__).parents[1]
    inside = package / "editors" / name
    return inside if inside.is_dir() else package.parents[1] / "editors" / name


def report(name: str, folder: Path) -> EditorReport:
    """Return the files of an editor, and how they are."""
    editor = _find(name)
    command = own_command()
    files = tuple(
        FileReport(path=str(path), state=_state(path, file), content=file.new_text)
        for path, file in _places(editor.files(command), folder)
    )
    return _report(editor, command, files)


def write(name: str, folder: Path) -> EditorReport:
    """Write the files of an editor, joined with what is there; refuse what cannot be joined before any is written."""
    editor = _find(name)
    command = own_command()
    texts = [
        (path, file, before, _join_entries(path, file, before))
        for path, file in _places(editor.files(command), folder)
        for before in [_read(path)]
        if NO_IDE not in path.parts
    ]
    files: list[FileReport] = []
    for path, file, before, text in texts:
        if text == before:
            files.append(FileReport(path=str(path), state="unchanged", content=file.new_text))
            continue
        backup = _back_up(path) if before is not None else None
        _replace(path, text)
        state: State = "written" if before is None else "merged"
        files.append(FileReport(path=str(path), state=state, content=file.new_text, backup=backup))
    found = _report(editor, command, tuple(files))
    if not editor.archive:
        return found
    archive = _pack_extension(plugin_folder(name), paths.home() / editor.archive)
    return structs.replace(found, notes=(*found.notes, editor.install.format(archive)))


def _report(editor: Editor, command: tuple[str, ...], files: tuple[FileReport, ...]) -> EditorReport:
    return EditorReport(
        editor=editor.name, title=editor.title, what=editor.what, command=command, files=files, notes=editor.notes
    )


def _find(name: str) -> Editor:
    found = next((each for each in EDITORS if each.name == name), None)
    if found is None:
        raise BadRequest(f"there is no editor `{name[:100]}`", hint=f"one of {', '.join(NAMES)}")
    return found


def _pack_extension(folder: Path, archive: Path) -> Path:
    """Pack the extension as VS Code installs it: a zip with a manifest; the same files give the same bytes."""
    package = msgspec.json.decode((folder / "package.json").read_bytes())
    parts = {name: text.encode() for name, text in vsix_parts(package, package["engines"]["vscode"]).items()}
    sources = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    parts |= {f"extension/{each.relative_to(folder).as_posix()}": each.read_bytes() for each in sources}
    archive.parent.mkdir(parents=True, exist_ok=True)
    new = archive.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(new, "w") as packed:
        for name, content in parts.items():
            packed.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    new.replace(archive)
    return archive


# --- places


def _places(files: Sequence[EditorFile], folder: Path) -> Iterator[tuple[Path, EditorFile]]:
    """Return each file with its place; one of JetBrains is in every IDE's folder."""
    top = top_folder(folder)
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    for file in files:
        filled = structs.replace(file, text=file.text.replace(PLUGIN, str(plugin_folder("neovim"))))
        start, _, rest = file.path.partition("/")
        if start == "{jetbrains}":
            for ide in _jetbrains_folders(config):
                yield ide / rest, filled
            continue
        place = {
            "~": Path.home(),
            "{config}": config,
            "{code}": _code_folder(config),
            "{emacs}": _emacs_folder(config),
        }.get(start)
        path = place / rest if place else top / file.path
        if place is None and not path.resolve().is_relative_to(top):
            raise BadRequest(f"{path} leads out of the repository", hint="it is a link: remove it")
        yield path, filled


def _jetbrains_folders(config: Path) -> list[Path]:
    """Return the folders of the IDEs that were started here; without any, how one would be called."""
    base = Path.home() / "Library" / "Application Support" if sys.platform == "darwin" else config
    found = [each for each in (base / "JetBrains").glob("*20??.*") if each.is_dir()]
    return sorted(found) or [base / "JetBrains" / NO_IDE]


def _code_folder(config: Path) -> Path:
    return (Path.home() / "Library" / "Application Support" if sys.platform == "darwin" else config) / "Code"


def _emacs_folder(config: Path) -> Path:
    old = Path.home() / ".emacs.d"
    return config / "emacs" if (config / "emacs").is_dir() and not old.is_dir() else old


# --- texts


def _read(path: Path) -> str | None:
    try:
        if not path.exists():
            return None
        if path.stat().st_size > MOST_BYTES:
            raise BadRequest(
                f"{path} is larger than {MOST_BYTES >> 20} MB", hint="it was not read; nothing was written"
            )
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8", hint="nothing was written") from error


def _join_entries(path: Path, file: EditorFile, before: str | None) -> str:
    try:
        return file.join(before)
    except Unmergeable as error:
        raise BadRequest(f"{path}: {error}", hint="correct it first; nothing was written") from error


def _state(path: Path, file: EditorFile) -> State:
    with contextlib.suppress(Unmergeable, BadRequest):
        before = _read(path)
        if before is None:
            return "absent"
        if file.join(before) == before:
            return "current"
    return "differs"


def _back_up(path: Path) -> str:
    """Copy a file beside itself, under a name that is free."""
    number = 1
    while (backup := path.with_name(f"{path.name}.corral-backup-{number}")).exists():
        number += 1
    shutil.copy2(path, backup)
    return str(backup)


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all; a link stays one."""
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 -- a descriptor
            file.write(text)
        Path(name).chmod(0o644 if mode is None else mode)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
