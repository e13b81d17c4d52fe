"""The launcher where no C compiler was at hand: same arguments, same steps, same exit code as launcher.c."""

from __future__ import annotations

import ctypes
import getopt
import os
import signal
import stat
import sys
from typing import NoReturn

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


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


def main() -> NoReturn:
    options, command = getopt.getopt(sys.argv[1:], "p:u:g:b:")
    sources = [value for name, value in options if name == "-b"]
    number = {name: int(value) for name, value in options if name != "-b"}
    if not command:
        fail("no program", 22)
    if sources:
        stage(sources)
    if "-u" in number:
        os.setgroups([])
        os.setresgid(*[number["-g"]] * 3)
        os.setresuid(*[number["-u"]] * 3)
    if "-p" in number:  # after the change of user, which would clear it
        if sys.platform == "linux":
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != number["-p"]:
            os._exit(97)
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    try:
        main()
    except (OSError, getopt.GetoptError, KeyError, ValueError) as error:
        fail(str(error), getattr(error, "errno", None) or 22)
