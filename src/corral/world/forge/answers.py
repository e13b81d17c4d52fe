"""Parts of what a forge answers, read without trust in their shape."""

from __future__ import annotations

from typing import Any, cast

Row = dict[str, Any]


def row(value: Any) -> Row:  # noqa: ANN401 -- any part of an answer
    """Return a table of an answer; an empty one where there is none."""
    return cast("Row", value) if isinstance(value, dict) else {}


def rows(value: Any) -> list[Row]:  # noqa: ANN401
    """Return the tables of a list in an answer."""
    return (
        [cast("Row", each) for each in cast("list[Any]", value) if isinstance(each, dict)]
        if isinstance(value, list)
        else []
    )


def text(of: Row, *path: str) -> str:
    """Return a text in an answer, at the end of a path of keys; empty where there is none."""
    for key in path[:-1]:
        of = row(of.get(key))
    found = of.get(path[-1])
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""


def count(of: Row, *keys: str) -> int:
    """Return the first number under one of some keys; 0 where there is none."""
    found = [of[key] for key in keys if isinstance(of.get(key), int) and not isinstance(of[key], bool)]
    return cast("int", found[0]) if found else 0
