"""The prisoner: tries, one after the other, whatever might lead out of a box. Standard library only; runs inside it.

Usage: python3 hostile.py FACTS.json RESULTS.json [NAME]. A function's name is the attempt's; it returns what it got, or raises.
Whether it really got out is judged outside wherever that can be seen there.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
FACTS = SimpleNamespace()
ATTEMPTS: dict[str, Callable[[], Any]] = {}
ORDER = ("ok", "r", "n", "x", "p", "g", "w")  #: what spoils comes last: a success must not hide the next one


def attempt(function: Callable[[], Any]) -> Callable[[], Any]:
    ATTEMPTS[function.__name__] = function
    return function


def call(x86: int, arm: int, *arguments: Any) -> int:
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    answer = LIBC.syscall(ctypes.c_long(x86 if X86 else arm), *words)
    if answer < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return answer


def outside(name: str) -> Path:
    return Path(FACTS.outside, name)


def spoil(path: Path | str) -> None:
    with Path(path).open("r+") as file:
        file.write("SPOILED")


# --- writing outside


@attempt
def w_outside() -> None:
    spoil(outside("w_outside"))


@attempt
def w_dotdot() -> None:
    spoil(os.path.relpath(outside("w_dotdot")))


@attempt
def w_new_symlink() -> None:
    os.symlink(outside("w_new_symlink"), "made-link")
    spoil("made-link")


@attempt
def w_existing_symlink() -> None:
    spoil("existing-link")


@attempt
def w_new_hardlink() -> None:
    os.link(outside("w_new_hardlink"), "made-hardlink")
    spoil("made-hardlink")


@attempt
def w_existing_hardlink() -> None:
    spoil("existing-hardlink")


@attempt
def w_proc_self_root() -> None:
    spoil(f"/proc/self/root{outside('w_proc_self_root')}")


@attempt
def w_proc_1_root() -> None:
    spoil(f"/proc/1/root{outside('w_proc_1_root')}")


@attempt
def w_proc_victim_root() -> None:
    spoil(f"/proc/{FACTS.victim}/root{outside('w_proc_victim_root')}")


@attempt
def w_proc_victim_cwd() -> None:
    spoil(f"/proc/{FACTS.victim}/cwd/w_proc_victim_cwd")


@attempt
def w_rename_out() -> None:
    Path("mine").write_text("SPOILED")
    os.rename("mine", outside("w_rename_out"))


@attempt
def w_rename_in() -> None:
    os.rename(outside("w_rename_in"), "taken")


@attempt
def w_unlink() -> None:
    outside("w_unlink").unlink()


@attempt
def w_truncate() -> None:
    os.truncate(outside("w_truncate"), 0)


@attempt
def w_chmod() -> None:
    outside("w_chmod").chmod(0o777)


@attempt
def w_utime() -> None:
    os.utime(outside("w_utime"), (1, 1))


@attempt
def w_xattr() -> None:
    os.setxattr(outside("w_xattr"), "user.spoiled", b"x")


@attempt
def w_inherited_dirfd() -> None:
    for number in range(3, 64):
        with contextlib.suppress(OSError):
            os.close(os.open("w_inherited_dirfd", os.O_WRONLY | os.O_TRUNC, dir_fd=number))
            return
    raise OSError("none leads there")


@attempt
def w_inherited_dotdot() -> None:
    for number in range(3, 64):
        with contextlib.suppress(OSError):
            os.close(os.open("../outside/w_inherited_dotdot", os.O_WRONLY | os.O_TRUNC, dir_fd=number))
            return
    raise OSError("none leads there")


@attempt
def w_home_dotfile() -> None:
    spoil(Path(FACTS.person, ".bashrc"))


@attempt
def w_tmp_shared() -> None:
    Path("/tmp", FACTS.mark).write_text("SPOILED")


@attempt
def w_shm_shared() -> None:
    Path("/dev/shm", FACTS.mark).write_text("SPOILED")


@attempt
def w_other_workspace() -> None:
    spoil(Path(FACTS.other, "file"))


@attempt
def w_state() -> None:
    spoil(Path(FACTS.state, "corral.db"))


@attempt
def w_readonly() -> None:
    spoil("kept/readonly.txt")


@attempt
def w_readonly_swapped() -> None:
    os.rename("kept", "moved")
    os.mkdir("kept")
    Path("kept/readonly.txt").write_text("SPOILED")


@attempt
def w_device() -> None:
    os.mknod("device", 0o600 | 0o020000, os.makedev(1, 3))


@attempt
def w_open_by_handle() -> None:
    buffer = ctypes.create_string_buffer(struct.pack("Ii", 64, 0) + bytes(64))
    mount = ctypes.c_int()
    call(303, 264, -100, os.fsencode(Path.cwd()), buffer, ctypes.byref(mount), 0)
    call(304, 265, os.open(".", os.O_RDONLY), buffer, os.O_RDONLY)


# --- git


@attempt
def g_hook() -> None:
    Path(FACTS.repo, ".git/hooks/pre-commit").write_text("SPOILED")


@attempt
def g_config() -> None:
    spoil(Path(FACTS.repo, ".git/config"))


@attempt
def g_move_main() -> None:
    spoil(Path(FACTS.repo, ".git/refs/heads/main"))


@attempt
def g_delete_objects() -> None:
    next(file for file in Path(FACTS.repo, ".git/objects").rglob("*") if file.is_file()).unlink()


@attempt
def g_own_hook() -> None:
    Path(".git/hooks/pre-commit").write_text("SPOILED")


@attempt
def g_own_config() -> None:
    with Path(".git/config").open("a") as file:
        file.write("\tfsmonitor = SPOILED\n")


@attempt
def g_own_hook_swapped() -> None:
    os.rename(".git/hooks", ".git/moved")
    os.mkdir(".git/hooks")
    Path(".git/hooks/pre-commit").write_text("SPOILED")


@attempt
def g_own_replaced() -> None:
    os.rename(".git", "moved.git")
    subprocess.run(["cp", "-r", "moved.git", ".git"], check=False, capture_output=True)
    Path(".git/hooks").mkdir(parents=True, exist_ok=True)
    Path(".git/hooks/post-checkout").write_text("SPOILED")


# --- reading


@attempt
def r_ssh() -> str:
    return Path(FACTS.person, ".ssh/id_rsa").read_text()


@attempt
def r_other_workspace() -> str:
    return Path(FACTS.other, "file").read_text()


@attempt
def r_state() -> str:
    return Path(FACTS.state, "corral.db").read_text()


@attempt
def r_shadow() -> str:
    return "SECRET" + Path("/etc/shadow").read_text()[:4]


@attempt
def r_hidden() -> str:
    return Path("kept/hidden.txt").read_text()


@attempt
def r_hidden_renamed() -> str:
    os.rename("kept/hidden.txt", "kept/shown.txt")
    return Path("kept/shown.txt").read_text()


@attempt
def r_stat_hidden() -> str:
    return f"SECRET {Path(FACTS.person, '.ssh/id_rsa').stat().st_size}"


@attempt
def r_env_leak() -> str:
    return os.environ["OF_THE_ENGINE"]


@attempt
def r_victim_environ() -> str:
    return Path(f"/proc/{FACTS.victim}/environ").read_text()


@attempt
def r_any_environ() -> str:
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and "SECRET of" in (text := (folder / "environ").read_text(errors="replace")):
                return text
    raise OSError("none can be read")


@attempt
def r_any_cmdline() -> str:
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and "SECRET-VALUE" in (text := (folder / "cmdline").read_text(errors="replace")):
                return text
    raise OSError("none can be read")


@attempt
def r_victim_mem() -> str:
    with open(f"/proc/{FACTS.victim}/mem", "rb") as file:
        file.seek(FACTS.address)
        return file.read(64).decode(errors="replace")


@attempt
def r_list_processes() -> str:
    return "SECRET " + Path(f"/proc/{FACTS.victim}/comm").read_text()


@attempt
def r_victim_descriptors() -> str:
    return "SECRET " + os.readlink(f"/proc/{FACTS.victim}/fd/0")


@attempt
def r_kernel_log() -> str:
    buffer = ctypes.create_string_buffer(4096)
    return f"SECRET {call(103, 116, 3, buffer, 4096)}"


@attempt
def r_kernel_memory() -> str:
    for name in ("/dev/mem", "/dev/kmem", "/proc/kcore", "/dev/port"):
        with contextlib.suppress(OSError):
            os.close(os.open(name, os.O_RDONLY))
            return "SECRET"
    raise OSError("none opens")


@attempt
def r_disks() -> str:
    for name in os.listdir("/sys/block") if os.path.isdir("/sys/block") else []:
        with contextlib.suppress(OSError):
            os.close(os.open(f"/dev/{name}", os.O_RDONLY))
            return "SECRET"
    raise OSError("none opens")


# --- the network


@attempt
def n_tcp() -> None:
    socket.create_connection(("127.0.0.1", FACTS.tcp), 2).sendall(b"n_tcp\n")


@attempt
def n_tcp6() -> None:
    socket.create_connection(("::1", FACTS.tcp6), 2).sendall(b"n_tcp6\n")


@attempt
def n_udp() -> None:
    socket.socket(type=socket.SOCK_DGRAM).sendto(b"n_udp\n", ("127.0.0.1", FACTS.udp))


@attempt
def n_unix_path() -> None:
    out = socket.socket(socket.AF_UNIX)
    out.connect(FACTS.unix)
    out.sendall(b"n_unix_path\n")


@attempt
def n_unix_workspace() -> None:
    out = socket.socket(socket.AF_UNIX)
    out.connect("left.sock")
    out.sendall(b"n_unix_workspace\n")


@attempt
def n_unix_abstract() -> None:
    out = socket.socket(socket.AF_UNIX)
    out.connect("\0" + FACTS.mark)
    out.sendall(b"n_unix_abstract\n")


@attempt
def n_listen() -> None:
    """Listen for whoever connects from outside; it does so while we wait."""
    listener = socket.socket()
    listener.bind(("0.0.0.0", 0))
    listener.listen()
    listener.settimeout(3)
    Path("listening").write_text(str(listener.getsockname()[1]))
    peer, _ = listener.accept()
    peer.sendall(b"n_listen\n")


@attempt
def n_raw() -> str:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    return "SECRET"


@attempt
def n_packet() -> str:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300)
    return "SECRET"


@attempt
def n_vsock() -> str:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    return "SECRET"


@attempt
def n_bluetooth_or_crypto() -> str:
    for family in (31, 38, 43, 44, 30, 21):
        with contextlib.suppress(OSError):
            socket.socket(family, socket.SOCK_RAW if family == 31 else socket.SOCK_SEQPACKET)
            return "SECRET"
    raise OSError("none opens")


@attempt
def n_netlink() -> str:
    """Families besides addresses and routes lead to parts of the kernel that no program here needs."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16):
        return "SECRET"


