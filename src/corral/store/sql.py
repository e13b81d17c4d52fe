"""What every database of a store shares: named queries, and the event log written in batches."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from corral.model import ENCODER
from corral.model.errors import StoreTrouble
from corral.model.events import Event, StoredEvent
from corral.store.interface import Watch
from corral.world import locks

Dialect = Literal["sqlite", "postgres"]
Noted = tuple[str, str | None, str | None, float, bytes]  #: an event: run, node, attempt, time, body
BATCH = 256  #: events held back at most; a crash of the machine can lose these, a crash of an agent none
QUERIES = Path(__file__).parent / "queries"
MIGRATIONS = Path(__file__).parent / "migrations"


PRIVATE = ("folders", "logs")  #: copies of files and what agents said: closed even where the state folder is open


class Row(Protocol):
    """A row of an answer, by the names of its columns."""

    def __getitem__(self, name: str, /) -> Any: ...  # noqa: ANN401 -- a database is not typed
    def keys(self) -> Iterable[str]: ...


class Database(ABC):
    """One open database. Use it from one thread."""

    def __init__(self, folder: Path, dialect: Dialect) -> None:
        self.folder = folder
        self._sql = named_queries(dialect)
        self._waiting: list[Noted] = []
        self._waiting_epochs: dict[str, int] = {}  #: of runs with waiting events: the epoch these belong to
        self._listeners: list[Callable[[], None]] = []
        self._depth = 0

    @property
    @abstractmethod
    def writable(self) -> bool:
        """Return whether this process may write here."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Do all or nothing; events noted before are written with it, so the log's order is the order of things."""

    @abstractmethod
    def visible_transaction(self) -> AbstractContextManager[None]:
        """Do the same, for others to see; it is on the disk when the next transaction is, and never after it."""

    @contextlib.asynccontextmanager
    async def lock(
        self, name: str, *, say: locks.Say | None = None, holder_seconds: float = 0.0
    ) -> AsyncGenerator[int, None]:
        """Hold a lock by its name, of all processes of this store on every machine; it is gone when its holder dies.

        Yield the descriptor of its file here, as `hold_lock` does.
        """
        file = self.folder / "locks" / name
        async with (
            locks.hold_lock(file, say=say, holder_seconds=holder_seconds) as descriptor,
            self.lock_on_server(name, say or locks.log.warning, holder_seconds or locks.HOLDER_SECONDS),
        ):
            yield descriptor

    @abstractmethod
    def lock_on_server(self, name: str, say: locks.Say, holder_seconds: float) -> AbstractAsyncContextManager[None]:
        """Keep other machines out too."""

    @abstractmethod
    def rows(self, name: str, /, **values: object) -> Sequence[Row]:
        """Return what a query answers."""

    @abstractmethod
    def rows_of(self, name: str, items: Sequence[str], /, **values: object) -> Sequence[Row]:
        """Return what a query answers that asks for a list, which it calls `:items`."""

    @abstractmethod
    def do(self, name: str, /, **values: object) -> int:
        """Carry out a change; return how many rows it concerned."""

    @abstractmethod
    def flush(self) -> None:
        """Write events down, for others to see; what the disk has not got yet goes with the next change of state."""

    @abstractmethod
    def close(self) -> None:
        """Write what is left, and let go of the database."""

    @abstractmethod
    def watch(self) -> Watch:
        """Return what wakes whenever any process has written."""

    @abstractmethod
    def data_version(self) -> int:
        """Return a number that differs when another process has written."""

    @abstractmethod
    def integrity(self) -> str:
        """Return `ok`, or what is wrong."""

    def check_sums(self) -> str:
        """Return `ok`, or how many running sums of the ledger are not what its entries add up to."""
        wrong = cast("int", self.rows("wrong_sums")[0]["count"])
        return f"{wrong} running sums differ from the ledger" if wrong else "ok"

    @abstractmethod
    def _insert_events(self, events: Sequence[Noted]) -> None: ...

    # --- copies of whole tables

    @abstractmethod
    def columns(self) -> dict[str, list[str]]:
        """Return the tables and their columns."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read the database as it is at one moment."""

    @abstractmethod
    def table(self, name: str, columns: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
        """Return the rows of a table, some at a time."""

    @abstractmethod
    def fill(self, name: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Put rows into a table."""

    @abstractmethod
    def continue_numbers(self) -> None:
        """Give new rows numbers after those that `fill` put in."""

    def to_stored_time(self, at: float) -> float:
        """Return a moment of this machine's clock on the clock by which leases are stored."""
        return at

    def to_local_time(self, at: float) -> float:
        """Return a stored end of a lease on this machine's clock."""
        return at

    def note(self, run: str, event: Event, *, at: float, node: str | None = None, attempt: str | None = None) -> None:
        """Append an event; it is durable after the next transaction or `flush`."""
        self.note_encoded(run, ENCODER.encode(event), at=at, node=node, attempt=attempt)

    def note_encoded(self, run: str, body: bytes, *, at: float, node: str | None, attempt: str | None) -> None:
        """Append an event that is encoded already."""
        self._waiting.append((run, node, attempt, at, body))
        if (mine := locks.current()) and mine.run == run:
            self._waiting_epochs[run] = mine.epoch
        if len(self._waiting) >= BATCH and not self._depth:
            self.flush()
        else:
            for call in self._listeners:
                call()

    def when_noted(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call this whenever an event waits to be written, until what is returned is called."""
        self._listeners.append(call)
        return lambda: self._listeners.remove(call)

    def _write_waiting(self) -> None:
        if self._waiting:
            lost = {run for run, epoch in self._waiting_epochs.items() if self.epoch(run) != epoch}
            kept = [row for row in self._waiting if row[0] not in lost] if lost else self._waiting
            self._insert_events(kept)
            self._waiting.clear()
            self._waiting_epochs.clear()

    def events(self, run: str, after: int = 0, most: int = 5000) -> list[StoredEvent]:
        rows = self.rows("events", run=run, after=after, most=most)
        return [StoredEvent(row["seq"], row["at"], row["node"], row["attempt"], row["body"]) for row in rows]

    def epoch(self, run: str) -> int | None:
        """Return how often a run has changed hands; None if there is no such run."""
        found = self.rows("epoch", id=run)
        return cast("int", found[0]["epoch"]) if found else None


def named_queries(dialect: Dialect) -> dict[str, str]:
    """Return all queries by name: the common ones, and the few that each database has of its own."""
    files = [*sorted(QUERIES.glob("*.sql")), QUERIES / dialect / "own.sql"]
    texts = (file.read_text(encoding="utf-8") for file in files)
    return {name: query for text in texts for name, query in _name_queries(text.split("-- name: ")[1:])}


def _name_queries(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for part in parts:
        name, _, query = part.partition("\n")
        yield name.strip(), query.strip()


def migration_files() -> dict[int, Path]:
    """Return the steps of the schema by number."""
    return {int(file.stem): file for file in sorted(MIGRATIONS.glob("*.sql"))}


def private_folders(folder: Path) -> None:
    """Make the state folder, and what is closed to others in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in PRIVATE:
            (folder / name).mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreTrouble(
            f"the state folder {folder} cannot be made: {error.strerror}",
            hint="set CORRAL_HOME to a folder you may write to",
        ) from error


def list_items(items: Sequence[str]) -> dict[str, str]:
    """Return the values of a list by the names that `with_items` gives them."""
    return {f"item{place}": item for place, item in enumerate(items)}


def with_items(query: str, count: int) -> str:
    """Return a query that asks for `:items` with a name for each of so many."""
    names = ", ".join(f":item{place}" for place in range(count)) or "NULL"
    return query.replace(":items", names)
