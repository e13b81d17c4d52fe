"""Refs as files, and commits read without git: always what git says, or the word that git is to be asked."""

from pathlib import Path

import pytest

from corral.world.git import commit_heads, ref_files
from tests.rig.repository import Repo

FOLDER = "refs/corral/bases"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.make(tmp_path / "repo", {"a.txt": "one\n"})


def git_dir(repo: Repo) -> Path:
    return repo.folder / ".git"


def listed(repo: Repo, name: str) -> dict[str, str]:
    words = repo.git("for-each-ref", "--format=%(refname) %(objectname)", f"{FOLDER}/{name}", f"{FOLDER}/{name}-*")
    return dict(line.split(" ") for line in words.splitlines())


def test_refs_are_listed_as_git_lists_them_loose_and_packed(repo: Repo) -> None:
    first = repo.head
    second = repo.commit({"a.txt": "two\n"}, "second")
    assert ref_files.list_below(git_dir(repo), FOLDER, "run") == {}
    for name, commit in (("run", first), ("run-1", second), ("runner", first), ("other", first)):
        repo.git("update-ref", f"{FOLDER}/{name}", commit)
    assert ref_files.list_below(git_dir(repo), FOLDER, "run") == listed(repo, "run")
    repo.git("pack-refs", "--all")
    repo.git("update-ref", f"{FOLDER}/run-1", first)  # a newer word than the packed one
    repo.git("update-ref", f"{FOLDER}/run-2", second)
    assert ref_files.list_below(git_dir(repo), FOLDER, "run") == listed(repo, "run")
    assert len(listed(repo, "run")) == 3


def test_what_is_no_plain_file_is_left_to_git(repo: Repo) -> None:
    repo.git("symbolic-ref", f"{FOLDER}/run", "refs/heads/main")
    assert ref_files.list_below(git_dir(repo), FOLDER, "run") is None
    (git_dir(repo) / "reftable").mkdir()
    assert ref_files.list_below(git_dir(repo), FOLDER, "another") is None
    assert not ref_files.is_absent(git_dir(repo), "refs/heads/none")


def test_a_ref_is_written_and_deleted_as_git_does(repo: Repo) -> None:
    ref, folder = f"{FOLDER}/run", git_dir(repo)
    assert ref_files.is_absent(folder, ref)
    assert ref_files.write(folder, ref, repo.head, None)
    assert repo.git("rev-parse", ref).strip() == repo.head
    assert not ref_files.is_absent(folder, ref)
    assert not ref_files.write(folder, ref, repo.head, None)
    assert not ref_files.delete(folder, ref, "1" * 40)  # another has moved it
    assert ref_files.delete(folder, ref, repo.head)
    assert listed(repo, "run") == {}
    assert not list((folder / FOLDER).glob("*"))


def test_a_packed_or_locked_ref_is_left_to_git(repo: Repo) -> None:
    ref, folder = f"{FOLDER}/run", git_dir(repo)
    repo.git("update-ref", ref, repo.head)
    lock = folder / f"{ref}.lock"
    lock.touch()
    assert not ref_files.delete(folder, ref, repo.head)
    lock.unlink()
    repo.git("pack-refs", "--all")
    assert not ref_files.is_absent(folder, ref)
    assert not ref_files.delete(folder, ref, repo.head)
    assert listed(repo, "run") == {ref: repo.head}


def test_heads_of_commits_are_what_git_says(repo: Repo) -> None:
    first = repo.head
    last = [repo.commit({"a.txt": f"{number}\n"}, f"commit {number}") for number in range(3)][-1]
    folder = git_dir(repo)
    assert commit_heads.tree_of(folder, last) == repo.git("rev-parse", f"{last}^{{tree}}").strip()
    assert commit_heads.is_surely_in_history(folder, first, last)
    assert not commit_heads.is_surely_in_history(folder, last, first)
    assert commit_heads.tree_of(folder, repo.git("rev-parse", f"{last}^{{tree}}").strip()) is None  # no commit
    repo.git("gc", "--quiet")
    assert commit_heads.tree_of(folder, first) is None
    assert not commit_heads.is_surely_in_history(folder, first, last)  # git is to be asked
    for commit in repo.git("rev-list", last).split():
        commit_heads.remember(commit, repo.git("cat-file", "commit", commit).encode())
    assert commit_heads.tree_of(folder, first) == repo.git("rev-parse", f"{first}^{{tree}}").strip()
    assert commit_heads.is_surely_in_history(folder, first, last)
