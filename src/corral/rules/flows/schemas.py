"""The part of JSON Schema for outputs: values checked against it, and what of a schema is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

MOST_MISFITS = 5
TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
#: What is checked of a value, and what only describes it.
CHECKED = (
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
    "minimum", "maximum", "minLength", "maxLength", "anyOf",
)  # fmt: skip
DESCRIBING = ("$schema", "$id", "title", "description", "default", "examples", "format", "$comment")
SIZES = (("minLength", str, "shorter"), ("minItems", list, "shorter"), ("minimum", (int, float), "less"))
LIMITS = (("maxLength", str, "longer"), ("maxItems", list, "longer"), ("maximum", (int, float), "more"))


# --- a value against a schema


def misfits(value: Any, schema: Mapping[str, Any], where: str = "output") -> list[str]:
    """Say what of a value does not fit, with the path to it; nothing, if it fits."""
    return _misfits(value, schema, where)[:MOST_MISFITS]


def _misfits(value: Any, schema: Mapping[str, Any], where: str) -> list[str]:
    if "const" in schema and not _same(value, schema["const"]):
        return [f"{where} is not {_short_json(schema['const'])}"]
    if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
        return [f"{where} is {_short_json(value)}, not one of " + ", ".join(map(_short_json, schema["enum"]))]
    kinds = schema.get("type")
    if kinds is not None and not any(_is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        names = kinds if isinstance(kinds, str) else " or ".join(kinds)
        return [f"{where} is {_short_json(value)}, not of the type {names}"]
    found = [*_sizes(value, schema, where)]
    if "anyOf" in schema:
        ways = [_misfits(value, each, where) for each in schema["anyOf"]]
        found += [] if not all(ways) else ["none of its forms fits: " + "; or ".join(way[0] for way in ways)]
    if isinstance(value, dict):
        found += _fields(cast("dict[str, Any]", value), schema, where)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for place, item in enumerate(cast("list[Any]", value)):
            found += _misfits(item, schema["items"], f"{where}[{place}]")
            if len(found) >= MOST_MISFITS:
                break
    return found


def _fields(value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> list[str]:
    known = cast("Mapping[str, Any]", schema.get("properties", {}))
    found = [f"{where} has no `{name}`" for name in schema.get("required", ()) if name not in value]
    rest = schema.get("additionalProperties", True)
    for name, inner in value.items():
        if name in known:
            found += _misfits(inner, known[name], f"{where}.{name}")
        elif rest is False:
            found.append(f"{where} has `{name[:100]}`, which was not asked for")
        elif isinstance(rest, Mapping):
            found += _misfits(inner, cast("Mapping[str, Any]", rest), f"{where}.{name[:100]}")
    return found


def _sizes(value: Any, schema: Mapping[str, Any], where: str) -> list[str]:
    if isinstance(value, bool):
        return []
    found: list[str] = []
    for bounds, sign in ((SIZES, 1), (LIMITS, -1)):
        for key, kind, word in bounds:
            if key in schema and isinstance(value, kind):
                size = cast("float", value) if kind == (int, float) else len(cast("str", value))
                found += [f"{where} is {word} than {schema[key]}"] if sign * (size - schema[key]) < 0 else []
    return found


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES.get(kind, object))


def _same(value: Any, other: Any) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


# --- a schema itself


def mistakes(schema: Any, where: str = "output") -> list[str]:
    """Say what in a schema is wrong or not understood here: a rule that is not checked is no promise."""
    if not isinstance(schema, Mapping):
        return [f"{where} is no schema: {_short_json(schema)}"]
    table = cast("Mapping[str, Any]", schema)
    found = [f"{where}: `{key}` is not known here" for key in table if key not in (*CHECKED, *DESCRIBING)]
    kinds = cast("str | list[Any]", table.get("type", []))
    found += [
        f"{where}: `{kind}` is no type" for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind not in TYPES
    ]
    for key, _, _ in (*SIZES, *LIMITS):
        if key in table and (isinstance(table[key], bool) or not isinstance(table[key], int | float)):
            found.append(f"{where}: `{key}` is a number")
    for key in ("enum", "required", "anyOf"):
        if key in table and not (isinstance(table[key], list) and table[key]) and table[key] != []:
            found.append(f"{where}: `{key}` is a list")
            return found
    properties = table.get("properties", {})
    if not isinstance(properties, Mapping):
        return [*found, f"{where}: `properties` is a table"]
    for name, inner in cast("Mapping[str, Any]", properties).items():
        found += mistakes(inner, f"{where}.{name}")
    for place, inner in enumerate(cast("Sequence[Any]", table.get("anyOf", ()))):
        found += mistakes(inner, f"{where}.anyOf[{place}]")
    if "items" in table:
        found += mistakes(table["items"], f"{where}[]")
    rest = table.get("additionalProperties", True)
    return found if isinstance(rest, bool) else found + mistakes(rest, f"{where}.*")


def strict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema in the form of providers that enforce it strictly; None where it has no such form.

    There every table names all its fields, every field must be there, and the whole is a table.
    """
    return _strict(schema) if schema.get("type") == "object" else None


def _strict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    made = {key: value for key, value in schema.items() if key in ("type", "enum", "const", "description")}
    if any(key in schema for key in ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")):
        made |= {key: schema[key] for key in CHECKED if key in schema and key.startswith(("min", "max"))}
    if not made and "anyOf" not in schema:
        return None  # anything at all
    if schema.get("type") == "object":
        fields = cast("Mapping[str, Any]", schema.get("properties", {}))
        inner = {name: _strict(each) for name, each in fields.items()}
        all_named = (
            set(schema.get("required", ())) == set(fields) and schema.get("additionalProperties", False) is False
        )
        if not fields or not all_named or None in inner.values():
            return None
        return {**made, "properties": inner, "required": list(fields), "additionalProperties": False}
    for key in ("items", "anyOf"):
        if key in schema:
            parts = [_strict(each) for each in (schema[key] if key == "anyOf" else [schema[key]])]
            if None in parts:
                return None
            made[key] = parts if key == "anyOf" else parts[0]
    return made if schema.get("type") != "array" or "items" in made else None
