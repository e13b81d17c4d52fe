"""A commit with other entries: files put back, taken out, merged, where folders and links stand in the way."""

import asyncio
from pathlib import Path

import pytest

from corral.world.git import collect
from corral.world.git.collect import CommitEntry
from corral.world.git.repository import ChangedBlob, Repository
from tests.rig.repository import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    files = {"a.py": "a\n", "tests/test_a.py": "old\n", "data": "a file\n", "run.sh": "#!/bin/sh\n"}
    repo = Repo.make(tmp_path / "repo", files)
    repo.git("update-index", "--chmod=+x", "run.sh")
    repo.git("commit", "-qm", "executable")
    return repo


def changed(repo: Repo, base: str, commit: str) -> dict[str, ChangedBlob]:
    repository = Repository(repo.folder, repo.folder / ".git")
    return {each.path: each for each in asyncio.run(repository.blobs_changed(base, commit))}


def made(
    repo: Repo, commit: str, entries: dict[str, CommitEntry | None], contents: dict[str, bytes] | None = None
) -> str:
    repository = Repository(repo.folder, repo.folder / ".git")
    return asyncio.run(collect.with_entries(repository, commit, entries, contents or {}, "why"))


def test_files_are_put_back_taken_out_and_merged(repo: Repo) -> None:
    base = repo.head
    commit = repo.commit({"a.py": "b\n", "tests/test_a.py": "new\n", "conftest.py": "x\n", "run.sh": "other\n"})
    old = changed(repo, base, commit)
    assert (old["run.sh"].old_mode, old["conftest.py"].before) == ("100755", None)
    entries = {
        path: CommitEntry(each.old_mode or "", each.before) if each.before else None for path, each in old.items()
    }
    del entries["a.py"]
    found = made(repo, commit, entries, {"a.py": b"merged\n"})
    assert repo.files(found) == ["a.py", "data", "run.sh", "tests/test_a.py"]
    assert (repo.read(found, "a.py"), repo.read(found, "tests/test_a.py")) == ("merged", "old")
    assert "100755" in repo.git("ls-tree", found, "run.sh")


def test_folders_and_links_in_the_way_go(repo: Repo) -> None:
    base = repo.head
    repo.git("rm", "-rq", "tests", "data")
    (repo.folder / "tests").symlink_to("elsewhere")
    (repo.folder / "data").mkdir()
    (repo.folder / "data" / "x").write_text("x")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "turned round")
    old = changed(repo, base, repo.head)
    entries = {
        "tests/test_a.py": CommitEntry("100644", old["tests/test_a.py"].before or ""),
        "data": CommitEntry("100644", old["data"].before or ""),
        "data/x": None,
    }
    found = made(repo, repo.head, dict(entries))
    assert repo.files(found) == ["a.py", "data", "run.sh", "tests/test_a.py"]
    assert repo.git("fsck", "--no-dangling").strip() == ""
