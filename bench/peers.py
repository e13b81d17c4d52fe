"""1,000 steps that do nothing, one after another, durable: other engines in the same run, as far as they are installed.

They run in an environment of their own:
uv venv .venv-peers && uv pip install --python .venv-peers -r bench/requirements.txt
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import flows
from bench.measure import Promise

PYTHON = os.environ.get("BENCH_PEERS", ".venv-peers/bin/python")
PROGRAMS = Path(__file__).parent / "peer" / "programs.py"
COUNT = 1000


def measure() -> list[Promise]:
    """Measure each peer between two runs of ours; one that is not there is said, and left out."""
    if not Path(PYTHON).exists():
        print(f"no peers: make their environment from bench/requirements.txt, BENCH_PEERS={PYTHON}", file=sys.stderr)
        return []
    flow, promises = flows.flow_of(flows.shapes(COUNT)["chain"]), list[Promise]()
    for name, words in PEERS.items():
        with tempfile.TemporaryDirectory(prefix="corral-peer-") as folder:
            before = flows.drive(Path(folder, "before"), flow)
            theirs = _peer(name, folder)
            after = flows.drive(Path(folder, "after"), flow)
        if theirs is not None:
            ours = (before + after) / 2
            promises.append(Promise(f"{COUNT:,} nodes in a chain, durable", words, ours / theirs, 1.0))
    return promises


def _peer(name: str, folder: str) -> float | None:
    place = Path(folder, "peer")
    place.mkdir()
    argv = [str(Path(PYTHON).absolute()), str(PROGRAMS.absolute()), name, str(COUNT)]
    done = subprocess.run(argv, cwd=place, env=_env(str(place)), capture_output=True, text=True, check=False)
    words = done.stdout.strip().splitlines()
    if done.returncode == 0 and words:
        return float(words[-1])
    print(f"{name}: {(done.stderr.strip().splitlines() or ['it did not run'])[-1]}", file=sys.stderr)
    return None


def _env(folder: str) -> dict[str, str]:
    return {**os.environ, "HOME": folder, "PREFECT_HOME": f"{folder}/prefect", "PREFECT_LOGGING_LEVEL": "CRITICAL"}


PEERS = {
    "dbos": "DBOS on SQLite",
    "luigi": "Luigi, local scheduler",
    "prefect": "Prefect with its own server",
    "celery": "Celery with Redis, fsync always",
}
