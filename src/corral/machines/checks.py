"""Checks: run in a clean checkout, in a box of their own; what they print is kept without secrets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import structs

from corral.machines import reporters, shell
from corral.machines.logs import Log, Tail
from corral.machines.shell import MOST_COUNTED, MOST_LEFT, Kept, WatchedCommand
from corral.machines.workspace_host import WorkspaceHost
from corral.model import CheckObservation, CheckResult
from corral.rules.checks import added_files, results
from corral.rules.checks.results import junit
from corral.world.process import ProcessLimits
from corral.world.workspace import checkout, left_files
from corral.world.workspace.checkout import Workspace

MOST_SHOWN = 8000


async def run(
    host: WorkspaceHost, folder: Path, commit: str | None, checks: Sequence[str], told: Callable[[CheckResult], None]
) -> list[CheckResult]:
    """Run checks as `observe` does, and return their results alone."""
    return [seen.result for seen in await observe(host, folder, commit, checks, told)]


async def observe(
    host: WorkspaceHost,
    folder: Path,
    commit: str | None,
    checks: Sequence[str],
    told: Callable[[CheckResult], None],
    lay: Callable[[Workspace], Awaitable[list[str]]] | None = None,
) -> list[CheckObservation]:
    """Run checks in a clean checkout of `commit`, in a box of its own; it is removed afterwards.

    `lay` puts files into the checkout before the checks begin, and returns their paths.
    """
    found: list[CheckObservation] = []
    cache, host.boxes.cache = host.boxes.cache, None  # what an agent left there must not sway its checks
    try:
        made = await host.make(folder, commit)
        names = await _files(host, commit)
        if lay is not None:
            names += await lay(made)
        before = await asyncio.to_thread(left_files.marks, made.tree, names)
        listed = await asyncio.to_thread(left_files.list_files, made.tree, added_files.is_output_folder)
        ignored = (checkout.read_below(made.tree, ".gitignore", MOST_SHOWN) or b"").decode(errors="replace")
        for place, check in enumerate(checks, 1):
            seen = await _check(host, made, folder, check, f"{folder.name.rpartition('-')[2]}-{place}")
            after = await asyncio.to_thread(left_files.marks, made.tree, names)
            there = await asyncio.to_thread(left_files.list_files, made.tree, added_files.is_output_folder)
            added = added_files.telling(there - listed, ignored)
            found.append(structs.replace(seen, touched=left_files.between(before, after), added=added))
            before, listed = after, there
            told(found[-1].result)
    finally:
        host.boxes.cache = cache
        await checkout.remove(folder)
    return found


async def _files(host: WorkspaceHost, commit: str | None) -> list[str]:
    """Return the files of a commit, in which a check is not to write."""
    if commit is None:
        return []
    out = (await host.repository.git("ls-tree", "-r", "-z", "--full-tree", commit)).out
    rows = (row.partition("\t") for row in out.decode(errors="surrogateescape").split("\0") if row)
    return [path for about, _, path in rows if " blob " in about]


async def _check(host: WorkspaceHost, made: Workspace, folder: Path, check: str, name: str) -> CheckObservation:
    tail = Tail(MOST_COUNTED)
    path = host.logs / f"{name}.log"
    limits = ProcessLimits(timeout_seconds=host.task.time_limit_seconds)
    started = time.monotonic()
    network = await host.network(host.boxes.fitted.scope.net)
    async with reporters.open_reporter(made, folder, host.owner, check, host.order) as reporter:
        box = host.boxes.box(made, folder, network=network, readable=reporter.readable, writable=reporter.writable)
        box = structs.replace(box, env={**box.env, **reporter.env(box.env)})
        left: dict[str, None] = {}
        command = WatchedCommand(reporter.command(check), left)
        ended = await shell.run(host.boxes, host.redactor, command, box, limits, Kept(Log(path), tail, network))
        report = await reporter.report(ended.code, tail.text())
    note = {
        "timeout": f"`{check}` was not done in time",
        "stopped": "stopped",
        "flood": f"`{check}` printed more than 4 GB",
        "memory": f"`{check}` used more memory than the scope allows",
        "disk": f"`{check}` used more disk space than the scope allows",
        "processes": f"`{check}` started more processes than the scope allows",
    }
    result = CheckResult(
        command=check,
        exit_code=ended.code,
        seconds=round(time.monotonic() - started, 3),
        note=note.get(ended.why, ""),
        output=tail.text(MOST_SHOWN),
        log=str(path.relative_to(host.state)),
        tests=results.tally(tail.text(), _reports(made, check)),
    )
    left |= dict.fromkeys(each.name for each in ended.leftovers)
    return CheckObservation(result=result, report=report, left=tuple(left)[:MOST_LEFT])


def _reports(made: Workspace, check: str) -> list[str]:
    """Read the test reports that a check was told to write."""
    found = [checkout.read_below(made.tree, name, MOST_COUNTED) for name in junit.report_files(check)]
    return [content.decode(errors="replace") for content in found if content]
