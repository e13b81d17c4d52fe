"""The live view on a terminal: agents' words scroll by, below them is the graph."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import termios
import threading
import time
import tty
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from corral import amounts
from corral.engine.views.flow_pictures import SIGNS, Board, BoardAttempt, BoardRow
from corral.frontends import text as words
from corral.frontends.cli.progress import Plain, headline, speaker
from corral.frontends.text import Drawing, visible
from corral.frontends.user_name import current_user
from corral.model import Entry, Status
from corral.model.errors import CorralError
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
SINGLE_NODE = "main"  #: of a flow that was made for one task


def view(board: Board, now: float, size: tuple[int, int], spent: float, seconds: float) -> list[tuple[str, str]]:
    """Return lines and their styles, within so many columns and lines; the last one is the summary."""
    width, height = size
    rows = board.rows(now)
    room = max(LEAST_LINES, height) - 1
    shown, left = _choose(rows, room)
    alone = {row.node for row in rows} == {SINGLE_NODE}  # a single task: its node has no name of the user's
    longest = 0 if alone else max((len(row.node) for row in shown), default=0)
    lines = [(_line(row, min(longest, width // 3), now), STYLES.get(row.state, "dim")) for row in shown]
    if left:
        lines.append((f"      and {len(left)} more: {_count(left)}", "dim"))
    counts = [] if alone and len(rows) == 1 else [_count(rows, ALWAYS)]
    lines.append(("  ".join([*counts, amounts.usd(spent), amounts.seconds(seconds)]), "bold"))
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
    head = f"{row.layer:>3} {sign} {words.one_line(row.node, wide):<{wide}}  " if wide else f"  {sign} "
    if row.working:
        return head + _work(row.working, row, now)
    parts = [row.state, "" if row.seconds is None else amounts.seconds(row.seconds), _usd(row.usd)]
    return head + "  ".join(filter(None, [*parts, row.why]))


def _work(working: BoardAttempt, row: BoardRow, now: float) -> str:
    count = len(working.files)
    doing = working.waits or working.doing
    if row.state == "stale":
        limit = amounts.seconds(working.idle_seconds)
        doing = f"silent for {amounts.seconds(working.silent(now))} of {limit}: {doing}"
    parts = [
        row.state,
        working.who,
        amounts.seconds(max(0.0, now - working.started)),
        _usd(working.usd),
        f"{amounts.count(count, 'file')}" if count else "",
        doing,
    ]
    return "  ".join(filter(None, parts))


def _usd(value: float | None) -> str:
    return amounts.usd(value) if value else ""


if TYPE_CHECKING:
    from corral.engine.engine import Engine

ESCAPES = re.compile(r"\x1b(?:[\[O][0-9;]*[A-Za-z~])?")  #: of arrows and other keys: they are no text
MOST_TYPED = 1000
SHARE = 20  #: to draw and to ask for money takes at most a part of the time: one in so many


class TypedAnswers:
    """What a user types while agents work: never echoed into the view, sent as the answer to what waits."""

    def __init__(self, engine: Engine | None, say: Callable[[str], None]) -> None:
        self._engine, self._say = engine, say
        self._typed, self._entry = "", cast("Entry | None", None)
        self._before: list[Any] | None = None  #: how the terminal was set
        self._sending: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Take over the keyboard, where this process has one."""
        with contextlib.suppress(OSError, ValueError, RuntimeError, termios.error):
            number = sys.stdin.fileno()
            if self._engine is None or not sys.stdin.isatty() or _is_in_background(number):
                return
            loop, self._before = asyncio.get_running_loop(), termios.tcgetattr(number)
            tty.setcbreak(number)  # Ctrl-C still is a signal
            loop.add_reader(number, self._read)

    def end(self) -> None:
        if self._before is None:
            return
        with contextlib.suppress(OSError, ValueError, RuntimeError, termios.error):
            number, before, self._before = sys.stdin.fileno(), self._before, None
            asyncio.get_running_loop().remove_reader(number)
            if not _is_in_background(number):
                termios.tcsetattr(number, termios.TCSADRAIN, before)

    def look(self, run: str) -> None:
        """Learn what waits for an answer now."""
        if self._before is not None and self._engine is not None:
            self._entry = next((each for each in self._engine.inbox.entries() if each.run == run), None)

    @property
    def line(self) -> str:
        """The line in which an answer is typed; nothing where nothing waits."""
        if self._entry is None:
            return ""
        return f"answer {' / '.join(self._entry.choices) or 'in words'}, then Enter: {visible(self._typed)}_"

    def _read(self) -> None:
        data = os.read(sys.stdin.fileno(), 4096)
        if not data:
            self.end()
        for letter in ESCAPES.sub("", data.decode(errors="ignore")):
            if letter in "\r\n":
                self._send()
            elif letter in "\x7f\b":
                self._typed = self._typed[:-1]
            elif letter.isprintable():
                self._typed = (self._typed + letter)[:MOST_TYPED]

    def _send(self) -> None:
        text, self._typed, entry = self._typed.strip(), "", self._entry
        if text and entry is None:
            self._say("nothing waits for an answer; to tell the agents something: corral steer TEXT")
        elif text and entry is not None:
            task = asyncio.get_running_loop().create_task(self._answer(entry, text))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _answer(self, entry: Entry, text: str) -> None:
        if self._engine is None:
            return
        try:
            given = await self._engine.inbox.answer(entry.id, text, current_user(), here=True)
        except CorralError as error:
            self._say(f"{error}" + (f" ({error.hint})" if error.hint else ""))
        else:
            self._say(f"answered: {given.answer}")
        self.look(entry.run)


