"""`make bench`: measure every promise and print them; exit 1 when one is broken. `--write` keeps them in the docs."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench import (
    acp,
    evidence,
    flows,
    ingest,
    ledger,
    mcp,
    merging,
    overhead,
    peers,
    reading,
    recovery,
    selection,
    serving,
    spawn,
    startup,
)
from bench.measure import Promise, table

PAGE = Path("docs/benchmarks.md")
PARTS = {
    "overhead": overhead.measure,
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
    "peers": peers.measure,
}


def main() -> None:
    named = [name for name in sys.argv[1:] if not name.startswith("-")]
    promises: list[Promise] = []
    for name, measure in PARTS.items():
        if not named or name in named:
            print(f"measuring: {name}", file=sys.stderr)
            promises += measure()
    print(table(promises))
    if "--write" in sys.argv:
        _write(promises)
    sys.exit(0 if all(promise.kept for promise in promises) else 1)


def _write(promises: list[Promise]) -> None:
    when = datetime.now(UTC).date().isoformat()
    head, mark, _ = PAGE.read_text().partition("<!-- measured -->\n")
    machine = (
        f"Measured on {when}: Python {platform.python_version()}, {platform.system()} {platform.release()}, 2 cores."
    )
    PAGE.write_text(f"{head}{mark}\n{machine}\n\n{table(promises)}\n")


if __name__ == "__main__":
    main()
