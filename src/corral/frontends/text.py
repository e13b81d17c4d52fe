"""Text for users: money, times and states in words, columns as wide as the terminal, control characters made visible.

It loads next to nothing: a plain `corral ls` needs it, and nothing else of ours.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import sys
import time
from collections.abc import Callable, Generator, Sequence

from corral.amounts import progress, seconds, usd

TYPE_CHECKING = False  # as of `typing`, which would double what a plain list loads
if TYPE_CHECKING:
    from typing import Any, Self, TextIO

    from corral.model import Cost

_FULL_INDEX = re.compile(r"^index ([0-9a-f]{12})[0-9a-f]{28,52}\.\.([0-9a-f]{12})[0-9a-f]{28,52}")
_PATCH_COLOURS = (
    ("diff ", 1), ("index ", 2), ("--- ", 1), ("+++ ", 1), ("@@", 36), ("+", 32), ("-", 31),
)  # fmt: skip
_COLOURS = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "violet": 35, "cyan": 36}
#: States, grades and results, in the colours of the page.
COLOURS = {
    **dict.fromkeys(("done", "ready", "ok", "pass", "passed", "proven", "held-out", "to merge", "approved"), "green"),
    **dict.fromkeys(("failed", "timed_out", "FAIL", "FAILED", "doubtful", "in conflict", "orphaned", "BAD"), "red"),
    **dict.fromkeys(
        ("over_budget", "stopped", "waiting", "waits", "paused", "limited", "partial", "not seen"), "yellow"
    ),
    **dict.fromkeys(("running", "at work"), "cyan"),
    **dict.fromkeys(("queued", "skipped", "undone", "unharmed", "unchecked"), "dim"),
    "merged": "violet",
}
PAINTED = frozenset(
    {"STATUS", "STATE", "EVIDENCE", "CHECKS", "ENDED", "LOGIN"}
)  #: columns that hold such words, ours alone
_STATE_WORDS = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(map(re.escape, COLOURS), key=len, reverse=True))})(?![\w-])")
#: What can drive a terminal or reorder what it shows: C0 but tab and newline, DEL, C1, line separators, bidi controls,
#: and bytes that are no text.
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return text with its control characters written out: `^[` for ESC, `\u009b` for what has no such name.

    JSON stays what it was: its encoder has escaped the first kind already, and escapes the second in the same way.
    """
    return CONTROL.sub(lambda found: _escape_code(ord(found.group())), text)


def _escape_code(code: int) -> str:
    if code < ord(" "):
        return "^" + chr(code + ord("@"))
    return rf"\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else rf"\u{code:04x}"


def printable(text: str) -> str:
    """Keep an agent's control codes, and line breaks in names, from driving the reader's terminal."""
    return visible(text).replace("\n", "^J")


def cut(text: str, width: int) -> str:
    """Shorten a line to a width; its columns stay."""
    flat = printable(text)
    return flat if len(flat) <= width else flat[: max(0, width - 1)] + "…"


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


BAR_CELLS = 20  #: of a progress bar
REDRAW_SECONDS = 0.25
LEAST_CELL = 8  #: columns that a shortened cell keeps
LEAST_LAST = 20  #: columns that the last cell of a row needs


def table(head: Sequence[str], rows: Sequence[Sequence[str]], drop: Sequence[str] = ()) -> list[str]:
    """Align columns; the last takes what is left of the terminal's width.

    Where there is too little room, the columns of `drop` are left out, in this order; then the widest is shortened.
    """
    kept = list(range(len(head)))
    for name in drop if _is_screen() else ():
        if _natural(head, rows, kept) + LEAST_LAST > width():
            kept.remove(head.index(name))
    chosen = [[row[place] for place in kept] for row in (head, *rows)]
    widths = _narrow([max(len(row[place]) for row in chosen) for place in range(len(kept) - 1)])
    room = max(LEAST_LAST, width() - sum(widths) - 2 * len(widths))
    lines: list[str] = []
    for row in chosen:
        cells = [_cut(cell, size).ljust(size) for cell, size in zip(row, widths, strict=False)]
        cells.append(one_line(row[-1], room))
        if isinstance(sys.stdout, VisibleStream):
            cells = [_paint(chosen[0][place], cell, head=row is chosen[0]) for place, cell in enumerate(cells)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _paint(column: str, cell: str, *, head: bool) -> str:
    """Return a cell as a terminal shows it: a heading bold, the words of a state each in its colour."""
    if head:
        return colour_text(cell.rstrip(), "bold") + " " * (len(cell) - len(cell.rstrip()))
    if column not in PAINTED:
        return cell
    return _STATE_WORDS.sub(lambda found: colour_text(found.group(), COLOURS[found.group()]), cell)


def _natural(head: Sequence[str], rows: Sequence[Sequence[str]], kept: Sequence[int]) -> int:
    return sum(max(len(row[place]) for row in (head, *rows)) + 2 for place in kept[:-1])


def _narrow(widths: list[int]) -> list[int]:
    """Shorten the widest columns until all fit; what goes to a file or a program stays whole."""
    if not _is_screen():
        return widths
    while widths and sum(widths) + 2 * len(widths) + LEAST_LAST > width() and max(widths) > LEAST_CELL:
        widths[widths.index(max(widths))] -= 1
    return widths


def _is_screen() -> bool:
    return sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))


def _cut(cell: str, size: int) -> str:
    return cell if len(cell) <= size else cell[: size - 1] + "…"


# --- money, times and states


