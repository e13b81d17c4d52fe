"""Checked calls of JavaScript tests that depend on nothing but their own values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from corral.rules.checks.altering import code_text
from corral.rules.checks.altering.code_text import arguments, calls, closing
from corral.rules.checks.altering.node_tests import ASSERTS, EXPECTS, tests_of
from corral.rules.checks.outside.checked import CheckedCall, State, States, literal

FILES = (".js", ".mjs", ".cjs")
#: What prepares the surroundings of tests, or stands for parts of the product.
SETUP = re.compile(
    r"\b(before|after)(Each|All)?\s*\(|\b(jest|vi|sinon|td|mock|nock|rewire|proxyquire)\b|process\s*[.\[]"
)
#: Settings of runners with which a program outside would be another one.
SETTINGS = re.compile(
    r"setupFiles|globalSetup|moduleNameMapper|transform|alias|environment|globals|--require|--import|-r\s|\"?require\"?\s*:"
)
NAME = r"[A-Za-z_$][\w$]*"
REQUIRED = re.compile(
    rf"\b(?:const|let|var)\s+({NAME}|\{{[^{{}}]*\}})\s*=\s*require\s*\(\s*(['\"])([^'\"\n]+)\2\s*\)\s*(?=[;\n])"
)
IMPORTED = re.compile(rf"\bimport\s+({NAME}|\*\s*as\s+{NAME}|\{{[^{{}}]*\}})\s*from\s*(['\"])([^'\"\n]+)\2")
CALLED = re.compile(rf"\s*({NAME}(?:\.{NAME})*)\s*\(")
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?![\w.])")
WORD = re.compile(r"(?:true|false|null)\b")
KEY = re.compile(r"[A-Za-z_$][\w$]*")
TEXT = re.compile(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\$])*`")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}
MOST_DEEP = 20


def found_in(path: str, text: str, own_name: str, states: States) -> list[CheckedCall]:
    """Return the checked calls of the tests of one file; `own_name`: of the package."""
    code = code_text.JAVASCRIPT.sub(_blank_match, text)
    if not path.endswith(FILES) or SETUP.search(code):
        return []
    names = _names(text, own_name)
    return [
        each
        for test in tests_of(text, code)
        if (state := states.get((path, test.name))) and _only_compares(code[test.start : test.end])
        for each in _calls(path, text, code, (test.start, test.end), names, state)
    ]


def _blank_match(found: re.Match[str]) -> str:
    """Return as many signs in place of a string; a comment becomes blanks."""
    return re.sub(r"[^\n]", " " if found[0].startswith(("//", "/*")) else "_", found[0])


def _names(text: str, own_name: str) -> Mapping[str, tuple[str, str, bool]]:
    """Return the local names of what is loaded from the product."""
    found: dict[str, tuple[str, str, bool]] = {}
    for pattern, imported in ((REQUIRED, False), (IMPORTED, True)):
        for each in pattern.finditer(text):
            bound, module = each[1].strip(), each[3]
            if not module.startswith(("./", "../")) and (imported or module != own_name):
                continue
            if bound.startswith("{"):
                for part in bound[1:-1].split(","):
                    words = re.fullmatch(rf"\s*({NAME})(?:\s*(?::|\bas\b)\s*({NAME}))?\s*", part)
                    if words:
                        found[words[2] or words[1]] = (module, words[1], imported)
            elif bound.startswith("*"):
                found[bound.split()[-1]] = (module, "", imported)
            else:
                found[bound] = (module, "default" if imported else "", imported)
    return found


def _comparisons(code: str, start: int, end: int) -> Iterator[tuple[int, int, tuple[int, int], tuple[int, int]]]:
    """Return comparisons by equality: where each begins and ends, the value that is judged, the expected one."""
    for first, opened, close in calls(code[:end], ASSERTS):
        given = arguments(code, opened, close)
        if first >= start and len(given) >= 2:
            yield first, close + 1, given[0], given[1]
    for first, opened, close in calls(code[:end], "expect"):
        matcher = EXPECTS.match(code, close)
        last = closing(code, matcher.end() - 1) if matcher else None
        if first >= start and matcher and last is not None:
            yield first, last + 1, (opened + 1, close), (matcher.end(), last)


def _only_compares(code: str) -> bool:
    """Tell whether a test does nothing but compare."""
    left = code
    for first, last, *_ in sorted(_comparisons(code, 0, len(code)), reverse=True):
        left = left[:first] + left[last:]
    return not left.strip(" \t\r\n;")


def _calls(
    path: str, text: str, code: str, place: tuple[int, int], names: Mapping[str, tuple[str, str, bool]], state: State
) -> Iterator[CheckedCall]:
    for _, _, judged, expected in sorted(_comparisons(code, *place)):
        called = CALLED.match(code, *judged)
        close = closing(code, called.end() - 1) if called else None
        if called is None or close is None or code[close + 1 : judged[1]].strip():
            continue
        first, _, rest = called[1].partition(".")
        if first not in names:
            continue
        module, name, imported = names[first]
        try:
            given, wanted = values(text[called.end() : close]), values(text[slice(*expected)])
        except NotPlain:
            continue
        if given and len(wanted) == 1:
            yield CheckedCall(
                language="node",
                module=module,
                name=".".join(filter(None, (name, rest))),
                arguments=literal(given),
                expected=literal(wanted[0]),
                state=state,
                where=path,
                imported=imported,
            )


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
