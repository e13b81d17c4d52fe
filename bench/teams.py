"""What teams have: engines on one PostgreSQL, 2,000 attempts held over 20 hosts, 1,000,000 runs stored there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import psycopg

from bench import flows, large, overhead
from bench.measure import Promise, interleaved
from bench.startup import add_runs
from corral.model import RunPlan, RunRecord
from corral.store.opening import open_store
from corral.store.parts.runs import Runs
from corral.store.records import LEASE_SECONDS
from corral.store.sqlite.store import Store
from corral.world import process_identity
from tests.rig.postgres import Server

QUEUED, ENGINES = 1_000, 4  #: runs of one node each, and the engines that drive them
HOSTS, ATTEMPTS = 20, 2_000  #: held at once by one engine
STORED, FEW = 1_000_000, 1_000  #: runs in PostgreSQL
BLOCK = 5_000  #: runs that are stored at once
FSYNC = ("shared_buffers=64MB", "max_connections=50", "autovacuum=off")
HOLDS = '#!/bin/sh\necho "$CORRAL_ATTEMPT" >> {begun}\nuntil [ -e {go} ]; do sleep 2; done\necho x > x.txt\n'
COMMANDS: dict[str, tuple[str, ...]] = {"ls": ("ls",), "ls with options": ("ls", "--json"), "show": ("show", "@last")}


def measure() -> list[Promise]:
    with overhead.place() as folder, _server() as server:
        return [*_engines(folder, server), *_hosts(folder), *_stored(folder, server)]


@contextmanager
def _server() -> Generator[Server]:
    with tempfile.TemporaryDirectory(prefix="corral-pg-") as name:
        place = Path(name)
        place.chmod(0o755)
        if os.getuid() == 0:
            os.chown(place, 65534, 65534)
        server = Server(place, FSYNC)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


# --- several engines


def _engines(folder: Path, server: Server) -> list[Promise]:
    """Drive a queue of runs whose one node does nothing: what is compared is the engines and the store."""
    one, several = interleaved(
        3, lambda: _drain(folder, server.database(), 1), lambda: _drain(folder, server.database(), ENGINES)
    )
    name = f"{QUEUED:,} runs of one node that does nothing, {ENGINES} engines on one PostgreSQL"
    return [Promise(name, "one engine", several / one, 1 / 1.3, "rate at least 1.3 times; one writes at a time")]


def _drain(folder: Path, url: str, engines: int) -> None:
    env = {**os.environ, "CORRAL_STORE": url}
    flow = flows.flow_of([()])
    plan = RunPlan(flow=flow, repo="/", git_dir="/", base=None, into=None)
    os.environ["CORRAL_STORE"] = url
    try:
        store = open_store(folder / "queue")
    finally:
        del os.environ["CORRAL_STORE"]
    with store.transaction():
        for number in range(QUEUED):
            record = RunRecord(id=f"run{number:09}", status="queued", reason=None, plan=plan, created=1.0)
            store.add_run(record)
            store.queue.enqueue(record, priority=0, by="bench")
    words = [sys.executable, "-m", "bench.teams", str(folder / "queue")]
    working = [subprocess.Popen(words, env=env) for _ in range(engines)]
    if any(each.wait() for each in working) or store.pages.counts() != {"done": QUEUED}:
        raise SystemExit("not all runs are done")
    store.close()


def _take_turns(folder: Path) -> None:
    """Take up queued runs until there are none: what each engine does."""
    store, owner = cast("Store", open_store(folder)), process_identity.own_name()
    while waiting := store.queue.waiting(64):
        for each in waiting:
            now = time.time()
            if store.take_lease(each.run, owner, now=now, until=now + LEASE_SECONDS):
                if store.status(each.run) == "queued":
                    store.queue.leave(each.run)
                    asyncio.run(flows.loop_of(store, each.run, owner).execute())
                store.release_lease(each.run, owner)
    store.close()


# --- many attempts at once


def _hosts(folder: Path) -> list[Promise]:
    """Count the agents that wait at one moment, over hosts of this machine that each count as one of their own."""
    shared = folder / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    begun, go = shared / "begun", shared / "go"
    begun.touch(0o666)
    begun.chmod(0o666)
    agent = overhead.trivial_agent(folder, HOLDS.format(begun=begun, go=go))
    repository = overhead.repository_at(folder / "held")
    slots, program = -(-ATTEMPTS // HOSTS), Path(sys.executable).with_name("corral")
    machines = "".join(
        f'[machines.host{number}]\ncommand = ["env", "CORRAL_HOME={folder}/host{number}", "{program}", "host"]\n'
        f"slots = {slots}\n"
        for number in range(HOSTS)
    )
    scope = f'[scope]\nwrite = ["**", "{shared}/**"]\n'
    overhead.configure(folder, f'[agents.trivial]\ncommand = ["{agent}"]\nprompt = "stdin"\n{scope}{machines}')
    nodes = "".join(f"  n{number}: {{task: hold, agent: trivial, machine: any}}\n" for number in range(ATTEMPTS))
    flow = folder / "held.yaml"
    flow.write_text(f"name: held\nparallel: {ATTEMPTS}\nnodes:\n{nodes}")
    argv = [str(program), "flow", "run", str(flow), "--repo", str(repository), "--yes", "--quiet"]
    env = {**os.environ, "CORRAL_HOME": str(folder / "state")}
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL) as engine:
        before, since = 0, time.monotonic()
        while before < ATTEMPTS and engine.poll() is None and time.monotonic() - since < 120:
            time.sleep(1)
            now = begun.read_text().count("\n")
            before, since = now, time.monotonic() if now > before else since
        go.touch()
        done = engine.wait() == 0
    name = f"attempts asked for at once by one engine, over {HOSTS} hosts"
    ratio = ATTEMPTS / before if before and done else float("inf")
    return [Promise(f"{ATTEMPTS:,} {name}", "those at work at one moment", ratio, 1.0, "a count")]


# --- many runs


def _stored(folder: Path, server: Server) -> list[Promise]:
    few, many = server.database(), server.database()
    for url, count in ((few, FEW), (many, STORED)):
        fill(folder / "stored", url, count)
    corral = str(Path(sys.executable).with_name("corral"))
    promises: list[Promise] = []
    for words, command in COMMANDS.items():
        small, great = interleaved(5, *(_starter(folder, url, corral, *command) for url in (few, many)))
        promises.append(_as_fast(f"corral {words}", great / small))
    with _page(folder / "few", few) as small_page, _page(folder / "many", many) as great_page:
        small, great = interleaved(5, lambda: _open(small_page), lambda: _open(great_page))
    return [*promises, _as_fast("the list of runs over HTTP", great / small)]


def _as_fast(what: str, ratio: float) -> Promise:
    return Promise(f"{what}, {STORED:,} runs stored in PostgreSQL", f"{FEW:,} runs stored there", ratio, 2.0)


def _starter(folder: Path, url: str, *argv: str) -> Callable[[], object]:
    env = {**os.environ, "CORRAL_HOME": str(folder / "stored"), "CORRAL_STORE": url}
    return lambda: subprocess.run(argv, env=env, check=True, capture_output=True)


@contextmanager
def _page(home: Path, url: str) -> Generator[urllib.request.Request]:
    """Serve a store; yield the request for its newest runs."""
    argv = [str(Path(sys.executable).with_name("corral")), "serve", "--port", "0", "--no-resume", "--rate", "0"]
    env = {**os.environ, "CORRAL_HOME": str(home), "CORRAL_STORE": url}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout
        address, token = (server.stdout.readline().decode().strip() for _ in range(2))
        secret = token.removeprefix("token: ")
        yield urllib.request.Request(f"{address}/api/v1/runs", headers={"Authorization": f"Bearer {secret}"})
        server.terminate()


def _open(page: urllib.request.Request) -> None:
    with urllib.request.urlopen(page, timeout=60) as answer:
        answer.read()


def fill(home: Path, url: str, count: int) -> None:
    """Make a store of runs that are over: one as an engine stores it, and copies of its rows under other names."""
    os.environ["CORRAL_STORE"] = url
    try:
        store = cast("Runs", open_store(home))
    finally:
        del os.environ["CORRAL_STORE"]
    add_runs(store, 1)
    run = large.store_more(store)
    columns = store.columns()
    rows: dict[str, tuple[list[str], list[Sequence[object]]]] = {}
    for table in large.TABLES:
        names = [each for each in columns[table] if each != "seq"]
        rows[table] = names, [row for page in _pages(store, table, names) for row in page]
    for names in large.names_of(count, BLOCK):
        with store.transaction():
            for table, (fields, found) in rows.items():
                store.fill(table, fields, [tuple(row) for row in large.copies(found, run, names)])
    store.close()
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("ANALYZE")


def _pages(store: Runs, table: str, names: Sequence[str]) -> Iterator[list[tuple[object, ...]]]:
    with store.snapshot():
        yield from store.table(table, names)


if __name__ == "__main__":
    _take_turns(Path(sys.argv[1]))
