"""What the kernel does not limit is measured, on real processes and real files."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.model import Level
from corral.world import process
from corral.world.process import ProcessLimits
from corral.world.sandbox import memory_gauge, watchdog
from corral.world.sandbox.confine import confine
from corral.world.sandbox.watchdog import Ceiling, DiskUse
from tests.rig.boxes import box_in
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`

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


async def watched(folder: Path, level: Level, script: str, ceiling: Ceiling, **more: Any) -> str:
    """Run a script in a box until the watchdog barks."""
    box, stop = box_in(folder, **more), asyncio.Event()
    with confine(["sh", "-c", script], box, level, tag=f"watched-{os.getpid()}") as start:
        running = asyncio.create_task(
            process.follow(start, ProcessLimits(grace_seconds=0.1), lambda *_: None, lambda *_: None, stop)
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


FILL = """
def fill(one, much):
    one.setblocking(False)
    try:
        while True: one.send(much)
    except BlockingIOError: pass
"""
#: Memory that no process shows; each keeps 100 MB or more, far more than the 60 MB that are allowed.
HIDDEN = {
    "unix": FILL + """
for _ in range(800):
    pair = socket.socketpair(); pair[0].setsockopt(1, 7, 4 << 20); fill(pair[0], bytes(65536)); kept.append(pair)
""",
    "unix, sender gone": FILL + """
for _ in range(800):
    one, two = socket.socketpair(); fill(one, b"x"); one.close(); kept.append(two)
""",
    "unix, in flight": FILL + """
for _ in range(40):
    way = socket.socketpair(); kept.append(way)
    for _ in range(10):
        pair = socket.socketpair(); fill(pair[0], bytes(65536)); fill(pair[1], bytes(65536))
        socket.send_fds(way[0], [b"x"], [each.fileno() for each in pair])
        pair[0].close(); pair[1].close()
""",
    "tcp": FILL + """
door = socket.create_server(("127.0.0.1", 0))
for _ in range(60):
    one = socket.create_connection(door.getsockname()); fill(one, bytes(65536)); kept.append((one, door.accept()))
""",
    "udp": """
for _ in range(800):
    one = socket.socket(type=socket.SOCK_DGRAM); one.bind(("127.0.0.1", 0)); kept.append(one)
    for _ in range(20): one.sendto(bytes(30000), one.getsockname())
""",
    "pipes": """
for _ in range(4000):
    into = os.pipe()[1]; os.set_blocking(into, False)
    try:
        while True: os.write(into, bytes(4096))
    except BlockingIOError: pass
""",
    "shared, dropped": """
place = mmap.mmap(-1, 500 << 20)
for number in range(125): place[number << 22:(number + 1) << 22] = bytes(4 << 20)
place.madvise(mmap.MADV_DONTNEED)
""",
    "shared, cut off": """
libc.mmap.restype = ctypes.c_void_p
place = libc.mmap(None, ctypes.c_size_t(500 << 20), 3, 0x21, -1, ctypes.c_size_t(0))
for number in range(125):
    ctypes.memset(place + (number << 22), 1, 4 << 20)
    libc.madvise(ctypes.c_void_p(place + (number << 22)), ctypes.c_size_t(4 << 20), 4)
libc.munmap(ctypes.c_void_p(place + 4096), ctypes.c_size_t((500 << 20) - 4096))
""",
    "shm": """
libc.shmat.restype = ctypes.c_void_p
for _ in range(2400):
    place = ctypes.c_void_p(libc.shmat(libc.shmget(0, 65536, 0o1600), None, 0))
    ctypes.memset(place, 1, 65536); libc.shmdt(place)
""",
    "sem": "for _ in range(8000): libc.semget(0, 250, 0o1600)",
    "msg": """
letter = ctypes.create_string_buffer(b"x", 8200)
for _ in range(8000):
    queue = libc.msgget(0, 0o1600); libc.msgsnd(queue, letter, 8192, 0o4000); libc.msgsnd(queue, letter, 8192, 0o4000)
""",
    "mappings": """
libc.mmap.restype = ctypes.c_void_p
place = libc.mmap(None, ctypes.c_size_t(60000 << 12), 0, 0x4022, -1, ctypes.c_size_t(0))
for number in range(0, 60000, 2):
    libc.mprotect(ctypes.c_void_p(place + (number << 12)), ctypes.c_size_t(4096), 1)
for _ in range(10):
    if not os.fork(): time.sleep(987)
""",
    "empty files": "for number in range(100_000): os.mkdir(f'/tmp/{number}')",
    "page tables": """
