"""Scores for work that is proven: by plug-ins, or by commands that print a number, run in the box."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from corral.machines import checks
from corral.machines.host import Host
from corral.model import Attempt, CheckResult
from corral.model.errors import BadRequest

GROUP = "corral.scorers"
MOST_PATCH = 16 << 20


class ScorerInput(Struct, frozen=True, kw_only=True):
    """What a plug-in is given: the attempt as the run document has it, and its change as a patch."""

    attempt: Attempt
    task: str
    patch: str


Scorer = Callable[[ScorerInput], float]


def plug_in(name: str) -> Scorer | None:
    from importlib.metadata import entry_points  # noqa: PLC0415 -- dear to load, and seldom needed

    for point in entry_points(group=GROUP):
        if point.name == name:
            try:
                return point.load()
            except Exception as error:
                raise BadRequest(f"the scorer `{name}` cannot be loaded: {error}") from error
    return None


async def score(scorers: Sequence[str], host: Host, attempt: Attempt, say: Callable[[str], None]) -> dict[str, float]:
    """Ask every scorer; one that fails gives no score, and it is told."""
    found: dict[str, float] = {}
    known = {name: plug_in(name) for name in scorers}
    for name, scorer in known.items():
        if scorer is not None:
            given = ScorerInput(attempt=attempt, task=host.task.prompt, patch=await _patch(host, attempt))
            try:
                value = float(await asyncio.to_thread(scorer, given))
            except Exception as error:  # noqa: BLE001 -- anybody's code
                say(f"the scorer `{name}` failed: {error}")
                continue
            _take(name, value, found, say)
    commands = [name for name, scorer in known.items() if scorer is None]
    if commands and attempt.commit:
        folder = host.state / "workspaces" / f"{attempt.id}-score"
        for result in await checks.run(host, folder, attempt.commit, commands, lambda _: None):
            value = number(result)
            if value is None:
                say(f"the scorer `{result.command}` printed no number, or failed ({result.exit_code})")
            else:
                _take(result.command, value, found, say)
    return found


def _take(name: str, value: float, found: dict[str, float], say: Callable[[str], None]) -> None:
    if math.isfinite(value):
        found[name] = value
        say(f"score {value:g} by `{name}`")
    else:
        say(f"the scorer `{name}` gave no number: {value}")


def number(result: CheckResult) -> float | None:
    """Return the number on the last line of what a command printed."""
    lines = [line.strip() for line in result.output.splitlines() if line.strip()]
    if not result.passed or not lines:
        return None
    try:
        return float(lines[-1])
    except ValueError:
        return None


async def _patch(host: Host, attempt: Attempt) -> str:
    parts: list[bytes] = []

    def take(part: bytes) -> None:
        if sum(map(len, parts)) < MOST_PATCH:
            parts.append(part)

    if attempt.commit:
        await host.repository.patch(host.base, attempt.commit, take)
    return b"".join(parts).decode(errors="replace")
