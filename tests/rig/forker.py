"""A process that has loaded the command already, and forks one that runs it for each request: a start without imports."""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import socket
import sys
import threading
from collections.abc import Iterable
from typing import Any

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
    "mcp": ("corral.frontends.mcp", "mcp.server.stdio"),
}
MOST_BYTES = 1 << 20
STREAMS = 3  #: that come with a request: stdin, stdout, stderr


class Forker:
    """Answers requests, each over a connection of its own, until the other side is gone."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening, self._watched = listening, selectors.DefaultSelector()
        self._watched.register(listening, selectors.EVENT_READ)
        self._watched.register(sys.stdin, selectors.EVENT_READ)
        self._loaded: set[str] = set()

    def serve(self) -> bool:
        """Return True in a process that has been forked for a request, False when there are no more."""
        while True:
            for ready, _ in self._watched.select():
                if ready.data:
                    self._report(ready.fd, *ready.data)
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
        if not (process := os.fork()):
            asker.close()
            self._listening.close()
            for watched in list(self._watched.get_map().values()):
                if watched.data:
                    os.close(watched.fd)
                    watched.data[1].close()
            self._watched.close()
            become(request, descriptors)
            return True
        for descriptor in descriptors:
            os.close(descriptor)
        asker.send(json.dumps({"pid": process}).encode())
        self._watched.register(os.pidfd_open(process), selectors.EVENT_READ, (process, asker))
        return False

    def _load(self, command: list[str]) -> None:
        for name in set(command) & set(MORE) - self._loaded:
            load(MORE[name])
            self._loaded.add(name)

    def _report(self, watched: int, process: int, asker: socket.socket) -> None:
        self._watched.unregister(watched)
        os.close(watched)
        _, status, used = os.wait4(process, 0)
        code, seconds = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        with contextlib.suppress(OSError):  # who asked did not wait for the end
            asker.send(json.dumps({"code": code, "processor_seconds": seconds}).encode())
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
    gc.collect()
    gc.freeze()


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

    load((*(f"corral.frontends.cli.{name}" for name in COMMANDS), *PACKAGES))
    if Forker(socket.socket(fileno=int(sys.argv[1]))).serve():
        try:
            main()
        except SystemExit as ending:
            leave(ending)