@attempt
def n_route() -> str:
    """Give the loopback another address: only whoever owns the network may."""
    out = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    address = struct.pack("=HH4s", 8, 2, bytes([127, 9, 9, 9])) + struct.pack("=HH4s", 8, 1, bytes([127, 9, 9, 9]))
    body = struct.pack("=BBBBI", 2, 8, 0, 254, 1) + address
    out.send(struct.pack("=IHHII", 16 + len(body), 20, 0x605, 1, 0) + body)
    if struct.unpack("=i", out.recv(4096)[16:20])[0]:
        raise OSError("refused")
    return "SECRET"


# --- processes


@attempt
def p_kill() -> None:
    os.kill(FACTS.victim_to_kill, signal.SIGKILL)


@attempt
def p_stop() -> None:
    os.kill(FACTS.victim_to_stop, signal.SIGSTOP)


@attempt
def p_ptrace() -> str:
    return f"SECRET {call(101, 117, 16, FACTS.victim, 0, 0)}"


@attempt
def p_vm_read() -> str:
    buffer = ctypes.create_string_buffer(64)
    local = struct.pack("PN", ctypes.addressof(buffer), 64)
    remote = struct.pack("PN", FACTS.address, 64)
    call(310, 270, FACTS.victim, local, 1, remote, 1, 0)
    return buffer.raw.decode(errors="replace")


