"""1,000 steps that do nothing, one after another, durable: other engines in the same run, as far as they are installed.

`python -m bench.peers NAME COUNT` runs in their own environment (bench/requirements.txt) and prints seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    from bench import flows
    from bench.measure import Promise
except ImportError:  # in a peer's environment there is no corral
    pass

PYTHON = os.environ.get("BENCH_PEERS", ".venv-peers/bin/python")
REDIS = os.environ.get("BENCH_REDIS", "redis-server")
COUNT = 1000


def measure() -> list[Promise]:
    """Measure each peer between two runs of ours; one that is not there is said, and left out."""
    if not Path(PYTHON).exists():
        print(f"no peers: make their environment from bench/requirements.txt, BENCH_PEERS={PYTHON}", file=sys.stderr)
        return []
    flow, promises = flows.flow_of(flows.shapes(COUNT)["chain"]), list[Promise]()
    for name in PEERS:
        with tempfile.TemporaryDirectory(prefix="corral-peer-") as folder:
            before = flows.drive(Path(folder, "before"), flow)
            theirs = _peer(name, folder)
            after = flows.drive(Path(folder, "after"), flow)
        if theirs is not None:
            ours = (before + after) / 2
            promises.append(Promise(f"{COUNT:,} nodes in a chain, durable", PEERS[name][0], ours / theirs, 1.0))
    return promises


def _peer(name: str, folder: str) -> float | None:
    place = Path(folder, "peer")
    place.mkdir()
    argv = [str(Path(PYTHON).absolute()), str(Path(__file__).absolute()), name, str(COUNT)]
    done = subprocess.run(argv, cwd=place, env=_env(str(place)), capture_output=True, text=True, check=False)
    words = done.stdout.strip().splitlines()
    if done.returncode == 0 and words:
        return float(words[-1])
    print(f"{name}: {(done.stderr.strip().splitlines() or ['it did not run'])[-1]}", file=sys.stderr)
    return None


def _env(folder: str) -> dict[str, str]:
    return {**os.environ, "HOME": folder, "PREFECT_HOME": f"{folder}/prefect", "PREFECT_LOGGING_LEVEL": "CRITICAL"}


def dbos(count: int) -> float:
    """A workflow of steps on SQLite: each step's result is stored before the next begins."""
    from dbos import DBOS, DBOSConfig  # noqa: PLC0415

    config: DBOSConfig = {"name": "bench", "system_database_url": "sqlite:///bench.sqlite", "run_admin_server": False}
    DBOS(config=config)

    @DBOS.step()
    def nothing(place: int) -> int:
        return place

    @DBOS.workflow()
    def chain() -> None:
        for place in range(count):
            nothing(place)

    DBOS.launch()
    started = time.perf_counter()
    chain()
    taken = time.perf_counter() - started
    DBOS.destroy()
    return taken


def luigi(count: int) -> float:
    """Tasks whose targets are files, each needing the one before it."""
    import luigi as engine  # noqa: PLC0415

    class Nothing(engine.Task):
        place = engine.IntParameter()

        def requires(self) -> object:
            return Nothing(self.place - 1) if self.place else []

        def output(self) -> object:
            return engine.LocalTarget(f"done-{self.place}")

        def run(self) -> None:
            with Path(f"done-{self.place}").open("w") as file:
                file.write("done")
                file.flush()
                os.fsync(file.fileno())

    sys.setrecursionlimit(100_000)
    started = time.perf_counter()
    if not engine.build([Nothing(count - 1)], local_scheduler=True, log_level="CRITICAL"):
        raise SystemExit("luigi failed")
    return time.perf_counter() - started


def prefect(count: int) -> float:
    """A flow of tasks against its own temporary server on SQLite."""
    from prefect import flow, task  # noqa: PLC0415

    @task(log_prints=False)
    def nothing(place: int) -> int:
        return place

    @flow
    def warm() -> None:
        nothing(0)

    @flow
    def chain() -> None:
        for place in range(count):
            nothing(place)

    warm()
    started = time.perf_counter()
    chain()
    return time.perf_counter() - started


def celery(count: int) -> float:
    """One worker and Redis that writes every change to disk; each task is sent when the one before it is done."""
    port = "6399"
    argv = [
        REDIS,
        "--port",
        port,
        "--bind",
        "127.0.0.1",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--save",
        "",
    ]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    Path("peer_tasks.py").write_text(
        "from celery import Celery\n"
        f"app = Celery('peer', broker='redis://127.0.0.1:{port}/0', backend='redis://127.0.0.1:{port}/1')\n"
        "@app.task\ndef nothing(place): return place\n"
    )
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "peer_tasks", "worker", "--concurrency", "1", "-l", "CRITICAL"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        sys.path.insert(0, ".")
        from peer_tasks import nothing  # noqa: PLC0415

        nothing.delay(0).get(timeout=60)
        started = time.perf_counter()
        for place in range(count):
            nothing.delay(place).get(timeout=60)
        return time.perf_counter() - started
    finally:
        worker.terminate()
        worker.wait()
        server.terminate()
        server.wait()


PEERS = {
    "dbos": ("DBOS on SQLite", dbos),
    "luigi": ("Luigi, local scheduler", luigi),
    "prefect": ("Prefect with its own server", prefect),
    "celery": ("Celery with Redis, fsync always", celery),
}

if __name__ == "__main__":
    print(PEERS[sys.argv[1]][1](int(sys.argv[2])))
