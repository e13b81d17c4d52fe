"""Checks: run in a clean checkout, in a box of their own; what they print is kept without secrets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from corral.engine.looking.logs import Log, Tail
from corral.engine.workplace.boxing import Program
from corral.engine.workplace.network import Network
from corral.model import CheckResult
from corral.rules import results
from corral.rules.results import junit
from corral.world import workspace
from corral.world.process import Exit, Limits, Talk
from corral.world.sandbox.profile import Box
from corral.world.workspace import Workspace

if TYPE_CHECKING:
    from corral.engine.host import Host

MOST_COUNTED = 4 << 20  #: of a check's output, from its end: where test programs tell how many passed
MOST_SHOWN = 8000


async def run(
    host: Host, folder: Path, commit: str | None, checks: Sequence[str], told: Callable[[CheckResult], None]
) -> list[CheckResult]:
    """Run checks in a clean checkout of `commit`, in a box of its own; it is removed afterwards."""
    found: list[CheckResult] = []
    cache, host.boxes.cache = host.boxes.cache, None  # what an agent left there must not sway its checks
    try:
        made = await host.make(folder, commit)
        for place, check in enumerate(checks, 1):
            found.append(await _check(host, made, folder, check, f"{folder.name.rpartition('-')[2]}-{place}"))
            told(found[-1])
    finally:
        host.boxes.cache = cache
        await workspace.remove(folder)
    return found


async def _check(host: Host, made: Workspace, folder: Path, check: str, name: str) -> CheckResult:
    tail = Tail(MOST_COUNTED)
    path = host.logs / f"{name}.log"
    limits = Limits(timeout_seconds=host.task.time_limit_seconds)
    started = time.monotonic()
    network = await host.network(host.boxes.fitted.scope.net)
    box = host.boxes.box(made, folder, network=network)
    ended = await shell(host, check, box, limits, (Log(path), tail), network)
    note = {
        "timeout": f"`{check}` was not done in time",
        "stopped": "stopped",
        "flood": f"`{check}` printed more than 4 GB",
        "memory": f"`{check}` used more memory than the scope allows",
        "disk": f"`{check}` used more disk space than the scope allows",
        "processes": f"`{check}` started more processes than the scope allows",
    }
    return CheckResult(
        command=check,
        exit_code=ended.code,
        seconds=round(time.monotonic() - started, 3),
        note=note.get(ended.why, ""),
        output=tail.text(MOST_SHOWN),
        log=str(path.relative_to(host.state)),
        tests=results.tally(tail.text(), _reports(made, check)),
    )


def _reports(made: Workspace, check: str) -> list[str]:
    """Read the test reports that a check was told to write."""
    found = [workspace.read_below(made.tree, name, MOST_COUNTED) for name in junit.named_by(check)]
    return [content.decode(errors="replace") for content in found if content]


async def shell(host: Host, command: str, box: Box, limits: Limits, kept: tuple[Log, Tail], network: Network) -> Exit:
    """Run a command line in a box to its end."""
    log, tail = kept
    streams = {name: host.redactor.stream() for name in ("stdout", "stderr")}

    def take(clean: bytes) -> None:
        log.write(clean)
        tail.write(clean)

    def raw(name: str, chunk: bytes) -> None:
        take(streams[name].feed(chunk))

    try:
        return await host.boxes.follow(Program(argv=["/bin/sh", "-c", command], raw=raw), box, limits, network, Talk())
    finally:
        for stream in streams.values():
            take(stream.close())
        log.close()
