"""Structured output: the last JSON value is found whatever stands around it, in bounded time; what does not fit is named."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.events import Ended
from corral.rules.flows import output, schemas

VERDICT: dict[str, Any] = {
    "type": "object",
    "properties": {"verdict": {"enum": ["accept", "reject"]}, "notes": {"type": "string"}},
    "required": ["verdict", "notes"],
}
GOOD = {"verdict": "accept", "notes": "fine"}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
TABLES = VALUES.filter(lambda value: isinstance(value, dict | list))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Here it is: {"a": 1}. Bye!', {"a": 1}),
        ('First {"a": 1}, then {"a": 2}', {"a": 2}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": 1}\n```\nIt is done.', {"a": 1}),
        ('{"a": 1}\n```json\n"word"\n```', "word"),
        ('```json\n7\n```\nand then {"a": 1}', {"a": 1}),
        ("The number is\n42", 42),
        ('It said {"a": {"b": [1, {"c": "}"}]}} at last', {"a": {"b": [1, {"c": "}"}]}}),
        ('if (x) { return [y]; } {"a": "` {"}', {"a": "` {"}),
        ('{broken: {"a": 1}', {"a": 1}),
        ('{"a": 1} and {"a": ', {"a": 1}),
        ('["one", "two"]', ["one", "two"]),
        ("true", True),
        ('{"ä": "ü"}', {"ä": "ü"}),
        ("[]", []),
    ],
)
def test_the_last_value_is_found(text: str, value: object) -> None:
    assert output.last_value(text) == [value]


@pytest.mark.parametrize(
    "text", ["", "nothing", "I counted 3 files.", "{a: 1}", "[see above]", '{"a": NaN}', "{'a': 1}", '{"a": 1']
)
def test_where_there_is_none(text: str) -> None:
    assert output.last_value(text) == []


@given(before=st.text(alphabet="ab {}[]\"'`:,\n", max_size=80), value=TABLES)
def test_whatever_stands_before_it(before: str, value: object) -> None:
    # A quote or a bracket before it may swallow its beginning only where all of it together is JSON.
    assert output.last_value(f"{before}\n```json\n{json.dumps(value, indent=1)}\n```\n")[0] is not None or value is None
    assert output.last_value(f"words.\n{json.dumps(value)}\n") == [value]


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["[", "{", '{"', '{"a":', "[[{", '"', "```\n", '{"a": "', "[1,", "}{", "\\"])
def test_brackets_that_never_close_do_not_take_for_ever(piece: str) -> None:
    assert output.last_value(piece * ((8 << 20) // len(piece))) in ([], [{}])


def test_a_huge_value_is_found_and_refused() -> None:
    text = json.dumps({"verdict": "accept", "notes": "x" * 900_000})
    assert output.take(Ended(ok=True, text="Look: " + text), VERDICT).misfits == ()
    long = output.take(Ended(ok=True, output={"notes": "x" * 2_000_000}), VERDICT)
    assert "bytes long" in long.misfits[0]


def test_what_cannot_be_kept_is_refused() -> None:
    assert output.take(Ended(ok=True, text='{"verdict": "\\ud800", "notes": ""}'), {}).misfits


def test_what_the_program_told_as_its_output_comes_first() -> None:
    assert output.take(Ended(ok=True, text='{"verdict": "reject"}', output=GOOD), VERDICT) == output.OutputValue(GOOD)
    assert output.take(Ended(ok=True, text="words", output=json.dumps(GOOD)), VERDICT) == output.OutputValue(GOOD)


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        (VERDICT, {"verdict": "accept"}, "output has no `notes`"),
        (VERDICT, {"verdict": "maybe", "notes": ""}, 'output.verdict is "maybe", not one of "accept", "reject"'),
        (VERDICT, [1], "output is [1], not of the type object"),
        ({"type": "array", "items": VERDICT}, [GOOD, {"verdict": "accept", "notes": 7}], "output[1].notes is 7"),
        ({"type": "integer"}, 1.5, "not of the type integer"),
        ({"type": "integer"}, True, "not of the type integer"),
        ({"type": ["string", "null"]}, 3, "not of the type string or null"),
        ({"const": 1}, True, "output is not 1"),
        ({"enum": [0, "a"]}, False, "not one of"),
        ({"minimum": 3}, 2, "output is less than 3"),
        ({"maximum": 3}, 4, "output is more than 3"),
        ({"minLength": 2}, "a", "output is shorter than 2"),
        ({"maxLength": 2}, "abc", "output is longer than 2"),
        ({"maxItems": 1}, [1, 2], "output is longer than 1"),
        ({"type": "object", "properties": {}, "additionalProperties": False}, {"b": 1}, "which was not asked for"),
        ({"additionalProperties": {"type": "string"}}, {"b": 1}, "output.b is 1"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "none of its forms fits"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(schema: dict[str, Any], value: object, words: str) -> None:
    assert words in schemas.misfits(value, schema)[0]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (VERDICT, {**GOOD, "more": 1}),
        ({"type": "integer"}, 2.0),
        ({"type": "number", "minimum": 0, "maximum": 1}, 0.5),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
        ({}, {"anything": []}),
        ({"type": "string", "minLength": 1, "format": "date"}, "x"),
    ],
)
def test_what_fits(schema: dict[str, Any], value: object) -> None:
    assert schemas.misfits(value, schema) == []


@given(VALUES)
def test_every_value_fits_an_empty_schema(value: object) -> None:
    assert schemas.misfits(value, {}) == []


def test_many_misfits_are_cut() -> None:
    found = schemas.misfits(list(range(100_000)), {"type": "array", "items": {"type": "string"}})
    assert len(found) == schemas.MOST_MISFITS


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"pattern": "x"}, "output: `pattern` is not known here"),
        ({"type": "text"}, "`text` is no type"),
        ({"properties": {"a": {"oneOf": []}}}, "output.a: `oneOf` is not known here"),
        ({"properties": []}, "`properties` is a table"),
        ({"required": "a"}, "`required` is a list"),
        ({"minimum": "1"}, "`minimum` is a number"),
        ({"items": 3}, "output[] is no schema"),
        ([], "output is no schema"),
    ],
)
def test_a_schema_that_would_not_be_held_is_refused(schema: object, words: str) -> None:
    assert words in schemas.mistakes(schema)[0]


def test_a_good_schema_has_no_mistakes() -> None:
    assert schemas.mistakes({**VERDICT, "title": "review", "additionalProperties": False}) == []


def test_the_strict_form_of_a_schema() -> None:
    made = schemas.strict(VERDICT)
    assert made == {**VERDICT, "additionalProperties": False}
    nested = {"type": "object", "properties": {"all": {"type": "array", "items": VERDICT}}, "required": ["all"]}
    held = schemas.strict(nested)
    assert held is not None
    assert held["properties"]["all"]["items"]["additionalProperties"] is False


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": VERDICT},
        {**VERDICT, "required": ["verdict"]},
        {**VERDICT, "additionalProperties": True},
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]},
    ],
)
def test_what_has_no_strict_form(schema: dict[str, Any]) -> None:
    assert schemas.strict(schema) is None


def test_what_an_agent_is_told_holds_the_schema_and_what_was_wrong() -> None:
    told = output.retry_prompt(VERDICT, ["output has no `notes`"])
    assert "output has no `notes`" in told
    assert output.last_value(told) == [VERDICT]
    assert output.last_value(output.instruction(VERDICT)) == [VERDICT]
    reminded = output.reminder_prompt("do it", "x\n" * 100_000)
    assert reminded.startswith("do it")
    assert len(reminded) < output.MOST_WORDS + 1000


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}\n', [{"a": 1}]),
        ("3", [3]),
        ("null\n", [None]),
        ('log\nmore: {"x": 1}\n{"a": 1}', [{"a": 1}]),
        ('log\n[\n  {"a": 1},\n  {"b": 2}\n]\n', [[{"a": 1}, {"b": 2}]]),
        ("log\ntrue", [True]),
        ('[\n  {"a": 1},\n  {"b": 2}', []),
        ('[{"a": 1}, {"b": ', []),
        ('{"a": 1} done', []),
        ("words", []),
        ("", []),
        ("NaN", []),
    ],
)
def test_a_command_prints_its_output_last(text: str, found: list[Any]) -> None:
    assert output.ending_value(text) == found
    assert bool(output.take_printed(text, {}).misfits) is not bool(found)


def test_brackets_without_end_are_looked_through_in_no_time() -> None:
    assert output.take_printed("[\n" * 500_000, {}).misfits


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("bug\n", {"enum": ["bug", "feature"]}, "bug"),
        ('"bug"', {"enum": ["bug", "feature"]}, "bug"),
        ("3", {"enum": [3, 4]}, 3),
        ("two\nlines\n", {"type": "string"}, "two\nlines"),
        ("1.2", {"type": "string"}, "1.2"),
        ("log\n1.2", {"type": "number"}, 1.2),
    ],
)
def test_a_command_may_print_a_word_without_quotes(text: str, schema: dict[str, Any], value: object) -> None:
    assert output.take_printed(text, schema) == output.OutputValue(value)


@pytest.mark.parametrize(("text", "schema"), [("bugs", {"enum": ["bug"]}), ("word", {"type": "number"}), ("word", {})])
def test_a_word_that_does_not_fit_is_no_output(text: str, schema: dict[str, Any]) -> None:
    assert output.take_printed(text, schema).misfits
