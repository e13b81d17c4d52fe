"""Quotas of an account: their reset times, from a provider's words, and their use, from its headers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from corral.model.money import QuotaWindow

#: Gives the time zone of a name such as `Europe/Berlin`, that of this machine for "", None for a name it does not know.
Zones = Callable[[str], tzinfo | None]
LAGS = 1800.0  #: a time that is over for less than this is an old answer, not tomorrow's
SOON = 60.0  #: what is over by its own words is asked again after this
FAR = 400 * 86400.0  #: what lies further off is no answer
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_NUMBER = r"\d+(?:\.\d+)?"
_UNIT = r"ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?"
_SPAN = rf"{_NUMBER}\s*(?:{_UNIT})(?:(?:,?\s*and|,)?\s*{_NUMBER}\s*(?:{_UNIT}))*"
_CLOCK = r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?::\d\d)?\s*(?P<half>[ap]\.?m\b\.?)?"
_ZONE = r"(?:\s*\(?(?P<zone>[A-Z][A-Za-z_]+/[\w/+-]+|(?:GMT|UTC)(?P<offset>[+-]\d{1,2}(?::?\d\d)?)?|Z\b)\)?)?"
_EPOCH = re.compile(r"(?:\||reset\w*[\"']?\s*(?:at|on)?[\"']?\s*[:=]?\s*[\"']?)(\d{10}(?:\d{3})?)\b", re.IGNORECASE)
_FIELD = re.compile(
    r"(?:resets?_in_seconds|retry[-_ ]?after(?:[-_ ]seconds)?|resets?_after_seconds)[\"']?\s*[:=]?\s*[\"']?"
    rf"({_NUMBER})[\"']?(?!\s*(?:{_UNIT}|\d|[-:/]))",
    re.IGNORECASE,
)
_WAIT = re.compile(
    r"(?:\b(?:in|after|wait|within)|retry_?delay[\"']?\s*[:=])\s*(?:about |another |the next )?[\"']?"
    rf"({_SPAN})(?![\w/])",
    re.IGNORECASE,
)
_ISO = re.compile(r"\b(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?\s*(Z\b|UTC\b|[+-]\d\d:?\d\d)?")
_DATE = re.compile(
    r"\b(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?"
    rf"(?:,?\s*(?P<year>20\d\d))?(?:,|\s+at)?\s+(?:at\s+)?{_CLOCK}{_ZONE}",
    re.IGNORECASE,
)
_TIME = re.compile(rf"\b(?:resets?|again|available|back)\b(?:\s+(?:at|on|by))?:?\s+{_CLOCK}{_ZONE}", re.IGNORECASE)
_UNIFIED = re.compile(r"anthropic-ratelimit-unified-(5h|7d\w*|overage)-(utilization|reset)")
_COUNTED = re.compile(r"(?:anthropic|x)-ratelimit-(?:(limit|remaining|reset)-)?([a-z-]+?)(?:-(limit|remaining|reset))?")
_CODEX = re.compile(r"x-codex-(primary|secondary)-(used-percent|window-minutes|reset-after-seconds|reset-at)")
_HEADER_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
SPAN_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MOST_WINDOWS = 20  #: windows that one answer may tell of
LEAST_WAIT_SECONDS = 60.0  #: shorter waits are no quota: the agent itself asks again


def until(message: str, now: float, zones: Zones) -> float | None:
    """Return when it may be asked again, in seconds since 1970, or None where the words do not say."""
    for read in (_epoch, _field, _iso, _date, _wait, _time):
        found = read(message, now, zones)
        if found is not None:
            return None if found > now + FAR else max(found, now + (SOON if found <= now else 0.0))
    return None


def _epoch(message: str, _: float, __: Zones) -> float | None:
    found = _EPOCH.search(message)
    return float(found.group(1)[:10]) if found else None


def _field(message: str, now: float, _: Zones) -> float | None:
    found = _FIELD.search(message)
    return now + float(found.group(1)) if found else None


def _wait(message: str, now: float, _: Zones) -> float | None:
    found = _WAIT.search(message)
    if not found:
        return None
    parts = re.findall(rf"({_NUMBER})\s*({_UNIT})", found.group(1), re.IGNORECASE)
    return now + sum(float(count) * _seconds(unit.lower()) for count, unit in parts)


def _seconds(unit: str) -> float:
    return UNITS["ms"] if unit in ("ms", "millisecond", "milliseconds") else UNITS[unit[0]]


def _iso(message: str, _: float, zones: Zones) -> float | None:
    found = _ISO.search(message)
    if not found:
        return None
    day, clock, offset = found.groups()
    zone = "+00:00" if offset in ("Z", "UTC") else offset or ""
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{zone}")
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=zones("") or UTC)).timestamp()


def _date(message: str, now: float, zones: Zones) -> float | None:
    found = _DATE.search(message)
    zone = _zone(found, zones) if found else None
    if not found or zone is None:
        return None
    today = datetime.fromtimestamp(now, zone)
    month = MONTHS.index(found["month"].lower()) + 1
    moment = _at(datetime(int(found["year"] or today.year), month, 1, tzinfo=zone), found)
    if moment is None or not 1 <= int(found["day"]) <= 31:
        return None
    moment += timedelta(days=int(found["day"]) - 1)
    if not found["year"] and (today - moment).days > 180:  # said in December of January
        moment = moment.replace(year=today.year + 1)
    return moment.timestamp()


def _time(message: str, now: float, zones: Zones) -> float | None:
    """Read a time of day: the next one, or the one that is just over."""
    found = _TIME.search(message)
    zone = _zone(found, zones) if found else None
    if not found or zone is None or not (found["half"] or found["minute"]):
        return None
    moment = _at(datetime.fromtimestamp(now, zone), found)
    if moment is None:
        return None
    return (moment if moment.timestamp() > now - LAGS else moment + timedelta(days=1)).timestamp()


def _at(day: datetime, found: re.Match[str]) -> datetime | None:
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    half = (found["half"] or "")[:1].lower()
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    if hour > 23 or minute > 59:
        return None
    return day.replace(hour=hour, minute=minute, second=0, microsecond=0)


def _zone(found: re.Match[str], zones: Zones) -> tzinfo | None:
    name, offset = found["zone"], found["offset"]
    if not name:
        return zones("")
    if offset:
        hours, minutes = re.fullmatch(r"[+-](\d{1,2}):?(\d\d)?", offset).groups()  # type: ignore[union-attr]
        away = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(-away if offset[0] == "-" else away)
    return UTC if name.upper() in ("GMT", "UTC", "Z") else zones(name)


def header_windows(agent: str, fields: Iterable[tuple[str, str]], now: float) -> list[QuotaWindow]:
    """Return every window that an answer tells of; `agent` is an agent, or AGENT@ACCOUNT."""
    found: dict[str, dict[str, str]] = {}
    for name, value in fields:
        key = name.lower()
        if match := _UNIFIED.fullmatch(key):
            found.setdefault(match[1].replace("_", " "), {})[match[2]] = value
        elif match := _CODEX.fullmatch(key):
            found.setdefault(match[1], {})[match[2]] = value
        elif (match := _COUNTED.fullmatch(key)) and (part := match[1] or match[3]):
            found.setdefault(match[2], {})[part] = value
    windows = [_window(agent, name, parts, now) for name, parts in found.items()]
    return [each for each in windows if each.used is not None][:MOST_WINDOWS]


def back_at(fields: Iterable[tuple[str, str]], now: float) -> float | None:
    """Return when a provider that refused a request for lack of quota may be asked again, if its answer says so."""
    for name, value in fields:
        if name.lower() == "retry-after" and (wait := _number(value) or 0.0) >= LEAST_WAIT_SECONDS:
            return now + wait
    return None


def _window(agent: str, name: str, parts: dict[str, str], now: float) -> QuotaWindow:
    if "window-minutes" in parts and (minutes := _number(parts["window-minutes"])):
        name = f"{minutes / 60:g}h" if minutes < 1440 else f"{minutes / 1440:g}d"
    reset = parts.get("reset", parts.get("reset-at", ""))
    resets = _moment(reset, now) if reset else None
    if after := _number(parts.get("reset-after-seconds", "")):
        resets = now + after
    return QuotaWindow(agent=agent, name=name, used=_used_share(parts), resets=resets, at=now)


def _used_share(parts: dict[str, str]) -> float | None:
    share = _number(parts.get("utilization", ""))
    if share is None and (percent := _number(parts.get("used-percent", ""))) is not None:
        share = percent / 100
    limit, left = _number(parts.get("limit", "")), _number(parts.get("remaining", ""))
    if share is None and limit and left is not None:
        share = 1 - left / limit
    return None if share is None else min(1.0, max(0.0, share))


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text.strip()) else None


def _moment(text: str, now: float) -> float | None:
    """Read a moment: seconds since 1970, a date, or a time from now as `6m0s`."""
    if (number := _number(text)) is not None:
        return number if number > 1e9 else now + number
    if (spans := _HEADER_SPAN.findall(text)) and not _HEADER_SPAN.sub("", text).strip():
        return now + sum(float(count) * SPAN_SECONDS[unit] for count, unit in spans)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None
