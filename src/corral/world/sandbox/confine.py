"""Turn a command and a box into something `process` can start, at the level this machine holds."""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import os
import shutil
import socket
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from corral.model import Level
from corral.model.errors import CorralError
from corral.world.process import Owner, ProcessStart
from corral.world.process_identity import Leftover
from corral.world.sandbox import cgroup, other_boxes
from corral.world.sandbox.profile import HOME, SCRATCH, Box, build, inner, launcher
from corral.world.sandbox.program_files import SYSTEM, authorities, etc_names, outermost

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")


def limits(box: Box, *, processes: bool) -> list[str]:
    """Return the limits that the kernel keeps for each process; the number of them only where they are its own."""
    asked = {
        "-n": box.processes if processes else None,
        "-f": box.file_mb and box.file_mb << 20,
        "-d": box.memory_mb and box.memory_mb << 20,
        "-t": box.cpu_seconds,
        "-o": box.nofile,
    }
    return [word for name, value in asked.items() if value for word in (name, str(value))]


def in_box(box: Box, control: int | None, *, grouped: bool) -> list[str]:
    """Return the arguments for a box with a root of its own: all in it may be read, little may be written."""
    words = [*limits(box, processes=True), *_memory_option(box, grouped=grouped)]
    for port in box.listeners:
        words += ["-l", str(port)]
    if control is not None:
        words += ["-c", str(control)]
    writable = [HOME, *SCRATCH, "/dev", "/proc", str(box.workspace), *map(str, box.writable)]
    return [*words, "-r", "/", *_each("-w", writable), "--"]


def by_landlock(box: Box, scratch: Path, *, own_user: bool) -> list[str]:
    """Return the arguments where Landlock alone holds: each path that may be read or written by its own name."""
    etc = [Path("/etc", name) for name in (*etc_names(), "passwd", "group")]
    system = [*map(Path, SYSTEM), *etc, Path("/proc"), Path("/dev")]
    readable = [*system, *box.readable, *_readable_elsewhere(box), *authorities(box.env)]
    devices = [Path("/dev", name) for name in DEVICES]
    writable = [*devices, box.workspace, box.home, scratch, *box.writable]
    words = [*limits(box, processes=own_user), *_memory_option(box, grouped=False)]
    words += _each("-r", [str(path) for path in outermost(readable) if _opens(path)])
    words += _each("-w", [str(path) for path in writable if _opens(path)])
    if box.has_own_network:
        words += ["-i", *_each("-p", [str(port) for port in box.listeners])]
    return [*words, "--"]


def _readable_elsewhere(box: Box) -> list[Path]:
    """Return what the scope lets it read elsewhere; nothing with a hidden part: Landlock cannot except that."""
    hidden = [mask.path for mask in box.masks if mask.mode == "hidden"]
    readable = [mask.path for mask in box.masks if mask.mode == "readonly"]
    return [
        path
        for path in readable
        if not path.is_relative_to(box.workspace) and not any(each.is_relative_to(path) for each in hidden)
    ]


def _memory_option(box: Box, *, grouped: bool) -> list[str]:
    """Return the option by which all memory can be counted from outside; a control group counts it by itself."""
    return ["-m"] if box.memory_mb and not grouped else []


def _opens(path: Path) -> bool:
    return os.access(path, os.F_OK)


