"""Who may use the server: tokens that are shown once, and logins of browsers that showed one."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from corral.model.errors import BadRequest
from corral.model.server import SCOPES, AccessScope, Token
from corral.store.interface import Store

PREFIX = "corral_"  #: so that users and scanners know it for what it is
LOGIN_SECONDS = 30 * 86_400.0
SERVER_FILE = "server.json"  #: where the server of a user is, for editors and other programs of theirs
FIRST, LOCAL = "first", "local"  #: tokens of the user who starts the server: the first of all, and one for its logins
REACHED_BY = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 -- addresses to listen on, and those to call


class IssuedToken(Struct, frozen=True):
    """A new token with its secret: this is the only time that it is seen."""

    token: Token
    secret: str


class Access:
    """Tokens and logins of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._own: IssuedToken | None = None

    def own(self) -> IssuedToken:
        """Return the token of this process for programs of its user: never stored, gone with the process."""
        if self._own is None:
            scopes: tuple[AccessScope, ...] = ("read", "run", "merge")
            token = Token(id=secrets.token_hex(4), name=SERVER_FILE, scopes=scopes, created=time.time())
            self._own = IssuedToken(token, PREFIX + secrets.token_urlsafe(32))
        return self._own

    @contextlib.contextmanager
    def keep_server_file(self, home: Path, url: str) -> Generator[None]:
        """Have `server.json` while a server serves; at the end, that of another server is left alone."""
        for nowhere, here in REACHED_BY.items():
            url = url.replace(f"//{nowhere}:", f"//{here}:")
        path, new = home / SERVER_FILE, home / f".{SERVER_FILE}.{os.getpid()}"
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode({"url": url, "token": self.own().secret, "pid": os.getpid()}) + b"\n")
        new.replace(path)
        try:
            yield
        finally:
            with contextlib.suppress(OSError, msgspec.MsgspecError, KeyError, TypeError):
                if msgspec.json.decode(path.read_bytes())["pid"] == os.getpid():
                    path.unlink()

    def create(self, name: str, scopes: Sequence[str]) -> IssuedToken:
        """Make a token; the secret has 256 bits, so that a plain hash of it is enough."""
        known: tuple[AccessScope, ...] = tuple(scope for scope in SCOPES if scope in scopes)
        if not known or len(known) != len(set(scopes)):
            raise BadRequest(f"`{','.join(scopes)}` is not a list of scopes", hint="of: " + ", ".join(SCOPES))
        secret = PREFIX + secrets.token_urlsafe(32)
        token = Token(id=secrets.token_hex(4), name=name[:100], scopes=known, created=time.time())
        self._store.tokens.add(token, _hash(secret))
        return IssuedToken(token, secret)

    def first(self) -> IssuedToken | None:
        """Make the first token, if there never was one: there is no default key."""
        return None if self._store.tokens.all() else self.create(FIRST, ["admin"])

    def local_user(self) -> Token:
        """Return the token of the user who starts the server on this machine, to whom its login link belongs."""
        for token in self.tokens():
            if token.name in {FIRST, LOCAL} and "admin" in token.scopes and token.revoked is None:
                return token
        return self.create(LOCAL, ["admin"]).token  # nobody sees its secret: it is there to be named and revoked

    def tokens(self) -> list[Token]:
        return self._store.tokens.all()

    def check(self, secret: str) -> Token | None:
        """Return the token that has this secret."""
        if self._own is not None and hmac.compare_digest(_hash(secret), _hash(self._own.secret)):
            return self._own.token
        return self._store.tokens.token_of(_hash(secret), time.time()) if secret.startswith(PREFIX) else None

    def counts(self, token: str, cookie: str | None) -> bool:
        """Tell whether one who was let in before still would be."""
        if cookie is not None:
            return self.check_login(cookie) is not None
        if self._own is not None and token == self._own.token.id:
            return True
        return any(each.id == token and each.revoked is None for each in self.tokens())

    def revoke(self, name: str) -> None:
        if not self._store.tokens.revoke(name, time.time()):
            raise BadRequest(f"no token is called `{name}`", hint="see `corral token ls`")

    # --- browsers

    def log_in(self, token: Token) -> str:
        """Return what a browser shows from now on instead of the token."""
        cookie, now = secrets.token_urlsafe(32), time.time()
        self._store.tokens.add_login(_hash(cookie), token.id, now, now + LOGIN_SECONDS)
        return cookie

    def check_login(self, cookie: str) -> Token | None:
        return self._store.tokens.token_of_login(_hash(cookie), time.time())

    def log_out(self, cookie: str) -> None:
        self._store.tokens.end_login(_hash(cookie))


def csrf_of(cookie: str) -> str:
    """Return what a page of ours knows and a foreign page cannot: derived from the cookie, which it cannot read."""
    return hmac.new(cookie.encode(), b"corral csrf", hashlib.sha256).hexdigest()


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
