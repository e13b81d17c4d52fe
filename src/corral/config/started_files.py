"""The files of a repository that its corral.toml starts: a user who trusts it trusts these as they are."""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

#: tables of a repository's file that can start programs
STARTING = ("workspace", "hooks", "mcp", "agents")
#: keys whose text starts nothing
PLAIN = (
    "copy",
    "instructions",
    "prompt",
    "result",
    "success",
    "cost",
    "tokens",
    "errors",
    "fallback",
    "hosts",
    "paths",
    "skills",
)
SKILL_FOLDERS = (".corral/skills", ".claude/skills")
#: programs that run what a file of a known name says
FILES_OF = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "rake": ("Rakefile",),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "inv": ("tasks.py",),
    "invoke": ("tasks.py",),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun"), ("package.json",)),
}
SCRIPTS = (
    ".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".mk", ".awk",
)  # fmt: skip
WORD = re.compile(r"[^\s;&|<>()$`\"'={},\[\]:\\]+")
WILD = re.compile(r"[*?]")
MODULE = re.compile(r"\.{0,4}[A-Za-z_][\w.]*")
IMPORTED = (
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".sh",
    "/index.js",
    "/index.mjs",
    "/index.cjs",
    "/index.ts",
)  #: after `./name`
MOST_FILES, MOST_TEXT, MOST_WORDS, MOST_TAILS = 200, 256 << 10, 5_000, 6
MOST_ENTRIES, MOST_WILD = 1_000, 2  #: of a folder; steps of a path that hold a wildcard


class StartedFiles(Struct, frozen=True):
    """The files of a repository that its corral.toml starts."""

    files: list[Path]
    whole: bool  #: else there are more than are looked at


def started_files(folder: Path, content: bytes) -> StartedFiles:
    """Return the files below `folder` that this content of a corral.toml starts, and those that these name in turn."""
    try:
        tables = tomllib.loads(content.decode())
        texts = [text for name in STARTING for text in _texts(tables.get(name))]
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return StartedFiles([], whole=True)  # it is refused anyway
    roles = [f".corral/roles/{text}.md" for text in _roles(tables.get("agents"))]
    search = _Search(Path(os.path.realpath(folder)))
    for text in (*texts, *roles):
        search.add_named(text)
    for name in _skills(tables.get("agents")):
        search.add_below(name)
    search.follow()
    return StartedFiles(sorted(search.found), whole=search.whole)


def digest(folder: Path, content: bytes) -> bytes:
    """Return one digest over the names and contents of all that is started; empty if nothing is."""
    started = started_files(folder, content)
    whole = hashlib.sha256()
    for file in started.files:
        whole.update(os.fsencode(file) + b"\0" + os.fsencode(os.path.realpath(file)) + b"\0")
        try:
            with file.open("rb") as opened:
                whole.update(hashlib.file_digest(opened, "sha256").digest())
        except OSError:
            whole.update(b"unreadable")
    return whole.digest() if started.files else b""


def _texts(value: object, key: str = "") -> Iterator[str]:
    if key in PLAIN:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield from _texts(inner, name)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _texts(inner)


def _roles(agents: object) -> list[str]:
    return [role for role in _of_agents(agents, "role") if isinstance(role, str)]


def _skills(agents: object) -> list[str]:
    """Return the folders of the skills that agents' tables name."""
    lists = [cast("list[Any]", names) for names in _of_agents(agents, "skills") if isinstance(names, list)]
    named = dict.fromkeys(name for names in lists for name in names if isinstance(name, str) and "/" not in name)
    return [f"{folder}/{name}" for name in named for folder in SKILL_FOLDERS]


def _of_agents(agents: object, key: str) -> list[object]:
    tables = cast("dict[str, Any]", agents).values() if isinstance(agents, dict) else ()
    return [cast("dict[str, Any]", table).get(key) for table in tables if isinstance(table, dict)]


