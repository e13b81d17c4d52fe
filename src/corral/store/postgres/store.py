"""A store in PostgreSQL: transactions under one lock, named queries, events by COPY."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import psycopg
from psycopg import conninfo
from psycopg.rows import dict_row, tuple_row

from corral.model.errors import ReadOnlyStore, RefusedStore, StoreTrouble
from corral.store.parts.runs import Runs
from corral.store.postgres import schema
from corral.store.postgres.changes import ChangeWatch, Listener, hold_lock
from corral.store.records import StoreReport
from corral.store.sql import Database, Noted, list_items, private_folders, with_items
from corral.world import locks

PATIENCE_SECONDS = 60.0  #: how long a server that went away is waited for
PAUSE_SECONDS = 0.2  #: between two looks whether it is back
PAGE = 5000  #: rows of a table that are read at once
EVENT_TYPES = ("text", "text", "text", "float8", "bytea")
PARAMETER = re.compile(r"(?<!:):(\w+)")


class PostgresDatabase(Database):
    """One connection to a server, which is made anew when it is lost. Use it from one thread."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, "postgres")
        private_folders(folder)
        self._url, self.where = url, address(url)
        self._queries: dict[str, str] = {}
        self._offset = 0.0
        with translate_errors(self.where):
            self._db, self._session = self._connect()
            try:
                self._writable = schema.migrate(self._db, self._session, self.where)
            except BaseException:
                self._db.close()
                raise
        self._channel = f"corral_{self._session.lock & 0xFFFFFFFFFFFFFFFF:x}"
        self._listener = Listener(lambda: connect(url), self._channel)

    def _connect(self) -> tuple[schema.Connection, schema.DatabaseSession]:
        connection = connect(self._url)
        before = time.time()
        try:
            session = schema.open_session(connection, self.where)
        except BaseException:
            connection.close()
            raise
        self._offset = session.now - (before + time.time()) / 2
        return connection, session

    @property
    def writable(self) -> bool:
        return self._writable

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._listener.close()
            self._db.close()

    # --- leases end by the server's clock, whatever the machines' say

    def to_stored_time(self, at: float) -> float:
        return at + self._offset if at else at

    def to_local_time(self, at: float) -> float:
        return at - self._offset if at else at

    # --- transactions

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        with self._transact(durable=True):
            yield

    @contextlib.contextmanager
    def visible_transaction(self) -> Generator[None]:
        with self._transact(durable=False):
            yield

    @contextlib.contextmanager
    def _transact(self, *, durable: bool) -> Generator[None]:
        if self._depth:
            yield
            return
        if not self._writable:
            raise self.refusal()
        with translate_errors(self.where):
            number = self._begin(durable=durable)
            self._depth = 1
            noted, epochs = [*self._waiting], {**self._waiting_epochs}
            try:
                locks.check()
                self._write_waiting()
                yield
                self._write_waiting()
                self._commit(number)
            except BaseException:
                if self._is_lost():  # what was noted before is written with the next one
                    self._waiting[:0], self._waiting_epochs = noted, {**epochs, **self._waiting_epochs}
                else:
                    self._db.rollback()
                raise
            finally:
                self._depth = 0

    def _begin(self, *, durable: bool) -> str:
        """Begin a transaction as the only one that writes; return its number, by which its end can be asked for."""
        local = "" if durable else "SET LOCAL synchronous_commit = off;"
        lock = f"SELECT pg_advisory_xact_lock({self._session.lock}), pg_current_xact_id()::text AS number"
        try:
            cursor = self._patiently(lambda: self._db.execute(cast("Any", f"BEGIN; {local} {lock}")))
        except psycopg.Error:
            if not self._is_lost():
                self._db.rollback()
            raise
        while cursor.nextset():
            pass  # the last result is the one with the number
        return cast("dict[str, str]", cursor.fetchone())["number"]

    def _commit(self, number: str) -> None:
        try:
            self._db.execute(cast("Any", f"NOTIFY {self._channel}; COMMIT"))
        except psycopg.OperationalError:
            if not self._is_lost() or not self._has_committed(number):
                raise

    def _has_committed(self, number: str) -> bool:
        """Find out how a transaction ended whose connection was lost while it was committed."""
        until = time.monotonic() + PATIENCE_SECONDS
        query = "SELECT pg_xact_status(%s::xid8) AS status"
        while True:
            row = self._patiently(lambda: self._db.execute(query, [number]).fetchone(), again=True)
            status = row["status"] if row else None
            if status != "in progress" or time.monotonic() > until:
                return status == "committed"
            time.sleep(PAUSE_SECONDS)

    @contextlib.asynccontextmanager
    async def lock_on_server(self, name: str, say: locks.Say, holder_seconds: float) -> AsyncGenerator[None, None]:
        key = f"{self._session.lock} {name}"
        async with contextlib.AsyncExitStack() as stack:
            with translate_errors(self.where):
                held = hold_lock(lambda: connect(self._url), key, say, holder_seconds)
                await stack.enter_async_context(held)
            yield

    def _is_lost(self) -> bool:
        return self._db.closed or self._db.broken

    def _patiently(self, ask: Any, *, again: bool = False) -> Any:  # noqa: ANN401 -- what psycopg answers
        """Ask again where the connection was lost, on a new one, for as long as a server may take to come back."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if self._is_lost():
                    if self._depth and not again:
                        raise psycopg.OperationalError("the connection was lost within a transaction")  # noqa: TRY301
                    self._db, self._session = self._connect()
                return ask()
            except psycopg.OperationalError:
                if (self._depth and not again) or not self._is_lost() or time.monotonic() > until:
                    raise
                self._db.close()
                time.sleep(PAUSE_SECONDS)

    def flush(self) -> None:
        if self._waiting and not self._depth:
            with self.visible_transaction():
                pass  # a transaction writes what waits

    def _insert_events(self, events: Sequence[Noted]) -> None:
        query = "COPY events (run, node, attempt, at, body) FROM STDIN (FORMAT BINARY)"
        with self._db.cursor() as cursor, cursor.copy(query) as copy:
            copy.set_types(EVENT_TYPES)
            for run, node, attempt, at, body in events:
                copy.write_row((run, node, attempt, float(at), body))

    # --- queries

    def rows(self, name: str, /, **values: object) -> list[dict[str, Any]]:
        return self._ask(self._query(name), values)

    def rows_of(self, name: str, items: Sequence[str], /, **values: object) -> list[dict[str, Any]]:
        return self._ask(_convert_query(with_items(self._sql[name], len(items))), {**list_items(items), **values})

    def do(self, name: str, /, **values: object) -> int:
        with translate_errors(self.where):
            return self._db.execute(cast("Any", self._query(name)), _fit_values(values)).rowcount

    def _ask(self, query: str, values: Mapping[str, object]) -> list[dict[str, Any]]:
        fitted = _fit_values(values)
        with translate_errors(self.where):
            return self._patiently(lambda: self._db.execute(cast("Any", query), fitted, binary=True).fetchall())

    def _query(self, name: str) -> str:
        if (found := self._queries.get(name)) is None:
            found = self._queries[name] = _convert_query(self._sql[name])
        return found

    # --- the database as a whole

    def data_version(self) -> int:
        return hash(self._ask("SELECT pg_current_snapshot()::text AS now", {})[0]["now"])

    def blocked_by(self) -> int | None:
        return None  # the server ends the transaction of a process that is stopped

    def removal_error(self) -> StoreTrouble | None:
        return None

    def integrity(self) -> str:
        """Read every table through; the server checks what it reads."""
        try:
            with translate_errors(self.where):
                for table in sorted(schema.table_names(self._db)):
                    self._db.execute(cast("Any", f'SELECT count(t::text) FROM "{table}" t'))  # noqa: S608 -- ours
        except StoreTrouble as error:
            return str(error)
        return self.check_sums()

    def report(self) -> StoreReport:
        found = self.integrity()
        size = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes FROM pg_class c"
        own = "WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'"
        return StoreReport(
            kind="postgresql",
            where=self.where,
            sound=found == "ok",
            problem=None if found == "ok" else found,
            writable=self._writable,
            schema=self._ask("SELECT max(number) AS newest FROM migrations", {})[0]["newest"],
            bytes=self._ask(f"{size} {own}", {})[0]["bytes"],
            **{name: self.rows(f"stored_{name}")[0]["count"] for name in ("runs", "attempts", "events")},
        )

    def give_back(self) -> None:
        """Leave it to the server: it uses the room of deleted rows again by itself."""

    def watch(self) -> ChangeWatch:
        return self._listener.watch()

    def refusal(self) -> ReadOnlyStore:
        return ReadOnlyStore(
            f"{self.where} cannot be written to: runs can be looked at, not started or changed",
            hint="name the primary server and a user that may write: CORRAL_STORE, or [store] url in config.toml",
        )

    # --- copies of whole tables

    @contextlib.contextmanager
    def snapshot(self) -> Generator[None]:
        with translate_errors(self.where), self._db.transaction():
            self._db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def columns(self) -> dict[str, list[str]]:
        query = (
            "SELECT table_name::text AS name, array_agg(column_name::text ORDER BY ordinal_position) AS columns"
            " FROM information_schema.columns WHERE table_schema = current_schema() GROUP BY 1"
        )
        return {row["name"]: row["columns"] for row in self._ask(query, {})}

    def table(self, name: str, columns: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
        query = f'SELECT {_quote_columns(columns)} FROM "{name}"'  # noqa: S608 -- names of our own
        with translate_errors(self.where), self._db.cursor("corral_copy", row_factory=tuple_row) as cursor:
            cursor.execute(cast("Any", query))
            while page := cursor.fetchmany(PAGE):
                yield page

    def fill(self, name: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        query = f'COPY "{name}" ({_quote_columns(columns)}) FROM STDIN'
        with translate_errors(self.where), self._db.cursor() as cursor, cursor.copy(cast("Any", query)) as copy:
            for row in rows:
                copy.write_row(tuple(_fit(value) for value in row))

    def continue_numbers(self) -> None:
        query = (
            "SELECT table_name::text AS name, column_name::text AS field FROM information_schema.columns"
            " WHERE table_schema = current_schema() AND is_identity = 'YES'"
        )
        with translate_errors(self.where):
            for row in self._ask(query, {}):
                name, field = row["name"], row["field"]
                sequence = f"pg_get_serial_sequence('{name}', '{field}')"
                last = f"SELECT setval({sequence}, max({field})) FROM {name} HAVING max({field}) > 0"  # noqa: S608
                self._db.execute(cast("Any", last))


def connect(url: str) -> schema.Connection:
    return psycopg.Connection[dict[str, Any]].connect(
        url,
        autocommit=True,
        row_factory=cast("Any", dict_row),
        connect_timeout=10,
        client_encoding="utf8",
        application_name="corral",
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
    )


def address(url: str) -> str:
    """Return the address of a database as messages show it: without its password."""
    try:
        parts = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise RefusedStore(
            "the address of the store is not one of a PostgreSQL database",
            hint="write postgresql://USER@HOST/DATABASE in CORRAL_STORE or [store] url",
        ) from None
    user, host = parts.get("user"), str(parts.get("host") or "")
    place = f"{host if not host.startswith('/') else ''}{':' + str(parts['port']) if parts.get('port') else ''}"
    return f"postgresql://{f'{user}@' if user else ''}{place}/{parts.get('dbname') or user or ''}"


def _convert_query(query: str) -> str:
    """Return a query with its values named as psycopg names them."""
    return PARAMETER.sub(r"%(\1)s", query.replace("%", "%%"))


def _fit_values(values: Mapping[str, object]) -> dict[str, object]:
    return {name: _fit(value) for name, value in values.items()}


def _fit(value: object) -> object:
    """Return a value that PostgreSQL takes: its text holds no NUL, and a truth is no number there."""
    if isinstance(value, str):
        return value.replace("\0", "") if "\0" in value else value
    return int(value) if isinstance(value, bool) else value


def _quote_columns(columns: Sequence[str]) -> str:
    return ", ".join(f'"{each}"' for each in columns)


#: PostgreSQL's words -> what to do about it.
REMEDIES = (
    ("password", "give the password in the address, in PGPASSWORD, or in ~/.pgpass"),
    ("no pg_hba.conf entry", "let this machine and user in: pg_hba.conf of the server"),
    ("role", "create the user: createuser corral; or name another one in the address"),
    ("database", "create it: createdb --encoding UTF8 --template template0 corral; or look at the name in the address"),
    ("permission denied", "GRANT CREATE, USAGE ON SCHEMA public TO the user of the address"),
    ("lock timeout", "another process writes for long: SELECT * FROM pg_stat_activity; or try again"),
    ("too many", "raise max_connections of the server, or stop other programs"),
    ("no space", "make room on the server's disk; nothing stored is lost: then `corral resume @last`"),
)


@contextlib.contextmanager
def translate_errors(where: str) -> Generator[None]:
    """Turn psycopg's errors into ours, each with a way out."""
    try:
        yield
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise ReadOnlyStore(f"{where} is read-only", hint="name the primary server, or another user") from error
    except psycopg.Error as error:
        words = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        words = words.rpartition("FATAL:  ")[2]
        hint = next((remedy for known, remedy in REMEDIES if known in words.lower()), "")
        hint = hint or "look whether the server runs and can be reached: psql with the same address"
        refused = isinstance(error, psycopg.OperationalError | psycopg.errors.InsufficientPrivilege)
        raise (RefusedStore if refused else StoreTrouble)(f"{where}: {words}", hint=hint) from error


class Store(Runs, PostgresDatabase):
    """Everything of one team, in one schema of a database; files are in the state folder of each machine."""
