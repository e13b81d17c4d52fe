"""Overlays that are mounted for workspaces: by a small program of ours, and taken away by the kernel's own call."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
from pathlib import Path

from corral.model.errors import CorralError
from corral.world import process
from corral.world.process import Owner, ProcessStart

PROGRAM = Path(__file__).with_name("mount_overlay")
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8
OVERLAY = "overlay"  #: the folder beside a workspace's tree that holds what was changed in it
MOUNT_SECONDS = 60.0


class NoOverlay(CorralError):
    """The kernel, or the file system, makes no overlay here."""


def missing_part() -> str:
    """Return why no overlay can be made here, as far as nothing has to be tried."""
    if sys.platform != "linux":
        return "only Linux has overlays"
    if os.getuid() != 0:
        return "only root can mount one that lets folders be renamed"
    if not os.access(PROGRAM, os.X_OK):
        return "the program that mounts them was not compiled: no C compiler was there at the installation"
    return ""


async def mount(lower: Path, folder: Path, tree: Path, owner: Owner | None) -> None:
    """Show the files of a template in `tree`, as if they were the owner's; what is changed there lies in `folder`."""
    uid, gid = (owner.uid, owner.gid) if owner else (0, 0)
    marker = folder / "work" / "work" / "incompat"
    with contextlib.suppress(FileNotFoundError):  # left by a machine, or an engine, that was switched off
        shutil.rmtree(marker)
    argv = [str(PROGRAM), str(uid), str(gid), str(lower), str(folder / "upper"), str(folder / "work"), str(tree)]
    try:
        ended = await process.run(ProcessStart(argv=argv, env={}), timeout=MOUNT_SECONDS)
    except OSError as error:
        raise NoOverlay(f"{PROGRAM.name} cannot be started: {error.strerror}") from error
    if ended.code != 0:
        raise NoOverlay(ended.err.decode(errors="replace").strip()[-200:] or f"{PROGRAM.name} ended with {ended.code}")


def is_mounted(tree: Path) -> bool:
    return os.path.ismount(tree)


def unmount(tree: Path) -> None:
    """Take an overlay away, also one that is still looked at; nothing where none is mounted."""
    if sys.platform == "linux" and is_mounted(tree):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.umount2(os.fsencode(tree), MNT_DETACH | UMOUNT_NOFOLLOW):
            raise CorralError(f"{tree} cannot be unmounted: {os.strerror(ctypes.get_errno())}")
