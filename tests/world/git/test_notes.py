"""Notes on commits: written beside others, and never lost because git fails for a moment."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from corral.model.errors import GitTrouble
from corral.world.git import command, notes
from corral.world.git.repository import Repository
from tests.rig.repository import Repo

NOTES = "refs/notes/corral"
#: A git that fails where notes are read or looked at; everything else goes to the real one.
FAILING = """#!/bin/sh
case " $* " in
*" notes "* | *" rev-list "*" {notes} "*) echo "{words}" >&2; exit 128 ;;
esac
exec {git} "$@"
"""


def of(repo: Repo) -> Repository:
    return Repository(repo.folder, repo.folder / ".git")


def add(repo: Repo, commit: str, text: str) -> None:
    asyncio.run(notes.add_note(of(repo), commit, NOTES, text.encode()))


@pytest.mark.parametrize(
    "words",
    [
        "fatal: Out of memory, malloc failed",
        "error: unable to open pack: Too many open files",
        "fatal: unable to read tree: Permission denied",
        "Killed",
    ],
)
def test_notes_stay_where_git_fails_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    repo = Repo.make(tmp_path / "repo")
    first, second = repo.commit({"a": "1"}), repo.commit({"a": "2"})
    repo.git("notes", f"--ref={NOTES}", "add", "-m", "kept", first)  # not by us, so we know nothing of it
    held = repo.git("rev-parse", NOTES)
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(FAILING.format(notes=held, words=words, git=shutil.which("git")))
    program.chmod(0o755)
    with monkeypatch.context() as changed:
        changed.setitem(command.ENV, "PATH", f"{program.parent}{os.pathsep}{command.ENV['PATH']}")
        with pytest.raises(GitTrouble):
            add(repo, second, "new")
    assert repo.git("rev-parse", NOTES) == held
    add(repo, second, "new")
    assert [repo.git("notes", f"--ref={NOTES}", "show", each) for each in (first, second)] == ["kept", "new"]


def test_notes_whose_objects_are_gone_are_begun_anew(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo")
    first, second = repo.commit({"a": "1"}), repo.commit({"a": "2"})
    before = set((repo.folder / ".git" / "objects" / "pack").glob("*"))
    add(repo, first, "lost")
    for file in set((repo.folder / ".git" / "objects" / "pack").glob("*")) - before:
        file.unlink()
    add(repo, second, "new")
    assert repo.git("notes", f"--ref={NOTES}", "show", second) == "new"
    repo.git("fsck")


def test_a_ref_that_git_cannot_look_up_is_not_taken_for_none(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo")
    commit = repo.commit({"a": "1"})
    add(repo, commit, "kept")
    repo.git("pack-refs", "--all")
    packed = repo.folder / ".git" / "packed-refs"
    text = packed.read_text()
    packed.write_text("this is no list of refs\n")
    with pytest.raises(GitTrouble):
        add(repo, commit, "new")
    packed.write_text(text)
    assert repo.git("notes", f"--ref={NOTES}", "show", commit) == "kept"
