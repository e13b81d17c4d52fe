"""A run that goes on, as a few lines: its graph with signs, who is at work on what, and one line that sums it up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from corral.engine.views.flow_pictures import SIGNS, Board, Row, Working
from corral.frontends.cli import text as words

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


def _choose(rows: list[Row], room: int) -> tuple[list[Row], list[Row]]:
    """Return what is shown and what is only counted: all in the order of the graph, or what matters first."""
    if len(rows) <= room:
        return rows, []
    places = {state: place for place, state in enumerate(ORDER)}
    ranked = sorted(rows, key=lambda row: places.get(row.state, len(ORDER)))
    return ranked[: room - 1], ranked[room - 1 :]


def _count(rows: Sequence[Row], always: Sequence[str] = ()) -> str:
    """Sum up: done, at work, waiting, and whatever else there is; `always` these, be it 0."""
    names = {"running": "at work", "queued": "to come", "waiting": "waiting"}
    found = Counter(names.get(row.state, row.state) for row in rows)
    first = ("done", "at work", "stale", "blocked", "waiting", "to come")
    order = [*first, *sorted(state for state in found if state not in first)]
    return ", ".join(f"{found[state]} {state}" for state in order if found[state] or state in always)


def _line(row: Row, wide: int, now: float) -> str:
    sign = MOODS.get(row.state) or SIGNS.get(row.state, ".")
    head = f"{row.layer:>3} {sign} {words.one_line(row.node, wide):<{wide}}  "
    if row.working:
        return head + _work(row.working, row, now)
    parts = [row.state, "" if row.seconds is None else words.seconds(row.seconds), _usd(row.usd)]
    return head + "  ".join(filter(None, [*parts, row.why]))


def _work(working: Working, row: Row, now: float) -> str:
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
