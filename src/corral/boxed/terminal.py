"""A terminal inside the box: what a user types comes in frames on stdin, what the program shows leaves on stdout."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios

HEAD = struct.Struct(">cI")  #: what a frame is, and how many bytes follow
SIZE = struct.Struct(">HH")  #: rows, columns
TYPED, RESIZED = b"i", b"w"
CHUNK = 65536
CANNOT_START = 127


class BoxedTerminal:
    """One program on a terminal of its own, between two pipes."""

    def __init__(self, argv: list[str]) -> None:
        self.child, self.master = pty.fork()
        if self.child == 0:
            become(argv)
        os.set_blocking(self.master, False)
        self.unread, self.typed = bytearray(), bytearray()
        self.hears = True

    def relay(self) -> int:
        """Pass on what comes from either side until the program has left; return its exit code."""
        while True:
            readable = [self.master, *([0] if self.hears else [])]
            ready, writable, _ = select.select(readable, [self.master] if self.typed else [], [])
            if writable:
                self.write()
            if 0 in ready:
                self.take(os.read(0, CHUNK))
            if self.master in ready and not self.show():
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])

    def show(self) -> bool:
        """Pass on what the program prints; return False once nobody holds its terminal any more."""
        try:
            left = os.read(self.master, CHUNK)
        except BlockingIOError:
            return True
        except OSError:  # Linux says so when the last holder is gone
            return False
        while shown := left:
            left = shown[os.write(1, shown) :]
            if not left:
                return True
        return False

    def take(self, data: bytes) -> None:
        """Read frames; where they end, the user is gone."""
        if not data:
            self.hears = False
            self.hang_up()
        self.unread += data
        while len(self.unread) >= HEAD.size:
            kind, length = HEAD.unpack_from(self.unread)
            if len(self.unread) < HEAD.size + length:
                return
            body = bytes(self.unread[HEAD.size : HEAD.size + length])
            del self.unread[: HEAD.size + length]
            if kind == RESIZED:
                self.resize(*SIZE.unpack(body))
            elif kind == TYPED:
                self.typed += body

    def write(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            del self.typed[: os.write(self.master, self.typed)]

    def resize(self, rows: int, columns: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self, _: int, __: object) -> None:
        """End the program as a terminal that is closed does."""
        self.hang_up()

    def hang_up(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child, signal.SIGHUP)


def become(argv: list[str]) -> None:
    """Turn into the program, on its terminal."""
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        os.write(2, f"cannot start {argv[0]}: {error.strerror}\r\n".encode())
        os._exit(CANNOT_START)


def main() -> int:
    terminal = BoxedTerminal(sys.argv[1:])
    signal.signal(signal.SIGTERM, terminal.end)
    code = terminal.relay()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
