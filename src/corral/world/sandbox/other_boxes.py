"""The same box where bubblewrap does not hold: podman or docker, and sandbox-exec on macOS."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from corral.world.sandbox.profile import SCRATCH, Box, mounts, user_mounts
from corral.world.sandbox.program_files import SYSTEM, authorities, etc_names

EMPTY = "corral-empty"  #: the image that docker needs: nothing is in it but the places where things are mounted
PROGRAMS = ("podman", "docker")
OWN = ("HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST")
MAC_SYSTEM = (
    "/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Developer", "/Applications/Xcode.app",
    "/private/etc/ssl", "/private/etc/hosts", "/private/etc/resolv.conf", "/private/etc/localtime",
    "/private/etc/passwd", "/private/etc/group", "/private/var/db/timezone", "/private/var/select", "/dev",
)  # fmt: skip
MAC_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx", "/dev/random", "/dev/urandom", "/dev/dtracehelper")
MAC_SERVICES = (
    "com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership",
    "com.apple.system.notification_center", "com.apple.system.logger", "com.apple.trustd", "com.apple.trustd.agent",
)  # fmt: skip


class ContainerCommand(Struct, frozen=True):
    """How a container is started, and the shell line that ends it even if its starter is gone."""

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
    """Return the command; it names variables, and their values come from the starter's environment."""
    name = "corral-" + re.sub(r"[^a-zA-Z0-9_.-]", "-", tag)
    podman = Path(run).name == "podman"
    argv = [
        run, "run", "--rm", "--interactive", "--init", "--name", name, "--hostname", "box", "--read-only",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--ipc", "private", "--cgroupns", "private",
        "--network", "none" if box.has_own_network else "host", "--user", f"{uid}:{gid}",
        "--workdir", str(box.workspace),
        "--pull", "never", "--log-driver", "none",
    ]  # fmt: skip
    argv += ["--userns", "keep-id"] if podman and os.geteuid() else []  # podman of root refuses it, and needs none
    argv += ["--memory", f"{box.memory_mb}m", "--memory-swap", f"{box.memory_mb}m"] if box.memory_mb else []
    argv += ["--pids-limit", str(box.processes)] if box.processes else []
    for folder, size in SCRATCH.items():
        argv += ["--tmpfs", f"{folder}:rw,nosuid,nodev,size={size},mode=1777"]
    for path in (
        *(Path(path) for path in SYSTEM if not Path(path).is_symlink()),
        *(Path("/etc", each) for each in etc_names()),
    ):
        if path.exists():
            argv += ["--volume", f"{path}:{path}:ro"]
    for mount in (*user_mounts(box, uid, gid), *mounts(box)):
        argv += ["--volume", f"{mount.source}:{mount.target}:{'rw' if mount.writable else 'ro'}"]
    for variable in box.env:
        argv += ["--env", variable]
    argv += ["--rootfs", str(root(box.folder))] if podman else [EMPTY]
    return ContainerCommand([*argv, *inside], f"{shlex.quote(run)} rm --force {name}")


def seatbelt_profile(box: Box, scratch: Path) -> str:
    """Return the profile's text: what is not named is denied; of two rules for a path the later one holds."""
    readable = [*map(Path, MAC_SYSTEM), *box.readable, *authorities(box.env)]
    writable = [box.workspace, box.home, scratch, *box.writable]
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-fork)",
        "(allow process-exec)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        "(allow ipc-posix-sem)",
        "(allow pseudo-tty)",
        *(f'(allow file-read-metadata (literal "/{name}"))' for name in ("", "private", "var", "tmp", "etc")),
        *(f"(allow file-read-metadata (literal {_quote_path(parent)}))" for parent in _above(writable)),
        *(f"(allow mach-lookup (global-name {_quote_path(name)}))" for name in MAC_SERVICES),
        *(f"(allow file-read* (subpath {_quote_path(path)}))" for path in (*readable, *writable)),
        *(f"(allow file-write* (subpath {_quote_path(path)}))" for path in writable),
        *(f"(allow file-write* (literal {_quote_path(path)}))" for path in MAC_DEVICES),
        *(f"(deny file-write* (subpath {_quote_path(path)}))" for path in (*box.guarded, *box.readonly)),
        # Moved away, something else could be in its place.
        *(f"(deny file-write-unlink (literal {_quote_path(path)}))" for path in _pinned_folders(box)),
        *(f"(deny file-read* file-write* (subpath {_quote_path(path)}))" for path in box.hidden),
        *_network_rules(box),
    ]
    return "\n".join(lines) + "\n"


def _network_rules(box: Box) -> list[str]:
    if not box.has_own_network:
        return ["(allow network*)", "(allow system-socket)"]
    return [f'(allow network-outbound (remote ip "localhost:{port}"))' for port in box.listeners]


def _pinned_folders(box: Box) -> list[Path]:
    kept = {
        parent
        for path in (*box.guarded, *box.readonly, *box.hidden)
        for parent in path.parents
        if parent.is_relative_to(box.workspace)
    }
    return sorted(kept | set(box.pinned))


def _above(paths: list[Path]) -> list[Path]:
    return sorted({parent for path in paths for parent in path.parents})


def _quote_path(path: Path | str) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
