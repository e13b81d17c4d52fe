"""Shorten what is handed on by plain rules: the beginning, the end, and every line that must not be lost."""

from __future__ import annotations

import re
from collections.abc import Sequence

HEAD_SHARE, TAIL_SHARE = 0.35, 0.35
#: Lines that tell more than others: decisions, constraints, troubles, open questions.
TELLING = re.compile(
    r"\b(error|fail(ed|ure|s)?|exception|traceback|panic|assert\w*|warning|decision|decided|must( not)?|constraint|"
    r"todo|"
    r"open question|because|never|always|breaking|deprecated)\b|^\s*(E |FAILED|ERROR|#+ )",
    re.IGNORECASE,
)


def condense(text: str, most: int, keep: Sequence[str] = ()) -> str:
    """Return at most about `most` characters of a text: what it opens and ends with, and lines worth most in between.

    Lines that hold a word of `keep` (names of files, decisions, errors) come before all others.
    """
    if len(text) <= most:
        return text
    lines = text.splitlines()
    head = _take(lines, int(most * HEAD_SHARE))
    tail = _take(lines[len(head) :][::-1], int(most * TAIL_SHARE))[::-1]
    middle = lines[len(head) : len(lines) - len(tail)]
    room = most - sum(len(line) + 1 for line in (*head, *tail))
    wanted = [place for place, line in enumerate(middle) if any(word and word in line for word in keep)]
    wanted += [place for place, line in enumerate(middle) if place not in set(wanted) and TELLING.search(line)]
    chosen: set[int] = set()
    for place in wanted:
        if len(middle[place]) + 1 <= room:
            room -= len(middle[place]) + 1
            chosen.add(place)
    return "\n".join([*head, *_gaps(middle, chosen), *tail])


def _take(lines: Sequence[str], most: int) -> list[str]:
    taken: list[str] = []
    for line in lines:
        if most < len(line) + 1:
            return taken or [line[: max(most, 0)]]
        most -= len(line) + 1
        taken.append(line)
    return taken


def _gaps(lines: Sequence[str], chosen: set[int]) -> list[str]:
    """Return the chosen lines, with a mark where others were left out."""
    shown: list[str] = []
    left_out = 0
    for place, line in enumerate(lines):
        if place in chosen:
            shown += [f"[... {left_out} lines left out ...]"] if left_out else []
            shown.append(line)
            left_out = 0
        else:
            left_out += 1
    return [*shown, f"[... {left_out} lines left out ...]"] if left_out else shown
