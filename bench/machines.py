"""Other machines: what a task there adds to the same task here, by stdio and on a Ray cluster; PostgreSQL."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench import flows, overhead, workspaces
from bench.measure import Promise, interleaved, timed
from bench.overhead import EngineInUse
from tests.rig.postgres import Server
from tests.rig.ray_cluster import ray_cluster

LINES, FILES, NODES = 10_000, 10_000, 300
FSYNC = ("shared_buffers=16MB", "max_connections=50", "autovacuum=off")
TALKS = f"#!/bin/sh\necho 'a change' >> file-1.txt\nseq -f 'line %.0f of what an agent says' {LINES}\n"


def measure() -> list[Promise]:
    with overhead.place() as folder:
        return [*_stdio(folder), *_postgres(folder), *_ray(folder)]


def _near(folder: Path, name: str) -> str:
    """Return the settings of a machine that is this one, with a state folder of its own."""
    far = folder / f"far-{name}"
    program = Path(sys.executable).with_name("corral")
    return f'[machines.{name}]\ncommand = ["env", "CORRAL_HOME={far}", "{program}", "host"]\n'


def _against(name: str, baseline: str, there: float, here: float, more_seconds: float) -> Promise:
    """Compare a task there with the same task here and so many seconds more."""
    return Promise(name, f"{baseline} + {more_seconds:g} s", there / (here + more_seconds), 1.0)


def _stdio(folder: Path) -> list[Promise]:
    agent, repository = overhead.trivial_agent(folder), overhead.repository_at(folder / "repository")
    large = workspaces.large_repository(folder / "large", FILES)
    talker = folder / "talker.sh"
    talker.write_text(TALKS)
    talker.chmod(0o755)
    agents = "".join(
        f'[agents.{name}]\ncommand = ["{path}"]\nprompt = "stdin"\n'
        for name, path in (("trivial", agent), ("talker", talker))
    )
    names = [f"new{number}" for number in range(5)]
    overhead.configure(folder, agents + "".join(_near(folder, name) for name in ("near", *names)))
    with EngineInUse(folder) as corral:
        here, there, lines, large_here, large_there = interleaved(
            7,
            lambda: corral.run(repository, "trivial"),
            lambda: corral.run(repository, "trivial", machine="near"),
            lambda: corral.run(repository, "talker", machine="near"),
            lambda: corral.run(large, "trivial"),
            lambda: corral.run(large, "trivial", machine="near"),
        )
        firsts = sorted(timed(lambda name=name: corral.run(repository, "trivial", machine=name)) for name in names)
    same = "the same task here"
    return [
        _against("a trivial task over an open stdio host", same, there, here, 0.15),
        _against("the first task there, whose host starts", same, firsts[len(firsts) // 2], here, 0.6),
        Promise(f"{LINES:,} lines of an agent there", "1 s", lines - there, 1.0),
        _against(f"a second attempt there, {FILES:,} files", same, large_there, large_here, 0.4),
    ]


@contextmanager
def _environment(**more: str) -> Generator[None]:
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _postgres(folder: Path) -> list[Promise]:
    """A node that does nothing, against a bare transaction of the same server, which waits for the disk."""
    flow, ratios = flows.flow_of(flows.shapes(NODES)["chain"]), list[float]()
    with tempfile.TemporaryDirectory(prefix="corral-pg-") as name:
        place = Path(name)
        place.chmod(0o755)
        if os.getuid() == 0:
            os.chown(place, 65534, 65534)
        server = Server(place, FSYNC)
        server.make()
        server.start()
        try:
            for turn in range(3):
                bare = _bare_transactions(server.database(empty=True), NODES)
                with _environment(CORRAL_STORE=server.database()):
                    ratios.append(flows.drive(folder / f"postgres-{turn}", flow) / bare)
        finally:
            server.stop()
    name = f"{NODES:,} nodes that do nothing, the store in PostgreSQL, chain"
    return [Promise(name, "a bare fsynced PostgreSQL transaction each", sorted(ratios)[1], 4.0)]


def _bare_transactions(url: str, count: int) -> float:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE nodes (id TEXT PRIMARY KEY, status TEXT)")
        connection.commit()
        started = time.perf_counter()
        for place in range(count):
            connection.execute("INSERT INTO nodes VALUES (%s, 'done')", (f"n{place}",))
            connection.commit()
        return time.perf_counter() - started


def _ray(folder: Path) -> list[Promise]:
    repository = folder / "repository"
    config = folder / "config" / "corral" / "config.toml"
    with ray_cluster([]) as cluster:
        cluster.add_node({"slot": 4})
        config.write_text(
            f'{config.read_text()}[machines.cluster]\nray = "{cluster.address}"\nresources = {{ slot = 1 }}\n'
        )
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(cluster.token)}
        with _environment(**token), EngineInUse(folder) as corral:
            works: list[Callable[[], object]] = [
                lambda: corral.run(repository, "trivial"),
                lambda: corral.run(repository, "trivial", machine="cluster"),
            ]
            here, there = interleaved(5, *works)
    return [_against("a trivial task on a Ray cluster, its bridge up", "the same task here", there, here, 1.5)]
