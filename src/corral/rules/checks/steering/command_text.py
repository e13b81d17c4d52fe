"""Text of commands: shell text in its words, and files that hold commands (makefiles, package.json, scripts ...)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import cast

from corral.rules.shell.words import ASSIGNMENT, ShellToken, plain, split, tokenize
from corral.rules.shell.wrappers import WRAPPERS

#: Programs that start another one: what is before the program, apart from options.
RUN_WORDS: dict[str, tuple[str, ...]] = {
    "uv": ("run",), "poetry": ("run",), "pipenv": ("run",), "hatch": ("run",), "pdm": ("run",), "rye": ("run",),
    "bundle": ("exec",), "coverage": ("run",), "sudo": (), "npx": (), "bunx": (), "pnpx": (), "uvx": (), "doas": (),
    "busybox": (), "direnv": ("exec",), "dotenv": (), "cross-env": (), "wireit": (), "conda": ("run",),
    "mise": ("exec",),
}  # fmt: skip
#: Options of those that take a value.
RUN_OPTIONS = frozenset({"--with", "-p", "--package", "--python", "--extra", "--group", "--from", "-m", "-c"})
SEPARATORS = {"&&", "||", ";", "&", "\n", ";;", "(", ")"}
#: Programs at the end of a pipe that judge nothing.
PASS_ON = frozenset({"tee", "cat", "head", "tail", "sed", "ts", "column", "less", "more"})
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


def pipelines(text: str) -> list[list[list[str]]]:
    """Return the pipelines of shell text without substitutions: of each its stages, of each stage its words."""
    found: list[list[list[str]]] = []
    for line in _logical_lines(text):
        tokens = tokenize(line)
        if tokens is None:
            tokens = [ShellToken(word) for word in line.split()]
        for pipeline in split(tokens, SEPARATORS):
            stages = [_words(stage) for stage in split(pipeline, {"|", "|&"})]
            while len(stages) > 1 and stages[-1][:1] and stages[-1][0] in PASS_ON:
                stages.pop()
            found.append(stages)
    return found


def without_substitutions(text: str) -> tuple[str, list[str]]:
    """Take `$(...)` and backquotes out of shell text, and return them apart: only their output counts."""
    inner: list[str] = []
    out: list[str] = []
    place = 0
    while place < len(text):
        if text.startswith(("$(", "<("), place) and not text.startswith("$((", place):
            end = _matching(text, place + 2)
            inner.append(text[place + 2 : end])
            out.append("_")
            place = end + 1
        elif text[place] == "`" and "`" in text[place + 1 :]:
            end = text.index("`", place + 1)
            inner.append(text[place + 1 : end])
            out.append("_")
            place = end + 1
        else:
            out.append(text[place])
            place += 1
    return "".join(out), inner


def _matching(text: str, start: int) -> int:
    depth, place = 1, start
    while place < len(text):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
        place += 1
    return len(text)


def _logical_lines(text: str) -> list[str]:
    """Split into lines, but keep quoted line breaks; here-documents are dropped: they are data."""
    text = re.sub(r"<<-?\s*(['\"]?)(\w+)\1(.*)\n(?:.*\n){0,300}?\s*\2(?:\n|$)", r"\3\n", text.replace("\\\n", " "))
    if tokenize(text) is not None:
        return [text]
    return text.splitlines()


def _words(tokens: Sequence[ShellToken]) -> list[str]:
    words = [token.text for token in plain(tokens)]
    while words and words[0] in ("if", "then", "else", "elif", "while", "until", "do", "!", "{", "}", "time"):
        words.pop(0)
    return words


def unwrap(words: Sequence[str]) -> list[str]:
    """Return the command behind assignments and programs that only start another one."""
    left = list(words)
    for _ in range(8):
        while left and ASSIGNMENT.fullmatch(left[0]):
            left.pop(0)
        name = PurePosixPath(left[0]).name if left else ""
        if name in WRAPPERS:
            left = _behind_wrapper(name, left[1:])
        elif name in RUN_WORDS and (not RUN_WORDS[name] or left[1:2] == [*RUN_WORDS[name]]):
            left = _behind_runner(name, left[1 + len(RUN_WORDS[name]) :])
            if name == "coverage":
                break
        else:
            break
    return left


def _behind_wrapper(name: str, words: Sequence[str]) -> list[str]:
    valued, arguments = WRAPPERS[name]
    left = list(words)
    while left and (left[0].startswith("-") or (name == "env" and ASSIGNMENT.fullmatch(left[0]))):
        if left.pop(0) in valued and left:
            left.pop(0)
    return left[arguments:]


def _behind_runner(name: str, words: Sequence[str]) -> list[str]:
    left = list(words)
    while left and left[0].startswith("-"):
        option = left.pop(0)
        if name == "coverage" and option == "-m":
            return ["python", "-m", *left]
        if option in RUN_OPTIONS and left:
            left.pop(0)
    return ["python", *left] if name == "coverage" else left


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
