"""The tripwire: a write to what is not the attempt's own is seen, named, and kept as a patch."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.model import Violation
from corral.world.git.repository import Repository
from corral.world.workspace import outside_changes
from corral.world.workspace.outside_changes import (
    OutsideState,
    ProtectedFiles,
    classify_differences,
    differences,
    look,
    save,
)
from tests.rig.repository import Repo


class Yard:
    def __init__(self, folder: Path) -> None:
        self.repo = Repo.make(
            folder / "repo", files={"a.txt": "one\n", "src/b.txt": "two\n", ".gitignore": "ignored\n"}
        )
        self.state, self.sibling = folder / "state", folder / "sibling"
        self.state.mkdir()
        (self.state / "corral.db").touch()
        Repo.make(self.sibling)
        self.around = ProtectedFiles(
            repository=Repository(self.repo.folder, self.repo.folder / ".git"),
            state=self.state,
            siblings=(self.sibling,),
            watched=(folder / "config.toml",),
        )

    def look(self, *, thorough: bool = False) -> OutsideState:
        return asyncio.run(look(self.around, thorough=thorough))

    def path(self, name: str) -> Path:
        return self.repo.folder / name


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def test_nothing_happened(yard: Yard) -> None:
    yard.path("a.txt").write_text("the person's own edit\n")
    yard.path("new.txt").write_text("and a new file\n")
    before = yard.look()
    yard.repo.git("status")
    yard.path("ignored").write_text("x")
    (yard.state / "corral.db").write_text("more rows")
    assert differences(before, yard.look()) == []


CHANGES: dict[str, tuple[Callable[[Yard], object], Violation]] = {
    "a tracked file": (lambda y: y.path("a.txt").write_text("x"), Violation("checkout", "a.txt")),
    "a file that was changed before": (lambda y: y.path("dirty.txt").write_text("2"), Violation("checkout", "dirty.txt")),
    "a new file": (lambda y: y.path("new").write_text("x"), Violation("checkout", "new")),
    "a name with a space": (lambda y: y.path("a b\tc").write_text("x"), Violation("checkout", "a b\tc")),
    "a file gone": (lambda y: y.path("src/b.txt").unlink(), Violation("checkout", "src/b.txt")),
    "a mode": (lambda y: y.path("a.txt").chmod(0o755), Violation("checkout", "a.txt")),
    "a link": (lambda y: y.path("l").symlink_to("/etc"), Violation("checkout", "l")),
    "a staged file": (lambda y: y.repo.git("rm", "--cached", "-q", "a.txt"), Violation("checkout", "a.txt")),
    "a hook": (lambda y: y.path(".git/hooks/pre-commit").write_text("#!/bin/sh"), Violation("git", "hooks/pre-commit")),
    "a setting": (lambda y: y.repo.git("config", "core.fsmonitor", "evil"), Violation("git", "config")),
    "attributes": (lambda y: y.path(".git/info/attributes").write_text("* filter=x"), Violation("git", "info/attributes")),
    "excludes": (lambda y: y.path(".git/info/exclude").write_text("*"), Violation("git", "info/exclude")),
    "alternates": (lambda y: y.path(".git/objects/info/alternates").write_text("/x"), Violation("git", "objects/info/alternates")),
    "another branch": (lambda y: y.repo.git("symbolic-ref", "HEAD", "refs/heads/x"), Violation("git", "HEAD")),
    "a branch": (lambda y: y.repo.git("branch", "planted"), Violation("refs", "refs/heads/planted")),
    "a commit": (lambda y: y.repo.git("commit", "-q", "--allow-empty", "-m", "x"), Violation("refs", "refs/heads/main")),
    "a tag": (lambda y: y.repo.git("tag", "v1"), Violation("refs", "refs/tags/v1")),
    "a worktree": (lambda y: y.repo.git("worktree", "add", "-q", "--detach", "../w"), Violation("git", "worktrees/w")),
}  # fmt: skip


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_foreign_write_to_the_checkout_is_seen(
    yard: Yard, change: str, settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if settled:  # as if nobody had touched it for long: then git is asked only if the checkout has another mark
        monkeypatch.setattr(outside_changes, "YOUNG_SECONDS", -1.0)
    yard.path("dirty.txt").write_text("1")
    before = yard.look()
    assert bool(outside_changes.checkout_fingerprint(yard.repo.folder, yard.path(".git"))) == settled
    assert differences(before, yard.look()) == []
    act, expected = CHANGES[change]
    act(yard)
    assert expected in differences(before, yard.look())


def test_a_file_hidden_from_git_status_is_seen_when_looked_for(yard: Yard) -> None:
    before = yard.look(thorough=True)
    yard.repo.git("update-index", "--assume-unchanged", "a.txt")
    yard.path("a.txt").write_text("x")
    assert any("a.txt" in each.path for each in differences(before, yard.look(thorough=True)))


def test_siblings_and_the_state_folder(yard: Yard) -> None:
    before = yard.look()
    (yard.sibling / "src" / "b.txt").write_text("x")
    (yard.state / "trusted").write_text("a fingerprint\n")
    (yard.state / "corral.db").chmod(0o666)
    (yard.state.parent / "config.toml").write_text("[scope]\n")
    found = differences(before, yard.look())
    names = {Path(each.path).name for each in found}
    assert names == {"sibling", "trusted", "corral.db", "config.toml"}
    assert {each.kind for each in found} == {"siblings", "state"}


def test_a_database_put_in_place_of_ours(yard: Yard) -> None:
    before = yard.look()
    other = yard.state / "other"
    other.touch()
    other.replace(yard.state / "corral.db")
    assert [Path(each.path).name for each in differences(before, yard.look())] == ["corral.db"]


def test_corrals_own_refs_are_its_own(yard: Yard) -> None:
    before = yard.look()
    for name in ("refs/corral/saved/1", "refs/heads/corral/r/main/1", "refs/notes/corral"):
        yard.repo.git("update-ref", name, "HEAD")
    yard.repo.git("pack-refs", "--all")
    assert differences(before, yard.look()) == []


def test_what_a_difference_means_depends_on_the_box() -> None:
    found = [Violation("checkout", "a.txt")]
    assert classify_differences(found, boxed=False).violations == tuple(found)
    assert classify_differences(found, boxed=True).violations == ()
    assert "a.txt" in classify_differences(found, boxed=True).notes[0]


def test_the_foreign_change_is_kept_as_a_patch(yard: Yard, tmp_path: Path) -> None:
    before = yard.look()
    head = yard.repo.head
    yard.path("a.txt").write_text("foreign\n")
    yard.path("bin").write_bytes(bytes(range(256)))
    yard.path("sub").mkdir()
    yard.path("sub/[x].txt").write_text("new\n")
    yard.path("src/b.txt").unlink()
    found = differences(before, yard.look())
    patch = asyncio.run(save(yard.around.repository, before, found))
    clone = tmp_path / "clone"
    yard.repo.git("clone", "-q", "--no-local", ".", str(clone))
    assert Repo(clone).head == head
    subprocess.run(["git", "apply", "-"], cwd=clone, input=patch, check=True)
    assert (clone / "a.txt").read_text() == "foreign\n"
    assert (clone / "bin").read_bytes() == bytes(range(256))
    assert (clone / "sub/[x].txt").read_text() == "new\n"
    assert not (clone / "src/b.txt").exists()
    assert asyncio.run(save(yard.around.repository, before, [])) == b""


def test_repositories_of_other_kinds(tmp_path: Path) -> None:
    empty = Repo.make(tmp_path / "empty", files={})
    bare = Repo.make(tmp_path / "bare", files={}, bare=True)
    for repository in (Repository(empty.folder, empty.folder / ".git"), Repository(bare.folder, bare.folder)):
        around = ProtectedFiles(repository=repository, state=tmp_path)
        before = asyncio.run(look(around))
        assert before.commit is None
        assert differences(before, asyncio.run(look(around))) == []
    (empty.folder / "x").write_text("x")
    around = ProtectedFiles(repository=Repository(empty.folder, empty.folder / ".git"), state=tmp_path)
    after = asyncio.run(look(around))
    assert list(after.checkout) == ["x"]
    assert b"+x" in asyncio.run(save(around.repository, OutsideState(), [Violation("checkout", "x")]))


def test_a_pipe_in_the_checkout_stops_nobody(yard: Yard) -> None:
    before = yard.look()
    os.mkfifo(yard.path("pipe"))
    yard.path("loop").symlink_to("loop")
    assert Violation("checkout", "loop") in differences(before, yard.look())
