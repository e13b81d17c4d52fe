"""The choice of what a user sees of a run at work: a live view, plain lines, or nothing."""

from __future__ import annotations

import os
import sys

from corral.engine.engine import Engine
from corral.frontends.cli.progress import Plain, Silent


def display(engine: Engine | None = None, *, quiet: bool) -> Plain:
    """Choose by where the words go."""
    if quiet:
        return Silent()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from corral.frontends.cli.terminal import Terminal  # noqa: PLC0415 -- slow to load, and rarely needed

        return Terminal(engine)
    return Plain(engine)
