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
from typing import Any

#: Loaded before the first fork; what other commands need (the page, MCP) is loaded where it is used.
COMMANDS = ("run", "look", "act", "evidence", "flow", "merge", "restore", "money", "inbox", "mail")
PACKAGES = ("corral.engine", "corral.attempt", "corral.machines", "corral.store", "corral.rules", "corral.world")
MOST_BYTES = 1 << 20
DESCRIPTORS = 4  #: of a request: stdin, stdout, stderr, and where its end is reported


class Forker:
    """Answers requests on a socket until the other side is gone."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests, self._watched = requests, selectors.DefaultSelector()
        self._watched.register(requests, selectors.EVENT_READ)

    def serve(self) -> bool:
        """Return True in a process that has been forked for a request, False when there are no more."""
        while True:
            for ready, _ in self._watched.select():
                if ready.data:
                    self._report(ready.fd, *ready.data)
                    continue
                body, descriptors, *_ = socket.recv_fds(self._requests, MOST_BYTES, DESCRIPTORS)
                if not body:
                    return False
                if self._forked(body, descriptors):
                    return True

    def _forked(self, body: bytes, descriptors: list[int]) -> bool:
        reports = socket.socket(fileno=descriptors.pop())
        if not (process := os.fork()):
            reports.close()
            self._requests.close()
            for watched in list(self._watched.get_map().values()):
                if watched.data:
                    os.close(watched.fd)
                    watched.data[1].close()
            self._watched.close()
            become(json.loads(body), descriptors)
            return True
        for descriptor in descriptors:
            os.close(descriptor)
        reports.send(json.dumps({"pid": process}).encode())
        self._watched.register(os.pidfd_open(process), selectors.EVENT_READ, (process, reports))
        return False

    def _report(self, watched: int, process: int, reports: socket.socket) -> None:
        self._watched.unregister(watched)
        os.close(watched)
        _, status, used = os.wait4(process, 0)
        code, seconds = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        with contextlib.suppress(BrokenPipeError):  # who asked did not wait for the end
            reports.send(json.dumps({"code": code, "processor_seconds": seconds}).encode())
        reports.close()


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Make this process what a fresh one would be: its streams, its folder, its variables, its arguments."""
    for wanted, descriptor in enumerate(descriptors):
        os.dup2(descriptor, wanted)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["argv"]


def load() -> None:
    for name in COMMANDS:
        importlib.import_module(f"corral.frontends.cli.{name}")
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)


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

    load()
    gc.freeze()  # what is loaded stays as it is, and its memory is shared
    if Forker(socket.socket(fileno=int(sys.argv[1]))).serve():
        try:
            main()
        except SystemExit as ending:
            leave(ending)
