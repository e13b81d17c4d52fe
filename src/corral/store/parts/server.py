"""What a server keeps: schedules, triggers, webhooks, tokens and logins."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import cast

import msgspec
from msgspec import structs

from corral.model import ENCODER
from corral.model.server import AccessScope, Callback, Delivery, ScheduleRecord, Token, TriggerRecord, WebhookRecord
from corral.store.sql import Database, Row

KEEP_SECONDS = 30 * 86_400.0  #: how long it is remembered what was delivered


class Automation:
    """Schedules, triggers, webhooks with their deliveries, and callbacks of runs."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def put_schedule(self, record: ScheduleRecord, next_at: float | None) -> None:
        with self._store.transaction():
            self._store.do("put_schedule", name=record.name, record=ENCODER.encode(record), next_at=next_at)

    def schedules(self) -> list[tuple[ScheduleRecord, float | None]]:
        return _schedules(self._store.rows("schedules"))

    def due_schedules(self, now: float) -> list[ScheduleRecord]:
        return [record for record, _ in _schedules(self._store.rows("due_schedules", now=now))]

    def begin_schedule(self, name: str, now: float, until: float) -> bool:
        """Take on a schedule that is due; nobody else does until then."""
        with self._store.transaction():
            return self._store.do("begin_schedule", name=name, now=now, until=until) == 1

    def drop_schedule(self, name: str) -> bool:
        with self._store.transaction():
            return self._store.do("drop_schedule", name=name) == 1

    def put_trigger(self, record: TriggerRecord) -> None:
        with self._store.transaction():
            self._store.do("put_trigger", name=record.name, record=ENCODER.encode(record))

    def triggers(self) -> list[TriggerRecord]:
        return [msgspec.json.decode(row["record"], type=TriggerRecord) for row in self._store.rows("triggers")]

    def trigger(self, name: str) -> TriggerRecord | None:
        rows = self._store.rows("trigger", name=name)
        return msgspec.json.decode(rows[0]["record"], type=TriggerRecord) if rows else None

    def drop_trigger(self, name: str) -> bool:
        with self._store.transaction():
            return self._store.do("drop_trigger", name=name) == 1

    def note_start(self, run: str, what: str, at: float) -> None:
        """Remember what started a run."""
        with self._store.transaction():
            self._store.do("add_start", run=run, what=what, at=at)

    def starts(self, what: str, since: float) -> tuple[int, int]:
        """Return how many runs something has started since, and how many of its runs are not over."""
        return (
            self._store.rows("starts_since", what=what, since=since)[0]["count"],
            self._store.rows("open_starts", what=what)[0]["count"],
        )

    def run_that_merged(self, what: str, commit: str) -> str | None:
        """Return which run of those that something started has moved a branch to this commit."""
        rows = self._store.rows("run_that_merged", what=what, commit=commit)
        return rows[0]["run"] if rows else None

    def put_webhook(self, record: WebhookRecord) -> None:
        with self._store.transaction():
            self._store.do("put_webhook", id=record.id, record=ENCODER.encode(record))

    def webhooks(self) -> list[WebhookRecord]:
        return [msgspec.json.decode(row["record"], type=WebhookRecord) for row in self._store.rows("webhooks")]

    def drop_webhook(self, name: str) -> bool:
        with self._store.transaction():
            return self._store.do("drop_webhook", id=name) == 1

    def add_delivery(self, delivery: Delivery) -> None:
        with self._store.transaction():
            self._store.do("forget_deliveries", before=delivery.at - KEEP_SECONDS)
            self._store.do(
                "add_delivery",
                id=delivery.id,
                webhook=delivery.webhook,
                type=delivery.type,
                body=delivery.body,
                at=delivery.at,
            )

    def due_deliveries(self, now: float, most: int) -> list[Delivery]:
        return _deliveries(self._store.rows("due_deliveries", now=now, most=most))

    def begin_delivery(self, name: str, now: float, until: float) -> bool:
        """Take on a delivery that is due; nobody else does until then."""
        with self._store.transaction():
            return self._store.do("begin_delivery", id=name, now=now, until=until) == 1

    def deliveries(self, webhook: str, state: str | None, most: int) -> list[Delivery]:
        return _deliveries(self._store.rows("deliveries", webhook=webhook, state=state, most=most))

    def delivery(self, name: str) -> Delivery | None:
        rows = self._store.rows("delivery", id=name)
        return _deliveries(rows)[0] if rows else None

    def move_delivery(self, moved: Delivery) -> None:
        with self._store.transaction():
            self._store.do(
                "move_delivery",
                id=moved.id,
                state=moved.state,
                tries=moved.tries,
                next_at=moved.next_at,
                answer=moved.answer,
            )

    def delivery_counts(self) -> dict[str, int]:
        return {row["state"]: row["count"] for row in self._store.rows("count_deliveries")}

    def ask_callback(self, run: str, url: str) -> Callback:
        """Store which address a run is to call."""
        asked = Callback(run=run, id=f"msg_{os.urandom(12).hex()}", url=url)
        self.put_callback(asked)
        return asked

    def put_callback(self, callback: Callback) -> None:
        with self._store.transaction():
            self._store.do("put_callback", **structs.asdict(callback))

    def open_callbacks(self) -> list[Callback]:
        return [_callback(row) for row in self._store.rows("open_callbacks")]

    def callback(self, run: str) -> Callback | None:
        rows = self._store.rows("callback", run=run)
        return _callback(rows[0]) if rows else None

    def begin_callback(self, run: str, now: float, until: float) -> bool:
        """Take on a post that is due; nobody else does until then."""
        with self._store.transaction():
            return self._store.do("begin_callback", run=run, now=now, until=until) == 1


