"""Measuring: interleaved repetitions, medians, ratios, one table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """A ratio, what it is measured against, and the most it may be."""

    name: str
    baseline: str
    ratio: float
    most: float
    note: str = ""

    @property
    def kept(self) -> bool:
        return self.ratio <= self.most


def interleaved(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Time each work in turn, round after round, so that a busy moment hits all; return the medians in seconds."""
    taken: list[list[float]] = [[] for _ in works]
    for work in works:
        work()  # warm
    for _ in range(rounds):
        for place, work in enumerate(works):
            started = time.perf_counter()
            work()
            taken[place].append(time.perf_counter() - started)
    return [statistics.median(times) for times in taken]


def table(promises: list[Promise]) -> str:
    rows = ["| what | against | ratio | promised | kept |", "|---|---|---|---|---|"]
    for promise in promises:
        name = f"{promise.name} ({promise.note})" if promise.note else promise.name
        kept = "yes" if promise.kept else "**no**"
        rows.append(f"| {name} | {promise.baseline} | {promise.ratio:.2f} | ≤ {promise.most:g} | {kept} |")
    return "\n".join(rows)
