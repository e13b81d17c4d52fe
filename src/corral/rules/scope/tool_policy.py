"""Rules for single tools and commands: allowed, asked for, or denied, by patterns of a call's words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast, get_args

from msgspec import Struct

from corral.model import PolicyRules, PolicyWord

STRICTNESS: tuple[PolicyWord, ...] = get_args(PolicyWord)
#: The argument of a call that is its second word, the first that it has.
MAIN_ARGUMENTS = (
    "command", "cmd", "path", "file_path", "filePath", "notebook_path", "absolute_path", "dir_path", "url", "pattern",
    "query", "text", "name", "to", "task", "question", "words", "action", "description", "prompt",
)  # fmt: skip
COMMANDS = ("command", "cmd")
#: A shell that is given its command line as an argument: the line is what is judged.
SHELL_WORDS = 3
MOST_LINE = 2000  #: characters of a call that patterns see
SEPARATORS = re.compile(r"&&|\|\||\$\(|[;&|\n`(){}]")
QUOTES = str.maketrans("", "", "'\"\\")


class PolicyVerdict(Struct, frozen=True):
    """What the rules say of a call."""

    word: PolicyWord
    rule: str | None = None  #: the pattern that decided; None: the default did
    line: str = ""  #: the call


def judge_call(rules: Iterable[PolicyRules], tool: str, arguments: object) -> PolicyVerdict:
    """Return what all files say together: the strictest word holds."""
    table: Mapping[str, Any] = cast("Mapping[str, Any]", arguments) if isinstance(arguments, Mapping) else {}
    texts = {name: _text(table[name]) for name in MAIN_ARGUMENTS if isinstance(table.get(name), str | list)}
    value = next(iter(texts.values()), "")
    line = _plain(f"{tool} {value}")
    commands = [_plain(part) for name in COMMANDS if name in texts for part in SEPARATORS.split(texts[name])]
    commands = [part for part in commands if part]
    found = [_judge(each, [tool, line], commands) for each in rules]
    strictest = max(found, key=lambda each: STRICTNESS.index(each[0]), default=("allow", None))
    return PolicyVerdict(strictest[0], strictest[1], line[:MOST_LINE])


def _judge(rules: PolicyRules, names: Sequence[str], commands: Sequence[str]) -> tuple[PolicyWord, str | None]:
    for word, patterns in (("deny", rules.deny), ("ask", rules.ask)):
        for pattern in patterns:
            if any(_matches(pattern, each) for each in (*names, *commands)):
                return cast("PolicyWord", word), pattern
    for pattern in rules.allow:
        if any(_matches(pattern, each) for each in names):
            return "allow", pattern
    allowing = [next((rule for rule in rules.allow if _matches(rule, each)), None) for each in commands]
    if commands and all(allowing):
        return "allow", allowing[0]
    return rules.default, None


def _matches(pattern: str, text: str) -> bool:
    """Tell whether a pattern fits a text, or its first words."""
    text = text[:MOST_LINE]
    return fnmatchcase(text, pattern) or fnmatchcase(text, f"{pattern} *")


def _text(value: object) -> str:
    """Return a command line that is given as words; of a shell, the line it is to run."""
    if isinstance(value, str):
        return value
    words = [str(word) for word in cast("list[object]", value)]
    if len(words) == SHELL_WORDS and words[0].rpartition("/")[2] in ("sh", "bash", "zsh") and words[1].startswith("-"):
        return words[2]
    return " ".join(words)


def _plain(text: str) -> str:
    return " ".join(text.translate(QUOTES).split())
