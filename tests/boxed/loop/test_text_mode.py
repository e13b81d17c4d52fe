"""Changes go into the workspace and nowhere else."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from corral.boxed.loop.text_mode import Edit, ModelHunk, PatchEdit, ReplaceEdit, WholeFileEdit, apply_changes, parse
from corral.boxed.loop.workspace import LoopWorkspace
from tests.rig.tries import tries


@pytest.fixture
def place(tmp_path: Path) -> LoopWorkspace:
    """A workspace beside which lies what must not be touched, with links that lead there."""
    work = tmp_path / "work"
    (work / ".git" / "hooks").mkdir(parents=True)
    (work / "src").mkdir()
    (work / "src" / "a.py").write_text("one\ntwo\n")
    (tmp_path / "outside.txt").write_text("mine")
    (tmp_path / "folder").mkdir()
    (work / "link").symlink_to(tmp_path / "folder")
    (work / "file-link").symlink_to(tmp_path / "outside.txt")
    (work / "inner").symlink_to("src")
    return LoopWorkspace(work)


def outside(place: LoopWorkspace) -> dict[str, bytes]:
    """Return everything around the workspace, and git's own files."""
    seen = [path for path in place.root.parent.rglob("*") if place.root not in path.parents or ".git" in path.parts]
    return {str(path): path.read_bytes() if path.is_file() and not path.is_symlink() else b"" for path in seen}


def test_each_kind_of_change(place: LoopWorkspace) -> None:
    edits: list[Edit] = [
        WholeFileEdit("docs/new.md", "# New\n"),
        ReplaceEdit("src/a.py", "two\n", "zwei\n"),
        PatchEdit("src/a.py", "src/a.py", (ModelHunk(1, ("one",), ("eins",)),)),
        ReplaceEdit("fresh.txt", "", "made\n"),
    ]
    assert [each.problem for each in apply_changes(place, edits)] == ["", "", "", ""]
    assert (place.root / "src/a.py").read_text() == "eins\nzwei\n"
    assert (place.root / "docs/new.md").read_text() == "# New\n"
    assert (place.root / "fresh.txt").read_text() == "made\n"


def test_renamed_and_deleted(place: LoopWorkspace) -> None:
    moved = PatchEdit("src/b.py", "src/a.py", (ModelHunk(1, ("one",), ("eins",)),))
    assert apply_changes(place, [moved])[0].problem == ""
    assert (place.root / "src/b.py").read_text() == "eins\ntwo\n"
    assert not (place.root / "src/a.py").exists()
    assert apply_changes(place, [PatchEdit(None, "src/b.py", (ModelHunk(1, ("eins", "two"), ()),))])[0].problem == ""
    assert not (place.root / "src/b.py").exists()


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (ReplaceEdit("src/a.py", "three\n", "x"), "is not in the file"),
        (ReplaceEdit("src/a.py", "o", "x"), "2 times"),
        (ReplaceEdit("absent.py", "a\n", "b\n"), "no such file"),
        (PatchEdit("src/a.py", "src/a.py", (ModelHunk(1, ("nine",), ("x",)),)), "does not fit"),
        (PatchEdit("src/a.py", None, (ModelHunk(1, (), ("x",)),)), "there is one already"),
        (WholeFileEdit("src", "x"), "is a folder"),
        (WholeFileEdit("", "x"), "not in the workspace"),
        (WholeFileEdit("src/a.py/b", "x"), "a.py"),
    ],
)
def test_what_does_not_fit_changes_nothing_and_says_why(place: LoopWorkspace, edit: Edit, words: str) -> None:
    [applied] = apply_changes(place, [edit])
    assert words in applied.problem
    assert (place.root / "src/a.py").read_text() == "one\ntwo\n"


BAD = [
    "../outside.txt", "/etc/passwd", "~/x", "src/../../outside.txt", "link/x", "file-link", "inner/a.py", ".git/config",
    ".GIT/config", ".git/hooks/post-commit", "a\0b", "C:\\x", "..\\x", "x" * 300, "\ud800", ".", "./", "..", "link/../x",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_paths_are_refused(place: LoopWorkspace, name: str) -> None:
    before = outside(place)
    edits: list[Edit] = [
        WholeFileEdit(name, "x"),
        ReplaceEdit(name, "mine", "yours"),
        PatchEdit(name, name, (ModelHunk(1, ("mine",), ("yours",)),)),
        PatchEdit(None, name, (ModelHunk(1, ("mine",), ()),)),
    ]
    assert all(each.problem for each in apply_changes(place, edits))
    assert outside(place) == before


NAMES = some.one_of(
    some.sampled_from(BAD),
    some.text(max_size=12),
    some.lists(
        some.sampled_from(["..", ".", "link", "src", ".git", "inner", "file-link", "a.py", "", "~"]), max_size=5
    ).map("/".join),
)
TEXTS = some.text(max_size=20)
HUNKS = some.builds(
    ModelHunk, some.integers(-5, 99), some.lists(TEXTS, max_size=3).map(tuple), some.lists(TEXTS, max_size=3).map(tuple)
)
EDITS = some.one_of(
    some.builds(WholeFileEdit, NAMES, TEXTS),
    some.builds(ReplaceEdit, NAMES, TEXTS, TEXTS),
    some.builds(
        PatchEdit,
        some.one_of(some.none(), NAMES),
        some.one_of(some.none(), NAMES),
        some.lists(HUNKS, max_size=2).map(tuple),
    ),
)


@settings(max_examples=tries(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=some.lists(EDITS, max_size=6))
def test_nothing_outside_is_ever_touched(place: LoopWorkspace, edits: list[Edit]) -> None:
    before = outside(place)
    assert len(apply_changes(place, edits)) == len(edits)
    assert outside(place) == before
    assert (place.root / "inner").readlink() == Path("src")


@settings(max_examples=tries(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES, text=TEXTS)
def test_whatever_an_answer_says(place: LoopWorkspace, name: str, text: str) -> None:
    before = outside(place)
    apply_changes(
        place, parse(f"FILE: {name}\n```\n{text}\n```\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{text}\n+x\n").edits
    )
    assert outside(place) == before
