"""The files of a repository that its corral.toml starts: a person who trusts it trusts these as they are."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

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
)
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
MOST_FILES, MOST_TEXT, MOST_WORDS, MOST_TAILS = 200, 256 << 10, 5_000, 6


def started_files(folder: Path, content: bytes) -> list[Path]:
    """Return the files below `folder` that this content of a corral.toml starts, and those that these name."""
    try:
        tables = tomllib.loads(content.decode())
        texts = [text for name in STARTING for text in _texts(tables.get(name))]
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return []  # it is refused anyway
    roles = [f".corral/roles/{text}.md" for text in _roles(tables.get("agents"))]
    root = Path(os.path.realpath(folder))
    found: dict[Path, None] = {}
    for text in (*texts, *roles):
        for path in _named(text, root, root):
            found.update(dict.fromkeys([path] if path.is_file() else _scripts_in(path)))
    for script in list(found)[:MOST_FILES]:
        inner = [path for path in _named(_text_of(script), root, script.parent) if path.is_file() and _is_script(path)]
        found.update(dict.fromkeys(inner))
    return sorted(found)[:MOST_FILES]


def digest(folder: Path, content: bytes) -> bytes:
    """Return one digest over the names and contents of all that is started; empty if nothing is."""
    files = started_files(folder, content)
    whole = hashlib.sha256()
    for file in files:
        whole.update(os.fsencode(file) + b"\0" + os.fsencode(os.path.realpath(file)) + b"\0")
        try:
            with file.open("rb") as opened:
                whole.update(hashlib.file_digest(opened, "sha256").digest())
        except OSError:
            whole.update(b"unreadable")
    return whole.digest() if files else b""


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
    tables = cast("dict[str, Any]", agents).values() if isinstance(agents, dict) else ()
    named = [cast("dict[str, Any]", table).get("role") for table in tables if isinstance(table, dict)]
    return [role for role in named if isinstance(role, str)]


def _named(text: str, root: Path, beside: Path) -> list[Path]:
    """Return what a command or a script names below the repository: files, and folders other than its top."""
    words = list(dict.fromkeys([text.strip(), *WORD.findall(text)]))[:MOST_WORDS]
    known = [name for word in words for name in FILES_OF.get(word.rsplit("/", 1)[-1], ())]
    folders = [path for word in words if (path := _below(root, root, word)) and path.is_dir()]
    bases = list(dict.fromkeys((root, beside, *folders[:MOST_TAILS])))
    found: dict[Path, None] = {}
    for word in (*words, *known):
        for name in _spellings(word):
            found.update({path: None for base in bases if (path := _below(root, base, name)) is not None})
        if len(found) >= MOST_FILES:
            break
    return list(found)


def _spellings(word: str) -> Iterable[str]:
    """Return the paths a word can mean: `$PWD/tools/x.sh` ends with one, and `tools.x` may be a module."""
    parts = word.split("/")
    yield from ("/".join(parts[start:]) for start in range(min(len(parts), MOST_TAILS)))
    if re.fullmatch(r"[A-Za-z_][\w.]*", word):
        module = word.replace(".", "/")
        yield from (f"{module}.py", f"{module}/__init__.py", f"{module}/__main__.py")
    elif word.startswith("."):
        yield from (f"{word}.js", f"{word}.ts", f"{word}.sh")


def _below(root: Path, base: Path, name: str) -> Path | None:
    """Return a file or folder of this name if it lies below the repository."""
    if not name or name.startswith(("-", "/", "~")) or "\0" in name:
        return None
    path = os.path.normpath(base / name)
    if not path.startswith(f"{root}{os.sep}"):
        return None
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 -- called thousands of times
    except (OSError, ValueError):
        return None
    return Path(path) if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else None


def _scripts_in(folder: Path) -> list[Path]:
    """Return the scripts that lie in a folder itself: `run-parts hooks.d` starts them all."""
    try:
        return [path for path in sorted(folder.iterdir())[:MOST_FILES] if path.is_file() and _is_script(path)]
    except OSError:
        return []


def _is_script(path: Path) -> bool:
    known = any(path.name in names for names in FILES_OF.values())
    return known or path.suffix in SCRIPTS or os.access(path, os.X_OK)


def _text_of(script: Path) -> str:
    try:
        with script.open("rb") as opened:
            content = opened.read(MOST_TEXT)
    except OSError:
        return ""
    return "" if b"\0" in content else content.decode(errors="replace")
