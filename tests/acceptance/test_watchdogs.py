"""An agent that uses too much is ended, says why, and its work is kept."""

import os

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.mounts import in_private_mounts
from tests.rig.processes import gone
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow  # they use real memory and real space

BARE = ("--allow-unsandboxed", "--require-sandbox", "none")
LEVELS = pytest.mark.parametrize("level", [(), BARE], ids=["box", "none"])
HOLD = "b = bytearray({mb} << 20); b[::4096] = b'x' * len(b[::4096]); import time; time.sleep(3600)"


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


def used_up(corral: Corral, repo: Repo, script: str, *arguments: str) -> Outcome:
    """Run an agent that leaves half its work and then uses too much; its half is on the branch."""
    sign = f"31536000.{os.getpid()}5"
    corral.agent("mine", f"echo half > half.txt\n{script}\nsleep {sign}")
    words = ("--agent", "mine", "--retries", "0", "--timeout", "200s")
    outcome = corral.run(repo, "t", *words, *arguments)
    assert outcome.code == 1, outcome
    assert repo.read(outcome.attempt["branch"], "half.txt") == "half"
    gone(sign)
    return outcome


@LEVELS
def test_memory_of_one_process(corral: Corral, repo: Repo, level: tuple[str, ...]) -> None:
    corral.config("[scope]\nmemory_mb = 256")
    hold = HOLD.format(mb=400)
    outcome = used_up(corral, repo, f'python3 -c "{hold}" || exit 3', *level)
    # Where the kernel refuses, the program itself fails; where it does not, the box is ended.
    assert outcome.attempt["error"]["class"] in ("memory", "crash"), outcome
    assert outcome.attempt["seconds"] < 40


@LEVELS
def test_memory_of_several_together(corral: Corral, repo: Repo, level: tuple[str, ...]) -> None:
    corral.config("[scope]\nmemory_mb = 256")
    hold = HOLD.format(mb=100)
    # Where the kernel kills some of them, the others have enough: then the agent gives up by itself.
    script = f'for i in 1 2 3 4 5; do {{ python3 -c "{hold}" || kill $$; }} & done; wait'
    outcome = used_up(corral, repo, script, *level)
    assert outcome.attempt["error"]["class"] == "memory", outcome


#: Memory that belongs to no process: buffers of sockets, a file without a name, segments that nobody has attached.
UNSHOWN = {
    "sockets": """
import socket
kept = [socket.socketpair() for _ in range(2400)]
for one, _ in kept:
    one.setsockopt(1, 7, 8 << 20); one.setblocking(False)
    try:
        for _ in range(40): one.send(bytes(65536))
    except BlockingIOError: pass
""",
    "file": """
import os
file = os.memfd_create("big")
for _ in range(40): os.write(file, bytes(10 << 20))
""",
    "segments": """
import ctypes
libc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p
for _ in range(4090):
    place = ctypes.c_void_p(libc.shmat(libc.shmget(0, 65536, 0o1600), None, 0))
    ctypes.memset(place, 1, 65536); libc.shmdt(place)
""",
}


@pytest.mark.parametrize("who", ["corral", "person"])
@pytest.mark.parametrize("kind", list(UNSHOWN))
def test_memory_that_belongs_to_no_process(request: pytest.FixtureRequest, who: str, kind: str) -> None:
    """As root a control group counts it; as an ordinary user it is refused, or counted from outside."""
    corral: Corral = request.getfixturevalue(who)
    corral.config("[scope]\nmemory_mb = 256")
    script = f"python3 - <<'END' || exit 3\n{UNSHOWN[kind]}\nimport time; time.sleep(31536000.79)\nEND"
    outcome = used_up(corral, corral.repo(), script)
    full = outcome.attempt["sandbox"]["level"] == "full"
    # An ordinary user's program gets no such file at all, and fails itself; everything else is counted, and ended.
    assert outcome.attempt["error"]["class"] == ("crash" if kind == "file" and not full else "memory"), outcome
    gone("31536000.79")


