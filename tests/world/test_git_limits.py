"""git that reads an agent's objects has limits, and ends with corral."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.rig.repository import Repo
from tests.rig.waiting import until

#: Starts a confined git that waits for ever, says where to find it, and waits with it.
WAITS = """
import asyncio, os, sys
from corral.world import process
from corral.world.git import ENV
from corral.world.git_limits import confined
from corral.world.process import Start
reads, writes = os.pipe()
start = Start(argv=["git", "cat-file", "--batch"], env={**ENV, "MARK": sys.argv[2]}, cwd=sys.argv[1], stdin_file=reads)
print("started", flush=True)
asyncio.run(process.run(confined(start)))
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
