"""Checkouts that are used again: as if they were new, whatever an agent did to them."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.model import WorkspaceKind
from corral.world.git.repository import Repository
from corral.world.process import Owner
from corral.world.workspace import checkout, kinds, pool
from corral.world.workspace.checkout import Loan, Workspace
from tests.rig.repository import Repo

FILES = {f"folder-{number % 7}/file-{number}.txt": f"{number}\n" for number in range(60)} | {".gitignore": "*.log\n"}
ONE = "folder-1/file-1.txt"


class Ground:
    """A state folder with workspaces of one repository."""

    def __init__(self, folder: Path) -> None:
        self.repo = Repo.make(folder / "repo", FILES)
        self.repository = Repository(self.repo.folder, self.repo.folder / ".git")
        self.state = folder / "state"
        self.said: list[str] = []
        self._count = 0

    def make(self, commit: str = "", owner: Owner | None = None, kind: WorkspaceKind = "pool") -> Workspace:
        self._count += 1
        folder = self.state / "workspaces" / f"a{self._count}"
        folder.mkdir(parents=True)
        loan = Loan(self.state / "objects", folder / "objects", self.said.append, self.state / "templates")
        branch = (f"a{self._count}", owner)
        commit = commit or self.repo.git("rev-parse", "HEAD")
        return asyncio.run(kinds.make(kind, self.repository, [commit], folder / "work", branch, loan))

    def remove(self, made: Workspace) -> None:
        asyncio.run(kinds.remove(made.tree.parent, self.repository, self.state))
        assert not made.tree.parent.exists()

    def ready(self) -> list[Path]:
        return sorted(path for path in (self.state / "pool").glob("*/*") if not path.name.startswith("."))


@pytest.fixture
def ground(open_folder: Path) -> Ground:
    return Ground(open_folder)


def look(tree: Path) -> dict[str, tuple[object, ...]]:
    """Return all that an agent can leave in a tree, but for times."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (tree, *tree.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        attached = os.listxattr(path, follow_symlinks=False)
        name = str(path.relative_to(tree))
        if not name.startswith(".git/"):
            links = about.st_nlink if path.is_file() else 0
            found[name] = (about.st_mode, about.st_uid, about.st_gid, links, content, attached)
    return found


def inodes(tree: Path) -> dict[str, int]:
    return {str(path.relative_to(tree)): path.lstat().st_ino for path in tree.rglob("*.txt")}


def git(made: Workspace, *arguments: str) -> str:
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    argv = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(argv, cwd=made.tree, env=env, check=True, capture_output=True, text=True).stdout


def same_size_and_time(tree: Path) -> None:
    before = (tree / ONE).stat()
    (tree / ONE).write_text("x\n")
    os.utime(tree / ONE, ns=(before.st_atime_ns, before.st_mtime_ns))


def lying_index(tree: Path) -> None:
    """Let git's own index say that a changed file is as it was."""
    same_size_and_time(tree)
    blob = subprocess.run(
        ["git", "-c", "safe.directory=*", "hash-object", "-w", ONE],
        cwd=tree,
        check=True,
        capture_output=True,
        text=True,
    )
    assert blob
    subprocess.run(["git", "-c", "safe.directory=*", "update-index", "--assume-unchanged", ONE], cwd=tree, check=True)


def hard_link(tree: Path) -> None:
    (tree.parent / "tmp").mkdir()
    os.link(tree / ONE, tree.parent / "tmp" / "other")
    os.link(tree / "folder-2/file-2.txt", tree / "folder-2/again.txt")


