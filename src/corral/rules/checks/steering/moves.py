"""Tests that were only adapted to a rename: equal but for imports, and for names that the task itself renames."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection

from msgspec import Struct

LONGEST_TEXT = 200_000  #: what is longer counts as another test
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|\S")
NAME = re.compile(r"[A-Za-z_]\w*")
WORDS = re.compile(r"[A-Za-z_]\w*")
#: Lines that bring names in, by how they begin; the whole statement up to its closing bracket.
IMPORTS = re.compile(
    r"(?m)^[ \t]*(?:"
    r"from\s+[\w.]+\s+import\s*(?:\([^)]{0,2000}\)|[^\n]*)|import\s*\([^)]{0,2000}\)|import\s*\{[^}]{0,1000}\}\s*from[^\n]*|import\s[^\n]*|"
    r"(?:const|let|var)\s+[\w{},\s*:$]{1,300}=\s*(?:await\s+)?(?:require|import)\([^)]*\)[^\n]*|export\s[^\n]*\sfrom\s[^\n]*|"
    r"use\s+[\w:{},\s*]{1,300};|package\s[\w.;]+|#include[^\n]*|require(?:_relative)?\s[^\n]*|mod\s+\w+;"
    r")[ \t]*\n?"
)
RESERVED = frozenset({
    *keyword.kwlist, *dir(builtins), "pytest", "unittest", "expect", "assert", "describe", "it", "test",
    "self", "skip", "xfail", "todo", "mark", "true", "false", "null", "undefined", "nil",
})  # fmt: skip


class Adaptation(Struct, frozen=True):
    """How one text became another: modules it imports no longer and anew, and names that became other names."""

    dropped: frozenset[str] = frozenset()  #: words of import statements
    brought: frozenset[str] = frozenset()
    renamed: tuple[tuple[str, str], ...] = ()


def find_adaptation(before: str, after: str) -> Adaptation | None:
    """Return how a test was adapted; None: it became another test."""
    if len(before) > LONGEST_TEXT or len(after) > LONGEST_TEXT:
        return None
    imports, now = imported_names(before), imported_names(after)
    old, new = tokens(IMPORTS.sub("", before)), tokens(IMPORTS.sub("", after))
    if len(old) != len(new) or not old:
        return None
    pairs: dict[str, str] = {}
    for first, second in zip(old, new, strict=True):
        if first[:1] in "'\"" and first != second:
            inner = tokens(first[1:-1]), tokens(second[1:-1])
            if len(inner[0]) != len(inner[1]) or first[:1] != second[:1]:
                return None
            changed = list(zip(*inner, strict=True))
        else:
            changed = [(first, second)]
        for one, other in changed:
            if pairs.setdefault(one, other) != other:
                return None
    renamed = tuple((one, other) for one, other in pairs.items() if one != other)
    if any(not _may_be_renamed(one) or not _may_be_renamed(other) for one, other in renamed):
        return None
    if any(other in pairs for _, other in renamed):  # a name that was there already now means something else
        return None
    return Adaptation(frozenset(imports - now), frozenset(now - imports), renamed)


def is_asked_for(change: Adaptation, prompt: str, gone: Collection[str], known: Collection[str]) -> bool:
    """Tell whether the task asks for what the test was adapted to.

    `gone`: stems of product files that the work took away or moved; `known`: stems of what it delivers.
    A renamed name must be in the task under both names; a changed import under one, its old file gone.
    """
    words = {*WORDS.findall(prompt)} | {
        part for word in re.findall(r"[\w./-]+", prompt) for part in re.split(r"[./]", word)
    }
    moved = change.dropped & {*gone}
    sure = {(old, new) for old, new in change.renamed if _is_asked(old, new, words, gone, known)}
    for old, new in change.renamed:
        if (old, new) not in sure and not any(old.replace(one, other) == new for one, other in sure):
            return False
    if not change.dropped and not change.brought:
        return bool(change.renamed)
    names = {old for old, _ in change.renamed} | moved
    if not names:  # a file that was moved and keeps its name: only the package before it is another
        return bool(change.brought | change.dropped) and bool((change.brought | change.dropped) & words) and bool(gone)
    rest = change.brought - {new for _, new in change.renamed}
    return bool((names | rest) & words) and rest <= {*known}


def _is_asked(old: str, new: str, words: Collection[str], gone: Collection[str], known: Collection[str]) -> bool:
    return (old in words and new in words) or (old in gone and new in known and (old in words or new in words))


def tokens(text: str) -> list[str]:
    """Return the words, literals and signs of code in any language; whole lines of comment are left out."""
    text = re.sub(r"(?m)^\s*(#|//).*$", "", text)
    return TOKEN.findall(text)


def imported_names(text: str) -> set[str]:
    """Return the names of modules and packages in import statements."""
    found: set[str] = set()
    for statement in IMPORTS.findall(text):
        where = re.match(r"\s*from\s+([\w.]+)\s+import|\s*import\s+([\w., ]+)$", statement)
        quoted = re.findall(r"['\"]([^'\"]+)['\"]", statement)
        if where:
            found |= {*WORDS.findall(where[1] or where[2] or "")}
        if quoted:
            found |= {word for text in quoted for word in re.split(r"[/.]", text) if word}
        if statement.lstrip().startswith(("use ", "mod ", "package ")):
            found |= {*WORDS.findall(statement)} - {"use", "mod", "package", "crate", "super", "self"}
    return found


def _may_be_renamed(token: str) -> bool:
    return bool(NAME.fullmatch(token)) and token not in RESERVED and not token.startswith("assert")