def _is_in_background(number: int) -> bool:
    """Tell whether another job has the terminal: to set it then would stop this process."""
    with contextlib.suppress(OSError):
        return os.tcgetpgrp(number) != os.getpgrp()
    return False


class Terminal(Plain):
    """Agents' words scroll by; below them is the graph: who works, on what, for how long and for how much."""

    patient = True

    def __init__(self, engine: Engine | None = None) -> None:
        super().__init__(engine)
        self._console = Console(
            file=cast("IO[str]", Drawing(sys.stderr)), no_color=bool(os.environ.get("NO_COLOR")), highlight=False
        )
        self._lock = threading.Lock()  # the view is drawn by a thread of its own
        self._spent, self._ask_after = 0.0, 0.0
        self._drawn: tuple[float, RenderableType] = (0.0, Text(""))
        self._answers = TypedAnswers(engine, self.say)
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
        self._answers.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answers.end()
        with contextlib.suppress(OSError, ValueError):
            self._live.stop()

    def say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._console.print(Text(visible(text)))

    def draw(self, flow: Flow) -> None:
        """Leave it to the live view."""

    @contextlib.contextmanager
    def pause(self) -> Generator[None]:
        self._answers.end()
        self._live.stop()
        yield
        self._live.start()
        self._answers.begin()

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
        if isinstance(event, UserAsked | StatusChanged):
            self._answers.look(board.run)
        text = headline(event, max(20, self._console.width - 2))
        if text and isinstance(
            event, Said | CalledTool | Noted | UserAsked | Reported | Mailed | Checked | StatusChanged
        ):
            with contextlib.suppress(OSError, ValueError):
                self._console.print(_speech(speaker(heard, board), text, max(20, self._console.width - 1), event))

    def _ask_money(self, board: Board, heard: RunEvent) -> None:
        """Learn what the ledger says: it knows of fixed prices and of what was metered, agents tell of a part only."""
        if self.engine is None or not isinstance(heard.event, Spent | StatusChanged):
            return
        if heard.node and not heard.attempt and heard.run == board.run:  # always: nothing of this node may follow
            board.note_cost(heard.node, self.engine.money.spent_usd(board.run, heard.node))
        began = time.monotonic()
        if began >= self._ask_after:
            self._spent = self.engine.money.spent_usd(board.run)
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
        if asked := self._answers.line:
            lines = [*lines, (asked, "bold yellow")]
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
