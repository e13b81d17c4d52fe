"""Tokens and logins, kept in the store as hashes."""

from __future__ import annotations

import sqlite3
from typing import cast

from corral.model.server import AccessScope, Token
from corral.store.sqlite.store import Store

USED_SECONDS = 60.0  #: how exactly it is kept when a token was used last


def add_token(store: Store, token: Token, digest: str) -> None:
    with store.transaction():
        store.do(
            "add_token", id=token.id, name=token.name, hash=digest, scopes=",".join(token.scopes), created=token.created
        )


def tokens(store: Store) -> list[Token]:
    return [_token(row) for row in store.rows("tokens")]


def token_of(store: Store, digest: str, now: float) -> Token | None:
    """Return the token with this hash, if it still counts."""
    rows = store.rows("token_of_hash", hash=digest)
    if not rows:
        return None
    found = _token(rows[0])
    if found.used is None or now - found.used > USED_SECONDS:
        with store.transaction():
            store.do("token_used", id=found.id, at=now)
    return found


def revoke(store: Store, name: str, now: float) -> bool:
    with store.transaction():
        return store.do("revoke_token", id=name, at=now) == 1


def add_login(store: Store, digest: str, token: str, now: float, until: float) -> None:
    with store.transaction():
        store.do("end_old_logins", now=now)
        store.do("add_login", hash=digest, token=token, at=now, until=until)


def token_of_login(store: Store, digest: str, now: float) -> Token | None:
    rows = store.rows("token_of_login", hash=digest, now=now)
    return _token(rows[0]) if rows else None


def end_login(store: Store, digest: str) -> None:
    with store.transaction():
        store.do("end_login", hash=digest)


def _token(row: sqlite3.Row) -> Token:
    scopes = cast("tuple[AccessScope, ...]", tuple(row["scopes"].split(",")))
    return Token(
        id=row["id"], name=row["name"], scopes=scopes, created=row["created"], used=row["used"], revoked=row["revoked"]
    )
