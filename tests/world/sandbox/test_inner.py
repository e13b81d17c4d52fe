"""The inner launcher and its twin: what it gives away stays away, whatever the program then tries."""

import errno
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from corral.world.sandbox import inner as twin_module
from corral.world.sandbox.profile import FOLDER

INNERS = {"compiled": [str(FOLDER / "inner")], "twin": [sys.executable, "-IS", str(FOLDER / "inner.py")]}
EVERYWHERE = ["-r", "/", "-w", "/dev"]
ASK = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for word in sys.argv[1:]:
    number, *arguments = [int(part, 0) for part in word.split(",")]
    answer = libc.syscall(number, *[ctypes.c_long(each) for each in (*arguments, 0, 0, 0, 0)])
    print(ctypes.get_errno() if answer < 0 else 0)
"""


@pytest.fixture(params=list(INNERS))
def inner(request: pytest.FixtureRequest) -> list[str]:
    found = INNERS[request.param]
    assert Path(found[0]).exists(), "the inner launcher was not compiled: is a C compiler installed?"
    return found


def run(inner: list[str], *arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*inner, *arguments], capture_output=True, text=True, check=False, timeout=60, **more)  # type: ignore[call-overload]


def ask(inner: list[str], *calls: str, options: tuple[str, ...] = ()) -> list[int]:
    """Make system calls in it; return their errors."""
    done = run(inner, *options, *EVERYWHERE, "--", sys.executable, "-IS", "-c", ASK, *calls)
    assert done.returncode == 0, done
    return [int(line) for line in done.stdout.split()]


def test_limits_hold_and_are_never_above_what_was_allowed(inner: list[str]) -> None:
    limits = ["-f", "1048576", "-d", "2147483648", "-t", "77", "-o", "99999999", "-n", "300"]
    done = run(
        inner,
        *limits,
        *EVERYWHERE,
        "--",
        "bash",
        "-c",
        "ulimit -H -f; ulimit -d; ulimit -t; ulimit -n; ulimit -u; ulimit -c",
    )
    files, data, seconds, opened, processes, core = done.stdout.split()
    assert (files, data, seconds, processes, core) == ("1024", "2097152", "77", "300", "0")
    assert int(opened) <= 99999999


def test_what_is_not_named_cannot_be_read_or_written(inner: list[str], tmp_path: Path) -> None:
    for name in ("shown", "ours", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    system = [word for path in ("/usr", "/bin", "/lib", "/lib64", "/etc") for word in ("-r", path)]
    script = f"cd {tmp_path}/ours; cat file ../shown/file; cat ../secret/file; echo x > new; echo x > ../shown/new; rm ../secret/file; ls .."
    done = run(inner, *system, "-r", f"{tmp_path}/shown", "-w", f"{tmp_path}/ours", "--", "sh", "-c", script)
    assert done.stdout == "oursshown"
    assert done.stderr.count("Permission denied") == 4
    assert (tmp_path / "ours" / "new").exists()
    assert not (tmp_path / "shown" / "new").exists()
    assert (tmp_path / "secret" / "file").exists()


def test_system_calls_that_no_program_needs_are_refused(inner: list[str]) -> None:
    place = twin_module.MACHINES[platform.machine()][0]
    numbers = [str(each[place]) for name, each in twin_module.REFUSED.items() if each[place] and name != "reboot"]
    assert set(ask(inner, *numbers)) == {errno.EPERM}


def test_new_namespaces_are_refused_and_threads_are_not(inner: list[str]) -> None:
    clone = twin_module.JUDGED["clone"][twin_module.MACHINES[platform.machine()][0]]
    namespaces = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
    assert ask(inner, *(f"{clone},{flag | 17}" for flag in namespaces)) == [errno.EPERM] * 7
    assert ask(inner, "435,0,88") == [errno.ENOSYS]
    threads = "import threading; t = threading.Thread(target=lambda: print('ran')); t.start(); t.join()"
    assert run(inner, *EVERYWHERE, "--", sys.executable, "-IS", "-c", threads).stdout == "ran\n"


def test_keys_cannot_be_pressed_for_a_terminal(inner: list[str]) -> None:
    ioctl = twin_module.JUDGED["ioctl"][twin_module.MACHINES[platform.machine()][0]]
    # The upper half of the number is not looked at by the kernel; it must not help.
    assert ask(inner, f"{ioctl},0,0x5412", f"{ioctl},0,0x100005412", f"{ioctl},0,0x541C") == [errno.EPERM] * 3


def test_only_sockets_of_ordinary_kinds(inner: list[str]) -> None:
    opens = twin_module.JUDGED["socket"][twin_module.MACHINES[platform.machine()][0]]
    kinds = {"1,1": 0, "2,1": 0, "2,2": 0, "10,1": 0, "16,3": 0, "17,3": errno.EAFNOSUPPORT, "40,1": errno.EAFNOSUPPORT}
    kinds |= {"38,5": errno.EAFNOSUPPORT, "31,3": errno.EAFNOSUPPORT, "2,3": errno.EPERM, "2,0x80803": errno.EPERM}
    assert ask(inner, *(f"{opens},{kind}" for kind in kinds)) == list(kinds.values())
    alone = {"1,1": 0, "2,1": 0, "2,2": errno.EPERM, "10,2": errno.EPERM, "2,0x80001": 0, "2,5": errno.EPERM}
    assert ask(inner, *(f"{opens},{kind}" for kind in alone), options=("-i",)) == list(alone.values())


def test_netlink_serves_addresses_and_routes_alone(inner: list[str]) -> None:
    opens = twin_module.JUDGED["socket"][twin_module.MACHINES[platform.machine()][0]]
    assert ask(inner, f"{opens},16,3,0", f"{opens},16,0x80002,0") == [0, 0]
    others = [f"{opens},16,{kind},{family}" for kind in (2, 3) for family in (1, 2, 4, 6, 9, 12, 15, 16, 21, 22)]
    assert ask(inner, *others) == [errno.EPROTONOSUPPORT] * 20


def test_pairs_are_unix_sockets_alone(inner: list[str]) -> None:
    pairs = twin_module.JUDGED["socketpair"][twin_module.MACHINES[platform.machine()][0]]
    assert ask(inner, f"{pairs},1,1,0,0", f"{pairs},30,1,0,0") == [errno.EFAULT, errno.EAFNOSUPPORT]


def test_memory_that_cannot_be_counted_from_outside_is_refused(inner: list[str]) -> None:
    place = twin_module.MACHINES[platform.machine()][0]
    memfd, secret, vmsplice, shmget, semget, fcntl, _ = (each[place] for each in twin_module.COUNTED.values())
    create = 0o1600
    calls = {
        f"{memfd},0,0": errno.ENOSYS,
        f"{secret},0": errno.ENOSYS,
        f"{vmsplice},0,0,0,0": errno.EPERM,
        f"{shmget},0,65537,{create}": errno.EINVAL,
        f"{shmget},0,0x100000001,{create}": errno.EINVAL,
        f"{semget},0,251,{create}": errno.EINVAL,
        f"{fcntl},0,1031,1048576": errno.EPERM,
        f"{fcntl},0,1": 0,
    }
    assert ask(inner, *calls, options=("-m",)) == list(calls.values())
    # Small segments and sets work: what is not ours to create is not removed, so they are only looked up.
    assert ask(inner, f"{shmget},0x7ead,4096,0", f"{semget},0x7ead,4,0", options=("-m",)) == [errno.ENOENT] * 2
    assert errno.ENOSYS not in ask(inner, f"{memfd},0,0", f"{semget},0x7ead,251,0")


def test_buffers_of_sockets_stay_as_they_are(inner: list[str]) -> None:
    grow = """
