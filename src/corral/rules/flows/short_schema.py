"""The shape an output must have: our short form to JSON Schema."""

from __future__ import annotations

from typing import Any, cast

from corral.rules.flows import schemas

SHORT = {"text": "string", "list": "array", "table": "object", **{name: name for name in schemas.TYPES}}


def schema(short: Any) -> dict[str, Any]:
    """Turn the short form into a JSON Schema; a JSON Schema stays as it is. ValueError for what is neither.

    `string` names a type, `[accept, reject]` lists the values, `[string]` is a list of that type, and a table names
    fields, all of which must be there.
    """
    made = _schema(short)
    if wrong := schemas.mistakes(made):
        raise ValueError("; ".join(wrong[:3]))
    return made


def _schema(short: Any) -> dict[str, Any]:
    match short:
        case str() if short in SHORT:
            return {"type": SHORT[short]}
        case "any" | "json":
            return {}
        case [str() as only] if only in SHORT:
            return {"type": "array", "items": _schema(only)}
        case [dict()]:
            return {"type": "array", "items": _schema(short[0])}
        case [_, *_]:
            return {"enum": short}
        case dict():
            fields = cast("dict[str, Any]", short)
            if "$schema" in fields or "properties" in fields or isinstance(fields.get("type"), str):
                return fields
            return {
                "type": "object",
                "properties": {name: _schema(inner) for name, inner in fields.items()},
                "required": list(fields),
            }
        case _:
            raise ValueError(f"`{short}` is no shape of an output")
