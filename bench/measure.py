"""Measuring: interleaved repetitions, medians, ratios, how busy others kept the machine, one table."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MOST_BUSY = 0.10  #: of a core, used by other processes: above it nothing is judged
TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Promise:
    """A ratio, what it is measured against, and the most it may be."""

    name: str
    baseline: str
    ratio: float
    most: float
    note: str = ""
    busy: float = 0.0  #: cores that other processes used meanwhile

    @property
    def key(self) -> str:
        return f"{self.name} | {self.baseline}"

    @property
    def judged(self) -> bool:
        return self.busy <= MOST_BUSY

    @property
    def kept(self) -> bool:
        return self.ratio <= self.most

    @property
    def verdict(self) -> str:
        if not self.judged:
            return "busy"
        return "yes" if self.kept else "no"


class Busyness:
    """How many cores processes that are not ours use, from when it is made on."""

    def __init__(self) -> None:
        self._began = (time.monotonic(), _machine_seconds(), _own_seconds())

    def cores(self) -> float:
        """Return them; what we started counts as ours once it has ended."""
        elapsed, machine, own = (
            now - then
            for now, then in zip((time.monotonic(), _machine_seconds(), _own_seconds()), self._began, strict=True)
        )
        return max(0.0, machine - own) / elapsed if elapsed else 0.0


def _machine_seconds() -> float:
    """Return what all processors have worked, for us, for others, and for other machines on the same host."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, interrupts, soft, stolen = map(int, words)
    return (user + nice + system + interrupts + soft + stolen) / TICKS


def adopt_orphans() -> None:
    """Become the parent of what our programs leave running (`corral run --detach`): its work counts as ours then."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _own_seconds() -> float:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass  # each call takes one orphan that has ended
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def interleaved(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Time each work in turn, round after round, so that a busy moment hits all; return the medians in seconds."""
    taken: list[list[float]] = [[] for _ in works]
    for work in works:
        work()  # warm
    for _ in range(rounds):
        for place, work in enumerate(works):
            taken[place].append(timed(work))
    return [statistics.median(times) for times in taken]


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def table(promises: list[Promise], before: dict[str, float] | None = None) -> str:
    """Return all as one table; with the ratios of another run, also those and by how much each changed."""
    more = before is not None
    rows = [
        "| what | against | ratio | promised | kept |" + (" before | change |" if more else ""),
        "|---|---|---|---|---|" + ("---|---|" if more else ""),
    ]
    for promise in promises:
        name = f"{promise.name} ({promise.note})" if promise.note else promise.name
        row = f"| {name} | {promise.baseline} | {promise.ratio:.2f} | ≤ {promise.most:g} | {promise.verdict} |"
        if before is not None:
            old = before.get(promise.key)
            row += " - | new |" if old is None else f" {old:.2f} | {_change(old, promise.ratio)} |"
        rows.append(row)
    return "\n".join(rows)


def _change(old: float, new: float) -> str:
    return f"{(new / old - 1) * 100:+.0f} %" if old else f"{new - old:+.2f}"
