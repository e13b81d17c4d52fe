"""Texts with places to fill: `Fix: {{review.output.notes}}`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from corral.rules.flows.expressions import Expression, ExpressionError
from corral.rules.text.names import as_plain_text

#: The inside holds no further `{{`: a text full of braces that are never closed is read in one pass.
PLACE = re.compile(r"\{\{((?:(?!\}\}|\{\{).)*)\}\}", re.DOTALL)


def names(text: str) -> set[str]:
    """Return the names that a text's places start from."""
    return {name for place in _places(text) for name in place.names()}


def paths(text: str) -> list[tuple[str, ...]]:
    """Return what a text's places ask for."""
    return [path for place in _places(text) for path in place.paths()]


def texts_in(value: Any) -> Iterator[str]:
    """Return the texts with places that a value holds, however deep."""
    left: list[Any] = [value]
    while left:
        each = left.pop(0)
        if isinstance(each, str) and "{{" in each:
            yield each
        elif isinstance(each, list | tuple | dict):
            held = cast("dict[str, Any]", each).values() if isinstance(each, dict) else cast("list[Any]", each)
            left = [*held, *left]


def fill(text: str, known: Mapping[str, Any]) -> str:
    """Fill every place of a text; what is filled in is text, and its own braces mean nothing."""
    return PLACE.sub(lambda found: words(Expression(found.group(1)).value(known)), text)


def value(text: str, known: Mapping[str, Any]) -> Any:
    """Return a text that is filled; one that is a single place for a list or a table is that list or table."""
    alone = PLACE.fullmatch(text.strip())
    found = Expression(alone.group(1)).value(known) if alone else None
    return cast("Any", found) if isinstance(found, list | dict) else fill(text, known)


def fill_json(text: str, known: Mapping[str, Any]) -> str:
    """Fill the texts in a JSON value; what is filled in stays inside its text, whatever quotes it has."""

    def fill_value(each: Any) -> Any:
        if isinstance(each, str):
            return value(each, known)
        if isinstance(each, list):
            return [fill_value(inner) for inner in cast("list[Any]", each)]
        if isinstance(each, dict):
            return {name: fill_value(inner) for name, inner in cast("dict[str, Any]", each).items()}
        return each

    return msgspec.json.encode(fill_value(msgspec.json.decode(text))).decode()


def _places(text: str) -> Iterator[Expression]:
    for found in PLACE.finditer(text):
        try:
            yield Expression(found.group(1))
        except ExpressionError as wrong:
            raise ExpressionError(f"{found.group(0)}: {wrong}") from None


def words(value: Any) -> str:
    """Return a value as it is in a text."""
    return as_plain_text(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
