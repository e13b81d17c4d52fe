"""Existing tests that follow a change: moved, adapted to a rename, or with the other expected values the task needs."""

from __future__ import annotations

import builtins
import functools
import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, field

from corral.model.flow import Task
from corral.rules.checks.steering import roles
from corral.rules.checks.steering.work import CheckedWork, PathChange

#: Of tests that follow: with these words the checks must have passed before, and fail with the tests alone.
FOLLOWS = "with other expected values"
ASKED = "which the task asks to adapt"
VERBS = (
    r"\b(?:updat|adapt|adjust|chang|remov|delet|rewrit|convert|migrat|revis|drop|regenerat|refresh|modif|edit|"
    r"synchroni[sz]|renew|retir)\w*"
)
OWN = (
    r"(?:(?:the|its|their|all|any|existing|affected|corresponding|related|relevant|matching|old|unit|snapshot|golden|"
    r"expected|recorded|test|of)\s+)*"
)
NOUNS = (
    r"(?:tests?|test\s+(?:files?|cases?|suite|data|expectations?)|specs?|fixtures?|snapshots?|cassettes?|expectations?|"
    r"golden\s+files?|baselines?|expected\s+(?:values?|outputs?|results?|files?))\b"
)
JOINED = r"(?:\band|,|\bincluding|\balong\s+with|\btogether\s+with|\bas\s+well\s+as)\s+(?:also\s+)?"
#: What follows where tests are not what is to be changed, but what judges.
JUDGING = (
    r"(?!\s*(?:that|which|to|must|should|shall|will|can|may|need|pass|succeed|fail|run|say|show|expect|describe|work|"
    r"are|is|in\s+ci|stay|remain|keep|cover|green|untouched|alone)\b)"
)
TESTS_FOLLOW = re.compile(
    rf"(?i){VERBS}\s+{OWN}{NOUNS}{JUDGING}|{VERBS}(?:[^.;:\n]|\.(?=\w)){{0,80}}?{JOINED}{OWN}{NOUNS}{JUDGING}"
)
#: Tasks that leave the behaviour as it is.
KEEPS = re.compile(
    r"(?i)\b(refactor|clean|tidy|simplif|speed|faster|performan|optimi[sz]|restructur|reorgani|format|lint|document|"
    r"typ(e|ing)\s+hints?|annotat|behaviou?r\s+(must|should|stays|is kept|unchanged)|"
    r"(same|without\s+chang\w+)\s+(the\s+)?behaviou?r)"
)
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
MOVE = re.compile(r"(?i)\b(mov|renam|relocat|put|mv\b|transfer|reorgani|nest|pull|push)")
PATH_WORDS = re.compile(r"[\w.-]*\w")
MOST_MOVED = 30  #: deleted tests that are compared with each added one


def asks_for_tests(work: CheckedWork, task: Task, path: str) -> bool:
    """Tell whether the task asks to change existing tests, or their data, along with the product, as they were."""
    prompt = roles.FORBIDS.sub(" ", task.prompt)
    return roles.role_of(path) in ("test", "data") and bool(TESTS_FOLLOW.search(prompt)) and _changes_product(work)


def may_follow(work: CheckedWork, task: Task, path: str) -> bool:
    """Tell a test of which only literals became others, beside a change of the product."""
    if roles.role_of(path) != "test" or path not in work.base or path not in work.delivered:
        return False
    if task.type == "refactor" or KEEPS.search(task.prompt) or roles.FORBIDS.search(task.prompt):
        return False
    before, after = work.text("base", path), work.text("delivered", path)
    return _changes_product(work) and before is not None and after is not None and _only_literals(before, after)


def _changes_product(work: CheckedWork) -> bool:
    return any(roles.is_code(each.path) and roles.role_of(each.path) == "product" for each in work.changes)


def _only_literals(before: str, after: str) -> bool:
    if before == after or max(len(before), len(after)) > LONGEST_TEXT:
        return False
    old, new = tokens(before), tokens(after)
    return len(old) == len(new) and all(
        one == other or (_kind(one) != "" and _kind(one) == _kind(other)) for one, other in zip(old, new, strict=True)
    )


