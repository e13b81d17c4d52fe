"""One output of several: of the items of a list, or of the lanes of a race."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_args

import msgspec
from msgspec import Struct

from corral.model import Attempt
from corral.model.flow import Reducer as How

HOWS: tuple[How, ...] = get_args(How)


class ReducedOutput(Struct, frozen=True):
    """The output, and what a user should know of how it came about."""

    output: Any
    notes: tuple[str, ...] = ()


class OutputPart(Struct, frozen=True):
    """What one of several gave; in the order of the flow, not in that of arrival."""

    output: Any
    agent: str = ""
    ok: bool = True


def parts_of(attempts: Sequence[Attempt]) -> list[OutputPart]:
    return [OutputPart(each.output, each.agent, each.status == "done") for each in attempts]


def reduce(parts: Sequence[OutputPart], how: How, preferred: Sequence[str] = ()) -> ReducedOutput:
    """Make one output of several; only those that are done count, and only those that said anything.

    `preferred` names agents, the best first; the others come after them, in order.
    """
    given = [part for part in parts if part.ok and part.output not in (None, "")]
    if how == "list":
        return ReducedOutput([part.output for part in given])
    if not given:
        return ReducedOutput(None)
    match how:
        case "first":
            return ReducedOutput(given[0].output)
        case "last":
            return ReducedOutput(given[-1].output)
        case "preferred":
            places = {name: place for place, name in reversed(list(enumerate(preferred)))}
            return ReducedOutput(min(given, key=lambda part: places.get(part.agent, len(places))).output)
        case "concat":
            return ReducedOutput(_concat(given))
        case "merge":
            return _merge(given)


def _concat(given: Sequence[OutputPart]) -> Any:  # noqa: ANN401 -- an output may be anything
    """Put texts after each other, lists too; anything else becomes text."""
    if all(isinstance(part.output, list) for part in given):
        return [item for part in given for item in cast("list[Any]", part.output)]
    return "\n\n".join(_text(part.output) for part in given)


def _text(value: Any) -> str:  # noqa: ANN401
    return value.strip() if isinstance(value, str) else msgspec.json.encode(value).decode()


def _merge(given: Sequence[OutputPart]) -> ReducedOutput:
    """Put JSON values into each other: tables by key, lists by adding what is new; a later one wins, with a note."""
    merged: Any = None
    notes: list[str] = []
    for place, part in enumerate(given):
        value = _json(part.output)
        merged = value if place == 0 else _put(merged, value, "", notes)
    return ReducedOutput(merged, tuple(notes))


def _json(value: Any) -> Any:  # noqa: ANN401
    """Take a text that is JSON for what it says."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.MsgspecError:
        return value


def _put(into: Any, value: Any, where: str, notes: list[str]) -> Any:  # noqa: ANN401
    if isinstance(into, dict) and isinstance(value, dict):
        old, new = cast("dict[str, Any]", into), cast("dict[str, Any]", value)
        both = {name: _put(old[name], new[name], f"{where}.{name}", notes) for name in old if name in new}
        return {**old, **new, **both}
    if isinstance(into, list) and isinstance(value, list):
        have, more = cast("list[Any]", into), cast("list[Any]", value)
        return [*have, *(item for place, item in enumerate(more) if item not in have and item not in more[:place])]
    if into != value:
        notes.append(f"{where.lstrip('.') or 'the output'} differs: the later one counts")
    return value
