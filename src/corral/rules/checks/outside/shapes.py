"""Other inputs of the same shape, and simple rules that tests show."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from msgspec import structs

from corral.rules.checks.outside.checked import Checked, literal

#: A letter becomes another one of its own kind: of the same case, a vowel or not.
CYCLES = ("aeiou", "bcdfghjklmnpqrstvwxz", "AEIOU", "BCDFGHJKLMNPQRSTVWXZ", "123456789")
TURNS = (1, 2, 3, 4)

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


def variants(checked: Checked) -> Iterator[Checked]:
    """Return the same call with other letters and digits, and all else as it is."""
    seen = {checked.arguments}
    for turn in TURNS:
        if checked.language == "node":
            text = literal(_turned(json.loads(checked.arguments), turn))
        else:
            text = _turned_source(checked.arguments, turn)
        if text not in seen:
            seen.add(text)
            yield structs.replace(checked, arguments=text, expected="")


def _turned_source(arguments: str, turn: int) -> str:
    node = cast("ast.Call", ast.parse(f"f({arguments})", mode="eval").body)
    words = [repr(_turned(ast.literal_eval(each), turn)) for each in node.args]
    words += [f"{each.arg}={_turned(ast.literal_eval(each.value), turn)!r}" for each in node.keywords]
    return ", ".join(words)


def _turned(value: Any, turn: int) -> Any:  # noqa: ANN401 -- any plain value
    if isinstance(value, str):
        return "".join(_other(each, turn) for each in value)
    if isinstance(value, list | tuple):
        made = [_turned(each, turn) for each in cast("list[Any]", value)]
        return made if isinstance(value, list) else tuple(made)
    if isinstance(value, dict):
        return {key: _turned(each, turn) for key, each in cast("dict[Any, Any]", value).items()}
    return value


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


def has_words(checked: Checked) -> bool:
    """Tell whether a call is given more than one word: a single one may well be a special case."""
    return bool(re.search(r"[A-Za-z]+[^A-Za-z'\"]+[A-Za-z]", checked.arguments))
