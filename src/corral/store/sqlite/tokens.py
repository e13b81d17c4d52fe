"""Tokens and logins, kept in the store as hashes."""

from __future__ import annotations

import sqlite3
from typing import cast

from corral.model.server import AccessScope, Token
from corral.store.sqlite.database import Database

USED_SECONDS = 60.0  #: how exactly it is kept when a token was used last


class SqliteTokens:
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


def _token(row: sqlite3.Row) -> Token:
    scopes = cast("tuple[AccessScope, ...]", tuple(row["scopes"].split(",")))
    return Token(
        id=row["id"], name=row["name"], scopes=scopes, created=row["created"], used=row["used"], revoked=row["revoked"]
    )
