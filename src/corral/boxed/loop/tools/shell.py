"""The tool for commands."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from corral.boxed.loop.programs import run
from corral.boxed.loop.tools.result import LoopToolResult
from corral.boxed.loop.workspace import LoopWorkspace


class BashArguments(Struct):
    """Run a command with bash in the workspace. It has no terminal and no input; each call starts in the workspace."""

    command: str
    timeout_seconds: Annotated[float, Meta(description="after which it is ended", gt=0, le=3600)] = 120.0


def bash(place: LoopWorkspace, asked: BashArguments, most: int) -> LoopToolResult:
    ran = run(["bash", "-c", asked.command], place.root, timeout=asked.timeout_seconds, most=most)
    content = {"exit_code": ran.code, "output": ran.output, "seconds": ran.seconds, "timed_out": ran.timed_out}
    return LoopToolResult(ok=ran.code == 0, content=content)
