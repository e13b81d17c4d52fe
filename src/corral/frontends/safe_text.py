"""Text on its way to a terminal: in columns as wide as it is, control characters shown and never sent."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO, cast

#: What can drive a terminal or reorder what it shows: C0 but tab and newline, DEL, C1, line separators, bidi controls,
#: and bytes that are no text.
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_COLOURS = {"red": 31, "green": 32, "yellow": 33, "cyan": 36}


def visible(text: str) -> str:
    r"""Return text with its control characters written out: `^[` for ESC, `\u009b` for what has no such name.

    JSON stays what it was: its encoder has escaped the first kind already, and escapes the second in the same way.
    """
    return CONTROL.sub(lambda found: _escape_code(ord(found.group())), text)


def _escape_code(code: int) -> str:
    if code < ord(" "):
        return "^" + chr(code + ord("@"))
    return rf"\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else rf"\u{code:04x}"


class VisibleStream(io.TextIOWrapper):
    """A terminal's stream through which only our own colours get as they are."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        encoding = "utf-8" if codecs.lookup(stream.encoding).name == "ascii" else stream.encoding
        super().__init__(stream.detach(), encoding=encoding, errors="backslashreplace", line_buffering=True)
        self.mark = os.urandom(8).hex()  #: stands for the beginning of a colour; nobody else can know it

    def write(self, text: str, /) -> int:
        super().write(visible(text).replace(self.mark, "\x1b["))
        return len(text)

    def send(self, text: str) -> int:
        """Write text as it is: for what draws on the terminal, and has made its parts visible itself."""
        return super().write(text)


class Drawing:
    """The stream of a terminal for a program part that draws on it by control sequences of its own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.send(text) if isinstance(self._stream, VisibleStream) else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever else a stream has
        return getattr(self._stream, name)


def protect() -> None:
    """Let nothing but our own colours drive the terminals that we write to."""
    for name in ("stdout", "stderr"):
        stream: TextIO = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, VisibleStream) and stream.isatty():
            setattr(sys, name, VisibleStream(cast("io.TextIOWrapper", stream)))


def colour_text(text: str, colour: str | None) -> str:
    """Colour text on its way to stdout, if that is a terminal."""
    out = sys.stdout
    if not isinstance(out, VisibleStream) or os.environ.get("NO_COLOR") or colour not in _COLOURS:
        return text
    return f"{out.mark}{_COLOURS[colour]}m{text}{out.mark}0m"


def patch_sink() -> Callable[[bytes], Any]:
    """Return what takes the bytes of a patch: as they are, but on a terminal with their control characters shown."""
    if not isinstance(sys.stdout, VisibleStream):
        return sys.stdout.buffer.write
    decoder, out = codecs.getincrementaldecoder("utf-8")("backslashreplace"), sys.stdout
    return lambda data: out.write(decoder.decode(data))


def ago(then: float) -> str:
    passed = max(0.0, time.time() - then)
    for limit, unit, name in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h")):
        if passed < limit:
            return f"{passed / unit:.0f}{name}"
    return f"{passed / 86400:.0f}d"


def printable(text: str) -> str:
    """Keep an agent's control codes, and line breaks in names, from driving the reader's terminal."""
    return visible(text).replace("\n", "^J")


def one_line(text: str, width: int) -> str:
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= width else flat[: max(0, width - 1)] + "…"


def width() -> int:
    """Return the columns there are: COLUMNS, the terminal's, or 100."""
    named = os.environ.get("COLUMNS", "")
    if named.isdigit() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 100
    except (OSError, ValueError):
        return 100


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns; the last takes what is left of the terminal's width."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head) - 1)]
    room = max(20, width() - sum(widths) - 2 * len(widths))
    lines: list[str] = []
    for row in (head, *rows):
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, one_line(row[-1], room)]).rstrip())
    return lines