def _schedules(rows: Iterable[Row]) -> list[tuple[ScheduleRecord, float | None]]:
    return [(msgspec.json.decode(row["record"], type=ScheduleRecord), row["next_at"]) for row in rows]


def _callback(row: Row) -> Callback:
    return Callback(**{name: row[name] for name in Callback.__struct_fields__})


def _deliveries(rows: Iterable[Row]) -> list[Delivery]:
    return [
        Delivery(
            id=row["id"],
            webhook=row["webhook"],
            type=row["type"],
            state=row["state"],
            tries=row["tries"],
            next_at=row["next_at"],
            at=row["at"],
            answer=row["answer"],
            body=row["body"],
        )
        for row in rows
    ]


USED_SECONDS = 60.0  #: how exactly it is kept when a token was used last


class AccessTokens:
    """Tokens of the server, and logins of browsers."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def add(self, token: Token, digest: str) -> None:
        with self._store.transaction():
            self._store.do(
                "add_token",
                id=token.id,
                name=token.name,
                hash=digest,
                scopes=",".join(token.scopes),
                created=token.created,
            )

    def all(self) -> list[Token]:
        return [_token(row) for row in self._store.rows("tokens")]

    def token_of(self, digest: str, now: float) -> Token | None:
        """Return the token with this hash, if it still counts."""
        rows = self._store.rows("token_of_hash", hash=digest)
        if not rows:
            return None
        found = _token(rows[0])
        if found.used is None or now - found.used > USED_SECONDS:
            with self._store.transaction():
                self._store.do("token_used", id=found.id, at=now)
        return found

    def revoke(self, name: str, now: float) -> bool:
        with self._store.transaction():
            return self._store.do("revoke_token", id=name, at=now) == 1

    def add_login(self, digest: str, token: str, now: float, until: float) -> None:
        with self._store.transaction():
            self._store.do("end_old_logins", now=now)
            self._store.do("add_login", hash=digest, token=token, at=now, until=until)

    def token_of_login(self, digest: str, now: float) -> Token | None:
        rows = self._store.rows("token_of_login", hash=digest, now=now)
        return _token(rows[0]) if rows else None

    def end_login(self, digest: str) -> None:
        with self._store.transaction():
            self._store.do("end_login", hash=digest)


def _token(row: Row) -> Token:
    scopes = cast("tuple[AccessScope, ...]", tuple(row["scopes"].split(",")))
    return Token(
        id=row["id"], name=row["name"], scopes=scopes, created=row["created"], used=row["used"], revoked=row["revoked"]
    )
