"""Custody of processes: every line heard, every limit kept, the whole tree ended, leftovers found and told."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from corral.model.errors import CorralError
from corral.world import process, process_identity
from corral.world.process import Exit, ProcessLimits, ProcessStart
from corral.world.process_pipes import MOST_LINE
from tests.rig.processes import running
from tests.rig.tagged import tagged_processes
from tests.rig.waiting import until

T = TypeVar("T")
ENV = {"PATH": "/usr/bin:/bin"}


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 -- what is waited for happens in other processes
        await asyncio.sleep(0.01)


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Heard:
    def __init__(self) -> None:
        self.lines: list[tuple[str, bytes, bool]] = []
        self.bytes = 0
        self.stop: asyncio.Event | None = None

    async def follow(
        self, script: str, limits: ProcessLimits | None = None, *, tag: str = "", stdin: bytes = b""
    ) -> Exit:
        self.stop = asyncio.Event()
        start = ProcessStart(argv=["/bin/sh", "-c", script], env=ENV, tag=tag, stdin=stdin)
        return await process.follow(start, limits or ProcessLimits(grace_seconds=0.5), self._line, self.raw, self.stop)

    def _line(self, stream: str, line: bytes, cut: bool) -> None:
        self.lines.append((stream, line, cut))

    def raw(self, _: str, chunk: bytes) -> None:
        self.bytes += len(chunk)


def test_lines_of_both_streams_and_the_last_without_an_end() -> None:
    heard = Heard()
    ended = wait_for(heard.follow("echo one; echo two >&2; printf three"))
    assert ended == Exit(code=0, why="exited")
    assert [line for line in heard.lines if line[0] == "stdout"] == [
        ("stdout", b"one", False),
        ("stdout", b"three", False),
    ]
    assert ("stderr", b"two", False) in heard.lines


def test_a_line_longer_than_memory_should_hold_is_cut_and_the_next_is_whole() -> None:
    heard = Heard()
    wait_for(heard.follow(f"head -c {MOST_LINE + 5_000_000} /dev/zero | tr '\\0' x; echo; echo after"))
    assert [(len(line), cut) for _, line, cut in heard.lines] == [(MOST_LINE, True), (5, False)]
    assert heard.bytes == MOST_LINE + 5_000_000 + 7


def test_nothing_is_cut_into_lines_where_nobody_hears_them() -> None:
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    heard = Heard()
    start = ProcessStart(argv=["/bin/sh", "-c", "yes | head -c 100000000; exit 3"], env=ENV)
    following = process.follow(start, ProcessLimits(), None, heard.raw, asyncio.Event())
    sys.setprofile(count)
    try:
        ended = wait_for(following)
    finally:
        sys.setprofile(None)
    assert (ended, heard.bytes) == (Exit(code=3, why="exited"), 100_000_000)
    assert calls < 2_000_000  # of 50 million lines


def test_stdin_is_fed_and_closed() -> None:
    heard = Heard()
    wait_for(heard.follow("cat; echo end", stdin=b"hello\n"))
    assert [line for _, line, _ in heard.lines] == [b"hello", b"end"]


def test_stdin_is_empty_when_nothing_is_given() -> None:
    heard = Heard()
    assert wait_for(heard.follow("cat; echo end")).why == "exited"


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (ProcessLimits(timeout_seconds=0.3, grace_seconds=0.2), "timeout"),
        (ProcessLimits(idle_seconds=0.3, grace_seconds=0.2), "idle"),
    ],
)
def test_a_limit_ends_the_whole_tree_even_if_it_does_not_want_to(limits: ProcessLimits, why: str) -> None:
    sign = f"sign-{why}-{os.getpid()}"
    script = f"trap '' TERM; (sh -c 'trap \"\" TERM; sleep 987' {sign}) & setsid sh -c 'sleep 987' {sign} & wait"
    ended = wait_for(Heard().follow(script, limits, tag=sign))
    assert ended.why == why
    until(lambda: not running(sign), "the tree is gone")


def test_a_talking_program_is_not_idle() -> None:
    limits = ProcessLimits(idle_seconds=3, grace_seconds=0.2)
    assert wait_for(Heard().follow("for i in $(seq 32); do echo $i; sleep 0.1; done", limits)).why == "exited"


def test_a_daemon_that_left_its_session_is_found_by_its_tag_and_told(tmp_path: Path) -> None:
    tag, left = f"tag-{os.getpid()}", tmp_path / "left"
    daemon = f"setsid sh -c 'touch {left}; exec sleep 987' >/dev/null 2>&1 &"
    ended = wait_for(Heard().follow(f"{daemon} until [ -e {left} ]; do sleep 0.01; done; echo started", tag=tag))
    assert len(ended.leftovers) == 1
    assert not tagged_processes(f"CORRAL_ATTEMPT={tag}")


def test_stop_asks_first() -> None:
    async def stopped() -> tuple[Exit, Heard]:
        heard = Heard()
        work = asyncio.create_task(heard.follow("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"))
        await _until(lambda: bool(heard.lines))
        assert heard.stop
        heard.stop.set()
        return await work, heard

    ended, heard = wait_for(stopped())
    assert (ended.code, ended.why) == (7, "stopped")
    assert heard.lines[-1][1] == b"bye"


def test_cancelled_it_leaves_nothing() -> None:
    tag = f"cancel-{os.getpid()}"

    async def cancelled() -> None:
        work = asyncio.create_task(Heard().follow("sleep 987 & sleep 987", tag=tag))
        await _until(lambda: len(tagged_processes(f"CORRAL_ATTEMPT={tag}")) >= 2)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    wait_for(cancelled())
    assert not tagged_processes(f"CORRAL_ATTEMPT={tag}")


def test_cancelled_at_any_step_of_its_start_it_leaves_nothing() -> None:
    tag = f"early-{os.getpid()}"

    async def cancelled(steps: int) -> None:
        work = asyncio.create_task(Heard().follow("sleep 987 & sleep 987", tag=tag))
        for _ in range(steps):
            await asyncio.sleep(0)
        if steps > 2:  # it was started: its own child is there before asyncio has connected the pipes
            until(lambda: len(tagged_processes(f"CORRAL_ATTEMPT={tag}")) >= 2, "both run")
        work.cancel()
        if steps % 2:
            await asyncio.sleep(0)
            work.cancel()  # whoever is in a hurry cancels twice
        async with asyncio.timeout(60):
            await asyncio.gather(work, return_exceptions=True)
        assert work.cancelled()

    for steps in range(12):
        wait_for(cancelled(steps))
        assert not tagged_processes(f"CORRAL_ATTEMPT={tag}")


def test_a_process_that_is_always_becoming_another_is_found(tmp_path: Path) -> None:
    script = tmp_path / "again"
    script.write_text('#!/bin/sh\nexec "$0"\n')
    script.chmod(0o755)
    for place in range(20):
        tag = f"again-{os.getpid()}-{place}"
        process = subprocess.Popen([script], env={**ENV, "CORRAL_ATTEMPT": tag})
        swept = process_identity.sweep(tag)
        process.kill()
        process.wait()
        assert [each.pid for each in swept] == [process.pid]


def test_a_listener_that_fails_ends_the_program_and_is_told() -> None:
    def full(_: str, __: bytes) -> None:
        raise OSError(28, "No space left on device")

    async def work() -> None:
        start = ProcessStart(argv=["/bin/sh", "-c", "yes"], env=ENV)
        await process.follow(start, ProcessLimits(grace_seconds=0.2), lambda *_: None, full, asyncio.Event())

    with pytest.raises(OSError, match="No space left"):
        wait_for(work())


def test_no_thread_is_kept_for_a_child() -> None:
    async def count() -> int:
        work = [asyncio.create_task(Heard().follow("sleep 0.5")) for _ in range(20)]
        await asyncio.sleep(0.2)
        threads = threading.active_count()
        await asyncio.gather(*work)
        return threads

    before = threading.active_count()  # other tests may have left some: names are looked up in threads
    assert wait_for(count()) <= before + 1


def test_a_missing_program_is_said() -> None:
    with pytest.raises(CorralError, match="cannot start /no/such/program"):
        wait_for(process.run(ProcessStart(argv=["/no/such/program"], env=ENV)))


def test_a_short_program_that_hangs_is_killed() -> None:
    with pytest.raises(CorralError, match="did not end within"):
        wait_for(process.run(ProcessStart(argv=["/bin/sh", "-c", "sleep 987"], env=ENV), timeout=0.2))


def test_a_short_program_that_is_stopped_is_continued() -> None:
    words = "setsid -w sh -c 'kill -STOP $$; echo inner'; kill -STOP $$; echo outer"
    done = wait_for(process.run(ProcessStart(argv=["/bin/sh", "-c", words], env=ENV)))
    assert done.out == b"inner\nouter\n"


def test_a_process_is_known_by_pid_and_start_time() -> None:
    mine = process_identity.own_name()
    assert process_identity.is_alive(mine) is True
    host, boot, pid, start, space, machine = mine.split("/")
    assert process_identity.is_alive(f"{host}/{boot}/{pid}/1/{space}/{machine}") is False  # the pid was used again
    assert process_identity.is_alive(f"elsewhere/{boot}/1/1/{space}/{machine}") is None
    assert process_identity.is_alive(f"{host}/{boot}/{pid}/{start}/{space}/other") is None  # of the same name
    assert process_identity.process_of(f"{host}/{boot}/{pid}/{start}/{space}/other") is None
    older = f"{host}/{boot}/{pid}/{start}"
    assert process_identity.is_alive(older) is True
    assert process_identity.process_of(older) == os.getpid()
    assert process_identity.is_alive(f"{host}/{boot}/{pid}/1") is False
    assert process_identity.is_alive(f"{host}/other/{pid}/{start}") is False  # before the last boot
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    assert process_identity.started_at(ended.pid) is None


NAMES_ITSELF = """
import sys
from corral.world import process_names
print(process_names.own_name(), process_names.is_alive(process_names.own_name()), process_names.is_alive(sys.argv[1]))
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.parametrize("proc", [["--mount-proc"], []], ids=["own-proc", "other-proc"])
def test_of_a_process_in_another_pid_namespace_nothing_is_known(proc: list[str]) -> None:
    mine = process_identity.own_name()
    words = ["unshare", "--pid", "--fork", "--kill-child", *proc, sys.executable, "-c", NAMES_ITSELF, mine]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as inside:
        assert inside.stdout
        name, itself, outside = inside.stdout.readline().split()
        assert name.split("/")[:2] == mine.split("/")[:2]  # the same name of the host, the same boot
        assert (itself, outside) == ("True" if proc else "None", "None")
        assert process_identity.is_alive(name) is None
        assert process_identity.process_of(name) is None


def test_signals_do_not_reach_us() -> None:
    assert wait_for(Heard().follow(f"kill -{signal.SIGINT.value} 0; echo alive")).why == "exited"


def test_a_stopped_process_is_found_by_the_very_file_it_locks(tmp_path: Path) -> None:
    """An inode number alone is not enough: another device has the same numbers."""
    file, other = tmp_path / "file", tmp_path / "other"
    other.touch()
    lock = "import fcntl, os, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); os.kill(os.getpid(), 19)"
    with subprocess.Popen([sys.executable, "-c", lock, str(file)]) as holder:
        try:
            until(lambda: process_identity.is_suspended(holder.pid), "it is stopped")
            assert process_identity.stopped_holder(file) == holder.pid
            assert process_identity.stopped_holder(other) is None
            assert process_identity.has_open(holder.pid, file.stat()) is True
            assert process_identity.has_open(holder.pid, other.stat()) is False
        finally:
            holder.kill()
