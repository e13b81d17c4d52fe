"""A process that has loaded the command already, and forks one that runs it for each request: a start without imports."""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

#: Loaded before the first fork.
COMMANDS = ("run", "look", "act", "evidence", "flow", "merge", "restore", "money", "inbox", "mail")
PACKAGES = ("corral.engine", "corral.attempt", "corral.machines", "corral.store", "corral.rules", "corral.world")
#: Loaded before the first fork for a command that needs more than the others.
MORE = {
    "serve": (
        "corral.frontends.web",
        "uvicorn.protocols.http.auto",
        "uvicorn.protocols.websockets.auto",
        "uvicorn.loops.auto",
        "uvicorn.lifespan.on",
    ),
    "acp": ("corral.frontends.acp",),
    "mcp": ("corral.frontends.mcp", "mcp.server.stdio"),
}
MOST_BYTES = 1 << 20
SECONDS = struct.Struct("d")
STREAMS = 3  #: that come with a request: stdin, stdout, stderr


class Forker:
    """Answers requests, each over a connection of its own, until the other side is gone."""

    def __init__(self, listening: socket.socket, used: int) -> None:
        self._listening, self._watched = listening, selectors.DefaultSelector()
        self._watched.register(listening, selectors.EVENT_READ)
        self._watched.register(sys.stdin, selectors.EVENT_READ)
        self._loaded: set[str] = set()
        self._used, self._used_seconds = used, 0.0  #: processor seconds of what has ended, and where they are written

    def serve(self) -> bool:
        """Return True in a process that has been forked for a request, False when there are no more."""
        while True:
            for ready, _ in self._watched.select():
                if ready.data:
                    report_or_end, process, asker = ready.data
                    report_or_end(ready.fd, process, asker)
                elif ready.fileobj is sys.stdin:
                    return False
                elif self._fork(self._listening.accept()[0]):
                    return True

    def _fork(self, asker: socket.socket) -> bool:
        body, descriptors, *_ = socket.recv_fds(asker, MOST_BYTES, STREAMS)
        if not body:
            asker.close()
            return False
        request = json.loads(body)
        self._load(request["argv"][1:2])
        ready, in_session = os.pipe()
        if not (process := os.fork()):
            self._let_go(asker)
            if request.get("own_session"):
                os.setsid()
            os.close(ready)
            os.close(in_session)
            become(request, descriptors)
            return True
        os.close(in_session)
        os.read(ready, 1)  # until it has its session: it may be ended by that at once
        os.close(ready)
        for descriptor in descriptors:
            os.close(descriptor)
        asker.send(json.dumps({"pid": process}).encode())
        self._watched.register(os.pidfd_open(process), selectors.EVENT_READ, (self._report, process, asker))
        if request.get("tied"):
            self._watched.register(asker, selectors.EVENT_READ, (self._end, process, asker))
        return False

    def _let_go(self, asker: socket.socket) -> None:
        """Close what only the process that forks needs."""
        for watched in list(self._watched.get_map().values()):
            if watched.data:
                watched.data[2].close()
                if watched.fd == watched.fileobj:
                    os.close(watched.fd)
        self._watched.close()
        self._listening.close()
        os.close(self._used)
        asker.close()

    def _load(self, command: list[str]) -> None:
        for name in set(command) & set(MORE) - self._loaded:
            load(MORE[name])
            self._loaded.add(name)

    def _end(self, watched: int, process: int, _: socket.socket) -> None:
        """End a process whose asker is gone before it."""
        self._watched.unregister(watched)
        os.kill(process, signal.SIGKILL)

    def _report(self, watched: int, process: int, asker: socket.socket) -> None:
        self._watched.unregister(watched)
        os.close(watched)
        if asker in self._watched.get_map():
            self._watched.unregister(asker)
        _, status, used = os.wait4(process, 0)
        self._used_seconds += used.ru_utime + used.ru_stime
        os.pwrite(self._used, SECONDS.pack(self._used_seconds), 0)
        with contextlib.suppress(OSError):  # who asked did not wait for the end
            asker.send(json.dumps({"code": os.waitstatus_to_exitcode(status)}).encode())
        asker.close()


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Make this process what a fresh one would be: its streams, its folder, its variables, its arguments."""
    for wanted, descriptor in enumerate(descriptors):
        os.dup2(descriptor, wanted)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["argv"]


def load(names: Iterable[str]) -> None:
    """Load modules, and packages with all that is in them; they stay as they are, so that their memory is shared."""
    for name in names:
        path = getattr(importlib.import_module(name), "__path__", ())
        for module in pkgutil.walk_packages(path, f"{name}."):
            importlib.import_module(module.name)
    for each in structs(msgspec.Struct):
        with contextlib.suppress(TypeError, NameError):  # one that is never read from text
            msgspec.json.Decoder(each)  # reads its annotations, which each process would do anew
    gc.collect()
    gc.freeze()


def structs(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """Yield all structs that are known by now."""
    for each in base.__subclasses__():
        yield each
        yield from structs(each)


def leave(ending: SystemExit) -> None:
    """End this process as Python does, except that nothing loaded is taken apart: that takes longer than most commands."""
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue] -- threads first, then exit hooks, then streams
    atexit._run_exitfuncs()
    code = ending.code or 0
    if not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    from corral.__main__ import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever who started the tests ignores
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    load((*(f"corral.frontends.cli.{name}" for name in COMMANDS), *PACKAGES))
    if Forker(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])).serve():
        try:
            main()
        except SystemExit as ending:
            leave(ending)
