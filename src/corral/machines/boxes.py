"""The boxes of one attempt: built from its scope, connected as it says, watched while something runs in them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec import Struct, structs

from corral.config.paths import DEPTH, depth
from corral.machines import scope as scoping
from corral.machines.logs import CutStream, Log, Tail
from corral.machines.scope import FittedScope
from corral.model import Level
from corral.model.errors import CorralError
from corral.rules.text.redact import Redactor
from corral.world import package_managers, process, process_identity
from corral.world.concurrent import beside
from corral.world.process import Exit, ProcessControl, ProcessLimits, ProcessStart
from corral.world.sandbox import program_files, watchdog
from corral.world.sandbox.confine import confine, has_own_processes, home_in_box
from corral.world.sandbox.profile import Box
from corral.world.workspace.checkout import Workspace
from corral.world.workspace.mounts import OVERLAY

WATCH_SECONDS = 0.25  #: until the first look; most checks are over by then
ASIDE_SECONDS = 600.0
ORPHAN_SECONDS = 0.04  #: between two looks at the processes of a check
MOST_COUNTED = 4 << 20  #: of a command's output, from its end: where test programs tell how many passed
MOST_LEFT = 20
#: Runs a command line; where programs of it still run when it is over, there is time to see them.
WITH_TIME_TO_LOOK = """/bin/sh -c "$1"; code=$?
for place in /proc/[0-9]*; do
    if [ "${place#/proc/}" -gt $$ ]; then sleep 0.3; break; fi
