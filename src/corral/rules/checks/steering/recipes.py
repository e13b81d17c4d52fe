"""Files that give orders (makefiles, justfiles, package.json ...) and shell scripts: their commands and targets."""

from __future__ import annotations

import json
import re
from typing import cast

RECIPES = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", ".justfile", "Justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml"),
    "rake": ("Rakefile", "rakefile"),
    "npm": ("package.json",),
    "tox": ("tox.ini", "tox.toml"),
}
#: What a makefile or justfile reads as well.
INCLUDES = re.compile(r"(?m)^\s*(?:-?s?include|import\??|mod\??)\s+(.+)$")
LOADS_ENV = re.compile(r"(?m)^set dotenv-(load|required|filename|path)|^\s*dotenv:")


def scripts(text: str) -> dict[str, str]:
    """Return the scripts of a package.json; none where it cannot be read."""
    try:
        found: object = json.loads(text).get("scripts")
    except (ValueError, AttributeError, RecursionError):
        return {}
    return (
        {str(name): str(line) for name, line in cast("dict[str, object]", found).items()}
        if isinstance(found, dict)
        else {}
    )


def recipe_lines(path: str, text: str) -> list[str]:
    """Return the shell lines of a file that gives orders."""
    if path.endswith(".json"):
        return [*scripts(text).values()]
    joined = text.replace("\\\n", " ")
    lines = re.findall(r"(?m)^[ \t]+[-@+]*(.*)$", joined) + re.findall(r"(?m)^[\w./%-]+\s*:[^=\n]*;(.*)$", joined)
    return [line.replace("$$", "$").removeprefix("- ").removeprefix("cmd: ") for line in lines]


def defines(path: str, text: str, name: str) -> bool:
    """Tell whether a file that gives orders defines a target, recipe or script."""
    if path.endswith(".json"):
        return name in scripts(text)
    if name == "all":
        return bool(re.search(r"(?m)^[^\s#.:=][^:=\n]*:(?!=)", text))
    word = re.escape(name)
    return bool(
        re.search(
            rf"(?m)^@?(?:[^\s#:=][^:=\n]*\s)?{word}(?:\s[^:=\n]*)?:(?!=)|^\s+{word}:|\btask\s*[:(]?\s*[:'\"]?{word}\b",
            text,
        )
    ) or ("%" in text and bool(re.search(r"(?m)^[\w./-]*%[\w./-]*\s*:", text)))


def is_settings(text: str) -> bool:
    """Tell shell text that only sets variables and options: it sets up the script that reads it."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return all(re.match(r"(export\s+)?\w+=|set [-+]|export\s+\w+|shopt|unset", line) for line in lines)


def is_shell(path: str, text: str) -> bool:
    return path.endswith((".sh", ".bash", ".zsh", ".ksh", ".bats")) or bool(
        re.match(r"#!.*\b(sh|bash|dash|zsh|ksh)\b", text)
    )