def _each(option: str, values: list[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


#: Users of agents when corral is root: far above any real one, or below 65536 where a container maps no more.
FIRST_UID, UIDS = 1_879_048_192, 1_000_000


SMALL_FIRST_UID, SMALL_UIDS = 61_000, 4_000


ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}  #: of the program that builds the box


OWN_PROCESSES: tuple[Level, ...] = ("full", "strict", "container")  #: levels at which a box sees no process but its own


class ConfinedProcess:
    """A command in its box, ready to start; close it when the process is gone."""

    def __init__(
        self,
        start: ProcessStart,
        closing: Sequence[Callable[[], object]] = (),
        group: cgroup.ControlGroup | None = None,
    ) -> None:
        self.start = start
        self.memory_kills = 0  #: processes that the kernel killed for lack of memory; known at level full, at the end
        self._closing, self._group = closing, group

    def __enter__(self) -> ProcessStart:
        return self.start

    def __exit__(self, *_: object) -> None:
        if self._group:
            self.memory_kills = self._group.memory_kills()
            self._group.remove()
        for close in self._closing:
            close()


def has_own_processes(level: Level) -> bool:
    """Tell whether a box at this level sees no process but its own."""
    return level in OWN_PROCESSES


def home_in_box(box: Box, level: Level) -> str:
    """Return the path by which the agent knows its home."""
    return HOME if has_own_processes(level) else str(box.home)


def agent_owner(attempt: str) -> Owner | None:
    """Return the user an attempt runs as: its own when corral is root, else the caller."""
    if os.getuid() != 0:
        return None
    first, count = FIRST_UID, UIDS
    with contextlib.suppress(OSError, ValueError):
        ranges = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if not any(int(start) <= first < int(start) + int(size) for start, _, size in ranges):
            first, count = SMALL_FIRST_UID, SMALL_UIDS
    uid = first + zlib.crc32(attempt.encode()) % count
    return Owner(uid, uid)


def confine(
    argv: Sequence[str], box: Box, level: Level, *, tag: str, stdin: bytes = b"", wrapped: bool = False
) -> ConfinedProcess:
    """Put a command into its box. At level `none` there is no box: only a private home and the parent's fate."""
    box = structs.replace(box, env={**box.env, "CORRAL_ATTEMPT": tag})
    if level in ("full", "strict"):
        made = _by_bubblewrap(argv, box, tag, grouped=level == "full")
    elif level == "container":
        made = _by_container(argv, box, tag)
    else:
        made = _in_the_open(argv, box, level, tag)
    made.start = structs.replace(made.start, stdin=stdin, wrapped=wrapped)
    return made


def _by_bubblewrap(argv: Sequence[str], box: Box, tag: str, *, grouped: bool) -> ConfinedProcess:
    owner = agent_owner(tag)
    uid, gid = (owner.uid, owner.gid) if owner else (os.getuid(), os.getgid())
    profile = build(box, uid=uid, gid=gid, stage=owner is not None)
    listeners = Listeners(box.listeners) if box.listeners else None
    control = listeners.theirs.fileno() if listeners else None
    group = _group(box, tag) if grouped else None
    steps = ["-u", str(uid), "-g", str(gid)] if owner else []
    steps += [word for path in profile.staged for word in ("-b", path)]
    steps += [word for path in group.joins for word in ("-j", path)] if group else []
    arguments = _in_memory(profile.arguments)
    reads, writes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    _, first = inner(boxed=True)
    start = ProcessStart(
        argv=[
            *launcher(), "-p", str(os.getpid()), *steps, "--",
            shutil.which("bwrap") or "bwrap", "--args", str(arguments), "--info-fd", str(writes), "--",
            *first, *in_box(box, control, grouped=grouped), *argv,
        ],
        env=ENVIRONMENT,
        pass_fds=(arguments, writes, *profile.files, *([control] if control is not None else [])),
        tag=tag,
        supervised=True,
        spawned=listeners.theirs.close if listeners else None,
        box_pid=_BoxPid(reads).read,
        uid=owner.uid if owner else None,
        listeners=listeners.sockets if listeners else None,
    )  # fmt: skip
    closing = [lambda number=number: os.close(number) for number in (arguments, reads, writes, *profile.files)]
    return ConfinedProcess(start, [*closing, *([listeners.close] if listeners else [])], group)


def _by_container(argv: Sequence[str], box: Box, tag: str) -> ConfinedProcess:
    if box.listeners:
        raise CorralError("at level container nothing can be answered from outside the box", hint="install bubblewrap")
    run = other_boxes.program()
    if run is None:
        raise CorralError("neither podman nor docker is installed")
    owner = agent_owner(tag)
    uid, gid = (owner.uid, owner.gid) if owner else (os.getuid(), os.getgid())
    _, first = inner(boxed=True)
    inside_it = [*first, *in_box(box, None, grouped=True), *argv]
    made = other_boxes.command(run, box, inside_it, uid=uid, gid=gid, tag=tag)
    # The program needs to find its own settings; all else of its environment is the box's.
    env = {**{name: os.environ[name] for name in other_boxes.OWN if name in os.environ}, **ENVIRONMENT, **box.env}
    argv = [*launcher(), "-p", str(os.getpid()), "-a", made.afterwards, "--", *made.argv]
    return ConfinedProcess(ProcessStart(argv=argv, env=env, tag=tag, supervised=True))


def _in_the_open(argv: Sequence[str], box: Box, level: Level, tag: str) -> ConfinedProcess:
    """Confine where there are no namespaces: by Landlock, by seatbelt, or not at all."""
    scratch = box.folder / "tmp"
    closing: list[Callable[[], object]] = []
    listeners = LocalListeners(box.listeners) if box.listeners else None
    if listeners:
        closing.append(listeners.close)
    owner = agent_owner(tag) if level != "none" else None
    env: Mapping[str, str] = box.env
    if level != "none":
        _make_scratch(scratch, owner)
        closing.append(lambda: _empty(scratch))
        # git gives up on settings that it sees and may not read; in a box with a root of its own they are not there.
        env = {"GIT_CONFIG_NOSYSTEM": "1", **env, "TMPDIR": str(scratch)}
    first: list[str] = []
    if level == "landlock":
        if box.readonly or box.hidden:
            raise CorralError("at level landlock no part of a workspace can be read-only or hidden")
        _, first = inner(boxed=False)
        first = [*first, *by_landlock(box, scratch, own_user=owner is not None)]
    elif level == "seatbelt":
        first = ["/usr/bin/sandbox-exec", "-p", other_boxes.seatbelt_profile(box, scratch)]
    left, leaves = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    closing += [lambda number=number: os.close(number) for number in (left, leaves)]
    drop = ["-u", str(owner.uid), "-g", str(owner.gid)] if owner else []
    start = ProcessStart(
        argv=[*launcher(), "-p", str(os.getpid()), "-r", str(leaves), *drop, "--", *first, *argv],
        env=env,
        cwd=str(box.workspace),
        pass_fds=(leaves,),
        tag=tag,
        supervised=True,
        uid=owner.uid if owner else None,
        left=lambda: _read_leftovers(left),
        listeners=listeners.sockets if listeners else None,
    )
    return ConfinedProcess(start, closing)


def _make_scratch(folder: Path, owner: Owner | None) -> None:
    folder.mkdir(exist_ok=True, mode=0o700)
    if owner:
        os.chown(folder, owner.uid, owner.gid)


def _empty(folder: Path) -> None:
    for entry in list(folder.iterdir()) if folder.is_dir() else []:
        with contextlib.suppress(OSError, RecursionError):  # a folder too deep for it stays, with its workspace
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _group(box: Box, tag: str) -> cgroup.ControlGroup:
    try:
        return cgroup.make(f"{tag}-{id(box)}", memory_mb=box.memory_mb, processes=box.processes)
    except cgroup.NoControlGroup as error:
        raise CorralError(str(error), hint="--require-sandbox strict needs no control group") from error


class _BoxPid:
    """Learns from bubblewrap which process is the first in the box."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._text = b""

    def read(self) -> int | None:
        with contextlib.suppress(BlockingIOError, OSError):
            self._text += os.read(self._descriptor, 4096)
        with contextlib.suppress(ValueError, KeyError):
            return int(json.loads(self._text)["child-pid"])
        return None


def _read_leftovers(descriptor: int) -> list[Leftover]:
    """Return what the launcher had to end after the program itself had left."""
    with contextlib.suppress(BlockingIOError, OSError):
        lines = os.read(descriptor, 1 << 16).decode(errors="replace").splitlines()
        return [Leftover(int(pid), name) for pid, _, name in (line.partition(" ") for line in lines)]
    return []


def _in_memory(arguments: Sequence[str]) -> int:
    """Hand arguments over in memory: what is on a command line is visible to every process of the machine."""
    descriptor = os.memfd_create("box", os.MFD_CLOEXEC)
    os.write(descriptor, os.fsencode("\0".join([*arguments, ""])))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class Listeners:
    """Receives as many listening sockets as were asked for, in the order of their ports."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._ports = ports
        self._ours, self.theirs = socket.socketpair()
        self._ours.setblocking(False)  # noqa: FBT003

    async def sockets(self) -> list[socket.socket]:
        """Return the sockets once the box is up; they are the caller's to close. An error if it does not come up."""
        found: list[socket.socket] = []
        try:
            while len(found) < len(self._ports):
                found.append(await self._next())
        except BaseException:
            for each in found:
                each.close()
            raise
        return found

    async def _next(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        while True:
            try:
                word, messages, _, _ = self._ours.recvmsg(1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                ready = loop.create_future()
                loop.add_reader(self._ours, lambda waiting=ready: waiting.done() or waiting.set_result(None))
                try:
                    await ready
                finally:
                    loop.remove_reader(self._ours)
                continue
            for _, kind, data in messages:
                if kind == socket.SCM_RIGHTS:
                    handed = socket.socket(fileno=array.array("i", data[:4])[0])
                    handed.setblocking(False)  # noqa: FBT003
                    return handed
            if not word:
                raise CorralError("the box ended before it listened")

    def close(self) -> None:
        self._ours.close()
        self.theirs.close()


class LocalListeners:
    """The same where the box has no network of its own: bound here, on the machine's own loopback."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._bound: list[socket.socket] = []
        for port in ports:
            bound = socket.socket()
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._bound.append(bound)
            try:
                bound.bind(("127.0.0.1", port))
                bound.listen(512)
            except OSError as error:
                self.close()
                raise CorralError(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from error
            bound.setblocking(False)  # noqa: FBT003

    async def sockets(self) -> list[socket.socket]:
        given, self._bound = self._bound, []
        return given

    def close(self) -> None:
        for each in self._bound:
            each.close()
