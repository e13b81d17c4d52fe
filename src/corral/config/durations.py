"""Lengths of time as people write them."""

from __future__ import annotations

import re

from corral.model.errors import BadRequest

MOST_SECONDS = 1e9  #: about thirty years


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
