"""What a box costs before anything runs in it: `true` confined, against a bare fork and exec of it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from bench.measure import Promise, interleaved
from corral.world.process import ProcessStart
from corral.world.sandbox.confine import agent_owner, confine
from corral.world.sandbox.profile import Box

TRUE = "/usr/bin/true"


def measure() -> list[Promise]:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        folder, owner = Path(name), agent_owner("bench")
        for part in ("home", "work"):
            (folder / part).mkdir()
            if owner:
                os.chown(folder / part, owner.uid, owner.gid)
        box = Box(folder=folder, workspace=folder / "work", home=folder / "home", memory_mb=4096)
        bare, boxed = interleaved(60, lambda: _start(ProcessStart(argv=[TRUE], env={})), lambda: _confined(box))
    return [Promise("a confined `true`", "a bare fork and exec of it", boxed / bare, 10.0)]


def _confined(box: Box) -> None:
    with confine([TRUE], box, "strict", tag="bench") as start:
        _start(start)


def _start(start: ProcessStart) -> None:
    subprocess.run(start.argv, env=dict(start.env), pass_fds=start.pass_fds, check=True, stdin=subprocess.DEVNULL)