@LEVELS
@pytest.mark.parametrize("where", [".", "$HOME", "../out"])
def test_disk(corral: Corral, repo: Repo, level: tuple[str, ...], where: str) -> None:
    corral.config("[scope]\ndisk_mb = 100")
    outcome = used_up(corral, repo, f"echo big > .gitignore; head -c 150M /dev/zero > {where}/big", *level)
    assert outcome.attempt["error"]["class"] == "disk", outcome
    assert "disk" in outcome.attempt["error"]["message"]


@LEVELS
def test_processes(corral: Corral, repo: Repo, level: tuple[str, ...]) -> None:
    corral.config("[scope]\nprocesses = 40")
    script = "i=0; while [ $i -lt 80 ]; do sleep 31536000.77 & i=$((i+1)); done || exit 3"
    outcome = used_up(corral, repo, script, *level)
    assert outcome.attempt["error"]["class"] in ("processes", "crash"), outcome
    gone("31536000.77")


def test_one_file(corral: Corral, repo: Repo) -> None:
    corral.config("[scope]\nfile_mb = 10")
    corral.agent("mine", "head -c 50M /dev/zero > big; wc -c < big; rm big; echo x > x")
    outcome = corral.run(repo, "t", "--agent", "mine")
    assert outcome.code == 0, outcome
    assert int(outcome.attempt["output"].split()[-1]) <= 10 << 20


def test_memory_that_lies_in_files(corral: Corral, repo: Repo) -> None:
    corral.config("[scope]\nmemory_mb = 256")
    script = (
        "head -c 200M /dev/zero > /tmp/one; head -c 100M /dev/zero > /dev/shm/two; head -c 90M /dev/zero > /var/tmp/3"
    )
    outcome = used_up(corral, repo, f"{script} || exit 3")
    assert outcome.attempt["error"]["class"] in ("memory", "crash"), outcome


def test_a_check_that_uses_too_much_fails_and_says_so(corral: Corral, repo: Repo) -> None:
    corral.config("[scope]\ndisk_mb = 64")
    corral.agent("mine", "echo x > x")
    check = "head -c 80M /dev/zero > big; sleep 31536000.78"
    outcome = corral.run(repo, "t", "--agent", "mine", "--retries", "0", "--timeout", "200s", "--check", check)
    assert outcome.attempt["error"]["class"] == "check_failed"
    assert "disk" in outcome.attempt["error"]["message"], outcome
    gone("31536000.78")


def test_what_stays_below_is_let_be(corral: Corral, repo: Repo) -> None:
    corral.config("[scope]\nmemory_mb = 512\nprocesses = 60\ndisk_mb = 100")
    hold = "b = bytearray(100 << 20); b[::4096] = b'x' * len(b[::4096])"
    corral.agent("mine", f'python3 -c "{hold}" || exit 3; for i in 1 2 3 4 5; do sleep 1 & done; wait; echo x > x')
    outcome = corral.run(repo, "t", "--agent", "mine")
    assert outcome.code == 0, outcome


MEMINFO = "MemTotal:       {total:>10} kB\nMemFree:        {free:>10} kB\nMemAvailable:   {free:>10} kB\n"


def test_an_agent_is_ended_when_the_machine_runs_out_of_memory_that_no_figure_shows(corral: Corral, repo: Repo) -> None:
    """What the machine says of its memory is ours here: it falls below the floor while the agent works."""
    meminfo = corral.root / "meminfo"
    meminfo.write_text(MEMINFO.format(total=8 << 20, free=6 << 20))
    corral.agent("mine", "echo half > half.txt; echo ready; sleep 31536000.81")
    corral.config("[scope]\nmemory_mb = 512")
    with in_private_mounts(f"mount --bind {meminfo} /proc/meminfo", corral.program) as program:
        corral.program = program
        # Without a box: no box can have a /proc of its own where a part of it is covered.
        words = ("--agent", "mine", "--repo", repo.folder, "--retries", "0", "--timeout", "200s", "--json", *BARE)
        with corral.going("run", "t", *words) as going:
            corral.until_said("ready")
            with meminfo.open("r+") as file:  # in place: it is mounted
                file.write(MEMINFO.format(total=8 << 20, free=20 << 10))
            outcome = going.end()
    assert outcome.code == 1, outcome
    assert outcome.attempt["error"]["class"] == "memory", outcome
    assert repo.read(outcome.attempt["branch"], "half.txt") == "half"
    gone("31536000.81")
