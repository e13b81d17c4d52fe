"""Find out which level this machine holds, by running the real profile once; say what stands in the way."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from corral.model import Level
from corral.world import process
from corral.world.sandbox.confine import agent_owner, confine, launcher
from corral.world.sandbox.profile import Box

ORDER: tuple[Level, ...] = ("none", "strict")


class Held(Struct, frozen=True):
    """The level that holds here, and why it is not higher."""

    level: Level
    reason: str = ""
    remedy: str = ""


async def probe(cache: Path) -> Held:
    """Return the level; a good answer is remembered for this kernel, this user and this bubblewrap."""
    key = _key()
    with contextlib.suppress(OSError, msgspec.DecodeError):  # not asked yet, or not readable: ask now
        remembered = msgspec.json.decode(cache.read_bytes(), type=dict[str, Held])
        if key in remembered:
            return remembered[key]
    held = await _try(cache.parent)
    if held.level != "none":
        cache.write_bytes(msgspec.json.encode({key: held}))
    return held


def _key() -> str:
    bwrap = shutil.which("bwrap")
    made = Path(bwrap).stat().st_mtime_ns if bwrap else 0
    return f"{platform.release()} {os.getuid()} {bwrap} {made} {launcher()[0]}"


async def _try(state: Path) -> Held:
    if sys.platform != "linux":
        return Held("none", "only Linux has a level above none so far", "run corral on Linux or in a Linux container")
    if not shutil.which("bwrap"):
        return Held("none", "bubblewrap is not installed: no bwrap on the PATH", "sudo apt-get install bubblewrap")
    with tempfile.TemporaryDirectory(prefix="probe-", dir=state) as name:
        folder = Path(name)
        home, workspace = folder / "home", folder / "workspace"
        for made in (home, workspace):
            made.mkdir()
            owner = agent_owner("probe")
            if owner:
                os.chown(made, owner.uid, owner.gid)
        box = Box(folder=folder, workspace=workspace, home=home)
        with confine(["/usr/bin/true"], box, "strict", tag="probe") as start:
            finished = await process.run(start, timeout=20)
    if finished.code == 0:
        return Held("strict")
    words = finished.err.decode(errors="replace").strip().splitlines()
    return Held("none", words[-1] if words else f"bubblewrap ended with {finished.code}", _remedy(" ".join(words)))


def _remedy(words: str) -> str:
    if "uid map" in words or "RTM_NEWADDR" in words or "user namespace" in words or "new namespace" in words:
        if Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").exists():
            return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if "disable-userns" in words:
        return "bubblewrap 0.8 or later is needed"
    return "in a container: allow user namespaces and mounts (for docker: --security-opt seccomp=unconfined)"
