"""Checks: run in a clean checkout, in a box of their own; what they print is kept without secrets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from corral.machines import reporters
from corral.machines.boxes import Program
from corral.machines.logs import CutStream, Log, Tail
from corral.machines.network import Network
from corral.model import CheckResult, Seen
from corral.rules.checks import results
from corral.rules.checks.results import junit
from corral.world.process import Exit, Limits, Talk
from corral.world.sandbox.confine import own_processes
from corral.world.sandbox.profile import Box
from corral.world.workspace import checkout, touched_files
from corral.world.workspace.checkout import Workspace

if TYPE_CHECKING:
    from corral.machines.host import Host

MOST_COUNTED = 4 << 20  #: of a check's output, from its end: where test programs tell how many passed
MOST_SHOWN = 8000
MOST_LEFT = 20
#: Runs a command line; where programs of it still run when it is over, there is time to see them.
WITH_TIME_TO_LOOK = """/bin/sh -c "$1"; code=$?
for place in /proc/[0-9]*; do
    if [ "${place#/proc/}" -gt $$ ]; then sleep 0.3; break; fi
done
exit $code"""


async def run(
    host: Host, folder: Path, commit: str | None, checks: Sequence[str], told: Callable[[CheckResult], None]
) -> list[CheckResult]:
    """Run checks as `observe` does, and return their results alone."""
    return [seen.result for seen in await observe(host, folder, commit, checks, told)]


async def observe(
    host: Host,
    folder: Path,
    commit: str | None,
    checks: Sequence[str],
    told: Callable[[CheckResult], None],
    lay: Callable[[Workspace], Awaitable[list[str]]] | None = None,
) -> list[Seen]:
    """Run checks in a clean checkout of `commit`, in a box of its own; it is removed afterwards.

    `lay` puts files into the checkout before the checks begin, and returns their paths.
    """
    found: list[Seen] = []
    cache, host.boxes.cache = host.boxes.cache, None  # what an agent left there must not sway its checks
    try:
        made = await host.make(folder, commit)
        names = await _files(host, commit)
        if lay is not None:
            names += await lay(made)
        before = await asyncio.to_thread(touched_files.marks, made.tree, names)
        for place, check in enumerate(checks, 1):
            seen = await _check(host, made, folder, check, f"{folder.name.rpartition('-')[2]}-{place}")
            after = await asyncio.to_thread(touched_files.marks, made.tree, names)
            found.append(structs.replace(seen, touched=touched_files.between(before, after)))
            before = after
            told(found[-1].result)
    finally:
        host.boxes.cache = cache
        await checkout.remove(folder)
    return found


async def _files(host: Host, commit: str | None) -> list[str]:
    """Return the files of a commit, in which a check is not to write."""
    if commit is None:
        return []
    out = (await host.repository.git("ls-tree", "-r", "-z", "--full-tree", commit)).out
    rows = (row.partition("\t") for row in out.decode(errors="surrogateescape").split("\0") if row)
    return [path for about, _, path in rows if " blob " in about]


async def _check(host: Host, made: Workspace, folder: Path, check: str, name: str) -> Seen:
    tail = Tail(MOST_COUNTED)
    path = host.logs / f"{name}.log"
    limits = Limits(timeout_seconds=host.task.time_limit_seconds)
    started = time.monotonic()
    network = await host.network(host.boxes.fitted.scope.net)
    async with reporters.reported(made, folder, host.owner, check, host.order) as reporter:
        box = host.boxes.box(made, folder, network=network, readable=reporter.readable, writable=reporter.writable)
        box = structs.replace(box, env={**box.env, **reporter.env(box.env)})
        left: dict[str, None] = {}
        command = Command(reporter.command(check), left)
        ended = await shell(host, command, box, limits, (Log(path), tail), network)
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
    return Seen(result=result, report=report, left=tuple(left)[:MOST_LEFT])


def _note(left: dict[str, None], name: str) -> None:
    if len(left) < MOST_LEFT:
        left[name[:40]] = None


def _reports(made: Workspace, check: str) -> list[str]:
    """Read the test reports that a check was told to write."""
    found = [checkout.read_below(made.tree, name, MOST_COUNTED) for name in junit.named_by(check)]
    return [content.decode(errors="replace") for content in found if content]


class Command(Struct, frozen=True):
    """A command line whose programs are watched."""

    line: str
    left: dict[str, None]  #: gets the names of those that it leaves running

    @property
    def argv(self) -> list[str]:
        return ["/bin/sh", "-c", WITH_TIME_TO_LOOK, "sh", self.line]


async def shell(
    host: Host, command: str | Command, box: Box, limits: Limits, kept: tuple[Log, Tail], network: Network
) -> Exit:
    """Run a command line in a box to its end."""
    log, tail = kept

    def take(clean: bytes) -> None:
        log.write(clean)
        tail.write(clean)

    streams = {name: CutStream(host.redactor, take, MOST_COUNTED) for name in ("stdout", "stderr")}

    def raw(name: str, chunk: bytes) -> None:
        streams[name].feed(chunk)

    try:
        program = Program(argv=["/bin/sh", "-c", str(command)], raw=raw)
        if isinstance(command, Command) and own_processes(host.boxes.level):
            program = Program(argv=command.argv, wrapped=True, raw=raw, orphaned=partial(_note, command.left))
        elif isinstance(command, Command):
            program = structs.replace(program, argv=["/bin/sh", "-c", command.line])
        return await host.boxes.follow(program, box, limits, network, Talk())
    finally:
        for stream in streams.values():
            stream.close()
        log.close()
