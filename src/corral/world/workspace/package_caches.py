"""Package caches of a project: the engine's own, shared by its attempts one after another, never the person's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib
from collections.abc import AsyncGenerator
from pathlib import Path

from corral.world.process import Owner
from corral.world.workspace import checkout

#: Where each client keeps what it has fetched, by the variable that says so.
CLIENTS = {
    "UV_CACHE_DIR": "uv",
    "PIP_CACHE_DIR": "pip",
    "npm_config_cache": "npm",
    "YARN_CACHE_FOLDER": "yarn",
    "CARGO_HOME": "cargo",
    "GOMODCACHE": "go/mod",
    "GOCACHE": "go/build",
}
#: A hard link into the cache would let one attempt change what the next is given.
COPIES = {"UV_LINK_MODE": "copy", "npm_config_package_import_method": "copy"}


def variables(folder: Path) -> dict[str, str]:
    """Return what tells package clients to keep their caches below a folder."""
    return {**{name: str(folder / place) for name, place in CLIENTS.items()}, **COPIES}


@contextlib.asynccontextmanager
async def lend_cache(state: Path, project: Path, private: Path, owner: Owner | None) -> AsyncGenerator[Path]:
    """Lend the project's cache to one attempt; whoever comes while it is lent has an empty one of its own."""
    shared = state / "caches" / f"{project.parent.name}-{zlib.crc32(str(project).encode()):08x}"
    shared.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(shared.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            private.mkdir(parents=True, exist_ok=True, mode=0o700)
            if owner:
                os.chown(private, owner.uid, owner.gid)
            yield private
            return
        await _hand(shared, owner)
        try:
            yield shared
        finally:
            await _hand(shared, Owner(os.getuid(), os.getgid()) if owner else None)  # what stays is the caller's
    finally:
        os.close(lock)


async def _hand(folder: Path, owner: Owner | None) -> None:
    if owner and any(folder.iterdir()):
        await checkout.give(folder, owner)
    elif owner:
        os.chown(folder, owner.uid, owner.gid)
