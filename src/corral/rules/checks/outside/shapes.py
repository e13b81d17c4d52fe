"""Other inputs of the same shape, and simple rules that tests show."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from msgspec import structs

from corral.rules.checks.outside.checked import CheckedCall, literal
from corral.rules.text.python_code import parse_expression

#: A letter becomes another one of its own kind: of the same case, a vowel or not.
CYCLES = ("aeiou", "bcdfghjklmnpqrstvwxz", "AEIOU", "BCDFGHJKLMNPQRSTVWXZ", "123456789")
TURNS = (1, 2, 3, 4)
LONGER_TURNS = (1, 2, 3)
LONG = 60  #: characters

#: What a test may show of a rule: how the right text comes from the one that was given before.
RULES: tuple[Callable[[str], str], ...] = (
    str.lower, str.upper, str.title, str.capitalize, str.swapcase, str.strip, str.lstrip, str.rstrip,
    lambda text: text[::-1],
    lambda text: re.sub(r"\s+", "", text),
    lambda text: re.sub(r"\s+", " ", text),
    lambda text: re.sub(r"\s+", " ", text).strip(),
    lambda text: text.replace(" ", "-"),
    lambda text: text.replace(" ", "_"),
    lambda text: text.replace("-", "_"),
    lambda text: text.replace("_", "-"),
    lambda text: text.lower().replace(" ", "-"),
    lambda text: text.lower().replace(" ", "_"),
)  # fmt: skip


def variants(checked: CheckedCall) -> Iterator[CheckedCall]:
    """Return the same call with other letters and digits, and all else as it is; then with longer texts."""
    seen = {checked.arguments}
    for longer, turns in ((False, TURNS), (True, LONGER_TURNS)):
        for turn in turns:
            text = _change_texts(checked, partial(_lengthen if longer else _turn_value, turn=turn))
            if text not in seen:
                seen.add(text)
                yield structs.replace(checked, arguments=text, expected="", longer=longer)


def _change_texts(checked: CheckedCall, change: Callable[[str], str]) -> str:
    """Return the arguments of a call with other texts."""
    if checked.language == "node":
        return literal(by_rule(change, json.loads(checked.arguments)))
    node = cast("ast.Call", parse_expression(f"f({checked.arguments})"))
    words = [repr(by_rule(change, ast.literal_eval(each))) for each in node.args]
    words += [f"{each.arg}={by_rule(change, ast.literal_eval(each.value))!r}" for each in node.keywords]
    return ", ".join(words)


def _turn_value(text: str, turn: int) -> str:
    return "".join(_other(each, turn) for each in text)


def _lengthen(text: str, turn: int) -> str:
    """Repeat a text, with its own sign between words, until it is longer than those of most tests."""
    if not text or not (text[0].isalnum() and text[-1].isalnum()):
        return text
    inner = re.search(r"\w([^\w\s]|\s)(?=\w)", text)
    between = inner[1] if inner else ""
    both = f"{text}{between}{_turn_value(text, turn)}"
    return between.join([both] * (LONG // len(both) + 1))


def _other(sign: str, turn: int) -> str:
    for cycle in CYCLES:
        if sign in cycle:
            return cycle[(cycle.index(sign) + turn) % len(cycle)]
    return sign


def by_rule(rule: Callable[[str], str], value: Any) -> Any:  # noqa: ANN401 -- any plain value
    """Apply a rule to all texts of a value."""
    if isinstance(value, str):
        return rule(value)
    if isinstance(value, list | tuple):
        made = [by_rule(rule, each) for each in cast("list[Any]", value)]
        return made if isinstance(value, list) else tuple(made)
    if isinstance(value, dict):
        return {key: by_rule(rule, each) for key, each in cast("dict[Any, Any]", value).items()}
    return value


def has_words(checked: CheckedCall) -> bool:
    """Tell whether a call is given more than one word: a single one may well be a special case."""
    return bool(re.search(r"[A-Za-z]+[^A-Za-z'\"]+[A-Za-z]", checked.arguments))
