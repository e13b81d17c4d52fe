"""Patches are read as git writes them, whatever the files are called and contain."""

import difflib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from corral.rules.merge.patches import PatchBlock, PatchLine, blocks, changed_words, parse
from tests.rig.repository import Repo

TEXT = st.lists(
    st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=("Cs",)), max_size=12), max_size=25
)
HEAD = "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n"


def _applied(old: list[str], lines: list[PatchLine]) -> list[str]:
    """Return the new file as the hunks make it of the old one."""
    gone = {line.old: line for line in lines if line.kind == "-"}
    new = {line.new: line.text for line in lines if line.new is not None}
    kept = iter([text for number, text in enumerate(old, 1) if number not in gone])
    size = len(old) - len(gone) + sum(line.kind == "+" for line in lines)
    added = {line.new for line in lines if line.kind == "+"}
    return [new[number] if number in added else next(kept) for number in range(1, size + 1)]


@given(TEXT, TEXT)
def test_what_is_read_makes_the_new_file_of_the_old(old: list[str], new: list[str]) -> None:
    rows = [f"{row}\n" for row in old], [f"{row}\n" for row in new]
    body = "".join(list(difflib.unified_diff(*rows, n=3))[2:])
    (file,) = parse(HEAD + body)
    lines = [line for hunk in file.hunks for line in hunk.lines]
    assert _applied(old, lines) == new
    assert all(old[line.old - 1] == line.text for line in lines if line.old is not None)
    for hunk in file.hunks:
        assert hunk.old_count == sum(line.kind != "+" for line in hunk.lines)
        assert hunk.new_count == sum(line.kind != "-" for line in hunk.lines)
        _check_laid(hunk.lines, blocks(hunk.lines))


def _check_laid(lines: tuple[PatchLine, ...], laid: tuple[PatchBlock, ...]) -> None:
    """Side by side nothing is lost, nothing is shown twice, and both sides stay in order."""
    left = [pair[0] for block in laid for pair in block.pairs if pair[0]]
    right = [pair[1] for block in laid for pair in block.pairs if pair[1]]
    assert [line.old for line in left] == [line.old for line in lines if line.kind != "+"]
    assert [line.new for line in right] == [line.new for line in lines if line.kind != "-"]
    assert all(block.changed == (pair[0] is not pair[1]) for block in laid for pair in block.pairs)


@given(st.text(max_size=60), st.text(max_size=60))
def test_without_its_marked_words_a_line_is_the_same_on_both_sides(old: str, new: str) -> None:
    before, after = changed_words(old, new)

    def rest(text: str, spans: tuple[tuple[int, int], ...]) -> str:
        assert all(0 <= start < end <= len(text) for start, end in spans)
        return "".join(letter for at, letter in enumerate(text) if not any(a <= at < b for a, b in spans))

    if before or after:
        assert rest(old, before) == rest(new, after)


def test_words_that_changed_are_marked() -> None:
    assert changed_words("return a + b", "return a - b") == (((9, 10),), ((9, 10),))
    assert changed_words("import os", "def f(x): pass") == ((), ())
    long = "x," * 5000
    assert changed_words(long + "1" + long, long + "22" + long) == (((10000, 10001),), ((10000, 10002),))


def test_what_git_writes_of_every_kind_of_change(tmp_path: Path) -> None:
    names = ['quo"te.txt', "tab\tand\nfeed", "ümlaut ☃.py", "a b/c d", "--- a", "b/b b/b"]
    repo = Repo.make(tmp_path / "r", {name: f"one\n{name}\nthree\n" for name in names} | {"moved": "m\n" * 30})
    (repo.folder / "bin").write_bytes(b"\0\1\2")
    base = repo.commit({"tool.sh": "#!/bin/sh\n", "gone": "-- x\n++ y\n", "noend": "a\nb"})
    (repo.folder / "bin").write_bytes(b"\0\1\3")
    (repo.folder / "tool.sh").chmod(0o755)
    (repo.folder / "gone").unlink()
    (repo.folder / "moved").rename(repo.folder / "elsewhere")
    new = repo.commit({name: f"one\n@@ -1 +1 @@\ndiff --git a/x b/x\n--- a/{name[:3]}\n" for name in names} | {
        "noend": "a\nc", "added": "++ plus\n-- minus\n"})  # fmt: skip
    files = {file.new or file.old: file for file in parse(repo.git("diff", "-M", base, new))}
    assert set(files) == {*names, "bin", "tool.sh", "gone", "elsewhere", "noend", "added"}
    for name in names:
        added = [line.text for hunk in files[name].hunks for line in hunk.lines if line.kind == "+"]
        assert added == ["@@ -1 +1 @@", "diff --git a/x b/x", f"--- a/{name[:3]}"]
    assert files["bin"].binary
    assert not files["bin"].hunks
    assert (files["tool.sh"].old_mode, files["tool.sh"].new_mode) == ("100644", "100755")
    assert files["gone"].new is None
    assert [line.text for line in files["gone"].hunks[0].lines] == ["-- x", "++ y"]
    assert (files["elsewhere"].old, files["elsewhere"].hunks) == ("moved", ())
    assert files["added"].old is None
    assert [line.ends for line in files["noend"].hunks[0].lines] == [True, False, False]
