"""A long log a page at a time, from its end or onwards, narrowed to what a user looks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from corral.model.events import (  # fmt: skip
    Asked,
    CalledTool,
    Changed,
    Checked,
    ContextUsed,
    Ended,
    Event,
    Limited,
    Mailed,
    Planned,
    QuotaReported,
    Reached,
    Rejected,
    Reported,
    Said,
    StatusChanged,
    SteerTaken,
    ToolReturned,
    Unparsed,
)
from corral.model.server import LoggedEvent
from corral.store.interface import Store

END = 2**62
#: with the tags of before 0.2
FOR_MACHINES = tuple(b'{"type":"%b"' % tag for tag in (b"context_used", b"filled", b"quota_reported", b"rationed"))
PAGE = 200
MOST_LOOKED_AT = 10_000  #: events for one page of what is searched for; a caller that needs more asks again
Kind = Literal["all", "said", "tools", "errors"]


class LogQuery(Struct, frozen=True, kw_only=True):
    """Which part of a run's log: backwards from `before`, or onwards from `after`."""

    before: int = END
    after: int | None = None
    attempt: str = ""  #: empty: of all
    kind: Kind = "all"
    words: str = ""
    most: int = PAGE


class LogPage(Struct, frozen=True, kw_only=True):
    """Lines of a log, oldest first."""

    lines: tuple[LoggedEvent, ...]
    next: int | None  #: where to continue in the same direction; None: there is no more


def page(store: Store, run: str, wanted: LogQuery) -> LogPage:
    """Return a page of a log. It looks at so many events at most: then `next` says where it stopped."""
    fits, found = _filter(wanted), list[LoggedEvent]()
    for looked, logged in enumerate(_walk(store, run, wanted), 1):
        if fits(logged):
            found.append(logged)
        if len(found) >= wanted.most or looked >= MOST_LOOKED_AT:
            return LogPage(lines=_in_order(found, wanted), next=logged.stored.seq)
    return LogPage(lines=_in_order(found, wanted), next=None)


def _in_order(found: list[LoggedEvent], wanted: LogQuery) -> tuple[LoggedEvent, ...]:
    return tuple(found if wanted.after is not None else found[::-1])


def _walk(store: Store, run: str, wanted: LogQuery) -> Iterator[LoggedEvent]:
    size = wanted.most if not (wanted.attempt or wanted.words or wanted.kind != "all") else 2000
    if wanted.after is not None:
        after = wanted.after
        while batch := store.pages.events(run, after, size):
            yield from batch
            after = batch[-1].stored.seq
        return
    before = wanted.before
    while batch := store.pages.last_events(run, before, size):
        yield from reversed(batch)
        before = batch[0].stored.seq


def _filter(wanted: LogQuery) -> Callable[[LoggedEvent], bool]:
    needle = wanted.words.lower()
    encoded = msgspec.json.encode(needle)[1:-1].decode()

    def fits(logged: LoggedEvent) -> bool:
        stored = logged.stored
        if wanted.attempt and stored.attempt != wanted.attempt:
            return False
        if needle and encoded not in stored.body.decode().lower():  # most are passed over without being decoded
            return False
        if wanted.kind == "all" and not needle:
            return not stored.body.startswith(FOR_MACHINES)
        event = stored.event()
        return _is(event, wanted.kind) and (not needle or needle in _text(msgspec.to_builtins(event)).lower())

    return fits


def _is(event: Event, kind: Kind) -> bool:
    match kind:
        case "said":
            return isinstance(event, Said | Reported | Asked | Planned | SteerTaken | Mailed)
        case "tools":
            return isinstance(event, CalledTool | ToolReturned | Changed | Reached | Checked)
        case "errors":
            return _is_error(event)
        case _:
            return not isinstance(event, ContextUsed | QuotaReported)


def _is_error(event: Event) -> bool:
    match event:
        case Limited() | Rejected() | Unparsed():
            return True
        case ToolReturned(ok=ok) | Ended(ok=ok):
            return not ok
        case Checked(check):
            return not check.passed
        case Reached(allowed=allowed):
            return not allowed
        case StatusChanged(status=status):
            return status in ("failed", "timed_out", "over_budget", "limited")
        case _:
            return False


def _text(value: Any) -> str:  # noqa: ANN401 -- whatever an event holds
    """Return all words in a value."""
    if isinstance(value, dict):
        value = list(cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        return " ".join(map(_text, cast("list[Any]", value)))
    return value if isinstance(value, str) else ""
