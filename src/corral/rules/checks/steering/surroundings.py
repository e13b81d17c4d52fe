"""Doubts about product code that newly decides by its surroundings: a terminal, a folder, a date, who runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from corral.model.evidence import Doubt
from corral.model.flow import Task
from corral.rules.checks.steering import roles
from corral.rules.checks.steering.change import Contents, PathChange
from corral.rules.checks.steering.doubts import added_lines, is_product
from corral.rules.checks.steering.recipes import is_shell
from corral.rules.checks.steering.text_doubts import COMMENT
from corral.rules.checks.steering.text_looks import LOOKS, Look

MOST_LINES, LONGEST = 5000, 400
WORDS = "decides by its surroundings"


CONDITION = re.compile(
    r"\b(?:if|elif|elsif|unless|when|case|while|until|switch|match|and|or|not)\b|\?|&&|\|\||#\[cfg|\bfilter\(|\[\[? "
)
COMPLAINS = re.compile(
    r"(?:raise|throw|panic|assert|die|abort|warn\w*|log\w*|console|fmt\.(?:Print|Fprint)\w*)\b|print(?:ln)?!?\("
)
#: Where a function begins, in most languages.
FUNCTION = re.compile(
    r"^\s*(?:export\s+)?(?:default\s+)?(?:pub(?:\(\w+\))?\s+)?(?:static\s+)?(?:async\s+)?(?:def|fn|func|function|sub|fun)\b[^\w(]*"
    r"(?:\([^)]*\)\s*)?(\w+)|^\s*(?:const|let|var|exports\.|module\.exports\.)?\s*(\w+)\s*=\s*(?:async\s*)?(?:function\b|\([^)]*\)\s*=>|\w+\s*=>)"
    r"|^(\w[\w:-]*)\s*\(\)\s*\{?"
)  # fmt: skip
NAMED = re.compile(
    r"^\s*(?:const|let|var|readonly|local|export|static|final)?\s*(?:mut\s+)?([A-Za-z_]\w*)[\w,: ]*?\s*:?=(?!=)"
)
ENTRIES = re.compile(
    r"(?i)^(?:_*main_*|cli|run|start|launch|usage|parse_?args?|__init__|setup|configure|log|print\w*|write\w*|show\w*)$"
)


def doubts_about_surroundings(changes: Sequence[PathChange], contents: Contents, task: Task) -> list[Doubt]:
    """Return new conditions, in functions that the base has, which look at something else than what they are given."""
    prompt = task.prompt.lower()
    looks = [each for each in LOOKS if not re.search(each.asked, prompt)]
    found: list[Doubt] = []
    for change in changes:
        delivered, base = (contents.get((side, change.path)) for side in ("delivered", "base"))
        if change.kind != "changed" or not delivered or not base or not _is_looked_at(change.path, delivered):
            continue
        before, now = base.decode(errors="replace"), delivered.decode(errors="replace")
        found += [
            Doubt(path=change.path, line=line, words=f"{WORDS}: {what}", strong=False)
            for line, what in _of_file(before, now.splitlines()[:MOST_LINES], looks)
        ]
    return found


def _is_looked_at(path: str, text: bytes) -> bool:
    code = roles.is_code(path) or is_shell(path, text[:200].decode(errors="replace"))
    return code and is_product(path) and not path.endswith(".md")


def _of_file(base: str, lines: Sequence[str], looks: Sequence[Look]) -> Iterator[tuple[int, str]]:
    new = {number for number in added_lines(base, "\n".join(lines)) if not COMMENT.match(lines[number - 1])}
    fresh = [each for each in looks if any(re.search(each.regex, lines[number - 1][:LONGEST]) for number in new)]
    if not fresh:
        return
    known = {name for line in base.splitlines() if (name := _function(line))}
    owners = list(_owners(lines))
    for look in fresh:
        looking = {number for number in new if re.search(look.regex, lines[number - 1][:LONGEST])}
        names = {name for number in looking for name in _names(lines[number - 1], owners[number - 1], known)}
        for number in sorted(new):
            owner, line = owners[number - 1], lines[number - 1][:LONGEST]
            if (owner and owner not in known) or ENTRIES.match(owner) or not CONDITION.search(line):
                continue
            if (look.starts and not owner and "cfg" not in line) or _only_complains(lines, number):
                continue
            if number in looking or any(re.search(rf"(?<![\w.]){re.escape(name)}\b", line) for name in names):
                yield number, look.what
                break


def _only_complains(lines: Sequence[str], number: int) -> bool:
    """Tell whether what a condition leads to is no answer: it raises, warns or prints."""
    after = next((line.strip() for line in lines[number : number + 3] if line.strip()), "")
    return bool(COMPLAINS.match(after))


def _function(line: str) -> str:
    found = FUNCTION.match(line)
    return next((each for each in found.groups() if each), "") if found else ""


def _owners(lines: Sequence[str]) -> Iterator[str]:
    """Return for each line the function that it stands in, by its indentation; "" for none."""
    open_ones: list[tuple[int, str]] = []
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if line.strip() and not line.strip().startswith((")", "]", "}")):
            while open_ones and open_ones[-1][0] >= depth:
                open_ones.pop()
        if name := _function(line):
            open_ones.append((depth, name))
        yield open_ones[-1][1] if open_ones else ""


def _names(line: str, owner: str, known: set[str]) -> Iterator[str]:
    """Return what holds the look of a line: a variable that gets it, or a new function around it."""
    if found := NAMED.match(line):
        yield found[1]
    if owner and owner not in known:
        yield owner
