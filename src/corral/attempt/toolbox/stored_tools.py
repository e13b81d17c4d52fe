"""Tools that users keep: a program and its declaration, of a repository, a user or a package, approved by content."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from corral.config.paths import user_file
from corral.model import ENCODER
from corral.model.errors import BadRequest, NotFound
from corral.model.program import MOST_SOURCE_BYTES, SUFFIXES, Language, Program, ProgramLimits, ToolCall
from corral.rules.flows.schemas import misfits
from corral.world import untrusted_files
from corral.world.trust import Trust

NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
MOST_DECLARATION = 1 << 20
MOST_TOOLS = 500  #: of one place
GROUP = "corral.tools"  #: the entry points of tools that packages bring: each names the folder of its files
Place = Literal["repository", "user", "package"]
ENDINGS: dict[Language, str] = {"javascript": ".js", "typescript": ".ts", "python": ".py"}


class ToolExample(Struct, frozen=True, kw_only=True):
    """One use, recorded: the same input and the same answers must give the same result."""

    input: Any = None
    calls: tuple[ToolCall, ...] = ()
    result: Any = None


class ToolDeclaration(Struct, frozen=True, kw_only=True):
    """What is beside a tool's program."""

    description: str = ""
    version: int = 1
    language: Language
    tools: tuple[str, ...] = ()
    input_schema: dict[str, Any] = field(default_factory=dict[str, Any])
    output_schema: dict[str, Any] = field(default_factory=dict[str, Any])
    limits: ProgramLimits = ProgramLimits()
    created: str = ""
    created_by: str = "user"
    example: ToolExample | None = None


class StoredTool(Struct, frozen=True, kw_only=True):
    """A tool as it lies on the disk now."""

    name: str
    place: Place
    folder: str
    source: str
    declaration: ToolDeclaration

    @property
    def hash(self) -> str:
        """Return what is approved: all that decides what the tool does."""
        about = self.declaration
        parts = (self.name, about.language, self.source, about.tools, about.limits, about.input_schema)
        return hashlib.sha256(ENCODER.encode((*parts, about.output_schema))).hexdigest()

    @property
    def program(self) -> Program:
        about = self.declaration
        name = f"{self.name}{ENDINGS[about.language]}"
        return Program(name=name, language=about.language, source=self.source, tools=about.tools, limits=about.limits)

    def check_input(self, given: object) -> None:
        """Raise BadRequest where an input does not fit."""
        if wrong := list(misfits(given, self.declaration.input_schema)):
            raise BadRequest(
                f"the input of {self.name} does not fit: {'; '.join(wrong[:5])}",
                hint="correct the input, and call again",
            )


class StoredTools:
    """The tools of one repository and of its user."""

    def __init__(self, root: Path | None, home: Path) -> None:
        self.places: dict[Place, Path] = {"repository": root / ".corral" / "tools"} if root else {}
        self.places["user"] = user_file().parent / "tools"
        self._trust = Trust(home)

    def all(self) -> Iterator[StoredTool]:
        """Yield the tools, the repository's first; one of the user's that has the name of another is hidden by it."""
        seen: set[str] = set()
        for place, folder in self.places.items():
            for file in untrusted_files.names(folder)[: 2 * MOST_TOOLS]:
                name = file.removesuffix(".json")
                if file.endswith(".json") and name not in seen and (found := _read(place, folder, name)):
                    seen.add(name)
                    yield found
        for name, folder in _package_folders().items():
            if name not in seen and (found := _read("package", folder, name)):
                yield found

    def get(self, name: str) -> StoredTool:
        check_name(name)
        for place, folder in self.places.items():
            if found := _read(place, folder, name):
                return found
        if (folder := _package_folders().get(name)) and (found := _read("package", folder, name)):
            return found
        raise NotFound(f"there is no tool `{name}`", hint="see `corral tools ls`")

    def is_approved(self, tool: StoredTool) -> bool:
        return self._trust.has(_mark(tool))

    def approve(self, tool: StoredTool) -> None:
        """Let this content run from this place."""
        self._trust.add(_mark(tool), of=_mark(tool))

    def find_approved(self, name: str) -> StoredTool:
        """Return a tool that may run; BadRequest where the user has not approved its content."""
        tool = self.get(name)
        if not self.is_approved(tool):
            raise BadRequest(
                f"the tool `{name}` is not approved as it is now",
                hint=f"look at it: corral tools show {name}; then: corral tools approve {name}",
            )
        return tool

    def write(self, tool: StoredTool) -> None:
        folder = self.places[tool.place]
        for each in (folder.parent, folder):
            if each.is_symlink():
                raise BadRequest(f"{each} is a link", hint="replace it by a folder")
        folder.mkdir(parents=True, exist_ok=True)
        self.remove(tool)
        write_files(tool, folder)

    def remove(self, tool: StoredTool) -> None:
        if tool.place == "package":
            raise BadRequest(f"a package brings the tool `{tool.name}`", hint="uninstall it: corral plugins ls")
        folder = self.places[tool.place]
        for ending in (*SUFFIXES, ".json"):
            (folder / f"{tool.name}{ending}").unlink(missing_ok=True)


def _package_folders() -> dict[str, Path]:
    """Return where packages have the files of their tools; what cannot be loaded is named by `corral plugins ls`."""
    from importlib import metadata  # noqa: PLC0415 -- slow to load, and few programs name a tool

    found: dict[str, Path] = {}
    for point in metadata.entry_points(group=GROUP):
        with contextlib.suppress(Exception):
            found.setdefault(point.name, Path(point.load()).resolve())
    return found


def _read(place: Place, folder: Path, name: str) -> StoredTool | None:
    if not NAME.fullmatch(name):
        return None
    folder = folder.absolute()
    body = untrusted_files.read(folder / f"{name}.json", MOST_DECLARATION)
    if body is None:
        return None
    try:
        about = msgspec.json.decode(body, type=ToolDeclaration)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    source = untrusted_files.read(folder / f"{name}{ENDINGS[about.language]}", MOST_SOURCE_BYTES + 1)
    if source is None or len(source) > MOST_SOURCE_BYTES:
        return None
    text = source.decode(errors="replace")
    return StoredTool(name=name, place=place, folder=str(folder), source=text, declaration=about)


def write_files(tool: StoredTool, folder: Path) -> tuple[Path, Path]:
    """Write a tool's program and declaration as new files; BadRequest where one is there already."""
    program, about = (folder / f"{tool.name}{ending}" for ending in (ENDINGS[tool.declaration.language], ".json"))
    body = msgspec.json.format(ENCODER.encode(tool.declaration), indent=2)
    try:
        for file, content in ((program, tool.source.encode()), (about, body + b"\n")):
            with file.open("xb") as opened:
                opened.write(content)
    except OSError as error:
        raise BadRequest(f"{error.filename}: {error.strerror}", hint="name a folder that has no such file") from error
    return program, about


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadRequest(
            f"`{name[:80]}` cannot be the name of a tool", hint="a-z, 0-9 and -; a letter first; at most 63"
        )


def _mark(tool: StoredTool) -> str:
    return "tool:" + hashlib.sha256(f"{tool.folder}\0{tool.name}\0{tool.hash}".encode()).hexdigest()
