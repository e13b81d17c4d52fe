"""Workspaces that are overlays: the same files as a checkout, an index that git believes, and nothing left mounted."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.model import WorkspaceKind
from corral.world.git.repository import Repository
from corral.world.process import Owner
from corral.world.workspace import checkout, git_index, kinds, mounts, overlay, templates
from corral.world.workspace.checkout import Loan, Workspace
from tests.rig.repository import Repo

FILES = {f"folder-{number % 7}/file-{number}.txt": f"{number}\n" for number in range(60)} | {".gitignore": "*.log\n"}


class Ground:
    """A state folder with workspaces of one repository."""

    def __init__(self, folder: Path) -> None:
        self.repo = Repo.make(folder / "repo", FILES)
        self.state = folder / "state"
        self.said: list[str] = []
        self._count = 0

    def make(self, commit: str, kind: WorkspaceKind = "overlay") -> tuple[Workspace, Owner]:
        self._count += 1
        owner = Owner(1_879_048_192 + self._count, 1_879_048_192 + self._count)
        folder = self.state / "workspaces" / f"a{self._count}"
        folder.mkdir(parents=True)
        loan = Loan(self.state / "objects", folder / "objects", self.said.append, self.state / "templates")
        repository = Repository(self.repo.folder, self.repo.folder / ".git")
        made = kinds.make(kind, repository, [commit], folder / "work", (f"a{self._count}", owner), loan)
        return asyncio.run(made), owner

    def head(self) -> str:
        return self.repo.git("rev-parse", "HEAD")

    def templates(self) -> list[Path]:
        return sorted(path for path in (self.state / "templates").glob("*/*") if path.is_dir())


@pytest.fixture
def ground(open_folder: Path) -> Iterator[Ground]:
    made = Ground(open_folder)
    yield made
    for tree in (made.state / "workspaces").glob("*/work"):
        mounts.unmount(tree)


def git(made: Workspace, owner: Owner, *arguments: str) -> str:
    """Run git as the agent's user."""
    become = ["setpriv", f"--reuid={owner.uid}", f"--regid={owner.gid}", "--clear-groups"]
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    argv = [*become, "git", *arguments]
    return subprocess.run(argv, cwd=made.tree, env=env, check=True, capture_output=True, text=True).stdout


def contents(tree: Path) -> dict[str, tuple[str, int]]:
    files = (path for path in tree.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(tree)): (path.read_text(), path.stat().st_mode) for path in files}


def test_it_holds_what_a_checkout_holds_and_belongs_to_its_agent(ground: Ground) -> None:
    made, owner = ground.make(ground.head())
    plain, _ = ground.make(ground.head(), "clone")
    assert (made.kind, plain.kind) == ("overlay", "clone")
    assert contents(made.tree) == contents(plain.tree)
    assert {path.lstat().st_uid for path in (made.tree, *made.tree.rglob("*"))} == {owner.uid}
    assert {path.lstat().st_gid for path in (made.tree, *made.tree.rglob("*"))} == {owner.gid}
    assert checkout.read_workspace(made.tree) == made


def test_git_reads_no_file_again_that_is_as_it_was(ground: Ground) -> None:
    made, owner = ground.make(ground.head())
    assert git(made, owner, "diff-files", "--name-only") == ""  # by what lstat says alone: nothing is refreshed first
    assert git(made, owner, "fsck", "--no-dangling") == ""
    assert git(made, owner, "status", "--porcelain") == ""


def test_another_commit_over_the_same_template_costs_what_differs(ground: Ground) -> None:
    first = ground.head()
    ground.make(first)
    ground.repo.git("rm", "-q", "folder-2/file-2.txt")
    second = ground.repo.commit({"folder-1/file-1.txt": "other\n", "new/file": "new\n"})
    made, owner = ground.make(second)
    plain, _ = ground.make(second, "clone")
    assert contents(made.tree) == contents(plain.tree)
    assert git(made, owner, "status", "--porcelain") == ""
    assert [path.name for path in ground.templates()] == [first]
    upper = made.tree.parent / mounts.OVERLAY / "upper"
    changed = {str(path.relative_to(upper)) for path in upper.rglob("*") if ".git" not in path.parts}
    assert changed == {
        "folder-1", "folder-1/file-1.txt", "new", "new/file", "folder-2", "folder-2/file-2.txt",
    }  # fmt: skip


def test_a_commit_far_from_all_templates_gets_its_own(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "FEW", 5)
    first = ground.head()
    ground.make(first)
    second = ground.repo.commit({name: f"other {text}" for name, text in FILES.items()})
    ground.make(second)
    assert [path.name for path in ground.templates()] == [first]
    made, _ = ground.make(second)
    assert {path.name for path in ground.templates()} == {first, second}
    assert (made.tree / "folder-1/file-1.txt").read_text() == "other 1\n"


def test_two_agents_change_neither_each_others_files_nor_the_template(ground: Ground) -> None:
    (one, _), (other, owner) = ground.make(ground.head()), ground.make(ground.head())
    (one.tree / "folder-1/file-1.txt").write_text("changed\n")
    (one.tree / "folder-2").rename(one.tree / "renamed")
    (one.tree / "folder-3/file-3.txt").unlink()
    assert (other.tree / "folder-1/file-1.txt").read_text() == "1\n"
    assert (other.tree / "folder-3/file-3.txt").exists()
    assert git(other, owner, "diff-files", "--name-only") == ""
    third, _ = ground.make(ground.head())
    assert contents(third.tree) == contents(other.tree)


