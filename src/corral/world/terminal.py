"""The terminal of a user, lent to a program in a box: keys and sizes go there as frames, its screen comes back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
import sys
import termios
import tty
from collections.abc import Callable, Generator, Mapping

from corral.model.errors import BadRequest

HEAD = struct.Struct(">cI")  #: as boxed/terminal.py reads it: what a frame is, and how many bytes follow
CHUNK = 65536
PASSED_ON = ("TERM", "COLORTERM", "TERM_PROGRAM", "LANG", "LC_ALL")
#: Leaves the second screen, shows the cursor, ends bracketed paste, mouse and keyboard modes.
RESET = b"\x1b[?1049l\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[<u\x1b[0m\r\n"


class UserTerminal:
    """Two descriptors of one terminal: what is typed, and what is shown."""

    def __init__(self, keys: int, screen: int) -> None:
        self._keys, self._screen = keys, screen

    @classmethod
    def of_this_process(cls) -> UserTerminal:
        """Return the terminal that this process was started on."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            hint = "type it in a terminal; without one: corral revise RUN TEXT"
            raise BadRequest("working by hand needs a terminal on stdin and stderr", hint=hint)
        return cls(sys.stdin.fileno(), sys.stderr.fileno())

    def size(self) -> bytes:
        """Return the frame that says how large the screen is."""
        columns, rows = os.get_terminal_size(self._screen)
        return _frame(b"w", struct.pack(">HH", rows, columns))

    @staticmethod
    def env() -> Mapping[str, str]:
        """Return what a program must know of this terminal; an empty NO_COLOR is none."""
        return {"NO_COLOR": "", **{name: os.environ[name] for name in PASSED_ON if name in os.environ}}

    def show(self, chunk: bytes) -> None:
        """Show what the program prints; a terminal that is gone shows nothing."""
        with contextlib.suppress(OSError):
            while chunk:
                chunk = chunk[os.write(self._screen, chunk) :]

    def reset(self) -> None:
        """Leave the modes of a program that could not leave them itself."""
        self.show(RESET)

    @contextlib.contextmanager
    def lend(self, say: Callable[[bytes | None], None]) -> Generator[None]:
        """Pass on every key as it is, until this is left; then the terminal is as it was."""
        loop, before = asyncio.get_running_loop(), termios.tcgetattr(self._keys)

        def read() -> None:
            try:
                typed = os.read(self._keys, CHUNK)
            except OSError:
                typed = b""
            if not typed:
                loop.remove_reader(self._keys)
            say(_frame(b"i", typed) if typed else None)

        tty.setraw(self._keys, termios.TCSADRAIN)
        loop.add_reader(self._keys, read)
        loop.add_signal_handler(signal.SIGWINCH, lambda: say(self.size()))
        try:
            yield
        finally:
            loop.remove_reader(self._keys)
            loop.remove_signal_handler(signal.SIGWINCH)
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSADRAIN, before)


def _frame(kind: bytes, body: bytes) -> bytes:
    return HEAD.pack(kind, len(body)) + body
