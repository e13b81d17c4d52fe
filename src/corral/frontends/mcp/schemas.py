"""Schemas of what tools take and give; from the very types that are decoded and encoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

Schema = dict[str, Any]
SAID = ("title", "description", "default")


def taken(type_: type) -> Schema:
    """Return the schema of a tool's arguments: without references, for not every client follows them."""
    schema = msgspec.json.schema(type_)
    found = cast("Schema", _inlined(schema, schema.get("$defs", {})))
    found.pop("$defs", None)
    found.pop("description", None)
    return {"type": "object", "properties": {}, **found}


def given(types: Sequence[type]) -> Schema:
    """Return the schema of a tool's structured content: an object, one of these."""
    (first, *others), found = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    defs = _bare_each(found)
    if not others:
        name = str(first["$ref"]).rpartition("/")[2]
        return {**defs.pop(name), "$defs": defs}
    return {"type": "object", "anyOf": [first, *others], "$defs": defs}


def _inlined(part: Any, defs: Schema) -> Any:  # noqa: ANN401 -- any part of a schema
    if isinstance(part, list):
        return [_inlined(each, defs) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    table = {key: value for key, value in cast("Schema", part).items() if key != "title"}
    if "enum" in table:
        table = {"type": "string", **table}  # some clients want it said
    if "$ref" in table:
        name = str(table["$ref"]).rpartition("/")[2]
        return {**_inlined(defs[name], defs), **{key: value for key, value in table.items() if key != "$ref"}}
    return {key: _inlined(value, defs) for key, value in table.items() if key != "$defs"}


def _bare(part: Any) -> Any:  # noqa: ANN401
    """Leave out what only people read: a listing of tools goes over the wire at every start of a client."""
    if isinstance(part, list):
        return [_bare(each) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    kept = {key: value for key, value in cast("Schema", part).items() if key not in SAID}
    return {key: _bare_each(value) if key == "properties" else _bare(value) for key, value in kept.items()}


def _bare_each(named: Schema) -> Schema:
    return {name: _bare(part) for name, part in named.items()}
