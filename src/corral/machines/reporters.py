"""Reporters beside one check: the channel they write to, their environment, and the report at the end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import os
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from corral.machines import go_tests
from corral.model import ENCODER, Report, TestOrder
from corral.rules.checks.results import report as reports
from corral.world.process import Owner
from corral.world.workspace import checkout
from corral.world.workspace.checkout import Workspace

FOLDER = Path(__file__).parents[1] / "boxed" / "reporters"
PYTHON = str(FOLDER / "python")
PYTHONS = range(8, 16)  #: minor versions of Python that our reporter runs under
NODE = f"--require={FOLDER / 'node' / 'preload.cjs'}"
MOST_REPORTED = 64 << 20  #: bytes kept of what one check's reporters write
MOST_LINE = 8192
_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)


def _quote(option: str) -> str:
    """Write an option as Node reads it from its environment: a blank divides unless it is quoted."""
    return f'"{option}"' if " " in option else option


class ReportPipe:
    """The reading end of a pipe by path. Everything is read, so that no program waits; what is too much is dropped."""

    def __init__(self, path: Path) -> None:
        self._reads = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._writes = os.open(path, os.O_WRONLY | os.O_CLOEXEC)  # ours: without a writer a pipe is at its end
        except OSError:
            os.close(self._reads)
            raise
        if _SET_PIPE_SIZE is not None:
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._reads, _SET_PIPE_SIZE, _PIPE_BYTES)
        self._kept = bytearray()
        self.cut = False
        asyncio.get_running_loop().add_reader(self._reads, self._read)

    def _read(self) -> bool:
        """Read what is there; tell whether there was anything."""
        try:
            part = os.read(self._reads, _PIPE_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        room = MOST_REPORTED - len(self._kept)
        self.cut = self.cut or len(part) > room
        self._kept += part[:room]
        return bool(part)

    def lines(self) -> list[bytes]:
        """Return what was written so far; of a writer that never pauses, no more than fits."""
        for _ in range(MOST_REPORTED // _PIPE_BYTES):
            if not self._read():
                break
        return [line for line in bytes(self._kept).split(b"\n") if line and len(line) <= MOST_LINE]

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._reads)
        os.close(self._reads)
        os.close(self._writes)


class Reporter:
    """What a check's box needs so that its test programs report to us, and what they reported."""

    def __init__(self, made: Workspace, path: Path, channel: ReportPipe | None, go: str, order: str = "") -> None:
        """`order` is the file that says which tests are to run; empty: all."""
        self._channel, self._go = channel, go
        self.readable = (FOLDER, path.parent)
        self.writable = (path,) if channel else ()
        self._own = {"CORRAL_REPORT": str(path), "CORRAL_REPORT_TREE": str(made.tree)} if channel else {}
        if channel and order:
            self._own["CORRAL_REPORT_ORDER"] = order

    def env(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return what to add to the environment of a box; paths and options that it has stay in it."""
        if not self._channel:
            return {}
        path = os.pathsep.join(filter(None, (PYTHON, known.get("PYTHONPATH", ""))))
        options = " ".join(filter(None, (_quote(NODE), known.get("NODE_OPTIONS", ""))))
        flags = {"GOFLAGS": f"{self._go} {known.get('GOFLAGS', '')}".strip()} if self._go else {}
        return {**self._own, "PYTHONPATH": path, "NODE_OPTIONS": options, **flags}

    def command(self, check: str) -> str:
        """Return a check's command line; where it sets a variable that we need, our value stays in it."""
        check = reports.with_value(check, "PYTHONPATH", PYTHON, os.pathsep)
        check = reports.with_value(check, "GOFLAGS", self._go, "\\ ") if self._go else check
        return reports.with_value(check, "NODE_OPTIONS", NODE, "\\ ")

    async def report(self, exit_code: int, output: str) -> Report | None:
        """Return what the test programs of the check did; None: none of a kind that we know ran."""
        lines, cut = (self._channel.lines(), self._channel.cut) if self._channel else ([], False)
        return await asyncio.to_thread(reports.of_check, lines, output, exit_code, cut=cut)


def _lay_start(home: Path, owner: Owner | None) -> None:
    """Have our reporter start from the user's packages where a script or a Makefile sets PYTHONPATH anew."""
    line = f"import sys; p = {PYTHON!r}; p in sys.path or (sys.path.insert(0, p), __import__('sitecustomize'))\n"
    for minor in PYTHONS if home.is_dir() else ():
        name = f".local/lib/python3.{minor}/site-packages/corral_report.pth"
        with contextlib.suppress(OSError):  # what an earlier check left there is its own affair
            checkout.write_below(home, name, io.BytesIO(line.encode()), owner)


@contextlib.asynccontextmanager
async def open_reporter(
    made: Workspace, folder: Path, owner: Owner | None, check: str, order: TestOrder | None = None
) -> AsyncGenerator[Reporter]:
    """Have a channel for the reporters of one check in the folder of its box; it is removed afterwards."""
    place = folder / "report"
    place.mkdir(mode=0o755, exist_ok=True)
    try:
        channel = _open(place / "channel", owner)
    except OSError:  # a file system without pipes: what the check prints is all that is known
        yield Reporter(made, place / "channel", None, "")
        return
    _lay_start(folder / "home", owner)
    try:
        with go_tests.lay_mains(made.tree, check, place, owner) as go:
            yield Reporter(made, place / "channel", channel, go, _lay_order(place / "order", order))
    finally:
        channel.close()
        (place / "channel").unlink(missing_ok=True)


def _lay_order(path: Path, order: TestOrder | None) -> str:
    """Write down which tests are to run; return the file, empty where all are."""
    if order is None:
        return ""
    path.write_bytes(ENCODER.encode(order))
    path.chmod(0o644)
    return str(path)


def _open(path: Path, owner: Owner | None) -> ReportPipe:
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    if owner:
        os.chown(path, owner.uid, owner.gid)
    return ReportPipe(path)
