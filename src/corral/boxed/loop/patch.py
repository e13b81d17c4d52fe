"""Unified diffs as models write them: line numbers are hints, the lines themselves decide. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

HUNK = re.compile(r"^@@(?: -(?P<line>\d{1,9})(?:,\d+)? \+\d+(?:,\d+)?)?.*@@")


class ModelHunk(Struct, frozen=True):
    line: int  #: where its author thinks it begins, counted from 1
    old: tuple[str, ...]
    new: tuple[str, ...]


def hunks(lines: list[str], at: int) -> tuple[list[ModelHunk], int]:
    """Read the hunks that begin at a line; return them and where they end."""
    found: list[ModelHunk] = []
    while at < len(lines):
        head = HUNK.match(lines[at])
        if not head:
            break
        at += 1
        start = at
        while at < len(lines) and _belongs(lines, at):
            at += 1
        body = lines[start:at]
        while body and not body[-1]:
            body.pop()  # an empty line behind the last one is talk, not context
        found.append(
            ModelHunk(
                int(head["line"] or 1),
                tuple(line[1:] for line in body if line[:1] in ("", " ", "-")),
                tuple(line[1:] for line in body if line[:1] in ("", " ", "+")),
            )
        )
    return [hunk for hunk in found if hunk.old or hunk.new], at


def apply(text: str, changes: tuple[ModelHunk, ...]) -> str | None:
    """Return the text with all hunks applied, or None where one fits nowhere."""
    lines = text.split("\n")
    is_whole = lines[-1] == ""  # it ends with a newline, as texts do
    if is_whole:
        lines.pop()
    shift = 0
    for hunk in changes:
        place = _find(lines, hunk.old, hunk.line - 1 + shift)
        if place is None:
            return None
        lines[place : place + len(hunk.old)] = hunk.new
        shift += len(hunk.new) - len(hunk.old)
    return "\n".join(lines) + ("\n" if lines and (is_whole or not text) else "")


def _belongs(lines: list[str], at: int) -> bool:
    line = lines[at]
    if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
        return False
    return line[:1] in ("", " ", "+", "-", "\\") and not line.startswith("```")


def _find(lines: list[str], old: tuple[str, ...], hint: int) -> int | None:
    """Find where lines stand, the nearest to the hint; spaces at their ends do not count if nothing else fits."""
    if not old:
        return min(max(hint, 0), len(lines))
    for same in (_exact, _bare):
        wanted = same(old)
        have = same(lines)
        size = len(wanted)
        places = [place for place in range(len(have) - size + 1) if have[place : place + size] == wanted]
        if places:
            return min(places, key=lambda place: abs(place - hint))
    return None


def _exact(lines: Sequence[str]) -> list[str]:
    return list(lines)


def _bare(lines: Sequence[str]) -> list[str]:
    return [line.rstrip() for line in lines]
