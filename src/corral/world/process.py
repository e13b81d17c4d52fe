"""The only starter of processes: lines, deadline, idle watchdog, and the whole tree ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from corral.model.errors import CorralError
from corral.world import locks, machine_limits, process_pipes
from corral.world.process_identity import Leftover, children, first_child, sweep

MOST_OUTPUT = 4 << 30  #: more than this is a flood, not work
GRACE_SECONDS = 5.0
MOST_FAMILY = 100  #: processes below a short program
CONTINUE_SECONDS = 2.0  #: how often a short program that takes long is continued, in case it was stopped
MOST_UNHEARD = 10_000  #: lines that wait for a program which does not read them
#: A program ended for these may run on while its work is kept; for the others, where that does harm, it is paused.
PATIENT = ("timeout", "idle", "stopped")
EXCESS_REASONS = ("flood", "memory", "disk", "processes")
_LEFT: list[subprocess.Popen[bytes]] = []  # programs that outlive us

Why = Literal["exited", "timeout", "idle", "stopped", "flood", "lingered", "memory", "disk", "processes", "cut"]


class TooSlow(CorralError):
    """A short program that did not end in time; it was killed."""


class Owner(Struct, frozen=True):
    """Whom a process runs as, when corral is root."""

    uid: int
    gid: int


class ProcessResult(Struct, frozen=True):
    """What became of a short program."""

    code: int
    out: bytes
    err: bytes


class ProcessStart(Struct, frozen=True, kw_only=True):
    """What to start, exactly."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None = None
    stdin: bytes = b""
    stdin_file: int | None = None  #: a descriptor that it reads instead
    talks: bool = False  #: stdin stays open after that, for what is said later
    pass_fds: tuple[int, ...] = ()
    owner: Owner | None = None
    tag: str = ""  #: the value of CORRAL_ATTEMPT in its environment, by which leftovers are found
    box_pid: Callable[[], int | None] | None = None  #: the first process inside the box, once there is one
    wrapped: bool = False  #: in the box, a shell is between that process and the program
    uid: int | None = None  #: whose its processes are, when they have a user of their own
    supervised: bool = False  #: our launcher stays above it: SIGTERM is passed on, SIGUSR1 ends everything
    spawned: Callable[[], object] | None = None  #: called when it was started: what it was handed can be closed here
    left: Callable[[], list[Leftover]] | None = None  #: what the launcher had to end when the program had left
    listeners: Callable[[], Awaitable[list[socket.socket]]] | None = None  #: the box's ports, to be answered by us


class ProcessLimits(Struct, frozen=True, kw_only=True):
    timeout_seconds: float = 3600.0
    idle_seconds: float = 3600.0
    grace_seconds: float = GRACE_SECONDS


