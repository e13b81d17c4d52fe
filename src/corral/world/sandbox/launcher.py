"""The launcher where no C compiler was at hand: same arguments, same steps, same exit code as launcher.c."""

from __future__ import annotations

import contextlib
import ctypes
import getopt
import os
import signal
import stat
import sys
import time
from typing import NoReturn

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
AWAITED = {signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM}
WORDS = ("-b", "-j", "-a")  #: options whose value is no number
LIBC = ctypes.CDLL(None, use_errno=True)
LINUX = sys.platform == "linux"


def fail(what: str, error: int = 0) -> NoReturn:
    sys.stderr.write(f"launcher: {what}: {os.strerror(error or ctypes.get_errno())}\n")
    sys.stderr.flush()
    os._exit(97)


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None) -> None:
    def text(value: str | None) -> bytes | None:
        return None if value is None else os.fsencode(value)

    if LIBC.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(data)):
        fail(target)


def stage(sources: list[str]) -> None:
    if LIBC.unshare(CLONE_NEWNS):
        fail("private mounts")
    mount("none", "/", None, MS_REC | MS_PRIVATE, None)
    # Opened inside the new namespace (mounts of another cannot be bound) and before /run is covered.
    opened = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources]
    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
    os.mkdir("/run/box", 0o755)  # noqa: PTH102 -- pathlib would double the start-up
    for place, descriptor in enumerate(opened):
        target = f"/run/box/{place}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(target, 0o755)  # noqa: PTH102
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(f"/proc/self/fd/{descriptor}", target, None, MS_BIND | MS_REC, None)
        os.close(descriptor)


def join(group: str) -> None:
    with open(group, "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("0")


def limit(number: dict[str, int]) -> None:
    if not number.keys() & {"-d", "-t"}:
        return
    import resource  # noqa: PLC0415 -- most programs are started without

    for name, what, unit in (("-d", resource.RLIMIT_DATA, 1024), ("-t", resource.RLIMIT_CPU, 1)):
        if name in number:
            with contextlib.suppress(OSError, ValueError):  # what is set already is stricter
                resource.setrlimit(what, (number[name] * unit, number[name] * unit))


# --- the child: becomes the program


def become(options: list[tuple[str, str]], command: list[str], supervisor: int) -> NoReturn:
    number = {name: int(value) for name, value in options if name not in WORDS}
    sources = [value for name, value in options if name == "-b"]
    os.setpgid(0, 0)
    for name, value in options:
        if name == "-j":
            join(value)
    if sources:
        stage(sources)
    if "-u" in number:
        os.setgroups([])
        os.setresgid(*[number["-g"]] * 3)
        os.setresuid(*[number["-u"]] * 3)
    # After the change of user, which would clear it.
    if LINUX and LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL):
        fail("parent's death")
    if os.getppid() != supervisor:
        os._exit(97)
    if "-r" in number:
        os.close(number["-r"])
    limit(number)
    # What `nohup` or `&` made Corral ignore does not concern the program: a check sees by it who may end it.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError):  # those that the C library keeps for itself
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        fail(command[0], error.errno or 0)


# --- the parent: watches, ends, reaps


def read(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read()
    return ""


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        return [int(child) for thread in threads for child in read(f"/proc/{pid}/task/{thread}/children").split()]
    return []


def end(pid: int, report: int | None) -> None:
    """Stop it first, so that it forks no more while its children are listed."""
    if read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] in ([], ["Z"], ["X"]):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
        if report is not None:
            with contextlib.suppress(OSError):
                os.write(report, f"{pid} {read(f'/proc/{pid}/comm').strip()}\n".encode())
        for child in children(pid):
            end(child, report)
        os.kill(pid, signal.SIGKILL)


def end_all(program: int, report: int | None) -> None:
    if not LINUX:  # nobody adopts there: the program's own group is all that can be found
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(program, signal.SIGKILL)
    for _ in range(5000):  # of a millisecond: then it is a process that even SIGKILL does not end
        for child in children(os.getpid()):
            end(child, report)
        report = None
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass  # each call takes one that has ended
            time.sleep(0.001)
            continue
        return


def is_orphaned(parent: int) -> bool:
    return bool(parent) and not LINUX and os.getppid() != parent


def supervise(options: list[tuple[str, str]], program: int) -> NoReturn:
    number = {name: int(value) for name, value in options if name not in WORDS}
    report, parent, status = number.get("-r"), number.get("-p", 0), None
    if not LINUX:
        signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)  # a parent's death sends no signal there: look for it
    while status is None:
        heard = signal.sigwait(AWAITED)
        if heard == signal.SIGUSR1 or is_orphaned(parent):
            report, status = None, int(signal.SIGKILL)
            break
        if heard not in (signal.SIGCHLD, signal.SIGALRM):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(program, heard)
        with contextlib.suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                status = reaped[1] if reaped[0] == program else status
    end_all(program, report)
    if parent and os.getppid() != parent:  # the maker of the groups is dead: nobody else would remove them
        for group in (value for name, value in options if name == "-j"):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(group))  # noqa: PTH106, PTH120
    for line in (value for name, value in options if name == "-a"):
        os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", line], os.environ), 0)
    if os.WIFSIGNALED(status):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)
        with contextlib.suppress(OSError):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def let_go(report: int | None) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for place in range(3):
        os.dup2(nothing, place)
    last = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, last if report is None else report)
    if report is not None:
        os.closerange(report + 1, last)


def main() -> NoReturn:
    options, command = getopt.getopt(sys.argv[1:], "p:u:g:b:j:d:t:r:a:")
    number = {name: int(value) for name, value in options if name not in WORDS}
    if not command:
        fail("no program", 22)
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    if LINUX and LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        fail("adopting")
    if "-p" in number:
        if LINUX and LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGUSR1):
            fail("parent's death")
        if os.getppid() != number["-p"]:
            os._exit(97)
    supervisor = os.getpid()
    program = os.fork()
    if program == 0:
        become(options, command, supervisor)
    let_go(number.get("-r"))
    supervise(options, program)


if __name__ == "__main__":
    try:
        main()
    except (OSError, getopt.GetoptError, KeyError, ValueError, OverflowError) as error:
        fail(str(getattr(error, "filename", None) or error), getattr(error, "errno", None) or 22)
