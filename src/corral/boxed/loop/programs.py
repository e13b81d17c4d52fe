"""Programs that the tools start: with a deadline, their output cut to a size, the keys kept from them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct

from corral.boxed.loop.settings import KEYS

TIMED_OUT = 124


class CommandResult(Struct, frozen=True):
    """How a program ended and what it printed."""

    code: int
    output: str
    seconds: float
    timed_out: bool = False
    cut: bool = False


def run(argv: Sequence[str], folder: Path, *, timeout: float, most: int) -> CommandResult:
    """Run a program to its end, or end its whole group at the deadline."""
    started = time.monotonic()
    # A file, not a pipe: what it leaves running in the background does not hold us up.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                list(argv),
                cwd=folder,
                env={name: value for name, value in os.environ.items() if name not in KEYS},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return CommandResult(127, f"{argv[0]}: {error}", 0.0)
        timed_out = False
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code, timed_out = TIMED_OUT, True
        text, cut = _read(output, most)
    return CommandResult(code, text, round(time.monotonic() - started, 3), timed_out, cut)


def shorten(text: str, most: int) -> tuple[str, bool]:
    """Leave out the middle of what is too long: the beginning and the end tell most."""
    if len(text) <= most:
        return text, False
    head, tail = most // 3, most - most // 3
    return f"{text[:head]}\n... {len(text) - most} characters left out ...\n{text[-tail:]}", True


def _read(output: IO[bytes], most: int) -> tuple[str, bool]:
    size = output.seek(0, os.SEEK_END)
    output.seek(0)
    if size <= 4 * most:
        return shorten(output.read().decode(errors="replace"), most)
    head = output.read(most // 3).decode(errors="replace")
    output.seek(size - (most - most // 3))
    tail = output.read().decode(errors="replace")
    return f"{head}\n... {size - most} bytes left out ...\n{tail}", True
