"""Big outputs as files beside the store: the raw lines of an agent, its prompt, what a check printed."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import BinaryIO

import msgspec
from msgspec import Struct, field

from corral.model import ENCODER
from corral.model.agent_api import AgentTask, Command
from corral.rules.text.redact import Redactor
from corral.world.process import Exit

MOST_LOG = 256 << 20
CUT = b"\n[corral: the log is cut here]\n"
MOST_WHOLE = 16 << 20  #: of a check's stream; after it only its end is kept
MOST_CUT = 1 << 16
PACE_FILE, TURNS_FILE = "stdout.pace", "turns.jsonl"
WORKSPACE_MARK, PROMPT_MARK = "%WORKSPACE%", "%PROMPT%"


class Log:
    """An append-only file that stops growing at MOST_LOG."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("ab")
        self._size = self._file.tell()

    def write(self, chunk: bytes) -> None:
        if self._size >= MOST_LOG:
            return
        self._file.write(chunk[: MOST_LOG - self._size])
        self._size += len(chunk)
        if self._size >= MOST_LOG:
            self._file.write(CUT)

    def close(self) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        """How much was written, also what was cut."""
        return self._size


class Pace:
    """When its lines came: how many, and seconds since the start, for each chunk. A recording is played by it."""

    def __init__(self, path: Path) -> None:
        self._log, self._started = Log(path), time.monotonic()

    def note_lines(self, count: int) -> None:
        if count:
            self._log.write(b"%.3f %d\n" % (time.monotonic() - self._started, count))

    def close(self) -> None:
        self._log.close()


class CleanLog:
    """A log without secrets."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self._log, self._stream = Log(path), redactor.stream()

    def write(self, chunk: bytes) -> None:
        self._log.write(self._stream.feed(chunk))

    def close(self) -> None:
        self._log.write(self._stream.close())
        self._log.close()

    @property
    def size(self) -> int:
        return self._log.size


class Tail:
    """The last few thousand bytes of something long."""

    def __init__(self, most: int = 8000) -> None:
        self._most, self._kept = most, bytearray()

    def write(self, chunk: bytes) -> None:
        self._kept += chunk[-self._most :]
        if len(self._kept) > 2 * self._most:  # not each time: what is kept may be long
            del self._kept[: -self._most]

    def text(self, most: int | None = None) -> str:
        return self._kept[-min(most or self._most, self._most) :].decode(errors="replace")

    def raw(self) -> bytes:
        return bytes(self._kept[-self._most :])


class CutStream:
    """A stream without secrets whose middle is left out once it is long: to search gigabytes would take minutes."""

    def __init__(self, redactor: Redactor, take: Callable[[bytes], None], kept_at_end: int) -> None:
        self._redactor, self._take = redactor, take
        self._stream, self._end = redactor.stream(), Tail(kept_at_end)
        self._size = self._late = 0

    def feed(self, chunk: bytes) -> None:
        if self._size < MOST_WHOLE:
            self._size += len(chunk)
            self._take(self._stream.feed(chunk))
        else:
            self._late += len(chunk)
            self._end.write(chunk)

    def close(self) -> None:
        end = self._end.raw()
        if self._late <= len(end):
            self._take(self._stream.feed(end))
            self._take(self._stream.close())
            return
        self._take(self._stream.close())
        line = end.find(b"\n", 0, MOST_CUT)  # half a line may hold half a secret, which nobody would recognize
        end = end[MOST_CUT if line < 0 else line + 1 :]
        self._take(b"\n[corral: %d bytes left out]\n" % (self._late - len(end)))
        last = self._redactor.stream()
        self._take(last.feed(end))
        self._take(last.close())


class TurnNote(Struct, frozen=True, kw_only=True):
    """One start of the agent in an attempt; sizes are those of the logs when it was over."""

    argv: tuple[str, ...] = ()
    workspace: str = ""
    code: int = -9
    why: str = "stopped"
    stdout: int
    stderr: int
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    @classmethod
    def of(
        cls, command: Command, task: AgentTask, ended: Exit, sizes: Mapping[str, int], files: Mapping[str, bytes]
    ) -> TurnNote:
        words = [PurePath(command.argv[0]).name, *command.argv[1:]]
        shape = [word.replace(task.prompt, PROMPT_MARK).replace(task.workspace, WORKSPACE_MARK) for word in words]
        return cls(
            argv=tuple(shape),
            workspace=task.workspace,
            code=ended.code,
            why=ended.why,
            stdout=sizes["stdout"],
            stderr=sizes["stderr"],
            files=files,
        )


class RecordedTurn(Struct, frozen=True):
    """One start of the agent, with what it printed."""

    note: TurnNote
    lines: list[tuple[float, bytes]]
    stderr: bytes


def note_turn(logs: Path, note: TurnNote) -> None:
    with (logs / TURNS_FILE).open("ab") as file:
        file.write(ENCODER.encode(note) + b"\n")


def recorded_turns(logs: Path) -> list[RecordedTurn]:
    """Read back what an attempt's agent printed, and when; what came after the last turn that ended was cut off."""
    out, err, pace, noted = (_read_turns(logs / name) for name in ("stdout.log", "stderr.log", PACE_FILE, TURNS_FILE))
    notes = [msgspec.json.decode(line, type=TurnNote) for line in noted.splitlines()]
    if not notes or notes[-1].stdout < len(out):
        workspace = notes[-1].workspace if notes else ""
        notes.append(TurnNote(workspace=workspace, stdout=len(out), stderr=len(err)))
    ends, moments = _moments(pace)
    found: list[RecordedTurn] = []
    at_out = at_err = passed = 0
    for note in notes:
        lines: list[tuple[float, bytes]] = []
        *whole, rest = out[at_out : note.stdout].split(b"\n")
        for line in [*whole, rest] if rest else whole:
            passed += 1
            lines.append((_moment(ends, moments, passed), line))
        found.append(RecordedTurn(note, lines, err[at_err : note.stderr]))
        at_out, at_err = note.stdout, note.stderr
    return found


def _read_turns(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _moments(pace: bytes) -> tuple[list[int], list[float]]:
    """Return how many lines had come, and when; each start of the agent counts its time anew."""
    ends, moments, size = [0], [0.0], 0
    for row in pace.splitlines():
        when, _, count = row.partition(b" ")
        size += int(count or 0)
        ends.append(size)
        moments.append(float(when))
    return ends, moments


def _moment(ends: list[int], moments: list[float], place: int) -> float:
    return moments[min(bisect_left(ends, place), len(moments) - 1)]
