"""Shell text taken apart: substitutions, lines, pipes, words, and programs that only start another one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from corral.rules.shell.words import ASSIGNMENT, ShellToken, plain, split, tokenize
from corral.rules.shell.wrappers import WRAPPERS

#: Programs that start another one: what stands before the program, apart from options.
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
