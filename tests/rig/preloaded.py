"""The command in processes forked from one that has loaded it: for tests whose subject is not how it is started."""

import atexit
import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.rig import forker, stand_in

#: Variables that Python reads when it starts: with them, and in another language, the command is started as usual.
READ_AT_START = ("PYTHON", "LC_", "LD_")
USUAL_LANGUAGE = "C.UTF-8"
MOST_WORDS = 1 << 16  #: that a request takes, in letters
MOST_REPORT = 1000  #: bytes


class Preloaded:
    """One forker for this process and its threads, started by the first command and gone with this process."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._address = ""
        self._used = tempfile.TemporaryFile()  # noqa: SIM115 -- as long as this process

    @property
    def processor_seconds(self) -> float:
        """Those of commands that have ended: they are not below this process."""
        written = os.pread(self._used.fileno(), forker.SECONDS.size, 0)
        return forker.SECONDS.unpack(written)[0] if written else 0.0

    def fits(self, arguments: Sequence[str], env: Mapping[str, str]) -> bool:
        """Return whether a forked process is what a fresh one would be."""
        plain = env.get("LANG") == USUAL_LANGUAGE and not any(name.startswith(READ_AT_START) for name in env)
        return plain and sum(map(len, (*arguments, *env, *env.values()))) <= MOST_WORDS

    def stand_in(self, program: Path) -> list[str]:
        """Return the words that have a command forked where others start it."""
        return [sys.executable, "-IS", stand_in.__file__, self._forker(), str(program)]

    def ask(self, request: Mapping[str, Any], streams: Sequence[int]) -> socket.socket:
        """Have a command started with these streams; return where its process id is said, and then its end."""
        asker = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        asker.connect(self._forker())
        socket.send_fds(asker, [json.dumps(request).encode()], list(streams))
        return asker

    def _forker(self) -> str:
        with self._starting:
            if not self._address:
                folder = tempfile.mkdtemp(prefix="corral-forker-")
                self._address = f"{folder}/requests"
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
                    listening.bind(self._address)
                    listening.listen(100)
                    handed = (listening.fileno(), self._used.fileno())
                    program = [sys.executable, "-P", forker.__file__, *map(str, handed)]
                    env = {"PATH": os.environ["PATH"], "LANG": USUAL_LANGUAGE}
                    # Its own streams are pipes, as its children's will be: Python looks at them once.
                    running = subprocess.Popen(
                        program, env=env, pass_fds=handed, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                    )
                atexit.register(_end, running, folder)
            return self._address


def _end(running: subprocess.Popen[bytes], folder: str) -> None:
    running.communicate()  # it takes the end of its stdin for its own
    shutil.rmtree(folder)


PRELOADED = Preloaded()


class ForkedProcess(subprocess.Popen[bytes]):
    """`subprocess.Popen` of the command, except that its process is forked and no child of ours."""

    _asker: socket.socket

    def _execute_child(self, args: Sequence[str], *given: Any) -> None:
        cwd, env, streams, own_session = given[4], given[5], given[9:15], given[20]
        request = {"argv": list(args), "cwd": str(cwd or Path.cwd()), "env": dict(env), "own_session": own_session}
        theirs = (streams[0], streams[3], streams[5])
        try:
            own = [number if each == -1 else each for number, each in enumerate(theirs)]
            self._asker = PRELOADED.ask(request, own)
            self.pid = json.loads(self._asker.recv(MOST_REPORT))["pid"]
            self._child_created = True
        finally:
            self._close_pipe_fds(*streams)  # pyright: ignore[reportAttributeAccessIssue]

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _ended(self, within_seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._asker], [], [], within_seconds)[0]:
            with contextlib.closing(self._asker):
                ended = json.loads(self._asker.recv(MOST_REPORT))
            self.returncode = ended["code"]
        return self.returncode
