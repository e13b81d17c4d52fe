"""JSON that an agent printed: read so that nothing in it can end the reader."""

from __future__ import annotations

import math
import re
from typing import Protocol, TypeVar, cast

import msgspec
from msgspec import Raw

#: What decoding raises: bad JSON, bad text, numbers of too many digits, lists in lists in lists.
UNREADABLE = (ValueError, OverflowError, RecursionError)
MOST_DEPTH = 100  #: of lists and tables within each other
MOST_DIGITS = 300  #: of one number
_WORDS = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity|-?\d[\d.eE+-]*')

T_co = TypeVar("T_co", covariant=True)
_ANY = msgspec.json.Decoder()


class _Decoder(Protocol[T_co]):
    def decode(self, _text: str | Raw, /) -> T_co: ...


def decode(decoder: _Decoder[T_co], text: str | Raw) -> T_co:
    """Decode what an agent printed; a number that JSON or Python cannot hold is read as null.

    Raises one of `UNREADABLE` for all other bad text.
    """
    try:
        return decoder.decode(text)
    except ValueError:
        printed = text if isinstance(text, str) else bytes(text).decode()
        clean = _WORDS.sub(_word, printed)
        if clean == printed:
            raise
        return decoder.decode(clean)


def decode_value(text: str) -> object:
    """Decode any JSON value that is not nested too deeply to be stored again."""
    value = cast("object", decode(_ANY, text))
    if is_deep(value):
        raise ValueError(f"lists and tables nested more than {MOST_DEPTH} deep")
    return value


def is_deep(value: object) -> bool:
    """Return whether lists and tables are nested more than `MOST_DEPTH` deep."""
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner += cast("dict[str, object]", each).values()
            elif isinstance(each, list):
                inner += cast("list[object]", each)
        if not inner:
            return False
        level = inner
    return True


def _word(found: re.Match[str]) -> str:
    word = found[0]
    if word.startswith('"'):
        return word
    if word in ("NaN", "Infinity", "-Infinity") or len(word) > MOST_DIGITS:
        return "null"
    try:
        return word if math.isfinite(float(word)) else "null"
    except ValueError:
        return word  # it is no number: left to the decoder