def _kind(token: str) -> str:
    """Return what kind of literal a token is; nothing where it is none."""
    return "number" if token[0].isdigit() else "text" if token[0] in "\"'" and len(token) > 1 else ""


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


class Renames(Struct):
    """Tests that count as the same: all their paths, old path -> new path, and names, old -> new."""

    same: set[str] = field(default_factory=set[str])
    moved: dict[str, str] = field(default_factory=dict[str, str])
    renamed: dict[str, str] = field(default_factory=dict[str, str])


def renames(work: CheckedWork, task: Task) -> Renames:
    found = Renames()
    tests = [each for each in work.changes if _may_follow(each)]
    old = [each.path for each in tests if each.kind == "deleted"]
    named: dict[str, list[str]] = {}
    for path in old:
        named.setdefault(PurePosixPath(path).name, []).append(path)
    gone, known = removed_modules(work), _delivered_names(work)
    for each in tests:
        if each.kind == "deleted":
            continue
        sources = [each.path] if each.kind == "changed" else _sources(each.path, old, named, found.moved)
        for was in sources:
            how = _asked_adaptation(work, task, (was, each.path), gone, known)
            if how is not None:
                found.same |= {was, each.path}
                found.moved |= {was: each.path} if was != each.path else {}
                found.renamed |= dict(how.renamed)
                break
    return found


def _may_follow(change: PathChange) -> bool:
    """Tell a test, or a changed conftest.py or its like, that may only follow a rename."""
    role = roles.role_of(change.path)
    return roles.is_code(change.path) and (role == "test" or (role == "runner" and change.kind == "changed"))


def _sources(path: str, old: Sequence[str], named: Mapping[str, Sequence[str]], moved: Collection[str]) -> list[str]:
    """Return deleted tests that an added one may have been: of the same file name, or any where these are few."""
    near = named.get(PurePosixPath(path).name, ())[:MOST_MOVED]
    return [each for each in (*near, *(old if len(old) <= MOST_MOVED else ())) if each not in moved]


def _asked_adaptation(
    work: CheckedWork, task: Task, paths: tuple[str, str], gone: Collection[str], known: Collection[str]
) -> Adaptation | None:
    old, new = paths
    before, after = work.text("base", old), work.text("delivered", new)
    how = None if before is None or after is None else find_adaptation(before, after)
    if how is None:
        return None
    moved = old != new and not how.renamed and (roles.is_named(task, old) or roles.is_named(task, new))
    moved |= how == Adaptation() and _is_folder_moved(work, task, PurePosixPath(old), PurePosixPath(new))
    return how if moved or is_asked_for(how, task.prompt, gone, known) else None


def _is_folder_moved(work: CheckedWork, task: Task, old: PurePosixPath, new: PurePosixPath) -> bool:
    """Tell whether the task moves a folder, its code and its tests together: it names where it lies then."""
    if old.name != new.name or not MOVE.search(task.prompt):
        return False
    beside = {
        path for path in work.base if PurePosixPath(path).parent == old.parent and roles.role_of(path) == "product"
    }
    together = all(str(new.parent / PurePosixPath(path).name) in work.added for path in beside)
    brought = {*new.parts} - {*old.parts}
    return (
        together and bool(beside) and not beside & work.delivered and bool(brought & {*PATH_WORDS.findall(task.prompt)})
    )


def _delivered_names(work: CheckedWork) -> set[str]:
    paths = [PurePosixPath(path) for path in work.delivered]
    return {part for path in paths for part in (*path.parts[:-1], path.stem)}


@functools.lru_cache(2)
def removed_modules(work: CheckedWork) -> set[str]:
    """Return names of modules and packages that the work took away."""
    left = {part for path in work.delivered for part in PurePosixPath(path).parts[:-1]}
    product = [each.path for each in work.changes if each.kind == "deleted" and roles.role_of(each.path) == "product"]
    return {PurePosixPath(path).stem for path in product} | {
        part for path in product for part in PurePosixPath(path).parts[:-1] if part not in left
    }
