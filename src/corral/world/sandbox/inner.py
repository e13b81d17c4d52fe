"""The first thing that runs in a box, where no C compiler was at hand: same arguments, same steps as inner.c."""

from __future__ import annotations

import array
import ctypes
import errno
import getopt
import os
import platform
import resource
import socket
import stat
import struct
import sys
from typing import NoReturn

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LIMITS = {
    "-n": resource.RLIMIT_NPROC,
    "-f": resource.RLIMIT_FSIZE,
    "-d": resource.RLIMIT_DATA,
    "-t": resource.RLIMIT_CPU,
    "-o": resource.RLIMIT_NOFILE,
}

# Landlock: numbers of the kernel, the same everywhere.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, RULE_PATH, RULE_PORT = 444, 445, 446, 1, 2
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, MAKE_CHAR, MAKE_BLOCK = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 6, 1 << 11
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
BIND_TCP, CONNECT_TCP, ABSTRACT_SOCKETS, SIGNALS = 1, 2, 1, 2

#: What no ordinary program needs: the numbers on x86_64 and on aarch64; 0 where it does not exist.
REFUSED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "move_pages": (279, 239), "migrate_pages": (256, 238), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "fanotify_init": (300, 262), "open_by_handle_at": (304, 265), "syslog": (103, 116), "acct": (163, 89),
    "quotactl": (179, 60), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "lookup_dcookie": (212, 18), "vhangup": (153, 58), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268),
    "sethostname": (170, 161), "setdomainname": (171, 162), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467), "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "quotactl_fd": (443, 443),
    "process_mrelease": (448, 448), "iopl": (172, 0), "ioperm": (173, 0), "modify_ldt": (154, 0), "uselib": (134, 0),
    "create_module": (174, 0), "nfsservctl": (180, 0),
}  # fmt: skip
JUDGED = {"clone": (56, 220), "ioctl": (16, 29), "socket": (41, 198), "socketpair": (53, 199)}
#: Judged only where memory is counted from outside: it could be kept where no look finds it.
COUNTED = {
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "vmsplice": (278, 75), "shmget": (29, 194),
    "semget": (64, 190), "fcntl": (72, 25), "setsockopt": (54, 208),
}  # fmt: skip
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
CLONE3, NAMESPACES, X32 = 435, 0x7E020000, 0x40000000
FIRST_ARGUMENT, SECOND_ARGUMENT, SECOND_UPPER_HALF, THIRD_ARGUMENT = 16, 24, 28, 32
STI, LINUX, STREAM, RAW, TYPE_MASK = 0x5412, 0x541C, 1, 3, 0xF
UNIX, INET, INET6, NETLINK, NETLINK_ROUTES = 1, 2, 10, 16, 0
SHARED_MOST, SEMAPHORES_MOST, SET_PIPE_SIZE, OF_SOCKETS = 65536, 250, 1031, 1
BUFFER_SIZES = (7, 8, 32, 33)  #: SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE
LOAD, EQUAL, AT_LEAST, ANY_OF, AND, GIVE = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
KILL, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
REFUSE, IGNORE = ERRNO | errno.EPERM, ERRNO | 0

Step = tuple[int, int, int, int]  #: code, value, steps to skip if true, and if not


def fail(what: str, error: int = 0) -> NoReturn:
    sys.stderr.write(f"inner: {what}: {os.strerror(error or ctypes.get_errno())}\n")
    sys.stderr.flush()
    os._exit(97)


def limit(kind: int, wanted: int) -> None:
    most = resource.getrlimit(kind)[1]
    wanted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(kind, (wanted, wanted))


def listen_for(control: int, port: int) -> None:
    with socket.socket() as listener, socket.socket(fileno=os.dup(control)) as out:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(512)
        out.sendmsg([b"L"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))])


def call(what: str, number: int, *arguments: object) -> int:
    answer = LIBC.syscall(ctypes.c_long(number), *arguments)
    if answer < 0:
        fail(what)
    return answer


