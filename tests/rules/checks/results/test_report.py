"""Reports from lines of reporters: sessions that end, tests by id, strange lines, bounds."""

import json
from typing import Any

from corral.model.evidence import MOST_TESTS
from corral.rules.checks.results import report


def lines(*events: dict[str, Any]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


BEGIN = {"e": "begin", "k": "pytest", "s": "1", "a": "pytest -q"}
END = {"e": "end", "s": "1", "c": 0}


def test_nothing_of_ours_is_no_report() -> None:
    assert report.read([]) is None
    assert (
        report.read(
            [b"{}", b"nonsense", b'{"e": 3}', b"\xff", *lines({"e": "test", "s": "1", "i": "a", "o": "passed"})]
        )
        is None
    )


def test_tests_count_once_and_the_worst_outcome_stands() -> None:
    tests = [{"e": "test", "s": "1", "i": name, "o": outcome} for name, outcome in (
        ("a", "passed"), ("a", "failed"), ("b", "skipped"), ("b", "passed"), ("c", "odd"), ("d", "xfailed"))]  # fmt: skip
    found = report.read(lines(BEGIN, *tests, END), 1)
    assert found is not None
    assert found.tests == {"a": "failed", "b": "passed", "d": "xfailed"}
    assert (found.runners, found.sessions, found.unfinished, found.doubts) == (("pytest",), 1, (), ())


def test_failures_with_a_command_that_passes_are_a_doubt() -> None:
    found = report.read(lines(BEGIN, {"e": "test", "s": "1", "i": "a", "o": "failed"}, END), 0)
    assert found is not None
    assert found.doubts == ("tests failed, yet the command ended with 0",)


def test_programs_that_miss_their_end_are_named() -> None:
    for events, words in (
        ([BEGIN], "`pytest -q` began and never reached its own end"),
        ([BEGIN, {"e": "exit", "s": "1", "w": "`calc.py` line 3 ended it"}, END], "`pytest -q` ended early: `calc.py` line 3 ended it"),
        ([BEGIN, {**END, "m": 2, "w": ["a", "b"]}], "`pytest -q` stopped with success before 2 of its tests ran (a, b)"),
    ):  # fmt: skip
        found = report.read(lines(*events), 0)
        assert found is not None
        assert found.unfinished == (words,)
    for events in ([{**BEGIN, "soft": True}], [BEGIN, {**END, "c": 1, "m": 2, "w": ["a"]}]):
        found = report.read(lines(*events), 0)
        assert found is not None
        assert found.unfinished == ()


def test_what_is_kept_is_bounded() -> None:
    tests = ({"e": "test", "s": "1", "i": str(number), "o": "passed"} for number in range(MOST_TESTS + 5))
    found = report.read(lines(BEGIN, *tests, END))
    assert found is not None
    assert (len(found.tests), found.cut) == (MOST_TESTS, True)
    found = report.read([*lines(BEGIN), *[b"x"] * (report.MOST_STRANGE + 1), *lines(END)])
    assert found is not None
    assert found.cut
    assert found.unfinished


def test_a_variable_that_a_command_sets_keeps_our_value() -> None:
    for command, made in (
        ("PYTHONPATH=src pytest", "PYTHONPATH=/our:src pytest"),
        ('cd a && env PYTHONPATH="x y" pytest', 'cd a && env PYTHONPATH=/our:"x y" pytest'),
        ("PYTHONPATH= pytest", "PYTHONPATH=/our pytest"),
        ("MY_PYTHONPATH=a pytest --PYTHONPATH=b", "MY_PYTHONPATH=a pytest --PYTHONPATH=b"),
        ("pytest -q", "pytest -q"),
    ):
        assert report.with_value(command, "PYTHONPATH", "/our", ":") == made
    assert report.with_value("PYTHONPATH=src pytest", "PYTHONPATH", "/o ur", ":") == "PYTHONPATH=src pytest"


CARGO = """
running 4 tests
test tests::adds ... ok
test tests::later ... ignored
test tests::fails ... FAILED
test tests::panics - should panic ... ok

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
   Doc-tests calc

running 1 test
test src/lib.rs - add (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s
"""


def test_printed_tests_of_cargo_have_names() -> None:
    found = report.of_check([], CARGO, 101)
    assert found is not None
    assert found.tests == {
        "tests::adds": "passed",
        "tests::later": "skipped",
        "tests::fails": "failed",
        "tests::panics": "passed",
        "src/lib.rs - add": "passed",
    }
    assert (found.runners, found.sessions, found.unfinished, found.doubts) == (("cargo",), 2, (), ())
    early = report.of_check([], "running 2 tests\ntest tests::adds ... ok\n", 0)
    assert early is not None
    assert early.unfinished == ("1 of 1 test programs of `cargo test` began and never reached their own end",)


def test_printed_tests_of_tap_have_names() -> None:
    found = report.of_check([], "TAP version 13\n1..3\nok 1 - adds\nnot ok 2 - fails\nok 3 - later # SKIP\n", 0)
    assert found is not None
    assert found.tests == {"adds": "passed", "fails": "failed", "later": "skipped"}
    assert (found.runners, found.unfinished) == (("tap",), ())
    assert found.doubts == ("tests failed, yet the command ended with 0",)
    early = report.of_check([], "1..3\nok 1 - adds\n", 0)
    assert early is not None
    assert early.unfinished == ("1 of the 3 planned tests ran",)


def test_printed_tests_of_go_are_read_where_a_package_has_its_own_main() -> None:
    own = {"e": "begin", "k": "go", "s": "1", "a": "go test ./", "soft": True}
    text = "=== RUN   TestAdd\n--- PASS: TestAdd (0.00s)\n    --- PASS: TestAdd/part (0.00s)\nPASS\nok  \tcalc\t0.1s\n"
    found = report.of_check(lines(own, END), text, 0)
    assert found is not None
    assert (found.runners, found.tests, found.sessions) == (("go",), {"TestAdd": "passed"}, 1)


def test_other_output_is_no_report() -> None:
    assert report.of_check([], "all good\n3 passed\n", 0) is None
