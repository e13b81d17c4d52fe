"""Peers of flows and of tasks, where bench/requirements.txt is installed.

python programs.py NAME COUNT        prints seconds: of 1,000 steps that do nothing, one after another, durable;
                                     of `swerex`, the median of so many tasks in the repository BENCH_REPOSITORY
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

REDIS = os.environ.get("BENCH_REDIS", "redis-server")


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


def swerex(count: int) -> float:
    """A trivial task in a local deployment: start, session, worktree, agent, diff, stop."""
    import asyncio  # noqa: PLC0415
    import statistics  # noqa: PLC0415

    from swerex.deployment.local import LocalDeployment  # noqa: PLC0415
    from swerex.runtime.abstract import BashAction, CreateBashSessionRequest  # noqa: PLC0415

    repository = os.environ["BENCH_REPOSITORY"]
    tree = f"{repository}-tree"
    command = (
        f"cd {repository} && git worktree add --quiet --detach {tree} && cd {tree} && $BENCH_AGENT && git diff HEAD"
        f" && cd / && git -C {repository} worktree remove --force {tree}"
    )

    async def task() -> float:
        started = time.perf_counter()
        deployment = LocalDeployment()
        await deployment.start()
        await deployment.runtime.create_session(CreateBashSessionRequest())
        seen = await deployment.runtime.run_in_session(BashAction(command=command, timeout=60))
        await deployment.stop()
        if seen.exit_code != 0:
            raise SystemExit(f"swerex: {seen.output}")
        return time.perf_counter() - started

    async def tasks() -> list[float]:
        return [await task() for _ in range(count + 1)][1:]  # the first one warms up

    return statistics.median(asyncio.run(tasks()))


if __name__ == "__main__":
    peers = {"dbos": dbos, "luigi": luigi, "prefect": prefect, "celery": celery, "swerex": swerex}
    print(peers[sys.argv[1]](int(sys.argv[2])))
