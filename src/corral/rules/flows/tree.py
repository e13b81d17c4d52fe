"""YAML 1.2 (and so JSON) as a tree whose every value knows its line and column; what could hurt is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from msgspec import Struct

MOST_CHARACTERS, MOST_DEPTH = 512 << 10, 30
COLON = re.compile(r"""[\w-]+:\s+[^\s"'\[{,}#][^"'\[{,}#]{0,500}:\s""")  #: a value that is not quoted and has a colon
AFTER_QUOTE = re.compile(r""":\s+(?:"[^"]{0,2000}"|'[^']{0,2000}')\s*[^\s,}\]#]""")


class Mistake(Struct, frozen=True, order=True):
    """Something wrong in a flow file."""

    line: int
    column: int
    message: str
    hint: str = ""


class Position(Struct, frozen=True):
    """A value and where it is; line and column count from 1."""

    value: Any  #: None, bool, int, float, str, list[Place], or dict[str, tuple of key's and value's Place]
    line: int
    column: int
    written: str = ""  #: a number as it is in the file

    def plain(self) -> Any:
        """Return the value without places."""
        if isinstance(self.value, dict):
            table = cast("dict[str, tuple[Position, Position]]", self.value)
            return {key: place.plain() for key, (_, place) in table.items()}
        return (
            [each.plain() for each in cast("list[Position]", self.value)]
            if isinstance(self.value, list)
            else self.value
        )

    def as_written(self, *, decimals: bool = False) -> Any:
        """Return the value without places; a number that would lose digits (`3.10`, `007`) stays text as written.

        With `decimals`, every number with a point or an exponent does: in a list of versions all are texts then.
        """
        if isinstance(self.value, dict):
            table = cast("dict[str, tuple[Position, Position]]", self.value)
            return {key: place.as_written(decimals=decimals) for key, (_, place) in table.items()}
        if isinstance(self.value, list):
            return [each.as_written(decimals=decimals) for each in cast("list[Position]", self.value)]
        loses = self.written and str(self.value) != self.written
        return self.written if loses or (decimals and isinstance(self.value, float)) else self.value


class NodeLocation(Struct, frozen=True):
    """Where a node and its keys are; line and column count from 1."""

    start: tuple[int, int]
    keys: dict[str, tuple[int, int]]


class UnreadableYaml(ValueError):
    """A text that is no YAML, or larger than we accept."""

    def __init__(self, mistake: Mistake) -> None:
        super().__init__(mistake.message)
        self.mistake = mistake


def read(text: str, twice: list[Mistake] | None = None) -> Position:
    """Read a document. Repeated keys are reported in `twice`, and the first counts; without it they raise."""
    found: list[Mistake] = [] if twice is None else twice
    document = _read(text, found)
    if found and twice is None:
        raise UnreadableYaml(found[0])
    return document


def _read(text: str, twice: list[Mistake]) -> Position:
    if len(text) > MOST_CHARACTERS:
        raise UnreadableYaml(
            Mistake(1, 1, "a flow file is shorter than 512 KB", "put long texts into files of the repository")
        )
    import yaml  # noqa: PLC0415 -- slow to load, and only flow files need it

    try:
        reader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # without libyaml 40 times slower
        parse = cast("Any", yaml).parse
        return _document(iter(parse(text, Loader=reader)), twice)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        words = " ".join(str(getattr(error, "problem", None) or str(error).partition("\n")[0]).split())
        line, column = (mark.line + 1, mark.column + 1) if mark else _place(text, getattr(error, "position", 0))
        rows = text.split("\n", line)[line - 1 : line]
        raise UnreadableYaml(
            Mistake(line, column, f"this is no YAML: {words}", _hint("".join(rows)[:2000], words))
        ) from None
    except RecursionError:
        raise UnreadableYaml(Mistake(1, 1, "it is nested too deeply")) from None


def _hint(row: str, words: str) -> str:
    """Say what to write instead, where a line shows what was meant."""
    if row.lstrip(" ").startswith("\t"):
        return "indent with spaces, not tabs"
    if "mapping values are not allowed" in words or COLON.search(row):
        return 'quote the text: a colon with a space after it begins a key, so write task: "fix: the bug"'
    if "cannot start any token" in words:
        return "quote the text: it begins with a sign that means something in YAML"
    if AFTER_QUOTE.search(row):
        return "put the whole text in quotes, not a part of it"
    return ""


def _place(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - before.rfind("\n")


def _document(events: Iterator[Any], twice: list[Mistake]) -> Position:
    found: Position | None = None
    for event in events:
        match type(event).__name__:
            case "StreamStartEvent" | "StreamEndEvent" | "DocumentStartEvent" | "DocumentEndEvent":
                continue
            case _ if found is not None:
                raise _unreadable_at(event, "there is more than one document", "one file holds one flow")
            case _:
                found = _node(event, events, 0, twice)
    return found or Position(None, 1, 1)


def _node(event: Any, events: Iterator[Any], depth: int, twice: list[Mistake]) -> Position:
    kind = type(event).__name__
    if kind == "AliasEvent" or getattr(event, "anchor", None):
        raise _unreadable_at(event, "anchors and aliases are not read here", "write it out, or use `defaults`")
    if kind != "AliasEvent" and _own_tag(event):
        raise _unreadable_at(event, f"the tag `{event.tag}` is not read here", "plain values only")
    if depth > MOST_DEPTH:
        raise _unreadable_at(event, "it is nested too deeply", "")
    line, column = event.start_mark.line + 1, event.start_mark.column + 1
    match kind:
        case "ScalarEvent":
            value = event.value if event.style else _plain(event.value)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return Position(value, line, column, event.value if number else "")
        case "SequenceStartEvent":
            items: list[Position] = []
            while type(inner := next(events)).__name__ != "SequenceEndEvent":
                items.append(_node(inner, events, depth + 1, twice))
            return Position(items, line, column)
        case _:
            return Position(_table(events, depth, twice), line, column)


def _table(events: Iterator[Any], depth: int, twice: list[Mistake]) -> dict[str, tuple[Position, Position]]:
    table: dict[str, tuple[Position, Position]] = {}
    while type(event := next(events)).__name__ != "MappingEndEvent":
        if type(event).__name__ != "ScalarEvent":
            braces = type(event).__name__ == "MappingStartEvent"
            hint = 'quote a text that begins with {{, as in task: "{{name}} ..."' if braces else ""
            raise _unreadable_at(event, "a key is a plain word", hint)
        key = Position(event.value, event.start_mark.line + 1, event.start_mark.column + 1)
        value = _node(next(events), events, depth + 1, twice)
        if event.value in table:
            first = table[event.value][0].line
            words = f"`{event.value}` is here twice"
            twice.append(Mistake(key.line, key.column, words, f"first in line {first}"))
        else:
            table[event.value] = (key, value)
    return table


def _own_tag(event: Any) -> bool:
    tag = str(getattr(event, "tag", None) or "")
    return bool(tag) and tag not in ("!", "None")


def _plain(text: str) -> Any:
    """Give an unquoted word its meaning by YAML 1.2: `on`, `yes` and `no` are words."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    if re.fullmatch(r"[-+]?\d{1,15}", text):
        return int(text)
    if re.fullmatch(r"[-+]?(\d{1,15}\.\d{0,15}|\.\d{1,15}|\d{1,15})([eE][-+]?\d{1,3})?", text):
        return float(text)
    return text


def _unreadable_at(event: Any, message: str, hint: str) -> UnreadableYaml:
    return UnreadableYaml(Mistake(event.start_mark.line + 1, event.start_mark.column + 1, message, hint))