def test_a_template_can_be_entered_by_root_alone(ground: Ground) -> None:
    ground.make(ground.head())
    assert {path.stat().st_mode & 0o077 for path in (ground.state / "templates").glob("*")} == {0}


def test_removed_it_leaves_no_mount(ground: Ground) -> None:
    made, _ = ground.make(ground.head())
    with (made.tree / "folder-1/file-1.txt").open() as still_open:
        asyncio.run(checkout.remove(made.tree.parent))
        assert still_open.read() == "1\n"
    assert not made.tree.parent.exists()
    assert str(made.tree) not in Path("/proc/self/mountinfo").read_text()


def test_after_a_restart_of_the_machine_it_is_as_it_was_left(ground: Ground) -> None:
    made, owner = ground.make(ground.head())
    (made.tree / "folder-1/file-1.txt").write_text("changed\n")
    mounts.unmount(made.tree)
    assert not (made.tree / "folder-2").exists()
    asyncio.run(overlay.mount_again(made.tree.parent, owner))
    assert (made.tree / "folder-1/file-1.txt").read_text() == "changed\n"
    assert (made.tree / "folder-2/file-2.txt").read_text() == "2\n"


def test_taken_over_it_belongs_to_the_next_attempts_user(ground: Ground) -> None:
    made, _ = ground.make(ground.head())
    (made.tree / "folder-1/file-1.txt").write_text("changed\n")
    other = Owner(1_879_100_000, 1_879_100_000)
    asyncio.run(overlay.give(made.tree.parent, other))
    assert {path.lstat().st_uid for path in (made.tree, *made.tree.rglob("*"))} == {other.uid}
    assert git(made, other, "status", "--porcelain") == " M folder-1/file-1.txt\n"


def test_one_that_stays_becomes_a_plain_folder(ground: Ground) -> None:
    made, owner = ground.make(ground.head())
    (made.tree / "folder-1/file-1.txt").write_text("changed\n")
    (made.tree / "folder-3/file-3.txt").unlink()
    before = contents(made.tree)
    asyncio.run(overlay.flatten(made.tree.parent))
    assert not mounts.is_mounted(made.tree)
    assert contents(made.tree) == before
    assert checkout.read_workspace(made.tree).kind == "clone"
    assert git(made, owner, "status", "--porcelain") == " M folder-1/file-1.txt\n D folder-3/file-3.txt\n"


def test_templates_that_nobody_needs_are_removed_and_the_others_stay(ground: Ground) -> None:
    made, _ = ground.make(ground.head())
    asyncio.run(templates.clean(ground.state))
    assert len(ground.templates()) == 1
    asyncio.run(checkout.remove(made.tree.parent))
    asyncio.run(templates.clean(ground.state))
    assert ground.templates() == []


def test_small_repositories_are_checked_out(ground: Ground) -> None:
    made, _ = ground.make(ground.head(), "auto")
    assert made.kind == "clone"


def test_large_ones_are_overlays(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "LARGE_ENTRIES", 20)
    assert ground.make(ground.head(), "auto")[0].kind == "overlay"


def test_where_the_kernel_makes_none_it_is_a_checkout_and_it_is_said(ground: Ground) -> None:
    """A folder that lies in another overlay cannot be shown as another user's."""
    made, _ = ground.make(ground.head())
    ground.state = made.tree / "state"
    inner, _ = ground.make(ground.head())
    assert inner.kind == "clone"
    assert ground.said == ["its workspace is a checkout, not an overlay: an id-mapped mount: Invalid argument"]
    assert sorted(path.name for path in inner.tree.parent.iterdir()) == ["exclude", "made.json", "objects", "work"]
    ground.state = made.tree.parents[2]


def test_which_kind_is_used_and_why(tmp_path: Path) -> None:
    found = {kind: asyncio.run(kinds.choice(kind, tmp_path)) for kind in ("auto", "overlay", "pool", "clone")}
    assert found == {
        "auto": "overlay for repositories of 1,000 files and more, clone for smaller ones",
        "overlay": "overlay, as settings say",
        "pool": "pool, as settings say",
        "clone": "clone, as settings say",
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [["a"], ["a" * 5000, "b"], [f"folder/{'n' * length}" for length in range(1, 20)]])
def test_an_index_for_another_owner_differs_in_nothing_else(tmp_path: Path, names: list[str]) -> None:
    made = Repo.make(tmp_path / "repo", {"x": "x\n"})
    blob = made.git("hash-object", "-w", "x")
    for name in names:
        made.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    data = (made.folder / ".git/index").read_bytes()
    places = git_index.entry_places(data, 20)
    assert len(places) == git_index.count_entries(made.folder / ".git/index")
    (made.folder / ".git/index").write_bytes(git_index.with_owner(data, places, 7, 8, 20))
    assert made.git("fsck") == ""
    stat = made.git("ls-files", "--debug", "--", "x")
    assert "uid: 7" in stat
    assert "gid: 8" in stat
