"""What the kernel does not limit is measured, on real processes and real files."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corral.model import Level
from corral.world import process, watchdog
from corral.world.process import Limits
from corral.world.sandbox.confine import confine
from corral.world.watchdog import Ceiling, DiskUse
from tests.rig.boxes import box_in
from tests.rig.waiting import until

TAKE = "import sys; kept = bytearray(int(sys.argv[1]) << 20); print('has it', flush=True); sys.stdin.readline()"


@contextmanager
def family(script: str) -> Generator[int]:
    """A shell that runs a script; its number."""
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, start_new_session=True) as parent:
        try:
            yield parent.pid
        finally:
            for pid in (*watchdog.descendants(parent.pid), parent.pid):
                os.kill(pid, 9)


def test_a_tree_of_processes_is_found_whole() -> None:
    with family("sh -c 'sleep 987 & wait' & (sleep 987) & wait") as parent:
        until(lambda: len(watchdog.descendants(parent)) >= 3, "all are there")


def test_memory_that_is_shared_counts_once() -> None:
    share = """
import mmap, os, sys
kept = mmap.mmap(-1, 64 << 20); kept.write(b"x" * (64 << 20))
for _ in range(3):
    if os.fork() == 0:
        sum(kept[::4096]); break
sys.stdin.readline()
"""
    with subprocess.Popen([sys.executable, "-c", share], stdin=subprocess.PIPE) as parent:
        until(lambda: len(watchdog.descendants(parent.pid)) == 3, "all are there")
        pids = [parent.pid, *watchdog.descendants(parent.pid)]
        quick = until(
            lambda: (found := watchdog.memory_bytes(pids, enough=1 << 40)) > 200 << 20 and found, "all read it"
        )
        assert watchdog.memory_bytes(pids) < quick - (100 << 20)
        for pid in pids:
            os.kill(pid, 9)


def test_holes_and_second_names_use_no_disk(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "real").write_bytes(b"x" * (3 << 20))
    os.link(tmp_path / "below" / "real", tmp_path / "again")
    (tmp_path / "elsewhere").symlink_to("/usr")
    assert 3 << 20 <= DiskUse([tmp_path]).measure() < 4 << 20


def test_a_large_tree_is_measured_in_several_turns(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}").write_bytes(b"x" * 8192)
    usage = DiskUse([tmp_path])
    first = usage.measure(most_entries=10)
    assert 0 < first < 50 * 8192
    turns = [usage.measure(most_entries=10) for _ in range(20)]
    assert max(turns) == turns[-1] >= 50 * 8192
    assert DiskUse([tmp_path / "no such folder"]).measure() == 0


async def watched(folder: Path, level: Level, script: str, ceiling: Ceiling) -> str:
    """Run a script in a box until the watchdog barks."""
    box, stop = box_in(folder), asyncio.Event()
    with confine(["sh", "-c", script], box, level, tag=f"watched-{os.getpid()}") as start:
        running = asyncio.create_task(
            process.follow(start, Limits(grace_seconds=0.1), lambda *_: None, lambda *_: None, stop)
        )
        try:
            async with asyncio.timeout(60):
                return await watchdog.watch(start, ceiling, [box.workspace], every_seconds=0.05)
        finally:
            stop.set()
            await running


@pytest.mark.parametrize("level", ["strict", "none"])
@pytest.mark.parametrize(
    ("script", "ceiling", "passed"),
    [
        (f'for i in 1 2 3 4; do python3 -c "{TAKE}" 40 & done; wait; sleep 987', Ceiling(memory_mb=100), "memory"),
        ("for i in 1 2 3 4 5 6 7 8 9; do sleep 987 & done; wait", Ceiling(processes=8), "processes"),
        ("for i in 1 2 3; do head -c 3000000 /dev/urandom > $i; done; sleep 987", Ceiling(disk_mb=8), "disk"),
    ],
)  # fmt: skip
def test_it_tells_what_a_box_has_too_much_of(
    open_folder: Path, level: Level, script: str, ceiling: Ceiling, passed: str
) -> None:
    script = script.replace("sys.stdin.readline()", "__import__('time').sleep(987)")
    assert asyncio.run(watched(open_folder, level, script, ceiling)) == passed


def test_what_lies_in_the_boxs_own_tmp_is_memory(open_folder: Path) -> None:
    script = "head -c 60000000 /dev/zero > /tmp/much; sleep 987"
    assert asyncio.run(watched(open_folder, "strict", script, Ceiling(memory_mb=50))) == "memory"
