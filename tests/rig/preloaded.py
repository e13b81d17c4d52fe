"""The command in processes forked from one that has loaded it: for tests whose subject is not how it is started."""

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from corral.testing.command import PROGRAM, Outcome
from tests.rig import forker

#: Variables that Python reads when it starts: with them, and in another language, the command is started as usual.
READ_AT_START = ("PYTHON", "LC_", "LD_")
USUAL_LANGUAGE = "C.UTF-8"
MOST_INPUT = 1 << 15  #: that a pipe takes at once
MOST_WORDS = 1 << 16  #: that a request takes, in letters


class Preloaded:
    """One forker for this process and its threads, started by the first command and gone with this process."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._requests: socket.socket | None = None
        self.processor_seconds = 0.0  #: of commands that have ended: they are not below this process

    def fits(self, arguments: Sequence[str], env: Mapping[str, str], stdin: bytes) -> bool:
        """Return whether a forked process is what a fresh one would be."""
        plain = env.get("LANG") == USUAL_LANGUAGE and not any(name.startswith(READ_AT_START) for name in env)
        short = sum(map(len, (*arguments, *env, *env.values()))) <= MOST_WORDS
        return plain and short and len(stdin) <= MOST_INPUT

    def run(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: bytes, timeout: float) -> Outcome:
        """Run the command as `subprocess.run` would."""
        words = [str(PROGRAM), *arguments]
        request = json.dumps({"argv": words, "cwd": str(cwd), "env": dict(env)}).encode()
        pipes = [os.pipe() for _ in range(3)]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        handed = [pipes[0][0], pipes[1][1], pipes[2][1], theirs.detach()]
        try:
            socket.send_fds(self._forker(), [request], handed)
        finally:
            for descriptor in handed:
                os.close(descriptor)
        with ours, ThreadPoolExecutor(2) as readers:
            out, err = (readers.submit(_read, pipe[0]) for pipe in pipes[1:])
            with contextlib.suppress(BrokenPipeError):
                os.write(pipes[0][1], stdin)
            os.close(pipes[0][1])
            process = json.loads(ours.recv(1000))["pid"]
            ours.settimeout(timeout)
            try:
                ended = json.loads(ours.recv(1000))
            except TimeoutError:
                os.kill(process, 9)
                raise subprocess.TimeoutExpired(words, timeout) from None
            self.processor_seconds += ended["processor_seconds"]
            return Outcome(ended["code"], out.result(timeout), err.result(timeout))

    def _forker(self) -> socket.socket:
        with self._starting:
            if self._requests is None:
                self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                program = [sys.executable, "-P", forker.__file__, str(theirs.fileno())]
                env = {"PATH": os.environ["PATH"], "LANG": USUAL_LANGUAGE}
                # Its own streams are pipes, as its children's will be: Python looks at them once.
                going = subprocess.Popen(
                    program, env=env, pass_fds=[theirs.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
                theirs.close()
                atexit.register(_end, self._requests, going)
            return self._requests


def _end(requests: socket.socket, going: subprocess.Popen[bytes]) -> None:
    requests.close()  # it takes that for its end
    going.communicate()


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


PRELOADED = Preloaded()
