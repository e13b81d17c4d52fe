"""Outside: builds a world around a box, lets the prisoner loose in it, and judges by what happened to the world.

Usage: python -m escapes.harness LEVEL FOLDER [KIND]: prints what got through, and what should have worked and did not,
as JSON. KIND is that of the workspace: clone or overlay.
"""

import asyncio
import atexit
import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

from msgspec import structs

from corral.model import Level
from corral.world import process
from corral.world.process import Exit, ProcessLimits
from corral.world.sandbox import watchdog
from corral.world.sandbox.confine import agent_owner, confine
from corral.world.sandbox.profile import Box
from corral.world.sandbox.watchdog import Ceiling
from corral.world.untrusted_files import dangerous_links
from corral.world.workspace import mounts

from . import hostile
from .world import World

MEMORY_MB, PROCESSES, FILE_MB, DISK_MB, CPU_SECONDS = 384, 128, 100, 200, 3
ANSWERED = 8118
GIT = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


class Prison:
    """A box as the engine would make it, in the midst of a world."""

    kind = "clone"  #: of all workspaces

    def __init__(self, world: World, level: Level, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.level: Level = level
        self.tag = f"escape-{os.getpid()}-{folder.name}"
        self.owner = agent_owner(self.tag) if level != "none" else None
        folder.mkdir(mode=0o755)
        self.work = folder / "work"
        subprocess.run(["git", "clone", "-q", "--shared", world.repo, self.work], env=GIT, check=True)
        for name in ("home", "tmp", "out"):
            (folder / name).mkdir()
        world.plant(self.work)
        shutil.copy(hostile.__file__, self.work / "hostile.py")
        if self.kind == "overlay":
            self._lay_over()
        if self.owner:
            for path in (
                (folder / "home", folder / "tmp", folder / "out") if self.kind == "overlay" else folder.rglob("*")
            ):
                os.chown(path, self.owner.uid, self.owner.gid, follow_symlinks=False)
        if level != "none":
            dangerous_links(self.work)

    def _lay_over(self) -> None:
        """Make the workspace an overlay over what it holds so far."""
        lower, own = self.folder / "template", self.folder / mounts.OVERLAY
        self.work.rename(lower)
        for each in (self.work, own / "upper", own / "work"):
            each.mkdir(parents=True)
        if self.owner:
            os.chown(own / "upper", self.owner.uid, self.owner.gid)
        lower.chmod(0o755)
        argv = [str(mounts.PROGRAM), *([str(self.owner.uid), str(self.owner.gid)] if self.owner else ["0", "0"])]
        subprocess.run([*argv, lower, own / "upper", own / "work", self.work], check=True)
        atexit.register(mounts.unmount, self.work)

    def box(self, **more: Any) -> Box:
        kept = self.level in ("full", "strict")
        env = {
            "PATH": "/usr/bin:/bin",
            "HOME": "/home/agent" if kept else str(self.folder / "home"),
            "MINE": "SECRET-VALUE",
        }
        limits: dict[str, Any] = {
            "memory_mb": MEMORY_MB,
            "processes": PROCESSES,
            "file_mb": FILE_MB,
            "cpu_seconds": 60,
            **more,
        }
        return Box(
            folder=self.folder, workspace=self.work, home=self.folder / "home", env=env, network=False,
            listeners=(ANSWERED,) if kept else (), readable=(self.world.repo / ".git/objects",),
            pinned=(self.work / ".git",), guarded=(self.work / ".git/hooks", self.work / ".git/config"),
            readonly=(self.work / "kept/readonly.txt",) if kept else (),
            hidden=(self.work / "kept/hidden.txt",) if kept else (), **limits,
        )  # fmt: skip

    async def run(self, *words: str, ceiling: Ceiling | None = None, **more: Any) -> tuple[Exit, str, str | None]:
        """Run the prisoner; return how it ended, what it printed, and what the watchdog said."""
        box, stop = self.box(**more), asyncio.Event()
        argv = [
            "/usr/bin/python3",
            str(self.work / "hostile.py"),
            str(self.work / "facts.json"),
            str(self.work / "results.json"),
            *words,
        ]
        said: list[bytes] = []
        leaked = os.open(self.world.outside, os.O_RDONLY)
        with confine(argv, box, self.level, tag=self.tag) as made:
            # What an engine that forgot to close something would hand on.
            start = structs.replace(made, pass_fds=(*made.pass_fds, leaked))
            following = process.follow(
                start,
                ProcessLimits(grace_seconds=0.2, timeout_seconds=120),
                lambda *_: None,
                lambda _, chunk: said.append(chunk),
                stop,
            )
            running = asyncio.create_task(following)
            others: list[asyncio.Task[Any]] = [asyncio.create_task(self.world.visit(self.work))]
            if start.listeners:
                others.append(asyncio.create_task(_answer(await start.listeners())))
            watching = asyncio.create_task(
                watchdog.watch(start, ceiling or Ceiling(), [self.work, self.folder / "home"], 0.1)
            )
            await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
            barked = watching.result() if watching.done() else None
            if barked:
                stop.set()
            ended = await running
            for task in (*others, watching):
                task.cancel()
            await asyncio.wait([*others, watching])
        os.close(leaked)
        return ended, b"".join(said).decode(errors="replace"), barked

    def facts(self) -> None:
        told = self.work / "facts.json"
        told.write_text(json.dumps({**self.world.facts(), "answered": ANSWERED}))
        told.chmod(0o644)


async def _answer(listeners: list[socket.socket]) -> None:
    servers = [await asyncio.start_server(_say_ok, sock=each) for each in listeners]
    await asyncio.gather(*(server.serve_forever() for server in servers))


async def _say_ok(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"OK")
    await writer.drain()
    writer.close()


async def attempts(world: World, level: Level, folder: Path) -> tuple[list[str], list[str], dict[str, Any]]:
    """Let all attempts be made in one box; return what got through and what should have worked."""
    prison = Prison(world, level, folder / "attempts")
    prison.facts()
    ended, printed, _ = await prison.run()
    try:
        results = json.loads((prison.work / "results.json").read_text())
    except OSError as error:
        raise SystemExit(f"the prisoner did not run: {ended} {printed}") from error
    through = {
        name for name, result in results.items() if not name.startswith("ok_") and "SECRET" in (result["got"] or "")
    }
    through |= world.damage(prison.work)
    failed = [name for name, result in results.items() if name.startswith("ok_") and result["got"] != "OK"]
    if level not in ("full", "strict"):
        failed = [name for name in failed if name != "ok_asked_outside"]
    return sorted(through), failed, results


async def bomb(world: World, level: Level, folder: Path, name: str) -> bool:
    """Let one bomb off in a box of its own; tell whether it used up what it should not have got."""
    prison = Prison(world, level, folder / name)
    prison.facts()
    kept = level != "none"
    limits = Ceiling(memory_mb=MEMORY_MB, processes=PROCESSES, disk_mb=DISK_MB, grouped=level == "full")
    ceiling = limits if kept else None
    _, printed, barked = await prison.run(name, ceiling=ceiling, cpu_seconds=CPU_SECONDS if name == "b_cpu" else 60)
    for place in ("/tmp", "/dev/shm", "/var/tmp", "/run"):
        with contextlib.suppress(OSError):
            Path(place, f"{world.mark}-big").unlink()
    return "SECRET" in printed and barked is None


async def main(level: Level, folder: Path) -> dict[str, Any]:
    os.environ["OF_THE_ENGINE"] = "SECRET of the engine"
    with World(folder / "world") as world:
        through, failed, results = await attempts(world, level, folder)
    for each in hostile.BOMBS:
        with World(folder / f"world-{each.__name__}") as world:
            if await bomb(world, level, folder, each.__name__):
                through.append(each.__name__)
    return {
        "through": through,
        "failed": failed,
        "tried": len(hostile.ATTEMPTS) + len(hostile.BOMBS),
        "results": results,
    }


@contextlib.contextmanager
def dying_with(parent: int) -> Generator[None]:
    """Die when the test that started us is gone."""
    ctypes.CDLL(None).prctl(1, 9)
    if os.getppid() != parent:
        raise SystemExit("nobody waits for the answer")
    yield


if __name__ == "__main__":
    with dying_with(os.getppid()):
        Prison.kind = sys.argv[3] if len(sys.argv) > 3 else Prison.kind
        print(json.dumps(asyncio.run(main(sys.argv[1], Path(sys.argv[2])))))  # type: ignore[arg-type]
