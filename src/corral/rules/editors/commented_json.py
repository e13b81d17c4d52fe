"""JSON with comments, as editors keep their settings: read with positions, and changed without losing a comment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

from msgspec import Struct

SPACE = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
SCALAR = re.compile(r'"(?:[^"\\\n]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')
INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
KEYS = ("label", "id", "name", "caption")  #: by which items of a list are the same one
MOST_DEPTH = 100


class Unmergeable(ValueError):
    """A text that is not JSON, or that has something else where an entry of ours belongs."""


class JsonNode(Struct):
    """A value, and where it is in the text."""

    value: Any
    start: int
    end: int = 0
    members: dict[str, JsonNode] | None = None
    items: list[JsonNode] | None = None


def parse(text: str) -> JsonNode:
    """Read a text; trailing commas are allowed, as editors allow them."""
    reader = _JsonReader(text)
    node = reader.value(0)
    reader.skip()
    if reader.at < len(text):
        reader.fail("something follows the value")
    return node


def merge(text: str, wanted: object) -> str:
    """Return the text with these entries in it; everything else stays as it is, comments too."""
    if "\r\n" in text:
        return merge(text.replace("\r\n", "\n"), wanted).replace("\n", "\r\n")
    if not SPACE.sub("", text):
        return text + _write(wanted, "", "  ") + "\n"
    while change := _first_change(parse(text), wanted, ""):
        text = change.apply(text)
    return text


class _JsonReader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def skip(self) -> None:
        found = SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def fail(self, words: str) -> NoReturn:
        line = self.text.count("\n", 0, self.at) + 1
        raise Unmergeable(f"line {line}: {words}")

    def value(self, depth: int) -> JsonNode:
        self.skip()
        if depth > MOST_DEPTH:
            self.fail("it is nested too deep")
        if self.text[self.at : self.at + 1] in ("{", "["):
            return self._container(depth)
        found = SCALAR.match(self.text, self.at)
        if not found:
            self.fail("not JSON")
        try:
            node = JsonNode(json.loads(found[0]), self.at, found.end())
        except ValueError:
            self.fail("not JSON")
        self.at = found.end()
        return node

    def _container(self, depth: int) -> JsonNode:
        node = JsonNode(None, self.at)
        close = "}" if self.text[self.at] == "{" else "]"
        members: dict[str, JsonNode] = {}
        items: list[JsonNode] = []
        self.at += 1
        self.skip()
        while self.text[self.at : self.at + 1] != close:
            if close == "}":
                key = self._key()
                members[key] = self.value(depth + 1)
            else:
                items.append(self.value(depth + 1))
            self.skip()
            if self.text[self.at : self.at + 1] == ",":
                self.at += 1
                self.skip()
            elif self.text[self.at : self.at + 1] != close:
                self.fail(f"a comma or {close} is missing")
        self.at += 1
        node.end = self.at
        if close == "}":
            node.members, node.value = members, {key: each.value for key, each in members.items()}
        else:
            node.items, node.value = items, [each.value for each in items]
        return node

    def _key(self) -> str:
        found = SCALAR.match(self.text, self.at)
        if not found or not found[0].startswith('"'):
            self.fail('a name in "quotes" is missing')
        try:
            key: str = json.loads(found[0])
        except ValueError:
            self.fail("not JSON")
        self.at = found.end()
        self.skip()
        if self.text[self.at : self.at + 1] != ":":
            self.fail("a colon is missing")
        self.at += 1
        return key


class _JsonChange(Struct):
    """One change: a value in the place of another, or a new entry at the end of an object or a list."""

    node: JsonNode
    value: object
    key: str | None = None
    adds: bool = False

    def apply(self, text: str) -> str:
        unit = found[1] if (found := INDENT.search(text)) else "  "
        outer = _indent_at(text, self.node.start)
        if not self.adds:
            return text[: self.node.start] + _write(self.value, outer, unit) + text[self.node.end :]
        name = "" if self.key is None else f"{json.dumps(self.key, ensure_ascii=False)}: "
        entry = f"\n{outer}{unit}{name}{_write(self.value, outer + unit, unit)}"
        close = self.node.end - 1
        kept = text[:close].rstrip()
        after = text[len(kept) : close]
        last = max((each.end for each in [*(self.node.members or {}).values(), *(self.node.items or [])]), default=None)
        if last is not None and not _has_comma(text, last):
            kept = f"{kept[:last]},{kept[last:]}"
        return kept + entry + (after if "\n" in after else f"\n{outer}") + text[close:]


def _has_comma(text: str, at: int) -> bool:
    found = SPACE.match(text, at)
    return text[found.end() if found else at] == ","


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _write(value: object, outer: str, unit: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{outer}")


def _first_change(node: JsonNode, wanted: object, where: str) -> _JsonChange | None:
    if isinstance(wanted, Mapping):
        return _change_of_object(node, cast("Mapping[str, object]", wanted), where)
    if isinstance(wanted, list) and all(isinstance(each, Mapping) for each in cast("list[object]", wanted)) and wanted:
        return _change_of_list(node, cast("list[Mapping[str, object]]", wanted), where)
    return None if node.value == wanted else _JsonChange(node, cast("object", wanted))


def _change_of_object(node: JsonNode, wanted: Mapping[str, object], where: str) -> _JsonChange | None:
    if node.members is None:
        raise Unmergeable(f"{where or 'the whole'} is not an object")
    for key, value in wanted.items():
        if key not in node.members:
            return _JsonChange(node, value, key, adds=True)
        if change := _first_change(node.members[key], value, f"{where}.{key}".lstrip(".")):
            return change
    return None


def _change_of_list(node: JsonNode, wanted: Sequence[Mapping[str, object]], where: str) -> _JsonChange | None:
    if node.items is None:
        raise Unmergeable(f"{where or 'the whole'} is not a list")
    for item in wanted:
        key = next(key for key in KEYS if key in item)
        same = [each for each in node.items if each.members is not None and each.value.get(key) == item[key]]
        if not same:
            return _JsonChange(node, item, adds=True)
        if change := _first_change(same[0], item, f"{where}[{item[key]}]"):
            return change
    return None