done
exit $code"""


class BoxNetwork(Protocol):
    """What one box is connected to, as its builder and watchdog see it."""

    @property
    def whole(self) -> bool: ...
    @property
    def open(self) -> bool: ...
    @property
    def listeners(self) -> tuple[int, ...]: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    def serve(self, start: ProcessStart, talk: ProcessControl) -> contextlib.AbstractAsyncContextManager[None]: ...


class BoxedProgram(Struct, frozen=True, kw_only=True):
    """What runs in a box."""

    argv: Sequence[str]
    stdin: bytes = b""
    talks: bool = False
    wrapped: bool = False
    hear: Callable[[str, bytes, bool], None] | None = None  #: each line; None: the log and its tail are enough
    raw: Callable[[str, bytes], None]  #: every byte
    orphaned: Callable[[str], object] | None = None  #: gets the name of each program that outlives its parent
    stop: asyncio.Event | None = None  #: ends it, if not what ends the whole attempt


@contextlib.asynccontextmanager
async def _orphans(start: ProcessStart, program: BoxedProgram) -> AsyncGenerator[None]:
    """Watch for programs in a box that outlive their parent: those belong to its first process."""

    async def watch(box_pid: Callable[[], int | None], orphaned: Callable[[str], object]) -> None:
        known: set[int] = set()
        while True:
            await asyncio.sleep(ORPHAN_SECONDS)
            first = box_pid()
            now = {*process_identity.children(first)[1:]} if first else set[int]()
            for pid in known & now:  # seen twice: not one that was about to end
                if name := process_identity.name_of(pid):
                    orphaned(name)
            known = now

    if program.orphaned is None or start.box_pid is None:
        yield
        return
    watching = asyncio.create_task(watch(start.box_pid, program.orphaned))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


class Boxes:
    """Builds the boxes of one attempt and runs programs in them."""

    def __init__(self, level: Level, attempt: str, stop: asyncio.Event) -> None:
        self.level: Level = level
        self._attempt, self._stop = attempt, stop
        self.fitted: FittedScope = scoping.of_agent((), "")
        self.memory_kills = 0
        self.cache: Path | None = None  #: of the project's packages, lent to this attempt

    def box(
        self,
        made: Workspace,
        folder: Path,
        *,
        network: BoxNetwork | None = None,
        env: Mapping[str, str] | None = None,
        readable: Sequence[Path] = (),
        writable: tuple[Path, ...] = (),
    ) -> Box:
        """Build the box of a workspace; without a network it is connected to nothing."""
        shown, _ = program_files.toolchains(os.environ, Path.home())
        scope, resolved = self.fitted.scope, self.fitted.resolved
        whole = network is None or network.whole
        return Box(
            folder=folder,
            workspace=made.tree,
            home=folder / "home",
            readable=(*map(Path, made.objects), *shown, *readable),
            pinned=made.pinned_paths,
            guarded=made.guarded_paths,
            writable=(*writable, *resolved.paths("writable"), *([self.cache] if self.cache else [])),
            masks=resolved.elsewhere if whole else (*resolved.elsewhere, *resolved.masks),
            env={**self._env(folder, made), **(network.env if network else {}), **(env or {})},
            network=network is not None and network.open,
            listeners=network.listeners if network else (),
            memory_mb=scope.memory_mb,
            processes=scope.processes,
            file_mb=scope.file_mb,
            cpu_seconds=scope.cpu_seconds,
        )

    def home(self, made: Workspace, folder: Path) -> str:
        """Return the path by which a program in the box knows its home."""
        return home_in_box(Box(folder=folder, workspace=made.tree, home=folder / "home"), self.level)

    def _env(self, folder: Path, made: Workspace) -> dict[str, str]:
        shown, path = program_files.toolchains(os.environ, Path.home())
        boxed = self.level != "none"
        base = {
            "PATH": os.pathsep.join([*path, *program_files.SYSTEM_PATH]) if boxed else os.environ.get("PATH", ""),
            "HOME": self.home(made, folder),
            "TMPDIR": "/tmp" if has_own_processes(self.level) else str(folder / "tmp"),  # noqa: S108 -- the box's own
            "USER": "agent",
            "LOGNAME": "agent",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "GIT_TERMINAL_PROMPT": "0",
            DEPTH: str(depth() + 1),
        }
        rustup = Path.home() / ".rustup"
        if rustup / "toolchains" in shown:
            base["RUSTUP_HOME"] = str(rustup)
        base |= package_managers.variables(self.cache) if self.cache else {}
        return base | {name: os.environ[name] for name in self.fitted.scope.env if name in os.environ}

    async def follow(
        self, program: BoxedProgram, box: Box, limits: ProcessLimits, network: BoxNetwork, talk: ProcessControl
    ) -> Exit:
        """Run a program in its box to its end or to a limit."""
        made = confine(program.argv, box, self.level, tag=self._attempt, stdin=program.stdin, wrapped=program.wrapped)
        with made as confined:
            start = structs.replace(confined, talks=program.talks)
            talk.hold = partial(watchdog.hold_processes, start)
            async with network.serve(start, talk), self._watch_limits(start, box, talk), _orphans(start, program):
                stop = program.stop or self._stop
                ended = await process.follow(start, limits, program.hear, program.raw, stop, talk)
        self.memory_kills += made.memory_kills
        return ended

    @contextlib.asynccontextmanager
    async def _watch_limits(self, start: ProcessStart, box: Box, talk: ProcessControl) -> AsyncGenerator[None]:
        async def watch() -> None:
            changed = box.folder / OVERLAY / "upper"  # what an overlay shows besides takes no space
            folders = (
                changed if changed.is_dir() else box.workspace,
                box.home,
                *(box.folder / name for name in ("tmp", "out")),
            )
            ceiling = structs.replace(self.fitted.ceiling, grouped=self.level in ("full", "container"))
            passed = await watchdog.watch(start, ceiling, folders, first_seconds=WATCH_SECONDS)
            talk.end(passed)

        async with beside(watch()):
            yield

    async def aside(self, command: Sequence[str], box: Box, what: str, seconds: float = ASIDE_SECONDS) -> None:
        """Run a command of ours in a box that nobody is in."""
        with confine(command, box, self.level, tag=self._attempt) as start:
            try:
                finished = await process.run(start, timeout=seconds)
            except process.TooSlow as error:
                raise process.TooSlow(f"the work cannot {what} within {seconds:g} s") from error
        if finished.code != 0:
            words = " ".join(finished.err.decode(errors="replace").split())
            raise CorralError(f"the work cannot {what}: {words[-400:]}")


def _note_left(left: dict[str, None], name: str) -> None:
    if len(left) < MOST_LEFT:
        left[name[:40]] = None


class Kept(Struct, frozen=True):
    """Where the output of a command goes, and what its box is connected to."""

    log: Log
    tail: Tail
    network: BoxNetwork


class WatchedCommand(Struct, frozen=True):
    """A command line whose programs are watched."""

    line: str
    left: dict[str, None]  #: gets the names of those that it leaves running

    @property
    def argv(self) -> list[str]:
        return ["/bin/sh", "-c", WITH_TIME_TO_LOOK, "sh", self.line]


async def run_shell(
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
            program = BoxedProgram(argv=command.argv, wrapped=True, raw=raw, orphaned=partial(_note_left, command.left))
        elif isinstance(command, WatchedCommand):
            program = structs.replace(program, argv=["/bin/sh", "-c", command.line])
        return await boxes.follow(program, box, limits, kept.network, ProcessControl())
    finally:
        for stream in streams.values():
            stream.close()
        log.close()
