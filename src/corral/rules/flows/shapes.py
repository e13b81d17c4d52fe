"""The shape an output must have: our short form to JSON Schema, and a value against a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
SHORT = {"text": "string", "list": "array", "table": "object", **{name: name for name in TYPES}}
MOST_MISFITS = 5


def schema(short: Any) -> dict[str, Any]:
    """Turn the short form into a JSON Schema; a JSON Schema stays as it is.

    `string` names a type, `[accept, reject]` lists the values, `[string]` is a list of that type, and a table names
    fields, all of which must be there.
    """
    match short:
        case str() if short in SHORT:
            return {"type": SHORT[short]}
        case "any":
            return {}
        case [str() as only] if only in SHORT:
            return {"type": "array", "items": schema(only)}
        case [dict()]:
            return {"type": "array", "items": schema(cast("list[Any]", short)[0])}
        case [_, *_]:
            return {"enum": short}
        case dict():
            fields = cast("dict[str, Any]", short)
            if "$schema" in fields or "properties" in fields or isinstance(fields.get("type"), str):
                return fields
            return {
                "type": "object",
                "properties": {name: schema(inner) for name, inner in fields.items()},
                "required": list(fields),
            }
        case _:
            raise ValueError(f"`{short}` is no shape of an output")


def misfits(value: Any, wanted: Mapping[str, Any], where: str = "output") -> list[str]:
    """Say what of a value does not fit a schema; nothing, if it fits."""
    found = _misfits(value, wanted, where)
    return found[:MOST_MISFITS]


def _misfits(value: Any, wanted: Mapping[str, Any], where: str) -> list[str]:
    if "enum" in wanted and value not in wanted["enum"]:
        return [f"{where} is not one of " + ", ".join(map(str, wanted["enum"]))]
    kinds = wanted.get("type")
    if kinds is not None and not any(_is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return [f"{where} is not of the type {kinds}"]
    if isinstance(value, dict):
        return _fields(cast("dict[str, Any]", value), wanted, where)
    if isinstance(value, list) and "items" in wanted:
        items = cast("list[Any]", value)
        return [
            words for place, item in enumerate(items) for words in _misfits(item, wanted["items"], f"{where}[{place}]")
        ]
    return []


def _fields(value: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> list[str]:
    known = cast("Mapping[str, Any]", wanted.get("properties", {}))
    absent = [
        f"{where} has no `{name}`" for name in cast("Sequence[str]", wanted.get("required", ())) if name not in value
    ]
    extra = [f"{where} has `{name}`, which nobody asked for" for name in value if name not in known]
    wrong = [
        words for name in known if name in value for words in _misfits(value[name], known[name], f"{where}.{name}")
    ]
    return [*absent, *(extra if wanted.get("additionalProperties") is False else []), *wrong]


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES.get(kind, object))