@attempt
def p_take_descriptor() -> str:
    return f"SECRET {call(438, 438, call(434, 434, FACTS.victim, 0), 0, 0)}"


@attempt
def p_limit_victim() -> None:
    limits = struct.pack("=QQ", 7, 7)
    call(302, 261, FACTS.victim, 3, limits, None)


@attempt
def p_nice_victim() -> None:
    os.setpriority(os.PRIO_PROCESS, FACTS.victim, 7)


@attempt
def p_daemon() -> None:
    script = f"setsid env -i sleep {FACTS.sleep} & (env -i setsid -f sleep {FACTS.sleep})"
    subprocess.run(["sh", "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


# --- the kernel


@attempt
def x_userns() -> str:
    return f"SECRET {call(272, 97, 0x10000000)}"


@attempt
def x_userns_clone() -> str:
    pid = call(56, 220, 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return "SECRET"


@attempt
def x_userns_clone3() -> str:
    arguments = struct.pack("=8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0)
    pid = call(435, 435, arguments, len(arguments))
    if pid == 0:
        os._exit(0)
    return "SECRET"


@attempt
def x_bubblewrap() -> str:
    subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"], check=True, capture_output=True)
    return "SECRET"


@attempt
def x_setns() -> str:
    return f"SECRET {call(308, 268, os.open('/proc/1/ns/mnt', os.O_RDONLY), 0)}"


@attempt
def x_mount() -> str:
    return f"SECRET {call(165, 40, b'none', b'/tmp', b'tmpfs', 0, None)}"


@attempt
def x_remount() -> str:
    return f"SECRET {call(165, 40, b'none', b'/', None, 32 | 4096, None)}"


@attempt
def x_unmount_guard() -> str:
    return f"SECRET {call(166, 39, os.fsencode(Path('.git/config').absolute()), 2)}"


@attempt
def x_new_mount_calls() -> str:
    return f"SECRET {call(428, 428, -100, b'/', 1)}"


@attempt
def x_chroot() -> str:
    os.chroot(".")
    return "SECRET"


@attempt
def x_core_pattern() -> None:
    with open("/proc/sys/kernel/core_pattern", "r+") as file:  # opened is enough: nothing is changed
        file.fileno()
    Path("core-pattern-opened").touch()


@attempt
def x_sysctl() -> str:
    for name in ("kernel/hostname", "vm/swappiness", "kernel/modprobe", "net/ipv4/ip_forward"):
        with contextlib.suppress(OSError):
            os.close(os.open(f"/proc/sys/{name}", os.O_WRONLY))
            return "SECRET"
    raise OSError("none opens")


@attempt
def x_sysrq() -> str:
    os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))
    return "SECRET"


@attempt
def x_control_group() -> str:
    for root, _, names in os.walk("/sys/fs/cgroup"):
        for name in {"cgroup.procs", "release_agent"} & set(names):
            with contextlib.suppress(OSError):
                os.close(os.open(Path(root, name), os.O_WRONLY))
                return "SECRET"
    raise OSError("none opens")


@attempt
def x_become_root() -> str:
    os.setresuid(0, 0, 0)
    return "SECRET"


@attempt
def x_new_privileges() -> str:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    if status["NoNewPrivs"] == "1":
        raise OSError("none are given")
    return "SECRET"


@attempt
def x_capabilities() -> str:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    if not any(int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")):
        raise OSError("none are left")
    return "SECRET"


@attempt
def x_io_uring() -> str:
    return f"SECRET {call(425, 425, 4, ctypes.create_string_buffer(120))}"


@attempt
def x_bpf() -> str:
    attributes = ctypes.create_string_buffer(struct.pack("=IIII", 2, 4, 4, 1), 128)
    return f"SECRET {call(321, 280, 0, attributes, 128)}"


@attempt
def x_perf() -> str:
    attributes = ctypes.create_string_buffer(struct.pack("=IIQ", 1, 128, 0), 128)
    return f"SECRET {call(298, 241, attributes, 0, -1, -1, 0)}"


@attempt
def x_userfaultfd() -> str:
    return f"SECRET {call(323, 282, 1)}"


@attempt
def x_keyring() -> str:
    return f"SECRET {call(248, 217, b'user', b'corral-test', b'x', 1, -2)}"


@attempt
def x_terminal_keys() -> str:
    """Press a key in a terminal of our own: a refusal for lack of one would say nothing."""
    master, slave = os.openpty()
    os.setsid()
    fcntl.ioctl(slave, 0x540E, 0)
    for byte in b"id\n":
        fcntl.ioctl(slave, 0x5412, bytes([byte]))
    return f"SECRET {master}"


@attempt
def x_module() -> str:
    call(175, 105, b"", 0, b"")
    return "SECRET"


@attempt
def x_compatible_call() -> str:
    """Ask the kernel by its old door, where another table of calls holds."""
    code = bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3])  # mov eax, 20; int 0x80; ret
    if not X86:
        raise OSError("no such door")
    import mmap  # noqa: PLC0415

    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return f"SECRET {ctypes.CFUNCTYPE(ctypes.c_int)(address)()}"


@attempt
def x_schedule() -> str:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    return "SECRET"


@attempt
def x_core_file() -> str:
    import resource  # noqa: PLC0415

    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
    return "SECRET"


# --- what must work


@attempt
def ok_write() -> str:
    Path("mine.txt").write_text("x")
    return "OK"


@attempt
def ok_git() -> str:
    for words in (["add", "mine.txt"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"], ["status"]):
        subprocess.run(["git", *words], check=True, capture_output=True)
    return "OK"


@attempt
def ok_threads() -> str:
    import threading  # noqa: PLC0415

    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    return "OK"


@attempt
def ok_sockets() -> str:
    first, second = socket.socketpair()
    first.sendall(b"x")
    return "OK" if second.recv(1) == b"x" else ""


@attempt
def ok_pipe_by_name() -> str:
    os.mkfifo("named-pipe")
    os.unlink("named-pipe")
    return "OK"


@attempt
def ok_terminal() -> str:
    os.openpty()
    return "OK"


@attempt
def ok_scratch() -> str:
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    return "OK"


@attempt
def ok_asked_outside() -> str:
    """The one way out that was given: the port that the engine answers."""
    with socket.create_connection(("127.0.0.1", FACTS.answered), 5) as out:
        return out.recv(16).decode()


# --- bombs, each in a box of its own


def b_processes() -> str:
    pids: list[int] = []
    try:
        while len(pids) < 400:
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(0)
            pids.append(pid)
    except OSError:
        return ""
    finally:
        Path("counted").write_text(str(len(pids)))
        time.sleep(2)  # as long as they are there, the watchdog may see them
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    return "SECRET"


def b_memory_one() -> str:
    kept = bytearray(600 << 20)
    time.sleep(2)
    return f"SECRET {len(kept)}"


def b_memory_many() -> str:
    for _ in range(4):
        if os.fork() == 0:
            kept = bytearray(200 << 20)
            time.sleep(5)
            os._exit(len(kept) and 0)
    return "SECRET" if [os.wait()[1] for _ in range(4)] == [0] * 4 else ""


def b_memory_files() -> str:
    written = 0
    for folder in ("/dev/shm", "/tmp", "/var/tmp", "/run"):
        with contextlib.suppress(OSError), open(f"{folder}/{FACTS.mark}-big", "wb", buffering=0) as file:
            for _ in range(9):
                written += file.write(bytes(20 << 20))
    time.sleep(2)
    return "SECRET" if written > 384 << 20 else ""


def b_memory_unnamed() -> str:
    file = os.memfd_create("big")
    written = sum(os.write(file, bytes(20 << 20)) for _ in range(30))
    time.sleep(2)
    return "SECRET" if written > 384 << 20 else ""


def b_memory_devices() -> str:
    with open(f"/dev/{FACTS.mark}-big", "wb", buffering=0) as file:
        written = sum(file.write(bytes(20 << 20)) for _ in range(30))
    time.sleep(2)
    return "SECRET" if written > 384 << 20 else ""


def b_memory_segments() -> str:
    """Shared memory of System V that nobody has attached any more."""
    LIBC.shmat.restype = ctypes.c_void_p
    made: list[int] = []
    try:
        for _ in range(15):
            made.append(LIBC.shmget(0, 40 << 20, 0o1600))
            if made[-1] < 0:
                return ""
            place = ctypes.c_void_p(LIBC.shmat(made[-1], None, 0))
            ctypes.memset(place, 1, 40 << 20)
            LIBC.shmdt(place)
        time.sleep(2)
        return "SECRET"
    finally:
        for each in made:
            LIBC.shmctl(each, 0, None)


def b_memory_sockets() -> str:
    """Pairs of sockets that nobody reads from."""
    kept: list[tuple[socket.socket, socket.socket]] = []
    until = time.monotonic() + 8
    sent, chunk = 0, bytes(65536)
    with contextlib.suppress(OSError):
        while sent < 500 << 20 and time.monotonic() < until:
            kept.append(socket.socketpair())
            for one in kept[-1]:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
                one.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while sent < 500 << 20:
                        sent += one.send(chunk)
    time.sleep(4)
    return "SECRET" if sent > 384 << 20 else ""


def b_disk_one() -> str:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open("big", "wb") as file:
        file.writelines(bytes(10 << 20) for _ in range(15))
    return "SECRET"


def b_disk_many() -> str:
    for number in range(12):
        with open(f"part-{number}", "wb") as file:
            file.write(bytes(40 << 20))
        time.sleep(0.25)
    return "SECRET"


def b_cpu() -> str:
    while time.process_time() < 6:
        pass
    return "SECRET"


BOMBS = (
    b_processes, b_memory_one, b_memory_many, b_memory_files, b_memory_unnamed, b_memory_devices, b_memory_segments,
    b_memory_sockets, b_disk_one, b_disk_many, b_cpu,
)  # fmt: skip


def one(function: Callable[[], Any]) -> dict[str, Any]:
    """Try it in a process of its own, for at most ten seconds."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        try:
            said = {"got": str(function() or "")[:2000], "error": None}
        except BaseException as error:  # noqa: BLE001
            said = {"got": None, "error": f"{type(error).__name__}: {error}"[:200]}
        os.write(writing, json.dumps(said).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        answer = file.read()
    os.waitpid(pid, 0)
    return json.loads(answer) if answer else {"got": None, "error": "killed"}


def main() -> None:
    facts, results, *named = sys.argv[1:]
    FACTS.__dict__.update(json.loads(Path(facts).read_text()))
    if named:
        print(next(bomb for bomb in BOMBS if bomb.__name__ == named[0])(), flush=True)
        return
    Path(results).write_text(
        json.dumps(
            {
                name: one(ATTEMPTS[name])
                for name in sorted(ATTEMPTS, key=lambda name: ORDER.index(name.partition("_")[0]))
            }
        )
    )


if __name__ == "__main__":
    main()
