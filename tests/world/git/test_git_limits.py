"""git that reads an agent's objects has limits, and ends with corral."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from corral.model.errors import GitTrouble
from corral.world.git.command import GitLimits, limits_of
from corral.world.git.repository import Repository
from corral.world.workspace import checkout
from corral.world.workspace.checkout import Loan
from tests.rig.repository import Repo
from tests.rig.waiting import until

#: Starts a confined git that waits for ever, says where to find it, and waits with it.
WAITS = """
import asyncio, os, sys
from corral.world import process
from corral.world.git.repository import ENV
from corral.world.git.command import confine_git
from corral.world.process import ProcessStart
reads, writes = os.pipe()
start = ProcessStart(argv=["git", "cat-file", "--batch"], env={**ENV, "MARK": sys.argv[2]}, cwd=sys.argv[1], stdin_file=reads)
print("started", flush=True)
asyncio.run(process.run(confine_git(start)))
"""


def marked(mark: str) -> list[int]:
    """Return the gits that were started with a mark in their environment."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                f"MARK={mark}\0".encode() in (folder / "environ").read_bytes()
                and b"cat-file" in (folder / "cmdline").read_bytes()
            ):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_a_confined_git_has_limits_and_ends_when_corral_is_killed(tmp_path: Path) -> None:
    repo, mark = Repo.make(tmp_path / "repo"), f"limits-{os.getpid()}"
    words = [sys.executable, "-c", WAITS, str(repo.folder), mark]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as parent:

        def git() -> list[int]:
            return [pid for pid in marked(mark) if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"git\0")]

        until(lambda: bool(git()), "git is at work")
        limits = Path(f"/proc/{git()[0]}/limits").read_text()
        (data,) = [line.split()[3] for line in limits.splitlines() if line.startswith("Max data size")]
        assert int(data) <= 512 << 20
        parent.send_signal(signal.SIGKILL)
        until(lambda: not marked(mark), "git is gone")


def agent_commit(repo: Repo, text: str) -> str:
    """Make a commit of a tree whose folder holds itself many times over: ten million paths in a few objects."""
    below = repo.git("rev-parse", "HEAD:")
    for _ in range(7):
        listed = "".join(f"040000 tree {below}\t{text}{number}\n" for number in range(10))
        made = subprocess.run(
            ["git", "mktree"], input=listed.encode(), cwd=repo.folder, capture_output=True, check=True, timeout=60
        )
        below = made.stdout.decode().strip()
    return repo.git("commit-tree", below, "-m", "many paths")


READS = {
    "read-tree": ("read-tree", "--index-output=@/index", "#"),
    "reset": ("--git-dir=@/clone/.git", "--work-tree=@/clone", "reset", "--hard", "-q", "#"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", [*READS, "workspace"])
def test_commands_that_check_out_what_an_agent_made_are_bounded(tmp_path: Path, how: str) -> None:
    """Ten million paths of 1400 bytes need more memory than they get; nothing of the machine is used up."""
    repo = Repo.make(tmp_path / "repo")
    commit = agent_commit(repo, "n" * 200)
    repository = Repository(repo.folder, repo.folder / ".git")

    async def work() -> None:
        if how == "workspace":
            loan = Loan(tmp_path / "cache", tmp_path / "lent", lambda _: None)
            await checkout.make(repository, [commit], tmp_path / "w" / "work", "x", None, loan)
            return
        repo.git("clone", "-q", "--shared", ".", str(tmp_path / "clone"))
        await repository.git(*(word.replace("@", str(tmp_path)).replace("#", commit) for word in READS[how]))

    with pytest.raises(GitTrouble, match="the work is too much"):
        asyncio.run(work())


def test_only_walks_of_a_large_history_get_more_memory(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    with (tmp_path / "pack" / "pack-1.idx").open("wb") as file:
        file.truncate(100 << 20)
    assert limits_of("rev-list", (), [tmp_path]) == GitLimits(mb=1200)
    assert limits_of("pack-objects", (), [tmp_path / "none"]) == GitLimits(mb=400)
    assert limits_of("diff", (), [tmp_path]) == GitLimits(mb=400)
    assert limits_of("config", ("--blob", "x"), []) == GitLimits()
    assert limits_of("config", ("--get", "x"), []) is None
    assert limits_of("update-ref", (), []) is None
