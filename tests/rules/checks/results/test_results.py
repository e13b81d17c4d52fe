"""What real test programs printed, read back."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model import Tally
from corral.rules.checks import results
from corral.rules.checks.results import junit

SAMPLES = Path(__file__).parent / "samples"
PYTEST = ("test_a.py::TestC::test_one", "test_a.py::test_bad", "test_a.py::test_error", "test_a.py::test_param[a b]")
GO = ("example.org/shop.TestBad", "example.org/shop.TestTable/two_words")
SUB, BROKEN = "example.org/shop/sub.TestBad", "example.org/shop/broken"

KNOWN = {
    "pytest.txt": Tally("pytest", 3, 4, 3, PYTEST),
    "pytest-q.txt": Tally("pytest", 3, 4, 3, PYTEST),
    "pytest-v.txt": Tally("pytest", 3, 4, 3, PYTEST),
    "pytest-rA.txt": Tally("pytest", 3, 4, 3, PYTEST),
    "pytest-colour.txt": Tally("pytest", 3, 4, 3, PYTEST),
    "pytest-collection.txt": Tally("pytest", 0, 1, 0, ("test_broken.py",)),
    "pytest-passed.txt": Tally("pytest", 1, 0, 0),
    "pytest-none.txt": Tally("pytest", 0, 0, 0),
    "unittest.txt": Tally("unittest", 1, 1, 1, ("test_a.TestC.test_one",)),
    "junit-pytest.xml": Tally(
        "junit",
        3,
        4,
        3,
        ("test_a.TestC::test_one", "test_a::test_bad", "test_a::test_error", "test_a::test_param[a b]"),
    ),
    "junit-jest.xml": Tally("junit", 3, 1, 1, ("sums is wrong",)),
    "junit-node.xml": Tally("junit", 2, 2, 2, ("inner bad", "is wrong")),
    "go.txt": Tally("go", None, 4, 0, (*GO, BROKEN, SUB)),
    "go-v.txt": Tally("go", 3, 3, 1, (*GO, SUB)),
    "go.jsonl": Tally("go", 3, 4, 1, (*GO, BROKEN, SUB)),
    "cargo.txt": Tally("cargo", 2, 1, 1, ("tests::bad",)),
    "cargo-all.txt": Tally("cargo", 4, 1, 1, ("tests::bad",)),
    "cargo-q.txt": Tally("cargo", 2, 1, 1, ("tests::bad",)),
    "jest.txt": Tally("jest", 2, 2, 2, ("a.test.js > sums > is wrong", "b.test.js")),
    "jest-v.txt": Tally("jest", 2, 1, 2, ("a.test.js > sums > is wrong",)),
    "jest.json": Tally("jest", 2, 2, 2, ("a.test.js > sums is wrong", "b.test.js")),
    "node.tap": Tally("tap", 2, 2, 2, ("is wrong", "outer > inner bad")),
    "node-spec.txt": Tally("node", 2, 3, 2, ("inner bad", "is wrong")),
    "plain.tap": Tally("tap", 2, 1, 2, ("is wrong",)),
}


def test_every_sample_is_known() -> None:
    assert sorted(KNOWN) == sorted(path.name for path in SAMPLES.iterdir())


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_real_output(name: str) -> None:
    assert results.tally((SAMPLES / name).read_text()) == KNOWN[name]


@pytest.mark.parametrize("text", ["", "all good\n", "ok\n", "not ok\n", "5 passed\n", "Tests: fine\n", "<testsuite>"])
def test_plain_words_are_no_count(text: str) -> None:
    assert results.tally(text) is None


def test_two_runs_of_pytest_are_added_up() -> None:
    once = (SAMPLES / "pytest-passed.txt").read_text()
    assert results.tally(once + once) == Tally("pytest", 2, 0, 0)


def test_a_report_counts_before_the_output() -> None:
    printed, report = (SAMPLES / "pytest-passed.txt").read_text(), (SAMPLES / "junit-pytest.xml").read_text()
    assert results.tally(printed, [report]) == KNOWN["junit-pytest.xml"]
    assert results.tally(printed, ["no report at all"]) == KNOWN["pytest-passed.txt"]


def test_xml_that_grows_is_refused() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>'
    assert junit.read(bomb) is None


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("pytest -q --junitxml=out/report.xml", ["out/report.xml"]),
        ("pytest --junit-xml report.xml -q", ["report.xml"]),
        ("gotestsum --junitfile unit.xml ./...", ["unit.xml"]),
        ("JEST_JUNIT_OUTPUT_FILE=a.xml npx jest", ["a.xml"]),
        ("pytest --junitxml=/etc/x.xml", []),
        ("pytest --junitxml=../x.xml", []),
        ("pytest -q 'unclosed", []),
        ("pytest --junitxml", []),
    ],
)
def test_report_files_that_a_command_names(command: str, files: list[str]) -> None:
    assert junit.report_files(command) == files


#: What a text begins with, and what then comes over and over.
LONG = {
    "lines": ("", "y\n"), "blank": ("", "\n"), "bars": ("", "=\n"), "tap": ("1..2\n", "ok\n"), "tap-name": ("1..2\nok a", " "),
    "unittest": ("Ran 1 test in 1s\n", "OK (\n"), "unittest-words": ("Ran 1 test in 1s\nOK (", "a"), "jest": ("Tests: ", "1"),
    "jest-lines": ("Tests:", "\n"), "cargo": ("", "failures:\n    a\n"), "cargo-name": ("test a", " (line 1"), "pytest": ("", "1 passed, "),
    "colours": ("", "\x1b["),
}  # fmt: skip


READ_LONG = f"""
import resource
from corral.rules.checks import results
from corral.rules.checks.results import report

resource.setrlimit(resource.RLIMIT_CPU, (20, 20))  # of the processor: others may be at work
for name, (start, more) in {LONG!r}.items():
    print(name, flush=True)  # the last one is the one that takes too long
    text = start + more * (500_000 // len(more)) + "x"
    results.tally(text), report.printed_report(text)
"""


def test_the_time_to_read_output_grows_no_faster_than_it() -> None:
    subprocess.run([sys.executable, "-c", READ_LONG], check=True)


ALPHABET = 'ok not 1..2\n-#{}"<>/testsuiecaFAILED ERR:=0123456789 passed, in s\u25cf\u203a\u2716\u2139'


@given(st.lists(st.sampled_from(sorted(KNOWN)), max_size=3), st.text(ALPHABET, max_size=200), st.integers(0, 5000))
def test_no_output_is_too_strange(names: list[str], noise: str, cut: int) -> None:
    whole = "\n".join((SAMPLES / name).read_text() for name in names)
    found = results.tally(whole[:cut] + noise + whole[cut:])
    assert found is None or (found.failed >= 0 and found.skipped >= 0 and len(found.failing) <= results.MOST_FAILING)
