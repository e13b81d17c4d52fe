"""A command line that runs in a box to its end; what it prints is kept without secrets."""

from __future__ import annotations

from functools import partial

from msgspec import Struct, structs

from corral.machines.boxes import BoxedProgram, Boxes
from corral.machines.logs import CutStream, Log, Tail
from corral.machines.network import Network
from corral.rules.text.redact import Redactor
from corral.world.process import Exit, ProcessControl, ProcessLimits
from corral.world.sandbox.confine import has_own_processes
from corral.world.sandbox.profile import Box

MOST_COUNTED = 4 << 20  #: of a command's output, from its end: where test programs tell how many passed
MOST_LEFT = 20
#: Runs a command line; where programs of it still run when it is over, there is time to see them.
WITH_TIME_TO_LOOK = """/bin/sh -c "$1"; code=$?
for place in /proc/[0-9]*; do
    if [ "${place#/proc/}" -gt $$ ]; then sleep 0.3; break; fi
done
exit $code"""


def _note(left: dict[str, None], name: str) -> None:
    if len(left) < MOST_LEFT:
        left[name[:40]] = None


class Kept(Struct, frozen=True):
    """Where the output of a command goes, and what its box is connected to."""

    log: Log
    tail: Tail
    network: Network


class WatchedCommand(Struct, frozen=True):
    """A command line whose programs are watched."""

    line: str
    left: dict[str, None]  #: gets the names of those that it leaves running

    @property
    def argv(self) -> list[str]:
        return ["/bin/sh", "-c", WITH_TIME_TO_LOOK, "sh", self.line]


async def run(
    boxes: Boxes, redactor: Redactor, command: str | WatchedCommand, box: Box, limits: ProcessLimits, kept: Kept
) -> Exit:
    """Run a command line in a box to its end."""
    log, tail = kept.log, kept.tail

    def take(clean: bytes) -> None:
        log.write(clean)
        tail.write(clean)

    streams = {name: CutStream(redactor, take, MOST_COUNTED) for name in ("stdout", "stderr")}

    def raw(name: str, chunk: bytes) -> None:
        streams[name].feed(chunk)

    try:
        program = BoxedProgram(argv=["/bin/sh", "-c", str(command)], raw=raw)
        if isinstance(command, WatchedCommand) and has_own_processes(boxes.level):
            program = BoxedProgram(argv=command.argv, wrapped=True, raw=raw, orphaned=partial(_note, command.left))
        elif isinstance(command, WatchedCommand):
            program = structs.replace(program, argv=["/bin/sh", "-c", command.line])
        return await boxes.follow(program, box, limits, kept.network, ProcessControl())
    finally:
        for stream in streams.values():
            stream.close()
        log.close()
