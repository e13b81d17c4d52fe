"""Peers in the same run, as far as they are installed: durable steps by other engines, a trivial task by other tools.

They run in environments of their own:
uv venv .venv-peers && uv pip install --python .venv-peers -r bench/requirements.txt
npm install --prefix .npm-peers @ai-hero/sandcastle@0.12.0
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import flows, overhead
from bench.measure import Promise, interleaved

PYTHON = os.environ.get("BENCH_PEERS", ".venv-peers/bin/python")
PROGRAMS = Path(__file__).parent / "peer" / "programs.py"
COUNT = 1000
TASKS = 7
NODE_PEERS = Path(os.environ.get("BENCH_NODE_PEERS", ".npm-peers"))
SANDCASTLE = Path(__file__).parent / "peer" / "sandcastle.mjs"
#: What Sandcastle starts: it waits for a stream of Claude Code, and for a commit.
CLAUDE = """#!/bin/sh
cat >/dev/null
"$BENCH_AGENT"
git add -A && git -c user.name=You -c user.email=you@example.org commit --quiet --message change
echo '{"type":"result","subtype":"success","result":"<promise>COMPLETE</promise>"}'
"""


def measure() -> list[Promise]:
    """Measure each peer between two runs of ours; one that is not there is named, and left out."""
    return [*_steps(), *_tasks()]


def _tasks() -> list[Promise]:
    """A trivial task: ours in the box and durable, theirs without either."""
    found: list[Promise] = []
    with overhead.place() as folder:
        agent, repository = overhead.trivial_agent(folder), overhead.repository_at(folder / "repository")
        (folder / "bin").mkdir()
        claude = folder / "bin" / "claude"
        claude.write_text(CLAUDE)
        claude.chmod(0o755)
        more = {"BENCH_REPOSITORY": str(repository), "BENCH_AGENT": str(agent)}
        env = {**_env(str(folder)), **more, "PATH": f"{claude.parent}:{os.environ['PATH']}"}
        node = ["node", str(SANDCASTLE.absolute()), str(repository), str(TASKS)]
        python = [str(Path(PYTHON).absolute()), str(PROGRAMS.absolute()), "swerex", str(TASKS)]
        peers = (("SWE-ReX, local deployment", python, folder), ("Sandcastle, without a sandbox", node, NODE_PEERS))
        with overhead.EngineInUse(folder) as corral:
            (ours,) = interleaved(TASKS, lambda: corral.run(repository, "trivial"))
        for words, argv, place in peers:
            theirs = _seconds(words, argv, place, env)
            if theirs is not None:
                found.append(Promise("a task with a trivial agent, in the box", words, ours / theirs, 1.0))
    return found


def _steps() -> list[Promise]:
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
    return _seconds(name, argv, place, _env(str(place)))


def _seconds(name: str, argv: list[str], place: Path, env: dict[str, str]) -> float | None:
    """Run a peer; return the last number that it prints, None where it did not run."""
    try:
        done = subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return None
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
