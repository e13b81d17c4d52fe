"""`corral ls`, the plain one: asked again and again, so it loads no more than it needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from corral.engine.engine import Engine
from corral.frontends.safe_text import ago, table
from corral.model.server import RunSummary

USUAL = 30
HEAD = ("RUN", "STATUS", "AGE", "COST", "AGENT", "TASK")
MERGES = {"merged": "merged", "conflict": "in conflict", "ready": "to merge"}
NONE = 'no run yet; start one: corral run "what is to be done"'


def show() -> None:
    """Print the newest runs."""
    opened = Engine()
    try:
        lines = opened.history.runs(USUAL)
    finally:
        opened.close()
    print(run_table(lines) if lines else NONE, file=sys.stdout if lines else sys.stderr, flush=True)


def run_table(lines: Sequence[RunSummary]) -> str:
    """Return runs as a table."""
    rows = [
        (
            line.run,
            _status(line),
            ago(line.created),
            "-" if line.usd is None else f"${line.usd:.2f}",
            ",".join(line.agents) or "-",
            line.title,
        )
        for line in lines
    ]
    return "\n".join(table(HEAD, rows, drop=("AGENT", "COST")))


def _status(line: RunSummary) -> str:
    if line.answered:
        return "answered"
    if line.status == "done":
        grade = line.grade if line.grade != "unchecked" else None
        return ", ".join(filter(None, ["done", grade, MERGES.get(line.merge or "")]))
    return "orphaned" if line.orphaned else line.status
