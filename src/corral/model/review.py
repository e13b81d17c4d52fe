"""Review of a run's change: comments on lines, and what becomes of them."""

from __future__ import annotations

import re
from typing import Literal, get_args

from msgspec import Struct

Side = Literal["new", "old"]
CommentState = Literal["open", "sent", "resolved", "outdated"]
SIDES: tuple[Side, ...] = get_args(Side)
PLACE = re.compile(r"(?P<file>.+):(?P<line>\d{1,9})(-(?P<last>\d{1,9}))?", re.DOTALL)


class Comment(Struct, frozen=True, kw_only=True):
    """What a reviewer says about a file, or lines of it."""

    id: str  #: c1, c2, …: unique in its run
    attempt: str  #: whose work it is about
    file: str
    line: int | None = None  #: the first; null: the whole file
    last_line: int | None = None
    side: Side = "new"  #: old: lines of the base
    author: str = ""
    text: str = ""
    state: CommentState = "open"  #: outdated: its lines are gone
    reply_to: str | None = None  #: the comment that began the thread
    sent_to: str | None = None  #: the attempt whose agent got it
    at: str = ""
    quote: str = ""  #: the lines, as they were

    @property
    def place(self) -> str:
        """Where it is, as `corral comment` takes it."""
        if self.line is None:
            return self.file
        last = f"-{self.last_line}" if self.last_line not in (None, self.line) else ""
        return f"{self.file}:{self.line}{last}"


class NewComment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A comment as a front end hands it over."""

    text: str
    file: str = ""
    line: int | None = None
    last_line: int | None = None
    side: Side = "new"
    attempt: str | None = None  #: its id or number; null: the winner
    reply_to: str | None = None  #: then its place is that of the comment it answers


def read_place(text: str) -> tuple[str, int | None, int | None]:
    """Read `FILE`, `FILE:LINE` or `FILE:LINE-LINE`."""
    found = PLACE.fullmatch(text)
    if found is None:
        return text, None, None
    line = int(found["line"])
    return found["file"], line, int(found["last"]) if found["last"] else line
