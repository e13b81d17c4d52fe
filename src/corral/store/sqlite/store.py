"""The store: one transaction per state change, an append-only event log written in batches."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from corral.model import ENCODER, AttemptRecord, Grade, NodeState, Order, RunPlan, RunRecord, Status
from corral.model.errors import BadRequest, NotFound, StoreTrouble
from corral.model.events import Event, Stored
from corral.model.money import dollars
from corral.store.signal import ChangeSignal
from corral.store.sqlite import missing_database, read_only
from corral.store.sqlite.connection import BUSY_SECONDS, connect, translated
from corral.world import clock, process_identity, run_fence

MUCH_ROOM = 4 << 20  #: bytes of a database that are worth the work of giving them back
LEASE_SECONDS = 15.0  #: how long a run belongs to a process that says nothing
LEASE_AHEAD_SECONDS = (
    60.0  #: a lease that ends later than this after a whole lease is from before the clock was set back
)
LOOK_SECONDS = 3.0  #: how often a process that waits to write looks who keeps it waiting
BATCH = 256  #: events held back at most; a crash of the machine can lose these, a crash of an agent none


class RunLine(Struct, frozen=True, kw_only=True):
    """A run as a listing shows it."""

    run: str
    status: Status
    reason: str | None
    created: float
    ended: float | None
    seconds: float | None  #: None until it is over
    repo: str
    strategy: str
    task: str
    agents: tuple[str, ...]
    usd: float | None
    owner: str | None
    answered: bool = False  #: it was left waiting for an answer, and has it by now
    grade: Grade | None = None  #: of the weakest of its winners, in short listings


def lease_left(until: float, now: float) -> float:
    """Return for how many seconds more a lease holds; 0 for one that ends too late to be true."""
    left = until - now
    return left if 0 < left <= LEASE_SECONDS + LEASE_AHEAD_SECONDS else 0.0


class Store:
    """One open database. Use it from one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "corral.db"
        self._db, self.writable = connect(self.path)
        self._file = missing_database.identity(self.path)
        self._db.execute("PRAGMA busy_timeout = 5")  # what takes longer waits below
        self._rope = ChangeSignal(folder) if self.writable else None
        self._sql = _queries()
        self._waiting: list[tuple[str, str | None, str | None, float, bytes]] = []
        self._waiting_epochs: dict[str, int] = {}  #: of runs with waiting events: the epoch these belong to
        self._depth = 0

    def close(self) -> None:
        self.flush()
        self._db.close()
        if self._rope:
            self._rope.close()

    # --- transactions and events

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        """Do all or nothing; events noted before are written with it, so the log's order is the order of things."""
        if self._depth:
            yield
            return
        if not self.writable:
            raise read_only.refusal(self.path)
        with translated(self.path):
            self._patiently("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                run_fence.check()
                self._write_waiting()
                yield
                self._write_waiting()
                self._db.execute("COMMIT")
                if self._rope:
                    self._rope.pull()
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            finally:
                self._depth = 0

    def note(self, run: str, event: Event, *, at: float, node: str | None = None, attempt: str | None = None) -> None:
        """Append an event; it is durable after the next transaction or `flush`."""
        self.note_encoded(run, ENCODER.encode(event), at=at, node=node, attempt=attempt)

    def note_encoded(self, run: str, body: bytes, *, at: float, node: str | None, attempt: str | None) -> None:
        """Append an event that is encoded already."""
        self._waiting.append((run, node, attempt, at, body))
        if (mine := run_fence.current()) and mine.run == run:
            self._waiting_epochs[run] = mine.epoch
        if len(self._waiting) >= BATCH and not self._depth:
            self.flush()

    def flush(self) -> None:
        """Write events down, for others to see; what the disk has not got yet goes with the next change of state."""
        if self._waiting and not self._depth:
            self._db.execute("PRAGMA synchronous = NORMAL")
            try:
                with self.transaction():
                    pass
            finally:
                self._db.execute("PRAGMA synchronous = FULL")

    def _write_waiting(self) -> None:
        if self._waiting:
            lost = {run for run, epoch in self._waiting_epochs.items() if self.epoch(run) != epoch}
            kept = [row for row in self._waiting if row[0] not in lost] if lost else self._waiting
            self._db.executemany(self._sql["add_event"], kept)
            self._waiting.clear()
            self._waiting_epochs.clear()

    def events(self, run: str, after: int = 0, most: int = 5000) -> list[Stored]:
        rows = self._rows("events", run=run, after=after, most=most)
        return [Stored(row["seq"], row["at"], row["node"], row["attempt"], row["body"]) for row in rows]

    # --- runs

    def add_run(self, record: RunRecord) -> None:
        """Store a new run with its nodes."""
        with self.transaction():
            self._do(
                "add_run",
                id=record.id,
                status=record.status,
                reason=record.reason,
                plan=ENCODER.encode(record.plan),
                created=record.created,
                owner=record.owner,
                lease_until=record.lease_until,
                clock=record.clock,
            )
            for place, node in enumerate(record.plan.flow.nodes):
                self._do("add_node", run=record.id, id=node.id, place=place, status="queued")

    def run(self, run: str) -> RunRecord:
        row = self._rows("run", id=run)[0]
        return RunRecord(
            id=row["id"],
            status=row["status"],
            reason=row["reason"],
            plan=msgspec.json.decode(row["plan"], type=RunPlan),
            created=row["created"],
            ended=row["ended"],
            owner=row["owner"],
            lease_until=row["lease_until"],
            epoch=row["epoch"],
            clock=row["clock"],
            seconds=_seconds(row),
        )

    def epoch(self, run: str) -> int | None:
        """Return how often a run has changed hands; None if there is no such run."""
        found = self._rows("epoch", id=run)
        return cast("int", found[0]["epoch"]) if found else None

    def status(self, run: str) -> Status:
        return cast("Status", self._rows("status", id=run)[0]["status"])

    def find(self, name: str) -> str:
        """Resolve an id, an unambiguous prefix of one, or `@last`."""
        if name == "@last":
            rows = self._rows("newest_run")
            if not rows:
                raise NotFound("there is no run yet", hint='start one: corral run "..."')
            return cast("str", rows[0]["id"])
        found = [cast("str", row["id"]) for row in self._rows("runs_with_prefix", prefix=name)] if name else []
        if name in found or len(found) == 1:
            return name if name in found else found[0]
        if not found:
            raise NotFound(f"no run is called `{name}`", hint="see `corral ls`; @last is the newest")
        raise BadRequest(f"`{name}` fits more than one run", hint="say more of it: " + ", ".join(found))

    def list_runs(self, most: int = 1_000_000) -> list[RunLine]:
        return [run_line(row) for row in self._rows("list_runs", most=most)]

    def move_run(self, run: str, status: Status, reason: str | None, ended: float | None) -> None:
        with self.transaction():
            seconds = None
            if ended is not None and (made := self._rows("clock", id=run)):
                seconds = clock.seconds_since(made[0]["clock"], made[0]["created"])
            self._do("move_run", id=run, status=status, reason=reason, ended=ended, seconds=seconds)

    # --- leases and orders

    def take_lease(self, run: str, owner: str, *, now: float, until: float, loser: str | None = None) -> bool:
        """Own a run that nobody owns, whose lease has run out, or that `loser` owns; a new owner raises its epoch."""
        with self.transaction():
            far = now + LEASE_SECONDS + LEASE_AHEAD_SECONDS
            return self._do("take_lease", id=run, owner=owner, now=now, until=until, far=far, loser=loser) == 1

    def renew_lease(self, run: str, owner: str, until: float) -> bool:
        with self.transaction():
            return self._do("renew_lease", id=run, owner=owner, until=until) == 1

    def release_lease(self, run: str, owner: str) -> None:
        with self.transaction():
            self._do("release_lease", id=run, owner=owner)

    def order(self, run: str, verb: str, by: str, at: float, text: str = "") -> int:
        with self.transaction():
            return cast("int", self._rows("add_order", run=run, verb=verb, by=by, at=at, text=text)[0]["id"])

    def orders(self, run: str) -> list[Order]:
        return [Order(row["id"], row["verb"], row["by"], row["text"]) for row in self._rows("orders", run=run)]

    def take_order(self, order: int, at: float, answer: str = "") -> None:
        """Remember that an order was carried out, and what whoever gave it is told."""
        with self.transaction():
            self._do("take_order", id=order, at=at, answer=answer)

    def order_answer(self, order: int) -> str | None:
        found = self._rows("order_answer", id=order)
        return cast("str", found[0]["answer"] or "") if found else None

    # --- nodes and attempts

    def nodes(self, run: str) -> list[NodeState]:
        return [
            NodeState(id=row["id"], status=row["status"], reason=row["reason"], winner=row["winner"], why=row["why"])
            for row in self._rows("nodes", run=run)
        ]

    def move_node(self, run: str, node: NodeState) -> None:
        with self.transaction():
            self._do(
                "move_node",
                run=run,
                id=node.id,
                status=node.status,
                reason=node.reason,
                winner=node.winner,
                why=node.why,
            )

    def add_nodes(self, run: str, names: Iterable[str]) -> None:
        """Store nodes that came up while the run went on; those it knows already stay as they are."""
        with self.transaction():
            place = len(self._rows("nodes", run=run))
            for name in names:
                place += self._do("add_late_node", run=run, id=name, place=place, status="queued")

    def drop_nodes(self, run: str, names: Iterable[str]) -> None:
        """Forget nodes that a flow does not have any more; their attempts stay."""
        with self.transaction():
            for name in names:
                self._do("drop_node", run=run, id=name)

    def save_plan(self, run: str, plan: RunPlan) -> None:
        with self.transaction():
            self._do("save_plan", id=run, plan=ENCODER.encode(plan))

    def next_place(self, run: str) -> int:
        return cast("int", self._rows("next_place", run=run)[0]["place"])

    def save_attempt(self, record: AttemptRecord) -> None:
        attempt = record.attempt
        with self.transaction():
            self._do(
                "save_attempt",
                id=attempt.id,
                run=record.run,
                node=record.node,
                place=int(attempt.id.rpartition("-")[2]),
                agent=attempt.agent,
                status=attempt.status,
                phase=record.phase,
                usd=attempt.cost.usd,
                started=record.started,
                ended=record.ended,
                record=ENCODER.encode(record),
            )

    def attempts(self, run: str) -> list[AttemptRecord]:
        return [_DECODE_ATTEMPT.decode(row["record"]) for row in self._rows("attempts", run=run)]

    def costs_of(self, agent: str) -> list[float]:
        """Return what the last attempts of an agent cost, as far as that is known."""
        return [cast("float", row["usd"]) for row in self._rows("costs_of", agent=agent)]

    # --- agents whose quota is used up

    def cool_down(self, agent: str, until: float, reason: str) -> None:
        """Let every run know that an agent's quota is used up."""
        with self.transaction():
            self._do("cool_down", agent=agent, until=until, reason=reason)

    def warm_up(self, agent: str) -> None:
        with self.transaction():
            self._do("warm_up", agent=agent)

    def cooldown(self, agent: str, now: float) -> tuple[float, str] | None:
        """Return until when an agent is not to be asked, and why; None if it may be."""
        found = self._rows("cooldown", agent=agent, now=now)
        return (cast("float", found[0]["until"]), cast("str", found[0]["reason"])) if found else None

    # --- health

    def blocked_by(self) -> int | None:
        """Return the process that was stopped by a signal while it wrote, so that nobody else can write."""
        return process_identity.stopped_holder(self.path.with_name(self.path.name + "-shm"))

    def removed(self) -> StoreTrouble | None:
        """Return an error if the file of this database was removed, replaced or emptied since it was opened."""
        return None if missing_database.identity(self.path) == self._file else missing_database.removed(self.path)

    def integrity(self) -> str:
        """Return `ok`, or what sqlite finds wrong."""
        try:
            return cast("str", self._db.execute("PRAGMA integrity_check").fetchone()[0])
        except sqlite3.DatabaseError as error:
            return str(error)

    def give_back(self) -> None:
        """Give room that deleted rows left back to the disk, if it is much; not while others are at work here."""
        pages, free, size = (
            cast("int", self._db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        if free * size > MUCH_ROOM and free * 4 > pages:
            with contextlib.suppress(sqlite3.OperationalError):
                self._db.execute("VACUUM")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def changed(self) -> int:
        """Return a number that differs when another process has written."""
        with translated(self.path):
            return cast("int", self._db.execute("PRAGMA data_version").fetchone()[0])

    def _rows(self, name: str, /, **values: object) -> list[sqlite3.Row]:
        with translated(self.path):
            return self._patiently(self._sql[name], values).fetchall()

    def _patiently(self, statement: str, values: Mapping[str, object] | None = None) -> sqlite3.Cursor:
        """Wait for other processes in short steps of uneven length: SQLite's own grow, and who came first starves."""
        started = time.monotonic()
        until, look_at = started + BUSY_SECONDS, started + LOOK_SECONDS
        while True:
            try:
                return self._db.execute(statement, cast("dict[str, Any]", values or {}))
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or self._depth or time.monotonic() > until:
                    raise
                if time.monotonic() > look_at:
                    look_at += LOOK_SECONDS
                    if self.blocked_by() is not None:
                        raise  # it would be in vain to wait
                time.sleep(random.uniform(0.0002, 0.004))  # noqa: S311 -- not for a secret

    def _do(self, name: str, /, **values: object) -> int:
        return self._db.execute(self._sql[name], cast("dict[str, Any]", values)).rowcount

    rows, do = _rows, _do  #: for the store's other files


def run_line(row: sqlite3.Row) -> RunLine:
    return RunLine(
        run=row["id"],
        status=row["status"],
        reason=row["reason"],
        created=row["created"],
        ended=row["ended"],
        seconds=_seconds(row),
        repo=row["repo"],
        strategy=row["strategy"],
        task=row["task"],
        agents=tuple((row["agents"] or "").split(",")) if row["agents"] else (),
        usd=None if row["usd"] is None else dollars(row["usd"]),
        owner=row["owner"],
    )


def _seconds(row: sqlite3.Row) -> float | None:
    """Return how long a run took; an older store has only the times of its wall clock."""
    if row["ended"] is None or row["seconds"] is not None:
        return cast("float | None", row["seconds"])
    return round(max(0.0, row["ended"] - row["created"]), 3)


_DECODE_ATTEMPT = msgspec.json.Decoder(AttemptRecord)


def _queries() -> dict[str, str]:
    texts = (file.read_text(encoding="utf-8") for file in sorted((Path(__file__).parents[1] / "queries").glob("*.sql")))
    return {name: query for text in texts for name, query in _named(text.split("-- name: ")[1:])}


def _named(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for part in parts:
        name, _, query = part.partition("\n")
        yield name.strip(), query.strip()
