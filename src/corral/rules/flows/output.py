"""Structured output: the last JSON value of an agent's words, checked against the schema that its node asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from corral.model.events import Ended
from corral.rules.context.condense import condense
from corral.rules.flows.schemas import misfits

MOST_TEXT = 1 << 20  #: characters of an agent's words that are looked through, from their end
MOST_VALUE = 1 << 20  #: bytes of a value
MOST_WORK = 8 << 20  #: characters looked at altogether: brackets that never close would take for ever otherwise
A_MISTAKE, DEEP = 50, 2000  #: what a mistake and a nesting too deep to read are counted as
MOST_WORDS = 6000
OPENING = re.compile(r'[{]\s*["}]|\[\s*["\[{\]\dtfn-]')  #: what may begin a table or a list


class OutputValue(Struct, frozen=True):
    """What an agent gave for its output, and what is wrong with it: nothing, if it fits."""

    value: Any = None
    misfits: tuple[str, ...] = ()


def take(ended: Ended, schema: Mapping[str, Any]) -> OutputValue:
    """Take the output from an agent's last message: given as output, or the last JSON value in its text."""
    found = ended.output
    if found is None or isinstance(found, str):
        values = last_value(found if isinstance(found, str) else ended.text)
        if not values:
            return OutputValue(None, ("its last message holds no JSON value",))
        found = values[0]
    return _check_value(found, schema)


def take_printed(text: str, schema: Mapping[str, Any]) -> OutputValue:
    """Take the output from what a command printed: JSON at its very end, alone or after other lines."""
    values = ending_value(text)
    found = _check_value(values[0], schema) if values else OutputValue(misfits=("",))
    if found.misfits and ("enum" in schema or schema.get("type") == "string"):
        plain = _check_value(text.strip(), schema)  # a word needs no quotes
        return plain if not plain.misfits or not values else found
    if not values:
        cut = f"; only its first {MOST_TEXT} characters count" if len(text) >= MOST_TEXT else ""
        return OutputValue(None, (f"what it printed does not end with a JSON value{cut}",))
    return found


def _check_value(found: Any, schema: Mapping[str, Any]) -> OutputValue:
    try:
        size = len(msgspec.json.encode(found))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        return OutputValue(None, (f"its output cannot be kept: {error}",))
    if size > MOST_VALUE:
        return OutputValue(None, (f"its output is {size} bytes long, and may be {MOST_VALUE}",))
    return OutputValue(found, tuple(misfits(found, schema)))


# --- the last JSON value in a text


def last_value(text: str) -> list[Any]:
    """Return the last JSON value in a text, as a list of one; none, if there is none.

    A table or a list may be anywhere; a plain value must be alone: in the text, between two ``` or on its line.
    """
    text = text[-MOST_TEXT:].strip()
    whole = _value(text)
    if whole:
        return whole
    place, found = _last_inside(text)
    for match in reversed(list(re.finditer(r"^```[\w-]*[ \t]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))):
        if match.start() < place:
            break
        if alone := _value(match.group(1)):
            return alone
    line = text.rpartition("\n")[2]
    return (_value(line) if len(text) - len(line) >= place else []) or found


def ending_value(text: str) -> list[Any]:
    """Return the JSON value that a text ends with, as a list of one; it begins at the start of a line."""
    text = text.strip()
    if whole := _value(text):
        return whole
    line = text.rpartition("\n")[2]
    if not line.startswith((" ", "\t")) and (alone := _value(line)):
        return alone
    work = 0
    for begin in reversed([found.start() for found in re.finditer(r"^[\[{]", text, re.MULTILINE)]):
        if found := _value(text[begin:]):
            return found
        work += len(text) - begin
        if work > MOST_WORK:
            break
    return []


def _last_inside(text: str) -> tuple[int, list[Any]]:
    """Return the last table or list in a text, and where it ends."""
    decoder = json.JSONDecoder(parse_constant=_no_number)
    text = _UncountedText(text)
    end, found, work, at = 0, list[Any](), 0, 0
    for bracket in OPENING.finditer(text):
        start = bracket.start()
        if start < at:
            continue  # inside the value before
        try:
            value, at = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            work += error.pos - start + A_MISTAKE
        except (ValueError, RecursionError):
            work += DEEP
        else:
            end, found = at, [value]
            work += at - start
        if work > MOST_WORK:
            break
    return end, found


class _UncountedText(str):
    """A text whose lines are not counted: the decoder would do so for each mistake, from the very beginning."""

    __slots__ = ()

    def count(self, *_: object) -> int:
        return 0

    def rfind(self, *_: object) -> int:
        return 0


def _value(text: str) -> list[Any]:
    try:
        return [json.loads(text, parse_constant=_no_number)]
    except (ValueError, RecursionError):
        return []


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


# --- the prompt's words for it


def instruction(schema: Mapping[str, Any]) -> str:
    """Return what is at the end of the prompt of an agent whose program takes no schema."""
    words = "End your last message with one JSON value that fits this JSON Schema, and nothing after it:"
    return f"{words}\n\n{_block(schema)}"


def retry_prompt(schema: Mapping[str, Any], wrong: Sequence[str]) -> str:
    """Return what an agent hears whose output did not fit."""
    return (
        f"Your output does not fit: {'; '.join(wrong)}. Do no further work on the task. Answer with the output alone: "
        f"one JSON value that fits this JSON Schema, and nothing after it:\n\n{_block(schema)}"
    )


def reminder_prompt(task: str, said: str) -> str:
    """Return what goes before that for an agent which does not remember what it did."""
    words = condense(said.strip(), MOST_WORDS)
    return f"{task}\n\nYou have done this already; your workspace is as you left it. Your last message was:\n\n{words}"


def _block(schema: Mapping[str, Any]) -> str:
    return f"```json\n{json.dumps(schema, indent=1, ensure_ascii=False)}\n```"
