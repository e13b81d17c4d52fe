"""The same box by podman or docker, where bubblewrap does not hold."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from corral.world.sandbox.profile import SCRATCH, Box, mounts
from corral.world.sandbox.program_files import ETC, SYSTEM

EMPTY = "corral-empty"  #: the image that docker needs: nothing is in it but the places where things are mounted
PROGRAMS = ("podman", "docker")
OWN = ("HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST")


class ContainerCommand(Struct, frozen=True):
    """How a container is started, and the shell line that ends it whatever became of whoever started it."""

    argv: list[str]
    afterwards: str


def program() -> str | None:
    """Return podman or docker, whichever is installed."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def root(folder: Path) -> Path:
    """Make an empty root in a folder: links where this machine has links, and places to mount on."""
    made = folder / "root"
    made.mkdir(exist_ok=True)
    for name in SYSTEM:
        here = made / name.lstrip("/")
        if os.path.islink(name) and not here.is_symlink():  # noqa: PTH114
            here.symlink_to(os.readlink(name))  # noqa: PTH115
        elif Path(name).is_dir() and not Path(name).is_symlink():
            here.mkdir(exist_ok=True)
    for name in ("etc", "proc", "dev", "sys", "tmp", "run", "home", "var"):
        (made / name).mkdir(exist_ok=True)
    return made


def command(run: str, box: Box, inside: Sequence[str], *, uid: int, gid: int, tag: str) -> ContainerCommand:
    """Return the command; values of the environment do not stand in it but are taken from the starter's own."""
    name = "corral-" + re.sub(r"[^a-zA-Z0-9_.-]", "-", tag)
    podman = Path(run).name == "podman"
    argv = [
        run, "run", "--rm", "--interactive", "--init", "--name", name, "--hostname", "box", "--read-only",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--ipc", "private", "--cgroupns", "private",
        "--network", "none" if box.has_own_network else "host", "--user", f"{uid}:{gid}",
        "--workdir", str(box.workspace),
        "--pull", "never", "--log-driver", "none",
    ]  # fmt: skip
    argv += ["--userns", "keep-id"] if podman else []
    argv += ["--memory", f"{box.memory_mb}m", "--memory-swap", f"{box.memory_mb}m"] if box.memory_mb else []
    argv += ["--pids-limit", str(box.processes)] if box.processes else []
    for folder, size in SCRATCH.items():
        argv += ["--tmpfs", f"{folder}:rw,nosuid,nodev,size={size},mode=1777"]
    for path in (
        *(Path(path) for path in SYSTEM if not Path(path).is_symlink()),
        *(Path("/etc", each) for each in ETC),
    ):
        if path.exists():
            argv += ["--volume", f"{path}:{path}:ro"]
    for mount in mounts(box, uid=uid, gid=gid):
        argv += ["--volume", f"{mount.source}:{mount.target}:{'rw' if mount.writable else 'ro'}"]
    for variable in box.env:
        argv += ["--env", variable]
    argv += ["--rootfs", str(root(box.folder))] if podman else [EMPTY]
    return ContainerCommand([*argv, *inside], f"{shlex.quote(run)} rm --force {name}")
