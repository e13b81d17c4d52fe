"""What is kept beside an attempt's raw logs so that it can be recorded: how each start of the agent went."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path, PurePath

import msgspec
from msgspec import Struct, field

from corral.model import ENCODER
from corral.model.agent_api import AgentTask, Command
from corral.world.process import Exit

PACE, TURNS = "stdout.pace", "turns.jsonl"
WORKSPACE, PROMPT = "%WORKSPACE%", "%PROMPT%"


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
        shape = [word.replace(task.prompt, PROMPT).replace(task.workspace, WORKSPACE) for word in words]
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
    with (logs / TURNS).open("ab") as file:
        file.write(ENCODER.encode(note) + b"\n")


def turns(logs: Path) -> list[RecordedTurn]:
    """Read back what an attempt's agent printed, and when; what came after the last turn that ended was cut off."""
    out, err, pace, noted = (_read(logs / name) for name in ("stdout.log", "stderr.log", PACE, TURNS))
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


def _read(path: Path) -> bytes:
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
