"""The same box for macOS: a profile for sandbox-exec."""

from __future__ import annotations

from pathlib import Path

from corral.world.sandbox.profile import Box
from corral.world.sandbox.program_files import authorities

SYSTEM = (
    "/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Developer", "/Applications/Xcode.app",
    "/private/etc/ssl", "/private/etc/hosts", "/private/etc/resolv.conf", "/private/etc/localtime",
    "/private/etc/passwd", "/private/etc/group", "/private/var/db/timezone", "/private/var/select", "/dev",
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx", "/dev/random", "/dev/urandom", "/dev/dtracehelper")
SERVICES = (
    "com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership",
    "com.apple.system.notification_center", "com.apple.system.logger", "com.apple.trustd", "com.apple.trustd.agent",
)  # fmt: skip


def profile(box: Box, scratch: Path) -> str:
    """Return the profile's text: what is not named is denied; of two rules for a path the later one holds."""
    readable = [*map(Path, SYSTEM), *box.readable, *authorities(box.env)]
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
        *(f"(allow file-read-metadata (literal {_quote(parent)}))" for parent in _above(writable)),
        *(f"(allow mach-lookup (global-name {_quote(name)}))" for name in SERVICES),
        *(f"(allow file-read* (subpath {_quote(path)}))" for path in (*readable, *writable)),
        *(f"(allow file-write* (subpath {_quote(path)}))" for path in writable),
        *(f"(allow file-write* (literal {_quote(path)}))" for path in DEVICES),
        *(f"(deny file-write* (subpath {_quote(path)}))" for path in (*box.guarded, *box.readonly)),
        # Moved away, something else could stand in its place.
        *(f"(deny file-write-unlink (literal {_quote(path)}))" for path in _pinned_folders(box)),
        *(f"(deny file-read* file-write* (subpath {_quote(path)}))" for path in box.hidden),
        *_network(box),
    ]
    return "\n".join(lines) + "\n"


def _network(box: Box) -> list[str]:
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


def _quote(path: Path | str) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
