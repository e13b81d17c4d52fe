"""What lies in a workspace and yet leads out of it: hard links to files elsewhere, sockets, pipes, devices."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path
from typing import Literal

from msgspec import Struct

Kind = Literal["hard link", "socket", "pipe", "device"]
KINDS: dict[int, Kind] = {
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "pipe",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


class DangerousEntry(Struct, frozen=True):
    """Something dangerous that was dealt with: a hard link is a file of its own now, all else is gone."""

    path: Path
    kind: Kind


def dangerous_links(tree: Path) -> list[DangerousEntry]:
    """Deal with every dangerous entry of a tree in which nobody works; return what was found."""
    found: list[DangerousEntry] = []
    # By descriptor and without following links: what an earlier attempt left may try to lead us elsewhere.
    for folder, _, names, opened in os.fwalk(tree, follow_symlinks=False):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                about = os.stat(name, dir_fd=opened, follow_symlinks=False)
                kind = KINDS.get(stat.S_IFMT(about.st_mode))
                if kind:
                    os.unlink(name, dir_fd=opened)
                elif stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
                    kind = "hard link"
                    _copy(name, opened, about)
                if kind:
                    found.append(DangerousEntry(Path(folder, name), kind))
    return found


def _copy(name: str, folder: int, about: os.stat_result) -> None:
    """Put a copy of a file in its place, with its owner, mode and times."""
    fresh = f".corral-{os.getpid()}-{about.st_ino}"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
    reading = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    with os.fdopen(reading, "rb") as source, os.fdopen(os.open(fresh, flags, 0o600, dir_fd=folder), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        if os.getuid() == 0:
            os.fchown(target.fileno(), about.st_uid, about.st_gid)
        os.fchmod(target.fileno(), stat.S_IMODE(about.st_mode))
        os.utime(target.fileno(), ns=(about.st_atime_ns, about.st_mtime_ns))
    os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
