"""`corral demo`: the whole loop without key, config or network, and nothing left behind."""

from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.person import Person

OFFLINE = ["unshare", "--net"]


def test_the_demo_needs_nothing_and_leaves_nothing(corral: Corral) -> None:
    scratch = corral.root / "scratch"
    scratch.mkdir()
    corral.program = [*OFFLINE, *corral.program]
    outcome = corral("demo", cwd=corral.user_home, env={"TMPDIR": str(scratch)})

    assert outcome.code == 0, outcome
    assert "scripted" in outcome.out.splitlines()[0]
    for words in (
        "FAILED",
        "try 1",
        "try 2",
        "passed",
        "diff --git",
        "corral run",
        "merged ",
        "undone ",
        "winner: ",
        "corral cost",
    ):
        assert words in outcome.out
    assert "\x1b" not in outcome.out + outcome.err
    assert list(corral.user_home.iterdir()) == list(scratch.iterdir()) == []
    assert not corral.home.exists()


def test_the_demo_can_be_kept_for_looking_at(corral: Corral) -> None:
    scratch = corral.root / "scratch"
    scratch.mkdir()
    outcome = corral("demo", "--keep", "--json", env={"TMPDIR": str(scratch)})
    assert outcome.code == 0, outcome
    (kept,) = scratch.iterdir()
    assert str(kept) in outcome.err
    assert [run["strategy"] for run in outcome.json] == ["single", "race"]
    shown = corral("show", "@last", "--json", env={"CORRAL_HOME": str(kept / "state")})
    assert shown.json["status"] == "done"


def test_the_demo_of_an_ordinary_user(person: Person) -> None:
    outcome = person("demo")
    assert outcome.code == 0, outcome
    assert "sandbox " in outcome.out
    assert not person.home.exists()


@pytest.mark.parametrize("cwd", ["a repository", "a folder that is gone"])
def test_the_demo_starts_anywhere_and_nothing_of_it_is_listed(corral: Corral, cwd: str) -> None:
    folder = corral.repo().folder if cwd == "a repository" else corral.root / "gone"
    folder.mkdir(exist_ok=True)
    if cwd != "a repository":
        line = f"cd '{folder}' && rmdir '{folder}' && exec {corral.program[0]} demo"
        corral.program = ["sh", "-c", line]
        outcome = corral()
    else:
        before = sorted(path.name for path in folder.iterdir())
        outcome = corral("demo", cwd=folder)
        assert sorted(path.name for path in folder.iterdir()) == before
        assert corral("ls", "--json").json == []
        assert not Path(corral.home / "workspaces").exists()
    assert outcome.code == 0, outcome
