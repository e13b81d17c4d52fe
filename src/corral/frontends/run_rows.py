"""Runs as the rows of a table: of `corral ls` with options, and of the plain one, which loads nothing else."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from corral import amounts
from corral.frontends.text import age, table

TYPE_CHECKING = False  # as of `typing`, which would double what a plain list loads
if TYPE_CHECKING:
    from corral.model.server import RunSummary

USUAL = 30
HEAD = ("RUN", "STATUS", "AGE", "COST", "AGENT", "TASK")
MERGES = {"merged": "merged", "conflict": "in conflict", "ready": "to merge", "undone": "undone"}
NONE_FITS = "no run fits"
NONE = 'no run yet; start one: corral run "what is to be done"'

#: Run, status, when it was asked for, dollars, agents, title, grade, merge, whether it is orphaned.
PlainRow = tuple[str, str, float, float | None, Sequence[str], str, str | None, str | None, bool]


def show(rows: Sequence[PlainRow], *, filtered: bool) -> None:
    """Print the newest runs, or that there are none; with `filtered`, that none fits."""
    none = NONE_FITS if filtered else NONE
    print(_table(rows) if rows else none, file=sys.stdout if rows else sys.stderr, flush=True)


def run_table(lines: Sequence[RunSummary]) -> str:
    """Return runs as a table."""
    return _table([_row(line) for line in lines])


def _row(line: RunSummary) -> PlainRow:
    status = "answered" if line.answered else line.status
    return (
        line.run, status, line.created, line.usd, line.agents, line.title, line.grade, line.merge, line.orphaned,
    )  # fmt: skip


def _table(rows: Sequence[PlainRow]) -> str:
    return "\n".join(table(HEAD, [_cells(row) for row in rows], drop=("AGENT", "COST")))


def _cells(row: PlainRow) -> tuple[str, ...]:
    run, status, created, usd, agents, title, grade, merge, orphaned = row
    if status == "done":
        proven = grade if grade != "unchecked" else None
        status = ", ".join(filter(None, ["done", proven, MERGES.get(merge or "")]))
    elif orphaned and status != "answered":
        status = "orphaned"
    return run, status, age(created), "-" if usd is None else amounts.usd(usd), ",".join(agents) or "-", title