def open_socket(tree: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(tree)  # the path would be too long
        try:
            made.bind("socket")
        finally:
            os.chdir(here)


def deep(tree: Path) -> None:
    here = os.open(tree, os.O_RDONLY)
    try:
        for _ in range(1500):
            os.mkdir("deep", dir_fd=here)
            inner = os.open("deep", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
    finally:
        os.close(here)


def replace_git(tree: Path, by: Callable[[Path], object]) -> None:
    shutil.rmtree(tree / ".git")
    by(tree / ".git")


def replaced_folder(tree: Path) -> None:
    """Put a link to a folder in the place of one."""
    outside = tree.parent / "outside"
    shutil.copytree(tree / "folder-3", outside)
    shutil.rmtree(tree / "folder-3")
    (tree / "folder-3").symlink_to(outside)


def swapped(tree: Path) -> None:
    """Exchange two files of the same size."""
    (tree / ONE).rename(tree / "kept")
    (tree / "folder-2/file-2.txt").rename(tree / ONE)
    (tree / "kept").rename(tree / "folder-2/file-2.txt")


HOSTILE: dict[str, Callable[[Path], object]] = {
    "nothing": lambda tree: tree,
    "changed": lambda tree: (tree / ONE).write_text("changed\n"),
    "same-size-and-time": same_size_and_time,
    "lying-index": lying_index,
    "removed": lambda tree: shutil.rmtree(tree / "folder-4"),
    "new-files": lambda tree: [(tree / name).write_text("x") for name in ("new", "folder-1/new.log", ".hidden")],
    "hard-link": hard_link,
    "attributes": lambda tree: [os.setxattr(tree / name, "user.x", b"x") for name in (ONE, "folder-2", ".")],
    "socket": open_socket,
    "pipe": lambda tree: os.mkfifo(tree / "folder-1/pipe"),
    "setuid": lambda tree: ((tree / ONE).chmod(0o4755), (tree / "folder-2").chmod(0o2777)),
    "read-only": lambda tree: ((tree / ONE).chmod(0o400), (tree / "folder-2").chmod(0o555), tree.chmod(0o500)),
    "unreadable": lambda tree: (tree / "folder-2").chmod(0),
    "deep": deep,
    "git-is-a-file": lambda tree: replace_git(tree, lambda place: place.write_text("gitdir: /tmp\n")),
    "git-is-a-link": lambda tree: replace_git(tree, lambda place: place.symlink_to(tree.parent / "tmp")),
    "git-is-gone": lambda tree: replace_git(tree, lambda place: place),
    "folder-is-a-link": replaced_folder,
    "folder-is-a-file": lambda tree: (shutil.rmtree(tree / "folder-3"), (tree / "folder-3").write_text("x")),
    "file-is-a-folder": lambda tree: ((tree / ONE).unlink(), (tree / ONE).mkdir(), (tree / ONE / "x").write_text("x")),
    "file-is-a-link": lambda tree: ((tree / ONE).unlink(), (tree / ONE).symlink_to("/etc/passwd")),
    "swapped": swapped,
    "attributes-file": lambda tree: (tree / ".gitattributes").write_text("*.txt text eol=crlf\n"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_an_agent_left_the_next_one_finds_what_a_checkout_gives(ground: Ground, name: str) -> None:
    made = ground.make()
    assert made.kind == "pool"
    untouched = inodes(made.tree)
    HOSTILE[name](made.tree)
    ground.remove(made)
    assert len(ground.ready()) == 1
    again, plain = ground.make(), ground.make(kind="clone")
    assert ground.ready() == []
    assert look(again.tree) == look(plain.tree)
    assert git(again, "diff-files", "--name-only") == ""  # by what lstat says alone
    assert git(again, "status", "--porcelain", "--ignored") == ""
    assert git(again, "rev-parse", "HEAD") == git(plain, "rev-parse", "HEAD")
    assert git(again, "config", "--list", "--local") == git(plain, "config", "--list", "--local")
    kept = [path for path, inode in inodes(again.tree).items() if untouched[path] == inode]
    assert len(kept) > 40  # it is the same checkout


def test_a_folder_that_ignores_case_or_is_immutable_is_not_used_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ground.make()
    done = subprocess.run(["chattr", "+A", made.tree / "folder-2"], check=False, capture_output=True)
    if done.returncode:  # a file system without such marks has none to check either
        monkeypatch.setattr(pool, "_flags", lambda folder: 1 if folder.endswith(b"folder-2/") else 0)
    ground.remove(made)
    assert ground.ready() == []


def test_another_commit_costs_what_differs(ground: Ground) -> None:
    made = ground.make()
    before = inodes(made.tree)
    ground.remove(made)
    ground.repo.git("rm", "-q", "folder-2/file-2.txt")
    second = ground.repo.commit({ONE: "other\n", "new/file.txt": "new\n"})
    made = ground.make(second)
    assert look(made.tree) == look(ground.make(second, kind="clone").tree)
    assert {path for path, inode in inodes(made.tree).items() if before.get(path) != inode} <= {ONE, "new/file.txt"}
    assert git(made, "status", "--porcelain") == ""
    (made.tree / ONE).write_text("changed\n")
    ground.remove(made)
    assert (ground.make(second).tree / ONE).read_text() == "other\n"


def test_of_root_it_belongs_to_the_next_attempts_user(ground: Ground) -> None:
    first, second = Owner(1_879_048_193, 1_879_048_193), Owner(1_879_048_194, 1_879_048_194)
    made = ground.make(owner=first)
    before = inodes(made.tree)
    assert {path.lstat().st_uid for path in (made.tree, *made.tree.rglob("*"))} == {first.uid}
    assert git(made, "diff-files", "--name-only") == ""
    os.utime(made.tree.parent / checkout.INDEX)  # what is given away in the same moment would be written again
    (made.tree / ONE).write_text("changed\n")
    ground.remove(made)
    again = ground.make(owner=second)
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in (again.tree, *again.tree.rglob("*"))} == {
        (second.uid, second.gid)
    }
    assert git(again, "diff-files", "--name-only") == ""
    assert {path for path, inode in inodes(again.tree).items() if before[path] != inode} <= {ONE}
    assert (again.tree / ONE).read_text() == "1\n"
    ground.remove(again)
    third = ground.make(ground.repo.commit({ONE: "third\n"}), owner=first)
    assert third.kind == "pool"
    assert (third.tree / ONE).read_text() == "third\n"


def test_so_many_are_kept_and_clean_removes_them(ground: Ground) -> None:
    for made in [ground.make() for _ in range(pool.MOST_READY + 2)]:
        ground.remove(made)
    assert len(ground.ready()) == pool.MOST_READY
    asyncio.run(pool.clean(ground.state))
    assert ground.ready() == []


def test_none_is_kept_where_the_disk_is_nearly_full(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ground.make()
    monkeypatch.setattr(pool, "LEAST_FREE", 1)
    ground.remove(made)
    assert ground.ready() == []


def test_of_two_that_want_one_each_gets_its_own(ground: Ground) -> None:
    ground.remove(ground.make())
    (ready,) = ground.ready()
    trees = [ground.make().tree for _ in range(2)]
    assert not ready.exists()
    assert len({inodes(tree)[ONE] for tree in trees}) == 2


def test_one_that_a_killed_process_left_half_made_is_removed_later(ground: Ground) -> None:
    made = ground.make()
    half = ground.state / "pool" / "x" / ".new-1"
    half.mkdir(parents=True)
    asyncio.run(pool.clean(ground.state))
    assert half.exists()  # it may be in the making
    os.utime(half, (0, 0))
    asyncio.run(pool.clean(ground.state))
    assert not half.exists()
    asyncio.run(checkout.remove(made.tree.parent))


def test_with_submodules_it_is_not_used_again(ground: Ground, tmp_path: Path) -> None:
    inner = Repo.make(tmp_path / "inner", {"inner.txt": "inner\n"})
    ground.repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.folder), "inner")
    ground.repo.commit({"more": "more\n"})
    made = ground.make()
    assert (made.tree / "inner" / "inner.txt").read_text() == "inner\n"
    ground.remove(made)
    assert ground.ready() == []


def test_where_a_checkout_cannot_be_taken_there_is_a_new_one_and_it_is_said(ground: Ground) -> None:
    ground.remove(ground.make())
    (ground.ready()[0] / "pool").write_text("broken")
    made = ground.make()
    assert made.kind == "clone"
    assert ground.said == [f"its workspace is a checkout, not one of the pool: {made.tree.parent / 'pool'} was cut off"]
    assert sorted(path.name for path in made.tree.parent.iterdir()) == ["exclude", "made.json", "objects", "work"]
