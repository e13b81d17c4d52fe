"""How the limits of an account stand, from what its provider says in the heads of its answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from corral.model.money import QuotaWindow

_UNIFIED = re.compile(r"anthropic-ratelimit-unified-(5h|7d\w*|overage)-(utilization|reset)")
_COUNTED = re.compile(r"(?:anthropic|x)-ratelimit-(?:(limit|remaining|reset)-)?([a-z-]+?)(?:-(limit|remaining|reset))?")
_CODEX = re.compile(r"x-codex-(primary|secondary)-(used-percent|window-minutes|reset-after-seconds|reset-at)")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MOST = 20  #: windows that one answer may tell of
LEAST_WAIT_SECONDS = 60.0  #: shorter waits are no quota: the agent itself asks again


def windows(agent: str, fields: Iterable[tuple[str, str]], now: float) -> list[QuotaWindow]:
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
    told = [_window(agent, name, parts, now) for name, parts in found.items()]
    return [each for each in told if each.used is not None][:MOST]


def back_at(fields: Iterable[tuple[str, str]], now: float) -> float | None:
    """Return when a provider that refused a request for want of quota may be asked again, if its answer says so."""
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
    if (spans := _SPAN.findall(text)) and not _SPAN.sub("", text).strip():
        return now + sum(float(count) * SECONDS[unit] for count, unit in spans)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None
