"""Review in words: what an agent hears of it, and which lines comments are about."""

from __future__ import annotations

from collections.abc import Sequence

from corral import amounts
from corral.model.errors import BadRequest
from corral.model.flow import Task
from corral.model.review import Comment
from corral.rules.context import prompt

MOST_QUOTE = 20  #: lines


def revise_prompt(task: Task, review: str, said: str, *, remembers: bool, guide: str = "") -> str:
    """Return what an agent hears whose work was reviewed; `said` is how it ended, for one that does not remember it."""
    if remembers:
        return review
    worked = "You have worked on this already; your workspace holds what you did."
    ended = f"You ended with these words:\n\n{said.strip()[-prompt.MOST_OUTPUT :]}" if said.strip() else ""
    return "\n\n".join(filter(None, (prompt.build(task, guide=guide), worked, ended, review)))


def review_message(comments: Sequence[Comment], text: str) -> str:
    """Return all that reviewers say about an attempt's work, as one message."""
    threads: dict[str, list[Comment]] = {}
    for each in comments:
        threads.setdefault(each.reply_to or each.id, []).append(each)
    head = (
        "Your work was reviewed. Your workspace is as you left it. Change it so that it answers what is said here, and "
        "keep what is not spoken of."
    )
    return "\n\n".join([head, *map(_thread, threads.values()), *([text.strip()] if text.strip() else [])])


def _thread(comments: Sequence[Comment]) -> str:
    first = comments[0]
    side = ", as it was before your change" if first.side == "old" else ""
    quote = "".join(f"> {line}\n" for line in first.quote.splitlines()[:MOST_QUOTE])
    return f"{first.place}{side}:\n{quote}" + "\n".join(f"{each.author}: {each.text.strip()}" for each in comments)


def check_lines(file: str, lines: Sequence[str], line: int, last: int) -> None:
    """Raise unless a file has these lines."""
    if line < 1 or last < line:
        raise BadRequest(f"{line}-{last} are no lines", hint="lines count from 1, the first comes first: a.py:3-5")
    if last > len(lines):
        count = f"{amounts.count(len(lines), 'line')}"
        raise BadRequest(f"{file} has {count}, not {last}", hint="corral diff shows the lines that changed")


def find_lines(quote: str, text: str, near: int) -> int | None:
    """Return the line at which quoted lines begin now, the nearest if there are several; None: they are gone."""
    wanted, rows = quote.split("\n"), text.split("\n")
    first = [place for place, row in enumerate(rows) if row == wanted[0]]
    found = [place + 1 for place in first if rows[place : place + len(wanted)] == wanted]
    return min(found, key=lambda place: abs(place - near), default=None)