libc.mmap.restype = ctypes.c_void_p
place = libc.mmap(None, ctypes.c_size_t(80 << 30), 1, 0x4022, -1, ctypes.c_size_t(0))
libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(80 << 30), 15)
for number in range(40 << 10): ctypes.string_at(place + (number << 21), 1)
""",
}  # fmt: skip
KEEP = "import ctypes, mmap, os, socket, time\nkept, libc = [], ctypes.CDLL(None)\n{kind}\ntime.sleep(987)"


@pytest.mark.parametrize("kind", list(HIDDEN))
def test_memory_that_no_process_shows_counts(open_folder: Path, kind: str) -> None:
    (open_folder / "keep.py").write_text(KEEP.format(kind=HIDDEN[kind]))
    more: dict[str, Any] = {"memory_mb": 4000, "network": False, "readable": (open_folder / "keep.py",)}
    script = f"exec /usr/bin/python3 {open_folder}/keep.py"
    assert asyncio.run(watched(open_folder, "strict", script, Ceiling(memory_mb=60), **more)) == "memory"


@contextmanager
def mapper(more: str = "pass") -> Generator[int]:
    """A process with a small piece of shared memory."""
    script = f"import mmap, sys; kept = mmap.mmap(-1, 1 << 20); kept.write(bytes(999)); {more}"
    words = [sys.executable, "-c", f"{script}; print(flush=True); sys.stdin.readline()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout
        assert running.stdout.readline() == b"\n"
        yield running.pid
        running.kill()


def test_shared_memory_of_others_is_not_held_against_a_box() -> None:
    """It maps little of the same kind: what the machine got besides is not its own."""
    with mapper() as pid:
        use = watchdog.MemoryUse(Ceiling(memory_mb=100), 0.05)
        other = os.memfd_create("other")
        try:
            for _ in range(150):
                os.write(other, bytes(1 << 20))
            assert not asyncio.run(use.is_too_much([pid]))
        finally:
            os.close(other)
            use.forget()


def test_shared_memory_that_was_dropped_is_found() -> None:
    fill = "big = mmap.mmap(-1, 64 << 20); big.write(bytes(64 << 20))"
    with mapper(fill) as pid:
        assert watchdog.dropped_bytes([pid]) < 8 << 20, "it is all shown"
    with mapper(fill + "; big.madvise(mmap.MADV_DONTNEED)") as pid:
        assert watchdog.dropped_bytes([pid]) >= 60 << 20


def test_much_that_is_open_and_empty_is_no_memory(open_folder: Path) -> None:
    """Sockets alone make it look closer, and what it finds is little."""
    (open_folder / "keep.py").write_text(
        KEEP.format(kind="for _ in range(500): kept.append(socket.socketpair())\nopen('ready', 'w').close()")
    )
    more: dict[str, Any] = {"memory_mb": 4000, "network": False, "readable": (open_folder / "keep.py",)}

    async def look() -> None:
        script = f"exec /usr/bin/python3 {open_folder}/keep.py"
        watching = asyncio.create_task(watched(open_folder, "strict", script, Ceiling(memory_mb=60), **more))
        await asyncio.to_thread(until, (open_folder / "work" / "ready").exists, "all are open")
        done, _ = await asyncio.wait({watching}, timeout=2)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert not done

    asyncio.run(look())


def test_descriptors_that_are_too_many_to_look_at_count_as_pipes() -> None:
    """Else a box with millions of them would keep the gauge busy, and nothing of it would be counted."""
    with mapper("import os; kept = [os.dup(0) for _ in range(900)]") as pid:
        few, many = [pid] * 5, [pid] * (memory_gauge.MOST_DESCRIPTORS // 900 + 200)
        assert asyncio.run(watchdog.measure_hidden(few)) < 16 << 20
        assert asyncio.run(watchdog.measure_hidden(many)) > 1 << 30


def test_a_machine_without_memory_ends_a_box_that_may_have_taken_it() -> None:
    def starved(at_start: int, now: int) -> bool:
        return watchdog.is_starved(at_start=at_start, now=now, floor=256, limit=4096)

    assert starved(8000, 200)
    assert starved(1000, 200)  # a small machine: less than the limit is all there is
    assert not starved(8000, 3000)  # there is enough left, whoever took the rest
    assert not starved(300, 200)  # there was little before it came
    assert 256 << 20 <= watchdog.floor_bytes() <= 1 << 30
    assert (watchdog.available_bytes() or 0) > 0
