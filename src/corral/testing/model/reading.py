"""Reads JSON that programs sent, and expects nothing of its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

Json = dict[str, Any]


def items(holder: Mapping[str, Any], key: str) -> list[Json]:
    """The objects in a list; none where a program sent something else."""
    value = holder.get(key)
    if not isinstance(value, list):
        return []
    return [cast("Json", item) for item in cast("list[object]", value) if isinstance(item, dict)]


def part(holder: Mapping[str, Any], key: str) -> Json:
    """The object under a key; an empty one where a program sent something else."""
    value = holder.get(key)
    return cast("Json", value) if isinstance(value, dict) else {}


def text_of(holder: Mapping[str, Any], key: str) -> str:
    value = holder.get(key)
    return value if isinstance(value, str) else ""
