"""One output of several."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.rules.schedule.reduce import HOWS, How, OutputPart, ReducedOutput, reduce


def parts(*outputs: Any) -> list[OutputPart]:
    return [OutputPart(output, f"agent{place}") for place, output in enumerate(outputs)]


@pytest.mark.parametrize(
    ("how", "outputs", "result"),
    [
        ("first", ["a", "b"], "a"),
        ("last", ["a", "b"], "b"),
        ("first", [None, "", "b"], "b"),
        ("concat", ["a\n", " b"], "a\n\nb"),
        ("concat", ["a", {"b": 1}], 'a\n\n{"b":1}'),
        ("concat", [[1], [2, 1]], [1, 2, 1]),
        ("list", ["a", None, 3], ["a", 3]),
        ("merge", [{"a": 1}, {"b": {"c": 2}}, '{"b": {"d": 3}}'], {"a": 1, "b": {"c": 2, "d": 3}}),
        ("merge", [[1, 2], [2, 3, 3]], [1, 2, 3]),
        ("merge", ["no json"], "no json"),
        ("preferred", ["a", "b", "c"], "b"),
        ("first", [], None),
        ("merge", [], None),
        ("list", [], []),
    ],
)
def test_reducing(how: How, outputs: list[Any], result: Any) -> None:
    assert reduce(parts(*outputs), how, ["nobody", "agent1", "agent2"]).output == result


def test_where_values_differ_the_later_counts_and_it_is_told() -> None:
    found = reduce(parts({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 1}}), "merge")
    assert found == ReducedOutput({"a": {"b": 2, "c": 1}}, ("a.b differs: the later one counts",))


def test_what_failed_does_not_count() -> None:
    assert reduce([OutputPart("bad", ok=False), OutputPart("good")], "first").output == "good"


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.lists(values, max_size=4), st.sampled_from(HOWS))
def test_anything_can_be_reduced(outputs: list[Any], how: How) -> None:
    assert reduce(parts(*outputs), how) == reduce(parts(*outputs), how)