class ProcessControl:
    """Further input of a running program, and whether it may be ended because it has no more to say."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_UNHEARD)  #: None closes its stdin
        self.enough = asyncio.Event()
        self.why: Why = "lingered"
        self.ending: Why | None = None  #: why we end it; what it says from then on is not its own decision
        self.before_end: Callable[[], Awaitable[object]] | None = None  #: what is to be done before it is ended
        self.hold: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext  #: stops it meanwhile

    def end(self, why: Why) -> None:
        """Have the program ended, and say why."""
        self.why = why
        self.enough.set()

    def say(self, data: bytes | None) -> None:
        try:
            self.words.put_nowait(data)
        except asyncio.QueueFull:
            self.end("flood")  # it asks and asks, and never listens


class Exit(Struct, frozen=True, kw_only=True):
    """How a long program ended, and what it left running (ended by now)."""

    code: int
    why: Why
    leftovers: list[Leftover] = field(default_factory=list[Leftover])


def _watch_by_pidfd() -> None:
    """Learn of ended children by pidfd: 3.11 would otherwise keep a thread for each; later Pythons do so anyway."""
    if sys.version_info < (3, 12) and sys.platform == "linux":
        watcher = asyncio.get_child_watcher()  # pyright: ignore[reportDeprecated]
        if not isinstance(watcher, asyncio.PidfdChildWatcher):
            watcher = asyncio.PidfdChildWatcher()
            asyncio.set_child_watcher(watcher)  # pyright: ignore[reportDeprecated]
        if not watcher.is_active():
            watcher.attach_loop(asyncio.get_running_loop())


async def run(
    start: ProcessStart,
    *,
    timeout: float = 600.0,  # noqa: ASYNC109
    most: int = 64 << 20,
    sink: Callable[[bytes], object] | None = None,
    more: asyncio.Queue[bytes | None] | None = None,
) -> ProcessResult:
    """Run a short program to its end and keep what it printed, or hand that to `sink` as it comes.

    `more` is what it gets after `stdin` (which must not be empty then), until None. Cancelled or too slow, it is
    killed; printing more than `most` is an error, never a cut.
    """
    process = await _spawn(start)
    try:
        async with asyncio.timeout(timeout), _keep_running(process):
            _, out, err, _ = await asyncio.gather(
                process_pipes.feed(process, start.stdin, more),
                process_pipes.all_of(process.stdout, most, sink),
                process_pipes.all_of(process.stderr, most, None),
                _wait_for_exit(process, more),
            )
    except TimeoutError:
        raise TooSlow(f"{start.argv[0]} did not end within {timeout:.0f} s") from None
    finally:
        if more:
            more.put_nowait(None)  # ends the wait for further input
        if process.returncode is None:
            await _whole(asyncio.create_task(_end_at_once(process, start, ())))
    return ProcessResult(process.returncode or 0, out, err)


@contextlib.asynccontextmanager
async def _keep_running(process: asyncio.subprocess.Process) -> AsyncGenerator[None]:
    """Continue a program that a SIGSTOP has paused: it would keep us, and a process that ends us, waiting."""
    loop = asyncio.get_running_loop()

    def resume() -> None:
        nonlocal timer
        for pid in _family(process.pid) if process.returncode is None else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT)
        timer = loop.call_later(CONTINUE_SECONDS, resume)

    timer = loop.call_later(CONTINUE_SECONDS, resume)
    try:
        yield
    finally:
        timer.cancel()


def _family(pid: int) -> list[int]:
    """Return a process and those below it, in whatever sessions."""
    found = [pid]
    for each in found:
        if len(found) < MOST_FAMILY:
            found += children(each)
    return found


async def _wait_for_exit(process: asyncio.subprocess.Process, more: asyncio.Queue[bytes | None] | None) -> None:
    await process.wait()
    if more:
        more.put_nowait(None)


async def follow(
    start: ProcessStart,
    limits: ProcessLimits,
    heard: Callable[[str, bytes, bool], None] | None,
    raw: Callable[[str, bytes], None],
    stop: asyncio.Event,
    talk: ProcessControl | None = None,
) -> Exit:
    """Run a program to its end or to a limit.

    `heard(stream, line, cut)` gets each line (None: nobody hears lines), `raw(stream, chunk)` every byte. Whatever
    happens, also when this is cancelled, nothing it started is alive afterwards.
    """
    process = await _spawn(start)
    talk = talk or ProcessControl()
    watch = _Watch(limits, stop, talk)
    why: Why = "exited"
    tasks: list[asyncio.Task[Any]] = []
    try:
        reading = [
            asyncio.create_task(process_pipes.lines_of(stream, name, watch.hear, heard, raw))
            for name, stream in (("stdout", process.stdout), ("stderr", process.stderr))
        ]
        feeding = asyncio.create_task(process_pipes.feed(process, start.stdin, talk.words if start.talks else None))
        ended = asyncio.create_task(_wait_until_gone(process))
        watching = asyncio.create_task(watch.until_over())
        broken = asyncio.create_task(_first_failure(reading))
        tasks += [*reading, feeding, ended, watching, broken]
        await asyncio.wait({ended, watching, broken}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            why = talk.ending = watching.result()
        if not ended.done():  # a limit, or what it says cannot be kept any more
            if talk.before_end and why in (*PATIENT, *EXCESS_REASONS):
                with talk.hold() if why in EXCESS_REASONS else contextlib.nullcontext():
                    await talk.before_end()
            await _end(process, start, limits.grace_seconds)
        await ended
        leftovers = [
            *(start.left() if start.left else []),
            *(sweep(start.tag, start.uid) if start.tag and not _is_box_gone(start) and locks.holds() else []),
        ]
        # A grandchild without our tag may hold the pipes open: what it has not said by now is not waited for.
        await asyncio.wait(reading, timeout=2.0)
        await _close(process, tasks)
    except BaseException:
        await _whole(asyncio.create_task(_end_at_once(process, start, tasks)))
        raise
    for task in reading:
        if not task.cancelled() and (error := task.exception()):
            raise error  # what it said could not be taken down
    return Exit(code=process.returncode or 0, why=why, leftovers=leftovers)


def _is_box_gone(start: ProcessStart) -> bool:
    """Tell whether the program had a PID namespace, and its first process is gone: the kernel has ended all in it."""
    first = start.box_pid() if start.box_pid else None
    return first is not None and not Path(f"/proc/{first}").exists()


async def _wait_until_gone(process: asyncio.subprocess.Process) -> None:
    """Return when the process itself is gone; asyncio's own `wait` also waits for all holders of its pipes."""
    if sys.platform == "linux":
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(process.pid)
            loop = asyncio.get_running_loop()
            gone = loop.create_future()
            loop.add_reader(descriptor, lambda: gone.done() or gone.set_result(None))
            try:
                await gone
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
    while process.returncode is None:  # noqa: ASYNC110 -- asyncio sets it a moment later
        await asyncio.sleep(0.002)


