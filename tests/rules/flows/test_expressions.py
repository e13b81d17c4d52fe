"""Expressions of flow files: names with dashes are names, nothing is computed, and mistakes say what to write."""

import keyword
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from corral.rules.flows import fill_text
from corral.rules.flows.expressions import Expression, ExpressionError

ISSUE: dict[str, Any] = {"output": {"kind": "bug", "exit-code": 3, "in": "x", "list": [1, 2]}, "status": "done"}
KNOWN: dict[str, Any] = {
    "fetch-issue": ISSUE, "fetch": {"output": "short"}, "issue": 7, "import": {"output": "i"}, "a--b-": 1,
    "nodes": {"fetch-issue": ISSUE},
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('fetch-issue.output.kind == "bug"', True),
        ("fetch-issue.output.exit-code", 3),
        ("nodes.fetch-issue.output.kind", "bug"),
        ('nodes["fetch-issue"].output.kind', "bug"),
        ("nodes['fetch-issue'].output['exit-code']", 3),
        ("len(fetch-issue.output.list) > -1", True),
        ("fetch.output", "short"),
        ("fetch-issue.output.list[-1]", 2),
        ('"fetch-issue" == "fetch" or "a-b"', True),
        ("import.output", "i"),
        ("fetch-issue.output.in", "x"),
        ("a--b- == 1", True),
        ("issue == 7 and not issue == -7", True),
        ("issue > 1e-5", True),
        ('fetch-issue.output.kind in ["bug", "not-a-bug"]', True),
        ("{{ fetch-issue.output.list }}", [1, 2]),
    ],
)
def test_names_with_dashes_and_pythons_own_words_are_names(text: str, value: object) -> None:
    assert Expression(text).value(KNOWN) == value


def test_a_text_is_filled_from_a_node_with_a_dash() -> None:
    assert fill_text.fill("Fix {{ fetch-issue.output.kind }}-{{issue}}", KNOWN) == "Fix bug-7"
    assert fill_text.names("{{fetch-issue.output}} {{nodes.other-one.status}}") == {"fetch-issue", "other-one", "nodes"}
    assert Expression("fetch-issue.output.exit-code").paths()[0] == ("fetch-issue", "output", "exit-code")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a.output.risk = "low"', "write `==`"),
        ("a === b", "write `==`"),
        ("a && b", "write `and`"),
        ("a || b", "write `or`"),
        ("!a", "write `not`"),
        ("issue - fetch", "without spaces"),
        ("issue -1", "nothing is computed"),
        ("1 + 1", "nothing is computed"),
        ('{{issue}} == "{{fetch}}"', "leave `{{` and `}}` out"),
        ("x._secret", "is not a field"),
        ("f'{x}'", "has no place"),
    ],
)
def test_a_mistake_says_what_to_write(text: str, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression(text)
    assert words in str(caught.value)


def test_signs_inside_a_text_are_no_mistake() -> None:
    assert Expression("""'a = b && !c' == "a = b && !c" """).value({}) is True


NAMES = some.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,20}", fullmatch=True).filter(
    lambda name: name not in {"and", "or", "not", "in", "is", "True", "False", "None", "true", "false", "null", "len"}
)


@given(NAMES, NAMES, some.integers())
def test_every_name_of_a_node_can_be_asked_for(node: str, field: str, value: int) -> None:
    known = {node: {"output": {field: value}}}
    assert Expression(f"{node}.output.{field}").value(known) == value
    assert Expression(f"{node}.output.{field} == {value}").holds(known)
    assert Expression(f"len({node}.output) == 1 and not {node}.output.{field} != {value}").holds(known)
    assert Expression(node).names() == {node}
    assert fill_text.fill("{{" + node + ".output." + field + "}}", known) == str(value)


@given(some.text(alphabet="ab-_.=!<>&|()[]'\" 01\u01c0\u01c1\u00e9\x00\n", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        words = "".join(Expression(text).names())
    except ExpressionError as wrong:
        words = str(wrong)
    assert "\u01c0" not in words or "\u01c0" in text


@pytest.mark.parametrize("word", sorted({*keyword.kwlist} - {"and", "or", "not", "in", "is", "True", "False", "None"}))
def test_pythons_words_are_names_too(word: str) -> None:
    assert Expression(f"{word}.output.{word}").value({word: {"output": {word: 1}}}) == 1
