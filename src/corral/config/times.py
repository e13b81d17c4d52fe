"""Times as users write them: lengths of time, and times of the clock as cron has them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from msgspec import Struct

from corral.model.errors import BadRequest

MOST_SECONDS = 1e9  #: about thirty years
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
PART = re.compile(r"(\*|\w+(?:-\w+)?)(?:/(\d+))?")
HINT = 'as "*/15 9-17 * * mon-fri", or @hourly, @daily, @weekly, @monthly'
YEARS = 8  #: a 29 February comes within these, or never


def duration(text: str, name: str) -> float:
    """Read `90`, `90s`, `20m` or `2h` as seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h)?", text.strip())
    if not match or not 0 < float(match.group(1)) < MOST_SECONDS:
        spoken = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(sec|min|h|d)[a-z]*", text.strip().lower())
        hint = f"write it as {_short(*spoken.groups())}" if spoken and not match else "write it like 90s, 20m or 2h"
        if spoken and float(spoken.group(1)) >= MOST_SECONDS:
            hint = f"it is less than {MOST_SECONDS:.0f}s, about thirty years"
        raise BadRequest(f"{name}: `{text}` is not a length of time", hint=hint)
    return float(match.group(1)) * {"s": 1, "m": 60, "h": 3600, None: 1}[match.group(2)]


def _short(number: str, unit: str) -> str:
    return f"{float(number) * 24:g}h" if unit == "d" else f"{number}{unit[0]}"


class Cron(Struct, frozen=True):
    """When something is to happen."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  #: 0 is Sunday
    any_day: bool
    any_weekday: bool

    def next(self, after: datetime) -> datetime:
        """Return the first such minute after a moment, in the moment's own time zone."""
        zone, at = after.tzinfo, after.replace(tzinfo=None, second=0, microsecond=0) + timedelta(minutes=1)
        last = at.year + YEARS
        while at.year <= last:
            if at.month not in self.months:
                at = (at.replace(day=1, hour=0, minute=0) + timedelta(days=32)).replace(day=1)
            elif not self._day(at):
                at = at.replace(hour=0, minute=0) + timedelta(days=1)
            elif at.hour not in self.hours:
                at = at.replace(minute=0) + timedelta(hours=1)
            elif at.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at.replace(tzinfo=zone)
        raise BadRequest("that time never comes", hint=HINT)

    def _day(self, at: datetime) -> bool:
        """As cron has it: where both days are named, either is enough."""
        by_month, by_week = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return by_month and by_week
        return by_month or by_week


def parse(text: str) -> Cron:
    """Read a cron expression, or say what is wrong with it."""
    parts = NAMED.get(text.strip().lower(), text).split()
    if len(parts) != 5:
        raise BadRequest(f"`{text}` has {len(parts)} fields, not 5", hint=HINT)
    minutes, hours, days, months, weekdays = (
        _field(part.lower(), name, low, high) for part, (name, low, high) in zip(parts, FIELDS, strict=True)
    )
    found = Cron(minutes, hours, days, months, frozenset(day % 7 for day in weekdays), parts[2] == "*", parts[4] == "*")
    found.next(datetime(2000, 1, 1))  # noqa: DTZ001 -- only to see whether there is one
    return found


def _field(text: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = PART.fullmatch(part)
        if match is None:
            raise BadRequest(f"`{part}` is no {name}", hint=HINT)
        span, step = match.group(1), int(match.group(2) or 1)
        first, _, last = ("", "", "") if span == "*" else span.partition("-")
        start = _number(first, name, low, high) if first else low
        end = _number(last, name, low, high) if last else high if not first or match.group(2) else start
        if step < 1 or end < start:
            raise BadRequest(f"`{part}` is no {name}", hint=HINT)
        found.update(range(start, end + 1, step))
    return frozenset(found)


def _number(text: str, name: str, low: int, high: int) -> int:
    names = MONTHS if name == "month" else DAYS if name == "day of week" else ()
    number = names.index(text) + low if text in names else int(text) if text.isdecimal() else -1
    if not low <= number <= high:
        raise BadRequest(f"`{text}` is no {name}", hint=HINT)
    return number
