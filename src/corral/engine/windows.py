"""How much each model takes in: a dated table of ours, with what the person's settings say before it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

FILE = Path(__file__).parent.parent / "data" / "windows.json"


class Table(Struct, frozen=True):
    dated: str
    note: str
    windows: dict[str, int]


@cache
def table() -> Table:
    return msgspec.json.decode(FILE.read_bytes(), type=Table)


def windows(own: Mapping[str, int]) -> dict[str, int]:
    """Return the table that holds for a run."""
    return {**table().windows, **own}
