"""Plain values in JavaScript source."""

from __future__ import annotations

import json
import re
from typing import Any

NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?![\w.])")
WORD = re.compile(r"(?:true|false|null)\b")
KEY = re.compile(r"[A-Za-z_$][\w$]*")
TEXT = re.compile(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\$])*`")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}
MOST_DEEP = 20


class NotPlain(ValueError):
    """It is no plain value."""


def values(text: str) -> list[Any]:
    """Return the plain values of a list of arguments; raise `NotPlain` where one is none."""
    return _LiteralReader(f"[{text}]").whole()


class _LiteralReader:
    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0

    def whole(self) -> Any:  # noqa: ANN401 -- any plain value
        value = self._value(0)
        self._blanks()
        if self._place != len(self._text):
            raise NotPlain
        return value

    def _blanks(self) -> None:
        while self._place < len(self._text) and self._text[self._place].isspace():
            self._place += 1

    def _take(self, sign: str) -> bool:
        self._blanks()
        if self._text.startswith(sign, self._place):
            self._place += len(sign)
            return True
        return False

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        self._blanks()
        found = pattern.match(self._text, self._place)
        if found is None:
            return None
        self._place = found.end()
        return found[0]

    def _value(self, depth: int) -> Any:  # noqa: ANN401 -- any plain value
        if depth > MOST_DEEP:
            raise NotPlain
        if (text := self._match(TEXT)) is not None:
            return _unescape(text[1:-1])
        if (number := self._match(NUMBER)) is not None:
            return json.loads(number)
        if (word := self._match(WORD)) is not None:
            return json.loads(word)
        if self._take("["):
            return self._list(depth)
        if self._take("{"):
            return self._object(depth)
        raise NotPlain

    def _list(self, depth: int) -> list[Any]:
        found: list[Any] = []
        while not self._take("]"):
            found.append(self._value(depth + 1))
            if not self._take(",") and not self._text.startswith("]", self._place):
                raise NotPlain
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self._take("}"):
            text = self._match(TEXT)
            key = _unescape(text[1:-1]) if text is not None else self._match(KEY)
            if key is None or not self._take(":"):
                raise NotPlain
            found[key] = self._value(depth + 1)
            if not self._take(",") and not self._text.startswith("}", self._place):
                raise NotPlain
        return found


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        word = found[1]
        if len(word) > 1:
            return chr(int(word[1:], 16))
        if word.isdigit() and word != "0":
            raise NotPlain
        return "\0" if word == "0" else ESCAPES.get(word, word)

    return ESCAPE.sub(one, text)