async def _whole(task: asyncio.Task[Any]) -> None:
    """Wait for a task to its end, also when cancelled meanwhile; only then be cancelled."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled


async def _end_at_once(
    process: asyncio.subprocess.Process, start: ProcessStart, tasks: Sequence[asyncio.Task[Any]]
) -> None:
    """End a program at once with all that it started, and what watched it."""
    if process.returncode is None:
        await _kill_and_wait(process, start)
    if start.tag and locks.holds():  # else what carries the tag belongs to the next owner
        sweep(start.tag, start.uid)
    await _close(process, tasks)


async def _first_failure(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Return when one of them has failed; never when all end well."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    if not any(task.exception() for task in done if not task.cancelled()):
        await asyncio.Event().wait()


async def _close(process: asyncio.subprocess.Process, tasks: Sequence[asyncio.Task[Any]]) -> None:
    """End what watched a process that is gone, and let asyncio close what it opened for it."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    # asyncio offers no other way to close pipes that nobody reads any more or that a stranger holds open.
    process._transport.close()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType, reportAttributeAccessIssue]
    await asyncio.sleep(0)


class _Watch:
    """Tells when a program has had its time, said nothing for too long, said too much, or is to stop."""

    def __init__(self, limits: ProcessLimits, stop: asyncio.Event, talk: ProcessControl) -> None:
        self._limits, self._stop, self._talk = limits, stop, talk
        self._started = self._heard = time.monotonic()
        self._bytes = 0

    def hear(self, count: int) -> None:
        self._heard = time.monotonic()
        self._bytes += count

    async def until_over(self) -> Why:
        deadline = self._started + self._limits.timeout_seconds
        while True:
            silence = self._heard + self._limits.idle_seconds
            now = time.monotonic()
            if self._stop.is_set():
                return "stopped"
            if now >= deadline:
                return "timeout"
            if now >= silence:
                return "idle"
            if self._bytes > MOST_OUTPUT:
                return "flood"
            if self._talk.enough.is_set():
                return self._talk.why
            with contextlib.suppress(TimeoutError):
                # Once a second at least: output may have moved the idle deadline, or become a flood.
                async with asyncio.timeout(min(deadline - now, silence - now, 1.0)):
                    await self._stop.wait()


