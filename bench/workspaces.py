"""Workspaces of large repositories, against `git worktree add`: made, with a first `git status`, in a whole task."""

from __future__ import annotations

import asyncio
import os
import subprocess
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.measure import Promise, timed
from bench.overhead import EngineInUse, place, run_git, trivial_agent
from corral.model import WorkspaceKind
from corral.world.git.repository import Repository
from corral.world.process import Owner
from corral.world.workspace import kinds
from corral.world.workspace.checkout import Loan, Workspace

SIZES = (10_000, 100_000)
ROUNDS = 5
OWNER = Owner(1_879_048_192, 1_879_048_192) if os.getuid() == 0 else None
USER = 1_879_048_191  #: an ordinary user, where root measures
AGENT = "#!/bin/sh\necho 'a change' >> folder-0/0/file-1.txt\n"
CHECK = "test -s folder-0/0/file-1.txt"
WITH_STATUS = 0.3


def measure() -> list[Promise]:
    promises: list[Promise] = []
    with place() as folder:
        folder.chmod(0o755)  # the agent's user looks without a box
        for size in SIZES:
            promises += _made(folder / str(size), size, OWNER)
            promises += _by_user(folder / f"{size}-user", size) if OWNER else ()
        return [*promises, *_whole_task(folder, folder / str(SIZES[-1]) / "repository")]


def _by_user(folder: Path, size: int) -> list[Promise]:
    """Measure as an ordinary user, in a process that became one."""
    _load_all(folder.with_name(f"{folder.name}-first"))
    folder.mkdir()
    os.chown(folder, USER, USER)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(USER, USER, USER)
            os.setresuid(USER, USER, USER)
            with os.fdopen(writing, "wb") as out:
                out.write(msgspec.msgpack.encode(_made(folder / "own", size, None)))
            code = 0
        except BaseException:  # noqa: BLE001 -- whatever it is, this process ends here
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        found = msgspec.msgpack.decode(answer.read(), type=list[Promise])
    os.waitpid(child, 0)
    return found


def _load_all(folder: Path) -> None:
    """Do all of it once, so that everything is loaded: the user may not be able to read where Python lies."""
    workspaces = _Workspaces(folder / "state", large_repository(folder / "repository", 50), None)
    for _ in range(2):
        workspaces.make_and_remove(lambda made: (made.tree / "folder-0/0/file-1.txt").unlink(), "pool")


def _made(folder: Path, size: int, owner: Owner | None) -> list[Promise]:
    repository = large_repository(folder / "repository", size)
    limit = 0.05 if owner else 0.15
    by_hand, status, tree = [], [], folder / "tree"
    for _ in range(ROUNDS):
        by_hand.append(timed(lambda: run_git(repository, "worktree", "add", "--quiet", "--detach", str(tree))))
        status.append(by_hand[-1] + timed(lambda: run_git(tree, "status", "--short")))
        run_git(repository, "worktree", "remove", "--force", str(tree))
    corral = _Workspaces(folder / "state", repository, owner)
    corral.make_and_remove(lambda _: None)  # the first one of a repository is not warm
    ours, looked = [], []
    for _ in range(ROUNDS):
        ours.append(corral.make_and_remove(lambda _: None))
        looked.append(corral.make_and_remove(lambda made: _first_status(made, owner)))
    kind = corral.kind
    words = f"{size:,} files, warm, {kind}"
    return [
        Promise(
            f"a workspace of {words}", "the fastest of 5 `git worktree add`", sorted(ours)[2] / min(by_hand), limit
        ),
        Promise(
            f"the same with the first `git status`, {size:,} files, {kind}",
            "the fastest of 5 `git worktree add` with it",
            sorted(looked)[2] / min(status),
            WITH_STATUS,
        ),
    ]


class _Workspaces:
    """Makes workspaces of one repository, as an attempt does."""

    def __init__(self, state: Path, repository: Path, owner: Owner | None) -> None:
        self._state, self._owner = state, owner
        self._repository = Repository(repository, repository / ".git")
        argv = ["git", "rev-parse", "HEAD"]
        self._commit = subprocess.run(argv, cwd=repository, check=True, capture_output=True, text=True).stdout.strip()
        self.kind = ""

    def make_and_remove(self, then: Callable[[Workspace], object], kind: WorkspaceKind = "auto") -> float:
        """Return how long it took to make one and to do something in it; the removal does not count."""
        folder = self._state / "workspaces" / uuid.uuid4().hex
        folder.mkdir(parents=True)
        try:
            return timed(lambda: then(asyncio.run(self._make(folder, kind))))
        finally:
            asyncio.run(kinds.remove(folder, self._repository, self._state))

    async def _make(self, folder: Path, kind: WorkspaceKind) -> Workspace:
        loan = Loan(self._state / "objects", folder / "objects", print, self._state / "templates")
        made = await kinds.make(kind, self._repository, [self._commit], folder / "work", ("bench", self._owner), loan)
        self.kind = made.kind
        return made


def _first_status(made: Workspace, owner: Owner | None) -> None:
    """Look as the agent's user does."""
    become = ["setpriv", f"--reuid={owner.uid}", f"--regid={owner.gid}", "--clear-groups"] if owner else []
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run([*become, "git", "status", "--short"], cwd=made.tree, env=env, check=True, capture_output=True)


def _whole_task(folder: Path, repository: Path) -> list[Promise]:
    """A trivial task with one check, warm, against the same by hand."""
    agent = trivial_agent(folder, AGENT)
    with EngineInUse(folder) as corral:
        corral.run(repository, "trivial", checks=(CHECK,))
        ours, by_hand = [], []
        for _ in range(3):
            by_hand.append(timed(lambda: _by_hand(folder / "tree", repository, agent)))
            ours.append(timed(lambda: corral.run(repository, "trivial", checks=(CHECK,))))
    name = f"a whole trivial task with one check, {SIZES[-1]:,} files, in the box"
    return [
        Promise(
            name, "worktree add, run, check, diff, worktree remove by hand", sorted(ours)[1] / sorted(by_hand)[1], 0.5
        )
    ]


def _by_hand(tree: Path, repository: Path, agent: Path) -> None:
    run_git(repository, "worktree", "add", "--quiet", "--detach", str(tree))
    subprocess.run([str(agent)], cwd=tree, check=True)
    subprocess.run(["sh", "-c", CHECK], cwd=tree, check=True)
    run_git(tree, "diff", "HEAD")
    run_git(repository, "worktree", "remove", "--force", str(tree))


def large_repository(folder: Path, size: int) -> Path:
    """Make a repository of so many small files, 50 in a folder."""
    for number in range(size):
        inner = folder / f"folder-{number // 1000}" / str(number // 50 % 20)
        if number % 50 == 0:
            inner.mkdir(parents=True)
        (inner / f"file-{number}.txt").write_text(f"file {number}\n" * 10)
    run_git(folder, "init", "--quiet", "-b", "main")
    run_git(folder, "add", ".")
    run_git(folder, "-c", "user.name=You", "-c", "user.email=you@example.org", "commit", "--quiet", "-m", "many files")
    return folder
