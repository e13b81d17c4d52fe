"""Amounts, times and states as people read them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

SIGNS = {
    "done": "✓", "failed": "✗", "timed_out": "✗", "running": "▸", "waiting": "?", "queued": "…", "skipped": "-",
    "stopped": "■", "paused": "‖", "partial": "◐", "limited": "◷", "over_budget": "$", "merged": "✓", "conflict": "⚠",
    "ready": "→", "undone": "↶", "at work": "▸", "stale": "◷", "blocked": "?",
    "held-out": "◆", "proven": "✓", "unharmed": "○", "unchecked": "-", "doubtful": "⚠",
}  # fmt: skip

#: What each grade of evidence says, in a sentence.
GRADES_SAY = {
    "held-out": "Checks that the agent never saw pass.",
    "proven": "Its checks fail at the base and pass with the base's own tests.",
    "unharmed": "Its checks pass with and without the change: nothing shows progress, and no harm.",
    "unchecked": "There was no check.",
    "doubtful": "Something speaks against it.",
}

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
#: Control codes, and those that make text run the other way: they could make one thing look like another.
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Return text that others wrote as nothing but text: no terminal codes, nothing that turns it around."""
    return UNSEEN.sub("\ufffd", ANSI.sub("", text.replace("\r\n", "\n")))


def sign(status: str) -> str:
    """Return a sign that tells a state without its colour."""
    return SIGNS.get(status, "•")


def _epoch(when: float | str) -> float:
    return datetime.fromisoformat(when).timestamp() if isinstance(when, str) else when


def ago(when: float | str | None) -> str:
    """Return how long ago something was, or how far ahead it is."""
    if when is None:
        return "never"
    passed = time.time() - _epoch(when)
    told = seconds(abs(passed))
    if abs(passed) < 1:
        return "now"
    return f"{told} ago" if passed > 0 else f"in {told}"


def moment(when: float | str | None) -> str:
    """Return a time for programs and tool tips: ISO 8601, UTC."""
    return "" if when is None else datetime.fromtimestamp(_epoch(when), UTC).isoformat(timespec="seconds")


def seconds(amount: float | None) -> str:
    """Return a time span in its two largest units."""
    if amount is None:
        return "-"
    if amount < 10:
        return f"{amount:.1f} s"
    whole = round(amount)
    for size, unit, below, name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {name}" if rest else "")
    return f"{whole} s"


def usd(amount: float | None) -> str:
    """Return money; small amounts keep what tells them from nothing."""
    if amount is None:
        return "unknown"
    return f"${amount:,.2f}" if amount >= 0.1 or not amount else f"${amount:.4f}"


def tokens(amount: int | None) -> str:
    if amount is None:
        return "unknown"
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if amount >= size:
            return f"{amount / size:.1f}{unit}"
    return str(amount)


def short(text: str, most: int = 80) -> str:
    """Return the first line of a text, cut."""
    line = next(iter(text.strip().splitlines()), "")
    return line if len(line) <= most else line[: most - 1] + "…"


def count(amount: int, one: str, many: str = "") -> str:
    """Return `1 file`, `2 files`."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"
