"""The strict profile: arguments for bubblewrap, built from an empty root."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from corral.world.sandbox.visible import SYSTEM, is_system, outermost

HOME = "/home/agent"
ETC = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf", "resolv.conf", "hosts", "ssl", "ca-certificates",
    "pki", "alternatives", "localtime", "os-release", "mime.types", "protocols", "services", "bash.bashrc", "profile",
)  # fmt: skip


SCRATCH = {"/dev/shm": 256 << 20, "/tmp": 2 << 30, "/run": 64 << 20, "/var/tmp": 2 << 30}  # noqa: S108 -- the box's own


class Box(Struct, frozen=True, kw_only=True):
    """What is inside: everything not named here does not exist for the agent."""

    folder: Path  #: the engine's own for this box: generated files lie there
    workspace: Path
    home: Path  #: becomes HOME
    readable: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()  #: within the workspace: cannot be moved away or replaced
    guarded: tuple[Path, ...] = ()  #: read-only, within the workspace
    writable: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])


class Profile(Struct, frozen=True):
    """Arguments for bubblewrap, and the sources among them that only root may reach."""

    arguments: list[str]
    staged: list[str]


def build(box: Box, *, uid: int, gid: int, stage: bool) -> Profile:
    """Turn a box into bubblewrap's arguments; with `stage`, private sources are named as the launcher shows them."""
    staged: list[str] = []

    def source(path: Path) -> str:
        if not stage or is_system(path):
            return str(path)
        if str(path) not in staged:
            staged.append(str(path))
        return f"/run/box/{staged.index(str(path))}"

    arguments = [
        "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv",
        "--hostname", "box",
    ]  # fmt: skip
    arguments += _system()
    for name, text in _users(uid, gid).items():
        (box.folder / name).write_text(text)
        arguments += ["--ro-bind", source(box.folder / name), f"/etc/{name}"]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    arguments += [word for folder, size in SCRATCH.items() for word in ("--size", str(size), "--tmpfs", folder)]
    for path in outermost(box.readable):
        if path.exists():
            arguments += ["--ro-bind", source(path), str(path)]
    arguments += ["--bind", source(box.home), HOME, "--bind", source(box.workspace), str(box.workspace)]
    for path in (*box.pinned, *box.writable):
        arguments += ["--bind", source(path), str(path)]
    for path in box.guarded:
        arguments += ["--ro-bind", source(path), str(path)]
    arguments += ["--remount-ro", "/", "--chdir", str(box.workspace)]
    for name, value in box.env.items():
        arguments += ["--setenv", name, value]
    return Profile(arguments, staged)


def _system() -> list[str]:
    arguments: list[str] = []
    for root in SYSTEM:
        if os.path.islink(root):  # noqa: PTH114 -- where the link itself points is wanted
            arguments += ["--symlink", os.readlink(root), root]  # noqa: PTH115
        elif Path(root).is_dir():
            arguments += ["--ro-bind", root, root]
    for name in ETC:
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return arguments


def _users(uid: int, gid: int) -> dict[str, str]:
    return {
        "passwd": f"agent:x:{uid}:{gid}::{HOME}:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n",
        "group": f"agent:x:{gid}:\nnogroup:x:65534:\n",
    }
