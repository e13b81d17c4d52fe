"""Plain text in columns, as wide as the terminal; loaded without anything else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from corral.frontends.safe_text import visible


def ago(then: float) -> str:
    passed = max(0.0, time.time() - then)
    for limit, unit, name in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h")):
        if passed < limit:
            return f"{passed / unit:.0f}{name}"
    return f"{passed / 86400:.0f}d"


def printable(text: str) -> str:
    """Keep an agent's control codes, and line breaks in names, from driving the reader's terminal."""
    return visible(text).replace("\n", "^J")


def one_line(text: str, width: int) -> str:
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= width else flat[: max(0, width - 1)] + "…"


def width() -> int:
    """Return the columns there are: COLUMNS, the terminal's, or 100."""
    named = os.environ.get("COLUMNS", "")
    if named.isdigit() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 100
    except (OSError, ValueError):
        return 100


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns; the last takes what is left of the terminal's width."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head) - 1)]
    room = max(20, width() - sum(widths) - 2 * len(widths))
    lines: list[str] = []
    for row in (head, *rows):
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, one_line(row[-1], room)]).rstrip())
    return lines
