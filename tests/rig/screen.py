"""A command on a terminal of its own: what a person would see there."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Generator, Mapping
from pathlib import Path

from tests.rig.command import Corral
from tests.rig.waiting import until

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SECONDS = 60.0


class Screen:
    """All that was written to a terminal so far."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process, self._master = process, master
        self._bytes = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """What was written, without the codes that move the cursor and colour it; each drawing begins a line."""
        return CODES.sub("", self._bytes.decode(errors="replace")).replace("\r\n", "\n").replace("\r", "\n")

    @property
    def raw(self) -> str:
        """What was written, with all codes in it."""
        return self._bytes.decode(errors="replace")

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def sees(self, pattern: str) -> None:
        """Wait until a line fits; fail at once, with what was shown, when the command has ended without it."""

        def is_shown() -> bool:
            if ended := self.process.poll() is not None:
                self._reader.join(SECONDS)
            shown = re.search(pattern, self.text) is not None
            assert shown or not ended, (
                f"ended with {self.process.returncode} before the screen showed {pattern}: {self.text}"
            )
            return shown

        until(is_shown, f"the screen shows {pattern}")

    @property
    def keyboard(self) -> int:
        """The side of the terminal that a person sits at."""
        return self._master

    def type(self, text: str) -> None:
        """Type on its keyboard."""
        os.write(self._master, text.encode())

    def tallest(self) -> int:
        """How many lines the live view had at most: as far as the cursor ever went up to draw it anew."""
        ups = re.findall(r"(?:\x1b\[1A\x1b\[2K)+", self._bytes.decode(errors="replace"))
        return 1 + max((up.count("\x1b[1A") for up in ups), default=0)

    def end(self) -> int:
        code = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        return code

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the other side is gone
            while data := os.read(self._master, 65536):
                self._bytes += data


@contextlib.contextmanager
def on_terminal(
    corral: Corral, *arguments: str | Path, rows: int = 40, columns: int = 120, env: Mapping[str, str] | None = None
) -> Generator[Screen]:
    """Start a command on a new terminal; it is gone when the block is left."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        [*corral.program, *map(str, arguments)],
        cwd=corral.root,
        env={**corral.env, "TERM": "xterm-256color", "PAGER": "cat", **(env or {})},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    screen = Screen(process, master)
    try:
        yield screen
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(SECONDS)
        os.close(master)