def money(cost: Cost) -> str:
    """Say what is known to be spent and by whose word, and what is reserved for the rest."""
    reserved = f"up to {usd(cost.reserved_usd)} reserved" if cost.reserved_usd else ""
    if cost.usd is None:
        return f"cost unknown, {reserved}" if reserved else "cost unknown"
    known = usd(cost.usd) + ("" if cost.source == "reported" or not cost.usd else f" {cost.source}")
    doubt = ["disputed"] if cost.disputed is True else []
    doubt += ["notional"] if cost.notional is True else []
    return ", ".join([known, *doubt, *filter(None, [reserved])])


def spent_and_reserved(spent_usd: float, reserved_usd: float) -> str:
    """Say both figures in a sentence: what is known, and what is reserved for the rest."""
    more = f", up to {usd(reserved_usd)} reserved for unknown cost" if reserved_usd else ""
    return f"{usd(spent_usd)} spent{more}"


def age(then: float) -> str:
    """Return how long ago something was, for a column: `5m`."""
    passed = max(0.0, time.time() - then)
    for limit, unit, name in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h")):
        if passed < limit:
            return f"{passed / unit:.0f}{name}"
    return f"{passed / 86400:.0f}d"


def ago(then: float) -> str:
    """Return how long ago something was, or how far ahead it is: `5 min ago`, `in 2 h`."""
    passed = time.time() - then
    if abs(passed) < 1:
        return "now"
    if passed < 0:
        return f"in {seconds(-passed)}"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):  # the largest unit alone: columns must not wrap
        if passed >= size:
            return f"{passed // size:.0f} {unit} ago"
    return f"{passed:.0f} s ago"


def local_time(then: float) -> str:
    """Return a time as this machine's clock shows it, with its zone."""
    return time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(then))


def status(text: str, width: int = 0) -> str:
    """Return a status in its colour, if stdout is a terminal."""
    return colour_text(text.ljust(width), COLOURS.get(text))


# --- a terminal


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
            setattr(sys, name, VisibleStream(stream))  # pyright: ignore[reportUnknownArgumentType] -- of bytes


class ProgressBar:
    """How far long work is, as a bar with its rate and its end: on a terminal, while it takes long, then it is gone."""

    def __init__(self, verb: str, unit: str, *, prints: bool = False) -> None:
        self._verb, self._unit = verb, unit
        self._began = self._drawn = time.monotonic()
        # What prints as it works would be torn by a bar on the same terminal.
        self._shown = sys.stderr.isatty() and not (prints and sys.stdout.isatty())
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            Drawing(sys.stderr).write("\r" + " " * self._width + "\r")
            sys.stderr.flush()

    def report(self, done: int, total: int) -> None:
        """Draw the bar, at most a few times a second."""
        now = time.monotonic()
        if not self._shown or now - self._drawn < REDRAW_SECONDS:
            return
        self._drawn = now
        line = cut(self.line(done, total, now - self._began), width() - 1)
        Drawing(sys.stderr).write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)

    def line(self, done: int, total: int, passed_seconds: float) -> str:
        """Return the bar in words: `cleaning [####......] 48 of 120 runs, 12/s, 6 s left`."""
        full = round(BAR_CELLS * done / total) if total else 0
        words = progress(done, total, passed_seconds, self._unit)
        return f"{self._verb} [{'#' * full}{'.' * (BAR_CELLS - full)}] {words}"


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


@contextlib.contextmanager
def patch_view() -> Generator[Callable[[bytes], Any]]:
    """Lend what takes the bytes of a patch and shows them: on a terminal in colour, and in the user's pager."""
    out = sys.stdout
    if not isinstance(out, VisibleStream):
        yield out.buffer.write
        return
    colours = not os.environ.get("NO_COLOR")
    with _pager(out) as write:
        lines = _PatchLines(write, colours=colours)
        yield lines.take
        lines.end()


class _PatchLines:
    """The lines of a patch, made safe for a terminal and coloured."""

    def __init__(self, write: Callable[[str], Any], *, colours: bool) -> None:
        self._write, self._colours = write, colours
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._rest = ""

    def take(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        for line in whole:
            self._write(self._paint(line) + "\n")

    def end(self) -> None:
        if self._rest:
            self._write(self._paint(self._rest) + "\n")

    def _paint(self, line: str) -> str:
        text = visible(_FULL_INDEX.sub(r"index \1..\2", line))
        code = next((code for start, code in _PATCH_COLOURS if line.startswith(start)), None)
        return f"\x1b[{code}m{text}\x1b[0m" if code and self._colours else text


@contextlib.contextmanager
def _pager(out: VisibleStream) -> Generator[Callable[[str], Any]]:
    """Lend what writes to the user's pager, or to the terminal where there is none; quitting it early is fine."""
    words = os.environ.get("CORRAL_PAGER") or os.environ.get("PAGER") or "less"
    import shlex  # noqa: PLC0415 -- only a patch on a terminal has a pager
    import shutil  # noqa: PLC0415
    import subprocess  # noqa: PLC0415
    from typing import BinaryIO, cast  # noqa: PLC0415

    argv = shlex.split(words)
    if not argv or argv == ["cat"] or shutil.which(argv[0]) is None or not sys.stdin.isatty():
        yield out.send
        return
    out.flush()
    env = {"LESS": "FRX", "LV": "-c", **os.environ}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=env) as pager:
        stream = io.TextIOWrapper(cast("BinaryIO", pager.stdin), encoding="utf-8", errors="backslashreplace")
        with contextlib.suppress(BrokenPipeError):
            yield stream.write
        with contextlib.suppress(BrokenPipeError):
            stream.close()
