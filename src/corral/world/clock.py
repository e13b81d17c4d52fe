"""Time zones as this machine knows them."""

from __future__ import annotations

from datetime import datetime, tzinfo


def zone(name: str) -> tzinfo | None:
    """Return the time zone of that name, this machine's own for "", None where there is none."""
    if not name:
        return datetime.now().astimezone().tzinfo
    from zoneinfo import ZoneInfo  # noqa: PLC0415 -- rarely needed

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
