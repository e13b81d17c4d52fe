"""What Ray runs on a node for one attempt: a place that it counts, and the bytes of `corral host` there.

Its source is sent to the node, so it needs the standard library alone.
"""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

PIECE = 512 << 10  #: bytes that one call carries
AHEAD = 4 << 20  #: bytes that are held for an engine that is slow
SPARE_SECONDS = 30.0  #: after a lease, until the place is given back


class Carrier:
    """A place on a node, counted by Ray, and the bytes of `corral host` there."""

    def __init__(self, argv: Sequence[str], lease_seconds: float) -> None:
        self._argv, self._patience = list(argv), lease_seconds + SPARE_SECONDS
        self._epoch, self._channel, self._input = -1, 0, -1
        self._pieces, self._ended, self._changed = bytearray(), False, threading.Condition()
        self._complaints: Any = None
        self._heard_at = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def where(self) -> tuple[str, str]:
        """Return the node's number and its name."""
        ray = importlib.import_module("ray")
        return ray.get_runtime_context().get_node_id(), socket.gethostname()

    def open(self, epoch: int) -> tuple[int, str]:
        """Start a connection to the node's host; return its number, or 0 and why there is none."""
        with self._changed:
            self._heard_at = time.monotonic()
            if epoch < self._epoch:
                return 0, f"it belongs to a later epoch ({self._epoch})"
            self._epoch = epoch
            self._channel += 1
            self._close_input()
            self._pieces, self._ended = bytearray(), False
            try:
                output = self._start()
            except OSError as error:
                return 0, f"{self._argv[0]} cannot be started there: {error.strerror or error}"
            threading.Thread(target=self._hear, args=(self._channel, output), daemon=True).start()
            self._changed.notify_all()
            return self._channel, ""

    def _start(self) -> int:
        """Start the host as nobody's child: Ray ends what its processes started, and it may hold others' attempts."""
        first, *rest = self._argv
        beside = os.path.join(os.path.dirname(sys.executable), first)  # noqa: PTH118, PTH120 -- one import less
        program = beside if os.path.exists(beside) else shutil.which(first)  # noqa: PTH110
        if program is None:
            raise OSError(2, "No such program; install corral on each node")
        there, self._input = os.pipe()
        output, back = os.pipe()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        actions = [
            (os.POSIX_SPAWN_DUP2, there, 3),
            (os.POSIX_SPAWN_DUP2, back, 1),
            (os.POSIX_SPAWN_DUP2, self._complaints.fileno(), 2),
        ]
        env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        words = ["sh", "-c", '"$@" <&3 3<&- &', "sh", program, *rest]
        try:
            child = os.posix_spawn("/bin/sh", words, env, file_actions=actions, setsid=True)
        finally:
            os.close(there)
            os.close(back)
        os.waitpid(child, 0)
        return output

    def _hear(self, channel: int, output: int) -> None:
        while data := os.read(output, PIECE):
            with self._changed:
                self._changed.wait_for(lambda: len(self._pieces) < AHEAD or channel != self._channel)
                if channel != self._channel:
                    break
                self._pieces += data
                self._changed.notify_all()
        os.close(output)
        with self._changed:
            self._ended = self._ended or channel == self._channel
            self._changed.notify_all()

    def read(self, channel: int, wait_seconds: float) -> tuple[bytes, bool, str]:
        """Return what the host sent, whether that was all, and then what it complained of."""
        with self._changed:
            self._heard_at = time.monotonic()
            self._changed.wait_for(lambda: self._pieces or self._ended or channel != self._channel, wait_seconds)
            self._heard_at = time.monotonic()
            if channel != self._channel:
                return b"", True, "another connection took its place"
            data = bytes(self._pieces[:PIECE])
            del self._pieces[:PIECE]
            self._changed.notify_all()
            return data, self._ended and not self._pieces, self._words() if self._ended else ""

    def _words(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read()[-2000:].decode(errors="replace")

    def write(self, channel: int, data: bytes) -> bool:
        """Pass bytes on to the host; none close its stdin. Return whether it still listens."""
        if channel != self._channel or self._input < 0:
            return False
        if not data:
            self._close_input()
        try:
            while data:
                data = data[os.write(self._input, data) :]
        except OSError:
            return False
        return True

    def _close_input(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    def _watch(self) -> None:
        """Give the place back when no engine asks any more."""
        while time.monotonic() - self._heard_at < self._patience:
            time.sleep(1)
        os._exit(0)