class _Search:
    """Finds what texts name below a repository, nearest first, up to a bound."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.found: dict[Path, None] = {}
        self.whole = True
        self._listed: dict[Path, frozenset[str] | None] = {}

    def add_named(self, text: str) -> None:
        """Add the files that a text of corral.toml names, and the scripts of the folders that it names."""
        for path in self._named_paths(text, self._root):
            self._add([path] if path.is_file() else self._scripts_in(path))
        self._add(self._matching(text, self._root))

    def add_below(self, name: str) -> None:
        """Add all files of a folder and of those in it."""
        top = self._below(self._root, name)
        for folder, folders, files in os.walk(top) if top else ():
            folders.sort()
            self._add(Path(folder, file) for file in sorted(files))
            if not self.whole:
                return

    def follow(self) -> None:
        """Add the scripts that the files found name, and what these name, until there is nothing new."""
        done = 0
        while done < len(self.found):
            for script in list(self.found)[done:]:
                done += 1
                text = self._text_of(script)
                self._add(
                    path for path in self._named_paths(text, script.parent) if path.is_file() and _is_script(path)
                )
                matching = self._matching(text, script.parent)
                self._add(path for path in matching if not path.suffix or _is_script(path))

    def _add(self, paths: Iterable[Path]) -> None:
        for path in paths:
            if path in self.found:
                continue
            if len(self.found) >= MOST_FILES:
                self.whole = False
                return
            self.found[path] = None

    def _words(self, text: str) -> list[str]:
        words = list(dict.fromkeys([text.strip(), *WORD.findall(text)]))
        self.whole = self.whole and len(words) <= MOST_WORDS
        return words[:MOST_WORDS]

    def _bases(self, words: Iterable[str], beside: Path) -> list[Path]:
        """Return the folders that a relative name may start from: `cd tools && ./x`."""
        folders = [path for word in words if (path := self._below(self._root, word)) and path.is_dir()]
        return list(dict.fromkeys((self._root, beside, *folders[:MOST_TAILS])))

    def _named_paths(self, text: str, beside: Path) -> list[Path]:
        """Return what a command or a script names below the repository: files, and folders other than its top."""
        words = self._words(text)
        known = [name for word in words for name in FILES_OF.get(word.rsplit("/", 1)[-1], ())]
        bases = self._bases(words, beside)
        names = (name for word in (*words, *known) for name in _spellings(word))
        found = {path: None for name in names for base in bases if (path := self._below(base, name)) is not None}
        return list(found)

    def _matching(self, text: str, beside: Path) -> list[Path]:
        """Return the files that a word with `*` or `?` means."""
        words = self._words(text)
        patterns = [name for word in words if WILD.search(word) for name in _spellings(word) if _is_pattern(name)]
        found: dict[Path, None] = {}
        for base in self._bases(words, beside) if patterns else ():
            for pattern in patterns:
                names = list(itertools.islice(glob.iglob(pattern, root_dir=base), MOST_FILES + 1))  # noqa: PTH207 -- relative names are needed
                self.whole = self.whole and len(names) <= MOST_FILES
                below = (self._below(base, name) for name in sorted(names))
                found.update({path: None for path in below if path and path.is_file()})
        return list(found)

    def _below(self, base: Path, name: str) -> Path | None:
        """Return a file or folder of this name if it lies below the repository."""
        if not name or name.startswith(("-", "/", "~")) or "\0" in name:
            return None
        first, listed = name.partition("/")[0], self._names_in(base)
        if listed is not None and first not in listed and first not in {".", "..", ""}:
            return None
        path = os.path.normpath(base / name)
        if not path.startswith(f"{self._root}{os.sep}"):
            return None
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116 -- called thousands of times
        except (OSError, ValueError):
            return None
        return Path(path) if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else None

    def _names_in(self, folder: Path) -> frozenset[str] | None:
        """Return what lies in a folder, which is read once: most words name nothing; None where it cannot be read."""
        if folder not in self._listed:
            try:
                self._listed[folder] = frozenset(os.listdir(folder))  # noqa: PTH208 -- only the names are needed
            except OSError:
                self._listed[folder] = None
        return self._listed[folder]

    def _scripts_in(self, folder: Path) -> list[Path]:
        """Return the scripts that lie in a folder itself: `run-parts hooks.d` starts them all."""
        paths = sorted(folder / name for name in self._names_in(folder) or ())
        self.whole = self.whole and len(paths) <= MOST_ENTRIES
        return [path for path in paths[:MOST_ENTRIES] if path.is_file() and _is_script(path)]

    def _text_of(self, script: Path) -> str:
        try:
            with script.open("rb") as opened:
                content = opened.read(MOST_TEXT + 1)
        except OSError:
            return ""
        if b"\0" in content:
            return ""
        self.whole = self.whole and len(content) <= MOST_TEXT
        return content[:MOST_TEXT].decode(errors="replace")


def _is_pattern(name: str) -> bool:
    """Tell whether a name with `*` or `?` means certain files: `*` alone is many things in a script."""
    wild = [part for part in name.split("/") if WILD.search(part)]
    literal = name.strip("*?./")
    return 0 < len(wild) <= MOST_WILD and len(literal) > 1 and not name.startswith(("-", "/", "~")) and ".." not in name


def _spellings(word: str) -> Iterable[str]:
    """Return the paths a word can mean: `$PWD/tools/x.sh` ends with one, and `tools.x` may be a module."""
    parts = word.split("/")
    yield from ("/".join(parts[start:]) for start in range(min(len(parts), MOST_TAILS)))
    if MODULE.fullmatch(word):
        yield from _module_files(word)
    if word.startswith("."):
        yield from (word + end for end in IMPORTED)


def _module_files(word: str) -> Iterator[str]:
    """Return the files of a Python module, with the packages it lies in: importing it starts these, too."""
    name = word.lstrip(".")
    outward = "../" * (len(word) - len(name) - 1)  # `..name` is looked for above the folder of its script
    parts = name.split(".")[:MOST_TAILS]
    module = outward + "/".join(parts)
    yield from (f"{module}.py", f"{module}/__init__.py", f"{module}/__main__.py")
    yield from (f"{outward}{'/'.join(parts[:count])}/__init__.py" for count in range(1, len(parts)))


def _is_script(path: Path) -> bool:
    known = any(path.name in names for names in FILES_OF.values())
    return known or path.suffix in SCRIPTS or os.access(path, os.X_OK)