def start_detached(argv: Sequence[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a program that outlives us, away from our terminal; what it says goes into a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as words:
        left = subprocess.Popen(
            argv, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True
        )
    _LEFT[:] = [each for each in _LEFT if each.poll() is None]  # what has ended meanwhile is not left as a zombie
    _LEFT.append(left)
    return left


async def _spawn(start: ProcessStart) -> asyncio.subprocess.Process:
    """Start a program; cancelled meanwhile, it is started whole and then ended.

    asyncio alone would end only the program itself, and wait for ever for whatever else holds its pipes.
    """
    locks.check()
    _watch_by_pidfd()
    starting = asyncio.create_task(_start_process(start))
    try:
        await _whole(starting)
    except asyncio.CancelledError:
        if starting.exception() is None:
            await _whole(asyncio.create_task(_end_at_once(starting.result(), start, ())))
        raise
    return starting.result()


async def _start_process(start: ProcessStart) -> asyncio.subprocess.Process:
    try:
        process = await asyncio.create_subprocess_exec(
            *start.argv,
            env={**start.env, "CORRAL_ATTEMPT": start.tag} if start.tag else dict(start.env),
            cwd=start.cwd,
            stdin=_stdin(start),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=start.pass_fds,
            start_new_session=True,
            user=start.owner.uid if start.owner else None,
            group=start.owner.gid if start.owner else None,
            extra_groups=() if start.owner else None,
        )
    except FileNotFoundError as error:
        raise CorralError(f"cannot start {start.argv[0]}: {error.strerror}", hint="is it installed?") from error
    except OSError as error:
        if short := machine_limits.of(error):
            raise short from error
        raise CorralError(f"cannot start {start.argv[0]}: {error.strerror}") from error
    if start.spawned:
        start.spawned()
    return process


def _stdin(start: ProcessStart) -> int:
    if start.stdin_file is not None:
        return start.stdin_file
    return asyncio.subprocess.PIPE if start.stdin or start.talks else asyncio.subprocess.DEVNULL


async def _end(process: asyncio.subprocess.Process, start: ProcessStart, grace: float) -> None:
    """Ask politely, wait, then do not ask."""
    inside = start.box_pid() if start.box_pid else None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # bubblewrap does not pass signals on: the agent itself is the first child of the box's first process.
        agent = first_child(inside) if inside else None
        if agent and start.wrapped:
            agent = first_child(agent)
        if agent:
            os.kill(agent, signal.SIGTERM)
        elif not inside and start.supervised:
            process.send_signal(signal.SIGTERM)
        elif not inside:
            os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(grace):
            await _wait_until_gone(process)
    if process.returncode is None:
        await _kill_and_wait(process, start)


async def _kill_and_wait(process: asyncio.subprocess.Process, start: ProcessStart) -> None:
    _kill(process, start)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            await _wait_until_gone(process)
    if process.returncode is None:  # someone stopped our launcher
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await _wait_until_gone(process)


def _kill(process: asyncio.subprocess.Process, start: ProcessStart) -> None:
    # Killing the box's own first process ends all in it at once and leaves no zombie; killing bubblewrap would.
    inside = start.box_pid() if start.box_pid else None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if inside:
            os.kill(inside, signal.SIGKILL)
        elif start.supervised:
            process.send_signal(signal.SIGUSR1)
            process.send_signal(signal.SIGCONT)
        else:
            os.killpg(process.pid, signal.SIGKILL)


class PipedProgram(Struct, frozen=True):
    """A program that may outlive us, and the ends of its pipes that are ours."""

    pid: int
    stdin: int
    stdout: int
    stderr: int


def start_piped(argv: Sequence[str], env: Mapping[str, str]) -> PipedProgram:
    """Start a program in a session of its own, connected by pipes; closing them is all that tells it to leave."""
    try:
        left = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise CorralError(f"cannot start {argv[0]}: {error.strerror}", hint="is it installed?") from error
    _LEFT[:] = [each for each in _LEFT if each.poll() is None]
    _LEFT.append(left)
    pipes = (left.stdin, left.stdout, left.stderr)
    ours = [os.dup(pipe.fileno()) for pipe in pipes if pipe]
    for pipe in pipes:
        if pipe:
            pipe.close()
    return PipedProgram(left.pid, *ours)
