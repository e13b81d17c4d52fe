"""From a script file in JSON to turns, with an error that says which turn is wrong and how to put it right."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from corral.testing.model.script import WRITE_HINT, Call, ScriptError, Turn, Usage

NUMBER = (int, float)
TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "thinking": str,
    "read": str,
    "sh": str,
    "tool": str,
    "message": str,
    "write": dict,
    "input": dict,
    "headers": dict,
    "usage": dict,
    "calls": list,
    "status": int,
    "times": int,
    "drop": bool,
    "retry_after_seconds": NUMBER,
    "hang_seconds": NUMBER,
    "slow_seconds": NUMBER,
    **dict.fromkeys(("output", "cache_read", "cache_write"), int),
}


def load_turns(path: Path) -> tuple[Turn, ...]:
    """Read a script file: a JSON list of turns, each an object with the fields of `Turn`."""
    try:
        script: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScriptError(f"{path}: {error.strerror}", "name a script file that can be read") from error
    except ValueError as error:
        raise ScriptError(f"{path}: not JSON: {error}", "write the script as a JSON list of turns") from error
    if not isinstance(script, list):
        raise ScriptError(f"{path}: not a list", 'write the script as a JSON list of turns: [{"text": "hello"}]')
    turns: list[Turn] = []
    for number, raw in enumerate(cast("list[object]", script), start=1):
        try:
            turns.append(_turn(raw))
        except ScriptError as error:
            raise ScriptError(f"{path}: turn {number}: {error}", error.hint) from error
    return tuple(turns)


def _turn(raw: object) -> Turn:
    given = _check_fields(raw, Turn, TYPES)
    if "calls" in given:
        given["calls"] = tuple(Call(**_check_fields(call, Call, TYPES)) for call in given["calls"])
    if "usage" in given:
        given["usage"] = Usage(**_check_fields(given["usage"], Usage, {**TYPES, "input": int}))
    return Turn(**given)


def _check_fields(raw: object, kind: type[Call | Usage], types: dict[str, type | tuple[type, ...]]) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ScriptError(f"not an object: {raw!r}", 'write it as {"text": "hello"}')
    given = cast("dict[str, Any]", raw)
    known = [each.name for each in fields(kind)]
    for name, value in given.items():
        if name not in known:
            raise ScriptError(f"unknown field {name!r}", f"the fields are {', '.join(known)}")
        is_right = isinstance(value, types[name]) and (types[name] is bool or not isinstance(value, bool))
        if not is_right:
            raise ScriptError(f"{name} cannot be {value!r}", f"{name} takes {_words(types[name])}")
    headers = given.get("headers", {})
    if not all(isinstance(value, str) for value in headers.values()):
        raise ScriptError(f"headers cannot be {headers!r}", 'write them as {"name": "value"}')
    write = given.get("write", {})
    if not all(isinstance(value, str) for value in write.values()):
        raise ScriptError(f"write cannot be {write!r}", WRITE_HINT)
    return given


def _words(kinds: type | tuple[type, ...]) -> str:
    words = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", dict: "an object"}
    return words.get(kinds if isinstance(kinds, type) else float, "a list")
