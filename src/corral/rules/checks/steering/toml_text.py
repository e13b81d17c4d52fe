"""A small writer of TOML: the standard library only reads it. Comments and order of tables are not kept."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any, cast

BARE = re.compile(r"[A-Za-z0-9_-]+")


def dumps(document: Mapping[str, Any]) -> str:
    """Write a document that `tomllib` reads back as the same."""
    return "".join(
        f"{_key(name)} = {_value(value)}\n" for name, value in document.items() if not _is_table(value)
    ) + "".join(
        _table((name,), cast("Mapping[str, Any]", value)) for name, value in document.items() if _is_table(value)
    )


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> str:
    lines = [f"\n[{'.'.join(_key(part) for part in path)}]\n"]
    lines += [f"{_key(name)} = {_value(value)}\n" for name, value in table.items() if not _is_table(value)]
    lines += [
        _table((*path, name), cast("Mapping[str, Any]", value)) for name, value in table.items() if _is_table(value)
    ]
    return "".join(lines)


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, and for halves of surrogate pairs, which no TOML file can hold.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return (
            ("nan" if math.isnan(value) else "inf" if value > 0 else "-inf")
            if not math.isfinite(value)
            else repr(value)
        )
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(_value(each) for each in cast('list[object]', value))}]"
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return f"{{{', '.join(f'{_key(name)} = {_value(each)}' for name, each in pairs)}}}"
    return str(value)
