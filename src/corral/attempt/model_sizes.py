"""How much each model takes in: as the person says, as the price library knows it, or by a dated table of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from corral.rules.money import costs

FILE = Path(__file__).parents[1] / "data" / "windows.json"


class ModelSizeTable(Struct, frozen=True):
    dated: str
    note: str
    windows: dict[str, int]
    answers: dict[str, int]


@cache
def table() -> ModelSizeTable:
    return msgspec.json.decode(FILE.read_bytes(), type=ModelSizeTable)


class Windows(Mapping[str, int]):
    """Whole names are looked up by the library too; the rest goes by how a name begins."""

    def __init__(self, own: Mapping[str, int]) -> None:
        self._own, self._begins = own, {**table().windows, **own}

    def __getitem__(self, name: str) -> int:
        if (found := self._of_library(name)) is not None:
            return found
        return self._begins[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._begins)

    def __len__(self) -> int:
        return len(self._begins)

    def _of_library(self, name: str) -> int | None:
        low = name.lower().rpartition("/")[2]
        said = any(low.startswith(key.lower()) for key in self._own)
        if said or name in self._begins or name.endswith("[1m]") or name.startswith("/"):  # a path is a script
            return None
        whole = costs.context_window(name)
        kept = max((key for key in table().answers if low.startswith(key)), key=len, default=None)
        if whole is None or kept is None or 3 * table().answers[kept] > whole:  # those that hold little keep little
            return whole
        return whole - table().answers[kept]


def windows(own: Mapping[str, int]) -> Windows:
    """Return the table that holds for a run."""
    return Windows(own)
