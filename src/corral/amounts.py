"""Money, times and counts in words: the same for sentences of the engine and for every front end."""

from __future__ import annotations

from datetime import UTC, datetime

SMALL_USD = 0.1  #: less than this keeps its digits behind the cents: they tell it from nothing
TINY_USD = 0.0001


def usd(amount: float | None) -> str:
    """Return money: `$1,234.50`, `$0.07`, `$0.0042`."""
    if amount is None:
        return "unknown"
    sign, size = "-" if amount < 0 else "", abs(amount)
    if not size or size >= SMALL_USD:
        return f"{sign}${size:,.2f}"
    digits = f"{size:.4f}" if size >= TINY_USD else f"{size:.8f}"
    return f"{sign}${digits.rstrip('0').ljust(len('0.00'), '0')}"


def seconds(amount: float | None) -> str:
    """Return a time span in its two largest units: `1.2 s`, `45 s`, `3 min 5 s`, `2 h`."""
    if amount is None:
        return "-"
    if amount < 10:
        return f"{amount:.1f} s"
    whole = round(amount)
    for size, unit, below, name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {name}" if rest else "")
    return f"{whole} s"


def utc_time(then: float) -> str:
    """Return a time for every reader: ISO 8601, UTC."""
    return datetime.fromtimestamp(then, UTC).isoformat(timespec="seconds")


def tokens(amount: int | None) -> str:
    """Return a number of tokens: `1.2k`."""
    if amount is None:
        return "unknown"
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if amount >= size:
            return f"{amount / size:.1f}{unit}"
    return str(amount)


def count(amount: float, one: str, many: str = "") -> str:
    """Return `1 file`, `2 files`."""
    return f"{amount:,.0f} {one if amount == 1 else many or one + 's'}"


def progress(done: float, total: float, passed_seconds: float, unit: str) -> str:
    """Return how far long work is, how fast it is and when it ends: `45 of 120 runs, 12/s, 6 s left`."""
    rate = done / passed_seconds if passed_seconds > 0 else 0.0
    is_known = total >= done  # larger than expected: its end is unknown
    words = [f"{done:,.0f} of {total:,.0f} {unit}" if is_known else f"{done:,.0f} {unit} so far"]
    if rate > 0:
        words.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        words += [f"{seconds((total - done) / rate)} left"] if is_known else []
    return ", ".join(words)
