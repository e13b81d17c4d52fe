"""A control group for one box: memory and number of processes of the whole tree, enforced by the kernel."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from msgspec import Struct

ROOT = Path("/sys/fs/cgroup")
PREFIX = "corral-"
CONTROLLERS = ("memory", "pids")
LOOK_SECONDS = 10.0  #: how often to look for groups that killed engines left
_looked: dict[tuple[Path, ...], float] = {}
_places: dict[Path, tuple[Path, ...]] = {}  #: where this process may make groups


class NoControlGroup(Exception):
    """No control group can be made here; the text says why."""


class ControlGroup(Struct, frozen=True):
    """A group that was made: one folder where there is one hierarchy, else one for each controller."""

    folders: tuple[Path, ...]

    @property
    def joins(self) -> list[str]:
        """The files that a process writes itself into."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def processes(self) -> int:
        """Count who is in it."""
        counted = [0]
        for folder in self.folders:
            with contextlib.suppress(OSError):
                counted.append(len((folder / "cgroup.procs").read_text().split()))
        return max(counted)

    def memory_kills(self) -> int:
        """Count the processes that the kernel killed because the group had used up its memory."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    for line in (folder / name).read_text().splitlines():
                        word, _, count = line.partition(" ")
                        if word == "oom_kill":
                            return int(count)
        return 0

    def remove(self) -> bool:
        """Take it away; what is still in it is killed first. Return whether it is gone."""
        for _ in range(200):  # the last of them may still be on its way out
            for folder in self.folders:
                with contextlib.suppress(OSError):
                    (folder / "cgroup.kill").write_text("1")
                with contextlib.suppress(OSError):
                    folder.rmdir()
            if not any(folder.exists() for folder in self.folders):
                return True
            time.sleep(0.005)
        return False


def make(name: str, *, memory_mb: int | None, processes: int | None, root: Path = ROOT) -> ControlGroup:
    """Make a group with these limits, or say why none can be had."""
    place = _places.get(root) or _unified_place(root) or _separate_places(root)
    _places[root] = place
    if time.monotonic() > _looked.get(place, 0.0) + LOOK_SECONDS:
        _looked[place] = time.monotonic()
        for folder in place:
            _forget_dead(folder)
    group = ControlGroup(tuple(folder / f"{PREFIX}{os.getpid()}-{name}" for folder in place))
    memory = str(memory_mb << 20) if memory_mb else None
    limits = {
        "memory.max": memory,
        "memory.swap.max": "0" if memory else None,
        "memory.limit_in_bytes": memory,
        "memory.memsw.limit_in_bytes": memory,
        "pids.max": str(processes) if processes else None,
    }
    try:
        for folder in group.folders:
            folder.mkdir(exist_ok=True)
            for file, value in limits.items():
                if value and (folder / file).exists():
                    (folder / file).write_text(value)
    except OSError as error:
        _places.pop(root, None)
        group.remove()
        raise NoControlGroup(f"a control group cannot be made: {error.strerror}") from error
    return group


def _forget_dead(place: Path) -> None:
    """Remove what an engine left that was killed, with its launchers, before it could."""
    for folder in place.glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _own(root: Path) -> dict[str, Path]:
    """Return the folder this process is in, by controller; the one hierarchy of today has the empty name."""
    found: dict[str, Path] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                found[controller] = root / controller / path.lstrip("/")
    return found


def _unified_place(root: Path) -> tuple[Path] | None:
    """Return our own place in the one hierarchy of today, if it was delegated to us with both controllers."""
    if not (root / "cgroup.controllers").exists():
        return None
    own = _own(root).get("", root)
    if own.name == "corral-engine":  # we moved there ourselves, below
        own = own.parent
    try:
        offered = (own / "cgroup.controllers").read_text().split()
    except OSError as error:
        raise NoControlGroup(f"control groups cannot be read: {error.strerror}") from error
    if not set(CONTROLLERS) <= set(offered) or not os.access(own, os.W_OK):
        raise NoControlGroup("no control group was delegated to this user")
    if not set(CONTROLLERS) <= set((own / "cgroup.subtree_control").read_text().split()):
        _enable(own)
    return (own,)


def _enable(own: Path) -> None:
    """Offer both controllers to groups below ours; processes in ours have to move into one of them first."""
    wanted = " ".join(f"+{name}" for name in CONTROLLERS)
    try:
        (own / "cgroup.subtree_control").write_text(wanted)
    except OSError:
        try:
            leaf = own / "corral-engine"
            leaf.mkdir(exist_ok=True)
            for pid in (own / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(pid)
            (own / "cgroup.subtree_control").write_text(wanted)
        except OSError as error:
            raise NoControlGroup(f"no control group was delegated to this user: {error.strerror}") from error


def _separate_places(root: Path) -> tuple[Path, ...]:
    """Return our own places in the separate hierarchies of old, if we may make groups there."""
    own = _own(root)
    places = tuple(own.get(name, root / name) for name in CONTROLLERS)
    # In a container its own part may be mounted as the whole.
    places = tuple(place if place.is_dir() else root / name for place, name in zip(places, CONTROLLERS, strict=True))
    if not all(os.access(place, os.W_OK) for place in places):
        raise NoControlGroup("no control group was delegated to this user")
    return places
