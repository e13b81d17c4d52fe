"""Decide which ended runs are cleaned away: by age, by number, by the room they take."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from corral.model.errors import BadRequest

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
DAYS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


class CleaningLimits(Struct, frozen=True, kw_only=True):
    older_seconds: float | None = None
    keep: int | None = None
    disk_bytes: int | None = None


class EndedRun(Struct, frozen=True, kw_only=True):
    """A run that is over."""

    run: str
    ended: float
    bytes: int


class ChosenRun(Struct, frozen=True, kw_only=True):
    """A run that goes, and why."""

    run: str
    why: str
    bytes: int
    for_room: bool = False  #: only while what is left takes more than the limit


def runs_to_clean(runs: Sequence[EndedRun], limits: CleaningLimits, now: float) -> list[ChosenRun]:
    """Return which runs go, and why; after them those that go for room as long as it lacks, oldest first.

    How many of these go depends on what each really frees: work that must stay frees nothing.
    """
    newest = sorted(runs, key=lambda run: (run.ended, run.run), reverse=True)
    found: dict[str, str] = {}
    for place, run in enumerate(newest):
        if limits.older_seconds is not None and now - run.ended > limits.older_seconds:
            found[run.run] = f"ended {(now - run.ended) / 86400:.0f} days ago"
        elif limits.keep is not None and place >= limits.keep:
            found[run.run] = f"not among the newest {limits.keep}"
    chosen = [
        ChosenRun(run=run.run, why=found[run.run], bytes=run.bytes)
        for run in sorted(runs, key=lambda run: run.run)
        if run.run in found
    ]
    if limits.disk_bytes is not None:
        chosen += [
            ChosenRun(run=run.run, why="for room on the disk", bytes=run.bytes, for_room=True)
            for run in reversed(newest)
            if run.bytes and run.run not in found
        ]
    return chosen


def size(text: str) -> int:
    """Read `500MB`, `5G` or a number of bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if not match:
        raise BadRequest(f"--disk {text}: that is no size", hint="write it like 500MB or 5GB")
    return int(float(match.group(1)) * UNITS[match.group(2).upper()])


def age(text: str) -> float:
    """Read `12h`, `30d` or `4w` as seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([hdw])?", text.strip())
    if not match:
        raise BadRequest(f"--older {text}: that is no age", hint="write it like 12h, 30d or 4w")
    return float(match.group(1)) * DAYS[match.group(2) or "d"]
