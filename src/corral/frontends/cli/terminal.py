"""The live view on a terminal: agents' words scroll by, below them stands the graph."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from corral.engine.views.flow_pictures import SIGNS, Board, BoardAttempt, BoardRow
from corral.frontends.cli import text as words
from corral.frontends.cli.progress import Plain, headline, speaker
from corral.frontends.safe_text import Drawing, visible
from corral.model import Status
from corral.model.events import (
    CalledTool,
    Checked,
    Event,
    Mailed,
    Noted,
    Reported,
    RunEvent,
    Said,
    Spent,
    StatusChanged,
    UserAsked,
)
from corral.model.flow import Flow

MOODS = {"at work": ">", "stale": "!", "blocked": "?"}
STYLES = {
    "done": "green",
    "failed": "red",
    "timed_out": "red",
    "stale": "yellow",
    "blocked": "yellow",
    "waiting": "yellow",
    "at work": "cyan",
    "running": "cyan",
}
SPEAKERS = ("cyan", "magenta", "blue", "yellow", "bright_cyan", "bright_magenta")
#: Where lines are fewer than nodes, these come first.
ORDER = ("blocked", "stale", "at work", "running", "waiting", "failed", "timed_out")
ALWAYS = ("done", "at work", "waiting")
LEAST_LINES = 4


def view(board: Board, now: float, size: tuple[int, int], spent: float, seconds: float) -> list[tuple[str, str]]:
    """Return lines and their styles, within so many columns and lines; the last one is the summary."""
    width, height = size
    rows = board.rows(now)
    room = max(LEAST_LINES, height) - 1
    shown, left = _choose(rows, room)
    longest = max((len(row.node) for row in shown), default=0)
    lines = [(_line(row, min(longest, width // 3), now), STYLES.get(row.state, "dim")) for row in shown]
    if left:
        lines.append((f"      and {len(left)} more: {_count(left)}", "dim"))
    lines.append((f"{_count(rows, ALWAYS)}  ${spent:.2f}  {words.seconds(seconds)}", "bold"))
    return [(words.cut(text, width), style) for text, style in lines]


def _choose(rows: list[BoardRow], room: int) -> tuple[list[BoardRow], list[BoardRow]]:
    """Return what is shown and what is only counted: all in the order of the graph, or what matters first."""
    if len(rows) <= room:
        return rows, []
    places = {state: place for place, state in enumerate(ORDER)}
    ranked = sorted(rows, key=lambda row: places.get(row.state, len(ORDER)))
    return ranked[: room - 1], ranked[room - 1 :]


def _count(rows: Sequence[BoardRow], always: Sequence[str] = ()) -> str:
    """Sum up: done, at work, waiting, and whatever else there is; `always` these, be it 0."""
    names = {"running": "at work", "queued": "to come", "waiting": "waiting"}
    found = Counter(names.get(row.state, row.state) for row in rows)
    first = ("done", "at work", "stale", "blocked", "waiting", "to come")
    order = [*first, *sorted(state for state in found if state not in first)]
    return ", ".join(f"{found[state]} {state}" for state in order if found[state] or state in always)


def _line(row: BoardRow, wide: int, now: float) -> str:
    sign = MOODS.get(row.state) or SIGNS.get(row.state, ".")
    head = f"{row.layer:>3} {sign} {words.one_line(row.node, wide):<{wide}}  "
    if row.working:
        return head + _work(row.working, row, now)
    parts = [row.state, "" if row.seconds is None else words.seconds(row.seconds), _usd(row.usd)]
    return head + "  ".join(filter(None, [*parts, row.why]))


def _work(working: BoardAttempt, row: BoardRow, now: float) -> str:
    count = len(working.files)
    doing = working.waits or working.doing
    if row.state == "stale":
        limit = words.seconds(working.idle_seconds)
        doing = f"silent for {words.seconds(working.silent(now))} of {limit}: {doing}"
    parts = [
        row.state,
        working.who,
        words.seconds(max(0.0, now - working.started)),
        _usd(working.usd),
        f"{count} file{'' if count == 1 else 's'}" if count else "",
        doing,
    ]
    return "  ".join(filter(None, parts))


def _usd(value: float | None) -> str:
    return f"${value:.2f}" if value else ""


if TYPE_CHECKING:
    from corral.engine.engine import Engine

SHARE = 20  #: to draw and to ask for money takes at most a part of the time: one in so many


class Terminal(Plain):
    """Agents' words scroll by; below them stands the graph: who works, on what, for how long and for how much."""

    patient = True

    def __init__(self, engine: Engine | None = None) -> None:
        super().__init__(engine)
        self._console = Console(
            file=cast("IO[str]", Drawing(sys.stderr)), no_color=bool(os.environ.get("NO_COLOR")), highlight=False
        )
        self._lock = threading.Lock()  # the view is drawn by a thread of its own
        self._spent, self._ask_after = 0.0, 0.0
        self._drawn: tuple[float, RenderableType] = (0.0, Text(""))
        self._live = Live(
            console=self._console,
            refresh_per_second=4,
            transient=True,
            get_renderable=self._render,
            redirect_stdout=False,  # it would let control characters through
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._live.stop()

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._console.print(Text(visible(text)))

    def draw(self, flow: Flow) -> None:
        """Leave it to the live view."""

    @contextlib.contextmanager
    def pause(self) -> Generator[None]:
        self._live.stop()
        yield
        self._live.start()

    def recall(self, heard: RunEvent, at: float) -> None:
        with self._lock:
            super().recall(heard, at)

    def settle(self, states: Mapping[str, Status]) -> None:
        with self._lock:
            super().settle(states)
            if self.board and self.engine:
                self._spent = self.engine.money.spent_usd(self.board.run)

    def hear(self, heard: RunEvent) -> None:
        event = heard.event
        with self._lock:
            board = self.board_of(heard.run)
            board.hear(heard, time.time())
            self._ask_money(board, heard)
        text = headline(event, max(20, self._console.width - 2))
        if text and isinstance(
            event, Said | CalledTool | Noted | UserAsked | Reported | Mailed | Checked | StatusChanged
        ):
            with contextlib.suppress(OSError, ValueError):
                self._console.print(_speech(speaker(heard, board), text, max(20, self._console.width - 1), event))

    def _ask_money(self, board: Board, heard: RunEvent) -> None:
        """Learn what the ledger says: it knows of fixed prices and of what was metered, agents tell of a part only."""
        began = time.monotonic()
        if self.engine is None or not isinstance(heard.event, Spent | StatusChanged) or began < self._ask_after:
            return
        self._spent = self.engine.money.spent_usd(board.run)
        if heard.node and not heard.attempt and heard.run == board.run:
            board.note_cost(heard.node, self.engine.money.spent_usd(board.run, heard.node))
        self._ask_after = time.monotonic() + SHARE * (time.monotonic() - began)

    def _render(self) -> RenderableType:
        until, drawn = self._drawn
        began = time.monotonic()
        if self.board is None or began < until:
            return drawn
        now = time.time()
        with self._lock:
            size = (self._console.width - 1, self._console.height * 2 // 3)
            spent = max(self._spent, self.board.spent_usd())
            lines = view(self.board, now, size, spent, now - self.began)
        drawn = Group(*(Text(text, style=style, no_wrap=True, overflow="ellipsis") for text, style in lines))
        took = time.monotonic() - began
        self._drawn = (began + SHARE * took, drawn)  # a graph of thousands is drawn less often
        return drawn


def _speech(who: str, text: str, wide: int, event: Event) -> Text:
    """Return a line with who speaks, in a colour of their own."""
    name = words.one_line(who, wide // 3) + ": " if who else ""
    line = Text(name, style=SPEAKERS[zlib.crc32(who.encode()) % len(SPEAKERS)])
    return line.append(words.one_line(text, wide - len(name)), style=_style(event))


def _style(event: Event) -> str:
    if isinstance(event, Checked):
        return "green" if event.check.passed else "red"
    return "" if isinstance(event, Said) else "bold" if isinstance(event, StatusChanged) else "dim"
