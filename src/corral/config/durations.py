"""Lengths of time as people write them."""

from __future__ import annotations

import re

from corral.errors import BadRequest


def duration(text: str, name: str) -> float:
    """Read `90`, `90s`, `20m` or `2h` as seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h)?", text.strip())
    if not match or float(match.group(1)) <= 0:
        raise BadRequest(f"{name}: `{text}` is not a length of time", hint="write it like 90s, 20m or 2h")
    return float(match.group(1)) * {"s": 1, "m": 60, "h": 3600, None: 1}[match.group(2)]
