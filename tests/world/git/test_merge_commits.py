"""Merging commits as objects: conflicts of every kind are told, and nothing but objects is written."""

import asyncio
from pathlib import Path

import pytest

from corral.engine.merge.overlap import ConflictCache
from corral.world.git import merge_commits
from corral.world.git.merge_commits import CombinedCommit
from corral.world.git.repository import Repository
from tests.rig.repository import Repo


def opened(repo: Repo) -> Repository:
    return Repository(repo.folder, repo.folder / ".git")


def combine(repo: Repo, *commits: str) -> CombinedCommit:
    return asyncio.run(merge_commits.combine(opened(repo), commits, "all together"))


def branch(repo: Repo, name: str, files: dict[str, str], base: str = "main") -> str:
    """Commit files on a branch of their own; main is checked out again."""
    repo.git("checkout", "--quiet", "-b", name, base)
    commit = repo.commit(files, name)
    repo.git("checkout", "--quiet", "main")
    return commit


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.make(tmp_path / "repo", {"a.txt": "one\ntwo\nthree\n", "b.txt": "x\n", "c.txt": "y\n"})


def test_several_commits_become_one_and_only_objects_are_written(repo: Repo) -> None:
    commits = [branch(repo, name, {f"{name}.txt": name}) for name in ("k", "l", "m")]
    before = repo.fingerprint()
    combined = combine(repo, *commits)
    assert combined.commit is not None
    assert combined.conflicts == ()
    assert {"k.txt", "l.txt", "m.txt", "a.txt"} <= set(repo.files(combined.commit))
    assert repo.git("show", "--no-patch", "--format=%P", combined.commit).split() == commits
    assert repo.fingerprint() == before
    assert combine(repo, *commits).commit == combined.commit


def test_what_another_contains_is_left_out(repo: Repo) -> None:
    first = branch(repo, "first", {"d.txt": "d"})
    second = branch(repo, "second", {"e.txt": "e"}, base="first")
    assert combine(repo, first, second, repo.head, second).commit == second
    assert combine(repo, first).commit == first


def test_a_conflict_names_files_and_the_two_commits(repo: Repo) -> None:
    one = branch(repo, "one", {"d.txt": "d"})
    two = branch(repo, "two", {"a.txt": "one\nTWO\nthree\n"})
    three = branch(repo, "three", {"a.txt": "one\n2\nthree\n"})
    combined = combine(repo, one, two, three)
    assert combined.commit is None
    assert combined.between == (two, three)
    (conflict,) = combined.conflicts
    assert (conflict.path, conflict.kind) == ("a.txt", "contents")
    sides = [
        repo.git("cat-file", "blob", blob or "").splitlines()[1]
        for blob in (conflict.base, conflict.ours, conflict.theirs)
    ]
    assert sides == ["two", "TWO", "2"]


def test_first_commits_of_a_repository_without_a_base_combine(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo", {"a.txt": "a"})
    repo.git("checkout", "--quiet", "--orphan", "other")
    repo.git("rm", "--quiet", "-rf", ".")
    other = repo.commit({"b.txt": "b"})
    combined = combine(repo, repo.git("rev-parse", "main"), other)
    assert combined.commit is not None
    assert repo.files(combined.commit) == ["a.txt", "b.txt"]


def test_programs_that_the_settings_name_do_not_run(repo: Repo, tmp_path: Path) -> None:
    proof = tmp_path / "it-ran"
    one = branch(repo, "one", {"a.txt": "ONE\ntwo\nthree\n"})
    two = branch(repo, "two", {"a.txt": "one\ntwo\nTHREE\n"})
    repo.commit({".gitattributes": "*.txt merge=evil=x filter=evil\n"})
    for key in ("merge.evil=x.driver", "filter.evil.clean", "filter.evil.smudge"):
        repo.git("config", key, f"touch {proof}; false")
    repo.git("config", "filter.evil.required", "true")
    repo.git("config", "merge.renormalize", "true")
    combined = combine(repo, one, two)
    assert combined.commit is not None
    assert repo.read(combined.commit, "a.txt") == "ONE\ntwo\nTHREE"
    assert not proof.exists()


def test_a_file_that_stands_where_the_other_has_a_folder_keeps_its_name(repo: Repo, tmp_path: Path) -> None:
    pair = branch(repo, "file", {"s.txt": "s"}), branch(repo, "folder", {"s.txt/x": "x"})
    assert asyncio.run(ConflictCache(tmp_path / "known.json").ask(opened(repo), [pair])) == {pair: ("s.txt",)}
