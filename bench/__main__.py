"""`make bench`: measure every promise and print them.

    python -m bench [NAME ...] [--large] [--save FILE] [--compare FILE] [--write]

NAME is a part: all without one. `--large` adds the stores of 1,000,000 runs, and what teams have. `--save` keeps the
ratios as JSON, `--compare` shows what changed since such a file, `--write` puts the table of all parts into the docs.
Exit 1: a promise is broken; 3: none is known to be broken, but other processes kept the machine too busy to judge all.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bench import (
    acp,
    evidence,
    flows,
    ingest,
    large,
    ledger,
    machines,
    mcp,
    merging,
    overhead,
    peers,
    programs,
    reading,
    recovery,
    selection,
    serving,
    spawn,
    startup,
    teams,
    workspaces,
)
from bench.measure import MOST_BUSY, Busyness, Promise, adopt_orphans, table

PAGE = Path("docs/benchmarks.md")
PARTS: dict[str, Callable[[], list[Promise]]] = {
    "overhead": overhead.measure,
    "workspaces": workspaces.measure,
    "startup": startup.measure,
    "spawn": spawn.measure,
    "reading": reading.measure,
    "ingest": ingest.measure,
    "selection": selection.measure,
    "evidence": evidence.measure,
    "ledger": ledger.measure,
    "serving": serving.measure,
    "merging": merging.measure,
    "mcp": mcp.measure,
    "acp": acp.measure,
    "flows": flows.measure,
    "recovery": recovery.measure,
    "machines": machines.measure,
    "programs": programs.measure,
    "peers": peers.measure,
}
LARGE: dict[str, Callable[[], list[Promise]]] = {
    "large": large.measure,
    "teams": teams.measure,
}  #: take hours, and 20 GB


def main() -> None:
    asked = _arguments()
    parts = {**PARTS, **{name: part for name, part in LARGE.items() if asked.large or name in asked.names}}
    before = json.loads(asked.compare.read_text()) if asked.compare else None
    adopt_orphans()
    promises: list[Promise] = []
    for name, measure in parts.items():
        if not asked.names or name in asked.names:
            promises += _measure(name, measure)
    print(table(promises, before))
    if asked.save:
        asked.save.write_text(json.dumps({each.key: each.ratio for each in promises}, indent=1) + "\n")
    if asked.write:
        _write(promises)
    sys.exit(_exit_code(promises))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure every promise.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*PARTS, *LARGE]))
    parser.add_argument(
        "--large", action="store_true", help="also stores of 1,000,000 runs, and 2,000 attempts at once"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the ratios, as JSON")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="show what changed since these ratios")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in {*PARTS, *LARGE}]:
        parser.error(f"no part is called {unknown[0]} (choose from {', '.join([*PARTS, *LARGE])})")
    if asked.write and asked.names:
        parser.error("the table of the docs is of one run: leave out the names of parts, or --write")
    return asked


def _measure(name: str, measure: Callable[[], list[Promise]]) -> list[Promise]:
    print(f"measuring: {name}", file=sys.stderr)
    others, began = Busyness(), time.monotonic()
    try:
        promises = measure()
    except Exception:  # noqa: BLE001 -- the other parts are measured all the same
        traceback.print_exc()
        return [Promise(f"{name}: failed", "-", float("nan"), 0.0)]
    busy = others.cores()
    words = "" if busy <= MOST_BUSY else f": more than {MOST_BUSY:g}, so nothing of it is judged"
    took = time.monotonic() - began
    print(f"{name}: {took:.0f} s; other processes used {busy:.2f} of a core{words}", file=sys.stderr)
    measured = [replace(each, busy=busy) for each in promises]
    print(table(measured), file=sys.stderr)
    return measured


def _exit_code(promises: list[Promise]) -> int:
    if any(each.judged and not each.kept for each in promises):
        return 1
    return 0 if all(each.judged for each in promises) else 3


def _write(promises: list[Promise]) -> None:
    when = datetime.now(UTC).date().isoformat()
    head, mark, _ = PAGE.read_text().partition("<!-- measured -->\n")
    busy = max((each.busy for each in promises), default=0.0)
    machine = (
        f"Measured on {when}: Python {platform.python_version()}, {platform.system()} {platform.release()}, "
        f"{os.cpu_count()} cores, of which other processes used {busy:.2f} at most."
    )
    PAGE.write_text(f"{head}{mark}\n{machine}\n\n{table(promises)}\n")


if __name__ == "__main__":
    main()
