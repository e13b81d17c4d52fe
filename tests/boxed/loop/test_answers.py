"""Answers of models without tools are read as changes, in every form that models use."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from corral.boxed.loop.text_mode import ParsedAnswer, PatchEdit, ReplaceEdit, WholeFileEdit, apply, parse

WHOLE = [
    "FILE: src/a.py\n```python\nx = 1\n```",
    "// FILE: src/a.py\n```\nx = 1\n```",
    "# FILE: src/a.py\n\n```py\nx = 1\n```\nExplanation: it is one.",
    "**FILE: `src/a.py`**\n~~~\nx = 1\n~~~",
    "### File: src/a.py\n```python\nx = 1\n```",
    "```python\n// FILE: src/a.py\nx = 1\n```",
    "```python\n# FILE: src/a.py\nx = 1\n```",
    "<!-- FILE: src/a.py -->\n```\nx = 1\n```",
    "I change it.\n\nsrc/a.py\n```python\nx = 1\n```",
    "`src/a.py`:\n```python\nx = 1\n```",
    "FILE: src/a.py\r\n```\r\nx = 1\r\n```\r\n",
]


@pytest.mark.parametrize("text", WHOLE)
def test_a_whole_file(text: str) -> None:
    assert parse(text) == ParsedAnswer(edits=[WholeFileEdit("src/a.py", "x = 1\n")])


def test_several_files_and_talk_between() -> None:
    text = "First:\nFILE: a\n```\n1\n```\nThen run:\n```sh\nmake\n```\nFILE: b\n```\n2\n```\nThat is all."
    assert parse(text).edits == [WholeFileEdit("a", "1\n"), WholeFileEdit("b", "2\n")]


@pytest.mark.parametrize("fence", ["```", "````"])
def test_a_file_with_blocks_of_its_own(fence: str) -> None:
    inner = "# Use\n```sh\nmake\n```\nEnd\n"
    assert parse(f"FILE: README.md\n{fence}markdown\n{inner}{fence}\n").edits == [WholeFileEdit("README.md", inner)]


def test_a_block_that_is_cut_off_is_not_taken() -> None:
    answer = parse("FILE: a.py\n```\nx = 1\n")
    assert answer.edits == []
    assert "cut off" in answer.problems[0]


BLOCK = "<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE"


@pytest.mark.parametrize(
    "text",
    [f"FILE: a.py\n{BLOCK}", f"FILE: a.py\n```python\n{BLOCK}\n```", f"a.py\n{BLOCK}", f"a.py\n```\n{BLOCK}\n```"],
)
def test_search_and_replace(text: str) -> None:
    assert parse(text).edits == [ReplaceEdit("a.py", "old\n", "new\n")]


def test_two_blocks_for_one_file_and_one_for_none() -> None:
    assert len(parse(f"FILE: a.py\n{BLOCK}\n{BLOCK}").edits) == 2
    assert "no file" in parse(BLOCK).problems[0]
    assert "REPLACE" in parse("FILE: a\n<<<<<<< SEARCH\nold\n=======\nnew").problems[0]


DIFF = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"


@pytest.mark.parametrize(
    "text", [DIFF, f"```diff\n{DIFF}```", f"Here:\n```diff\ndiff --git a/x b/x\nindex 1..2\n{DIFF}```\nDone."]
)
def test_a_unified_diff(text: str) -> None:
    [edit] = parse(text).edits
    assert isinstance(edit, PatchEdit)
    assert (edit.was, edit.path) == ("src/a.py", "src/a.py")
    assert apply("one\ntwo\nthree\n", edit.hunks) == "one\nzwei\nthree\n"


def test_a_diff_that_makes_and_one_that_deletes() -> None:
    made, gone = parse(
        "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+hi\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n"
    ).edits
    assert isinstance(made, PatchEdit)
    assert isinstance(gone, PatchEdit)
    assert (made.was, made.path, apply("", made.hunks)) == (None, "new", "hi\n")
    assert (gone.was, gone.path, apply("bye\n", gone.hunks)) == ("old", None, "")


def test_line_numbers_of_a_diff_are_hints() -> None:
    [edit] = parse("--- a/a\n+++ b/a\n@@ -90,2 +90,2 @@\n x\n-y\n+z\n").edits
    assert isinstance(edit, PatchEdit)
    assert apply("x\nq\nx\ny\n", edit.hunks) == "x\nq\nx\nz\n"
    assert apply("x  \ny\n", edit.hunks) == "x\nz\n"  # spaces at the end of a line do not count
    assert apply("nothing\n", edit.hunks) is None


def test_files_it_wants_to_see() -> None:
    assert parse("READ: src/a.py\n- READ: `b.py`").wanted == ["src/a.py", "b.py"]
    assert parse("I have read: everything there is") == ParsedAnswer()


PIECES = some.sampled_from(
    ["FILE: a", "```", "````", "~~~", "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "--- a/x", "+++ b/x", "+++ /dev/null", "@@ -1 +1 @@", "@@", "+x", "-x", " x", "", "READ: a", "talk"]
)  # fmt: skip


@given(some.one_of(some.text(), some.lists(some.one_of(PIECES, some.text(max_size=8)), max_size=40).map("\n".join)))
def test_no_text_makes_it_fail(text: str) -> None:
    for edit in parse(text).edits:
        if isinstance(edit, PatchEdit):
            apply(text, edit.hunks)
