"""Tests that judge one changed part of the product by another one."""

import pytest

from corral.rules.checks.outside import finding
from corral.rules.checks.outside.checked import State

CODEC = "def encode(text):\n    return text + '3'\n\n\ndef decode(text):\n    return text[:-2]\n"
RIGHT = CODEC.replace("-2", "-1")
IDENTITY = "def encode(text):\n    return text\n\n\ndef decode(text):\n    return text\n"
PRICE = "DISCOUNT = 0.1\n\n\ndef price(value):\n    return value\n"
TRIP = "from codec import decode, encode\n\n\ndef test_one():\n    for text in ('a', 'b'):\n        assert decode(encode(text)) == text\n"
NAMED = "import codec\n\n\ndef test_one():\n    coded = codec.encode('a')\n    assert codec.decode(coded) == 'a'\n"
SIDES = "from codec import decode, encode\n\n\ndef test_one():\n    assert encode('a') == decode('aaa')\n"
PINNED = TRIP + "\n\ndef test_two():\n    assert encode('a') == 'a3'\n"
CONSTANT = "from codec import DISCOUNT, price\n\n\ndef test_one():\n    assert price(100) == 100 * (1 - DISCOUNT)\n\n\ndef test_two():\n    assert price(0) == 0\n"
CLASS = "import unittest\n\nfrom codec import decode, encode\n\n\nclass T(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(decode(encode('a')), 'a')\n"


def found(before: str, after: str, tests: str, *, fixed: tuple[str, ...] = ("test_one",)) -> bool:
    names = [("T", "test_one")] if tests == CLASS else [("test_one",), ("test_two",)]
    states: dict[tuple[str, tuple[str, ...]], State] = {
        ("tests/test_it.py", name): "fixed" if name[-1] in fixed else "kept" for name in names
    }
    parts = finding.changed_parts({"codec.py": (before, after)})
    words = finding.find_self_judging({"tests/test_it.py": tests}, states, parts, ["codec.py"])
    assert all("judges the product by another part of it" in each for each in words)
    return bool(words)


@pytest.mark.parametrize("tests", [TRIP, NAMED, SIDES, CLASS])
def test_both_parts_changed(tests: str) -> None:
    assert found(CODEC, IDENTITY, tests)
    assert not found(CODEC, RIGHT, tests), "one part alone was changed"


def test_a_part_that_another_test_knows_is_no_limit() -> None:
    assert not found(CODEC, IDENTITY, PINNED)


def test_a_constant_with_which_the_product_is_judged() -> None:
    assert found(PRICE, PRICE.replace("0.1", "0.0"), CONSTANT)
    assert not found(PRICE, PRICE.replace("return value", "return value * (1 - DISCOUNT)"), CONSTANT)
    assert not found(PRICE, PRICE.replace("0.1", "0.0"), CONSTANT + "    assert DISCOUNT == 0.0\n")


def test_tests_that_passed_before_are_not_looked_at() -> None:
    assert not found(CODEC, IDENTITY, TRIP, fixed=())


def test_another_fixed_test_is_enough() -> None:
    other = TRIP + "\n\ndef test_two():\n    assert decode('abc') == 'ab'\n"
    assert not found(CODEC, IDENTITY, other, fixed=("test_one", "test_two"))


def test_code_that_cannot_be_read_says_nothing() -> None:
    assert not found(CODEC, "def encode(:\n", TRIP)
    assert not found(CODEC, IDENTITY, "def test_one(:\n")