import socket
one, two = socket.socketpair()
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
    before = one.getsockopt(socket.SOL_SOCKET, option)
    one.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
    print(one.getsockopt(socket.SOL_SOCKET, option) == before)
one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
print(one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1)
"""
    done = run(inner, "-m", *EVERYWHERE, "--", sys.executable, "-IS", "-c", grow)
    assert done.stdout.split() == ["True"] * 3, done


def test_calls_of_another_machine_kill(inner: list[str], tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text(
        """
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
  puts("alive"); fflush(stdout);
  if (count > 1) syscall(0x40000000 + 39);            /* getpid, as x32 */
  else __asm__ volatile("int $0x80" : : "a"(20));       /* getpid, as i386 */
  puts("still alive"); return 0;
}"""
    )
    subprocess.run(["cc", "-o", str(tmp_path / "other"), str(source)], check=True)
    for words in ([], ["x32"]):
        done = run(inner, *EVERYWHERE, "--", str(tmp_path / "other"), *words)
        assert (done.returncode, done.stdout) == (-31, "alive\n")


def test_tcp_only_to_the_ports_that_are_named(inner: list[str]) -> None:
    connect = "import socket, sys\nfor port in (1, 2):\n try: socket.create_connection(('127.0.0.1', port))\n except OSError as e: print(e.errno)\ntry: socket.socket().bind(('127.0.0.1', 0))\nexcept OSError as e: print(e.errno)"
    done = run(inner, *EVERYWHERE, "-i", "-p", "1", "--", sys.executable, "-IS", "-c", connect)
    assert done.stdout.split() == [str(errno.ECONNREFUSED), str(errno.EACCES), str(errno.EACCES)]


def test_no_descriptor_is_inherited(inner: list[str]) -> None:
    leaked = os.open("/", os.O_RDONLY)
    done = run(
        inner,
        *EVERYWHERE,
        "--",
        sys.executable,
        "-IS",
        "-c",
        "import os; print(os.listdir('/proc/self/fd'))",
        pass_fds=[leaked],
    )
    os.close(leaked)
    assert done.stdout == "['0', '1', '2', '3']\n"  # the last is the listing itself


def test_no_new_privileges(inner: list[str]) -> None:
    done = run(inner, *EVERYWHERE, "--", "grep", "-E", "NoNewPrivs|Seccomp:", "/proc/self/status")
    assert done.stdout.split() == ["NoNewPrivs:", "1", "Seccomp:", "2"]


@pytest.mark.parametrize(
    "arguments",
    [["-x"], ["-r", "/"], ["-r", "/no/such/place", "--", "true"], ["-r", "/", "--", "/no/such/program"],
     ["-r", "/", "-l", "8000", "-c", "999", "--", "true"], ["-r", "/", "-l", "8000", "--", "true"]],
)  # fmt: skip
def test_a_step_that_fails_starts_nothing(inner: list[str], arguments: list[str]) -> None:
    done = run(inner, *arguments)
    assert done.returncode == 97
    assert len(done.stderr.splitlines()) == 1


def test_the_table_for_each_machine_is_that_of_the_kernel() -> None:
    generic = Path("/usr/include/asm-generic/unistd.h").read_text()
    own = subprocess.run(
        ["cc", "-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    tables = [dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)) for text in (own, generic)]
    told = {**twin_module.REFUSED, **twin_module.JUDGED, **twin_module.COUNTED}
    for place in (0, 1) if platform.machine() == "x86_64" else (1,):
        table = tables[place] if platform.machine() == "x86_64" else tables[1]
        wrong = {
            name: each[place]
            for name, each in told.items()
            if each[place] and int(table.get(name, each[place])) != each[place]
        }
        assert wrong == {}
    compiled = set(re.findall(r"SYS_(\w+)", (FOLDER / "inner.c").read_text())) - {"close_range"}
    assert compiled == {name for name, each in told.items() if each[0] < 424}
