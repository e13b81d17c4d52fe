from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

IDS = (ROOT / "docs" / "feature-ids.txt").read_text().split()
PAGE = (ROOT / "docs" / "coverage.md").read_text()
ROWS = re.findall(r"^\| ([A-N]\d+) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
TESTS = re.compile(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`")


def test_every_feature_has_exactly_one_row() -> None:
    assert [row[0] for row in ROWS] == IDS
    assert len(IDS) == len(set(IDS))


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_says_how_far_it_is(row: tuple[str, str, str, str]) -> None:
    _, what, state, words = row
    named = TESTS.findall(words)
    assert what.strip()
    match state:
        case "done":
            assert named, "a feature that is done names the test that shows it"
        case "partly":
            assert "Missing: " in words
        case _:
            assert state == "not yet"
            assert '"' in words or "later round" in words, "name the work that brings it"
    for path, function in named:
        assert (ROOT / path).is_file(), path
        if function:
            defined = re.compile(rf"^ *(async )?def {function}\b", re.MULTILINE)
            assert defined.search((ROOT / path).read_text()), f"{path}::{function}"


def test_the_sum_at_the_top_is_right() -> None:
    states = [row[2] for row in ROWS]
    counts = [states.count(state) for state in ("done", "partly", "not yet")]
    text = f"Now: {counts[0]} done, {counts[1]} partly, {counts[2]} not yet, of {len(ROWS)}."
    assert text in PAGE