def landlock(readable: list[str], writable: list[str], ports: list[int], *, offline: bool) -> None:
    version = call("Landlock", CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if offline and version < 4:
        fail("Landlock's network rules", errno.ENOSYS)
    rights = ((1 << 13) - 1) | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    rights |= IOCTL_DEV if version >= 5 else 0
    asked = [rights]
    if version >= 4:
        asked.append(BIND_TCP | CONNECT_TCP if offline else 0)
    if version >= 6:
        asked.append(ABSTRACT_SOCKETS | SIGNALS)
    packed = struct.pack(f"={len(asked)}Q", *asked)
    rules = call("Landlock", CREATE_RULESET, packed, ctypes.c_size_t(len(packed)), ctypes.c_uint(0))
    shown = [(path, EXECUTE | READ_FILE | READ_DIR) for path in readable]
    for path, allowed in (*shown, *((path, rights & ~(MAKE_CHAR | MAKE_BLOCK)) for path in writable)):
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        folder = stat.S_ISDIR(os.fstat(opened).st_mode)
        rule = struct.pack("=Qi", allowed if folder else allowed & OF_FILES, opened)
        call(path, ADD_RULE, rules, RULE_PATH, rule, 0)
        os.close(opened)
    for port in ports:
        call("Landlock's network rules", ADD_RULE, rules, RULE_PORT, struct.pack("=QQ", CONNECT_TCP, port), 0)
    call("Landlock", RESTRICT_SELF, rules, 0)
    os.close(rules)


def steps(machine: str, *, offline: bool, counted: bool) -> list[Step]:
    """Return the filter: what it does to a system call of another machine, of a refused kind, of any other kind."""
    place, architecture = MACHINES[machine]
    clone, ioctl, opens, pairs = (each[place] for each in JUDGED.values())
    made = [(LOAD, 4, 0, 0), (EQUAL, architecture, 1, 0), (GIVE, KILL, 0, 0), (LOAD, 0, 0, 0)]
    if machine == "x86_64":
        made += [(AT_LEAST, X32, 0, 1), (GIVE, KILL, 0, 0)]
    for numbers in REFUSED.values():
        if numbers[place]:
            made += [(EQUAL, numbers[place], 0, 1), (GIVE, REFUSE, 0, 0)]
    made += [(EQUAL, CLONE3, 0, 1), (GIVE, ERRNO | errno.ENOSYS, 0, 0)]
    made += [(EQUAL, clone, 0, 4), (LOAD, FIRST_ARGUMENT, 0, 0), (ANY_OF, NAMESPACES, 0, 1)]
    made += [(GIVE, REFUSE, 0, 0), (GIVE, ALLOW, 0, 0)]
    made += [(EQUAL, ioctl, 0, 5), (LOAD, SECOND_ARGUMENT, 0, 0), (EQUAL, STI, 1, 0), (EQUAL, LINUX, 0, 1)]
    made += [(GIVE, REFUSE, 0, 0), (GIVE, ALLOW, 0, 0)]
    made += _memory_steps(place) if counted else []
    made += [(EQUAL, pairs, 0, 4), (LOAD, FIRST_ARGUMENT, 0, 0), (EQUAL, UNIX, 1, 0)]
    made += [(GIVE, ERRNO | errno.EAFNOSUPPORT, 0, 0), (GIVE, ALLOW, 0, 0)]
    made += [(EQUAL, opens, 0, 13), (LOAD, FIRST_ARGUMENT, 0, 0), (EQUAL, UNIX, 11, 0), (EQUAL, NETLINK, 7, 0)]
    made += [(EQUAL, INET, 2, 0), (EQUAL, INET6, 1, 0), (GIVE, ERRNO | errno.EAFNOSUPPORT, 0, 0)]
    made += [(LOAD, SECOND_ARGUMENT, 0, 0), (AND, TYPE_MASK, 0, 0)]
    made += [(EQUAL, STREAM, 4, 0) if offline else (EQUAL, RAW, 0, 4), (GIVE, REFUSE, 0, 0)]
    made += [(LOAD, THIRD_ARGUMENT, 0, 0), (EQUAL, NETLINK_ROUTES, 1, 0)]
    made += [(GIVE, ERRNO | errno.EPROTONOSUPPORT, 0, 0), (GIVE, ALLOW, 0, 0)]
    return made


def _memory_steps(place: int) -> list[Step]:
    """Return the part that keeps memory where a look from outside can count it."""
    memfd, secret, vmsplice, shmget, semget, fcntl, setsockopt = (each[place] for each in COUNTED.values())
    made = [(EQUAL, memfd, 1, 0), (EQUAL, secret, 0, 1), (GIVE, ERRNO | errno.ENOSYS, 0, 0)]
    made += [(EQUAL, vmsplice, 0, 1), (GIVE, REFUSE, 0, 0)]
    made += [(EQUAL, shmget, 0, 6), (LOAD, SECOND_UPPER_HALF, 0, 0), (EQUAL, 0, 0, 2), (LOAD, SECOND_ARGUMENT, 0, 0)]
    made += [(AT_LEAST, SHARED_MOST + 1, 0, 1), (GIVE, ERRNO | errno.EINVAL, 0, 0), (GIVE, ALLOW, 0, 0)]
    made += [(EQUAL, semget, 0, 4), (LOAD, SECOND_ARGUMENT, 0, 0), (AT_LEAST, SEMAPHORES_MOST + 1, 0, 1)]
    made += [(GIVE, ERRNO | errno.EINVAL, 0, 0), (GIVE, ALLOW, 0, 0)]
    made += [(EQUAL, fcntl, 0, 4), (LOAD, SECOND_ARGUMENT, 0, 0), (EQUAL, SET_PIPE_SIZE, 0, 1)]
    made += [(GIVE, REFUSE, 0, 0), (GIVE, ALLOW, 0, 0)]
    made += [(EQUAL, setsockopt, 0, 9), (LOAD, SECOND_ARGUMENT, 0, 0), (EQUAL, OF_SOCKETS, 0, 6)]
    made += [(LOAD, THIRD_ARGUMENT, 0, 0)]
    made += [(EQUAL, option, 3 - index, index // 3) for index, option in enumerate(BUFFER_SIZES)]
    return [*made, (GIVE, IGNORE, 0, 0), (GIVE, ALLOW, 0, 0)]


def seccomp(*, offline: bool, counted: bool) -> None:
    if platform.machine() not in MACHINES:
        fail(f"no table of system calls for {platform.machine()}", errno.ENOSYS)
    made = steps(platform.machine(), offline=offline, counted=counted)
    packed = b"".join(struct.pack("=HBBI", code, true, false, value) for code, value, true, false in made)
    kept = ctypes.create_string_buffer(packed, len(packed))
    program = struct.pack("HxxxxxxP", len(made), ctypes.addressof(kept))
    if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        fail("seccomp")


def main() -> NoReturn:
    options, command = getopt.getopt(sys.argv[1:], "l:c:n:f:d:t:o:r:w:ip:m")
    if not command:
        fail("no program", errno.EINVAL)

    def option_values(name: str) -> list[str]:
        return [value for option, value in options if option == name]

    for name, value in options:
        if name in LIMITS:
            limit(LIMITS[name], int(value))
    limit(resource.RLIMIT_CORE, 0)
    offline = ("-i", "") in options
    for port in option_values("-l"):
        listen_for(int(option_values("-c")[-1]), int(port))
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        fail("no new privileges")
    landlock(option_values("-r"), option_values("-w"), [int(port) for port in option_values("-p")], offline=offline)
    seccomp(offline=offline, counted=("-m", "") in options)
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        fail(command[0], error.errno or 0)


if __name__ == "__main__":
    try:
        main()
    except (OSError, getopt.GetoptError, IndexError, ValueError, OverflowError) as error:
        fail(str(getattr(error, "filename", None) or error), getattr(error, "errno", None) or errno.EINVAL)
