"""Boxes for tests that need no engine: folders, owners, a command run to its end."""

import asyncio
import os
from pathlib import Path
from typing import Any

from corral.model import Level
from corral.world import process
from corral.world.process import ProcessResult
from corral.world.sandbox import cgroup
from corral.world.sandbox.confine import confine
from corral.world.sandbox.profile import Box

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def box_in(folder: Path, **more: Any) -> Box:
    """Make the folders of a box; every agent may write in them."""
    made = {name: folder / name for name in ("home", "work", "tmp")}
    for each in made.values():
        each.mkdir(exist_ok=True)
        each.chmod(0o777)
    return Box(folder=folder, workspace=made["work"], home=made["home"], env={**ENV, "HOME": "/home/agent"}, **more)


def run_in(box: Box, level: Level, *argv: str, tag: str = "") -> ProcessResult:
    """Run a command in a box to its end."""
    tag = tag or f"test-{os.getpid()}"

    async def run() -> ProcessResult:
        with confine(argv, box, level, tag=tag) as start:
            return await process.run(start, timeout=120)

    return asyncio.run(run())


def control_groups(part: str) -> list[str]:
    """Return our control groups with this part in their names; those of other tests come and go meanwhile."""
    names = [name for _, folders, _ in os.walk(cgroup.ROOT) for name in folders]
    return [name for name in names if name.startswith("corral-") and part in name]
