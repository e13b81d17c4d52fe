"""What passes to a provider on one account: counted for all runs together, held back where settings say how much."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from corral.rules.money.quota_headers import back_at, windows
from corral.store.interface import Store

TOO_MANY, ERRORS = 429, 400
LEARN_SECONDS = 5.0  #: how windows stand is written down no more often


class AccountRateLimit:
    """Lets requests of one account through: as many a minute as settings allow, whoever makes them."""

    def __init__(self, store: Store, account: str, most: int | None, note: Callable[[str], None]) -> None:
        self._store, self._account, self._most, self._note = store, account, most, note
        self._told = False
        self._learned_at = 0.0
        self.back_at: float | None = None  #: when it may be asked again, as the last answer said that refused it

    async def enter(self) -> None:
        """Wait until the last minute has room for one more request."""
        while self._most is not None and (wait := self._store.accounts.ask(self._account, self._most, time.time())):
            if not self._told:
                self._told = True
                self._note(f"{self._account} may be asked {self._most} times a minute: it waits {wait:.0f} s")
            await asyncio.sleep(wait)

    def told(self, status: int, fields: Sequence[tuple[str, str]]) -> None:
        """Learn from an answer how the limits of the account stand."""
        now = time.time()
        if status == TOO_MANY:
            self.back_at = back_at(fields, now)
        elif status < ERRORS:
            self.back_at = None
        if now - self._learned_at < LEARN_SECONDS and status != TOO_MANY:  # what refuses says the most
            return
        if found := windows(self._account, fields, now):
            self._learned_at = now
            self._store.accounts.see(found)
