"""Requests of one attempt that may cost money: how many passed, and how many of them the meter could not price."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from corral.world.proxy.listener import RequestRefused

MOST_UNPRICED = 50  #: where the user has set any limit in dollars, and no other number
PAYMENT_REQUIRED = 402


class RequestCount:
    """Counts requests, and lets no more pass than may stay without a price.

    A request is unpriced where its answer says no usage, or not all of it: a stream without usage, a client that left
    before the end, an answer that cannot be read; or where nobody knows the price of its model.

    Requests wait for one another where all of them together could cost more than is left. One at a time always passes,
    so a limit is passed by one answer at most, and nothing waits for ever.
    """

    def __init__(self) -> None:
        self.is_priced: Callable[[int], bool] = lambda _: True  #: whether the price of an answer is known
        self.affords: Callable[[int], bool] = lambda _: True  #: whether what is left is enough for so many at once
        self.waits: Callable[[], None] = lambda: None  #: called when a request has to wait for money
        self.refusal: Callable[[], str | None] = lambda: None  #: why nothing more may pass for other reasons
        self.passed: int | None = None  #: not those that were answered with an error; None: they do not pass by us
        self.answered = 0  #: whatever the answer said
        self.unpriced = 0
        self.most: int | None = None
        self.reason: str | None = None  #: why no more may pass
        self.changed: Callable[[], None] = lambda: None  #: called when a request begins or has ended
        self.ended: Callable[[], None] = lambda: None  #: called when a request has ended
        self.open: set[int] = set()  #: numbers of the requests under way
        self._number = 0
        self._left = asyncio.Event()

    async def enter(self) -> int:
        """Return a number for a request; wait while those under way could use up money or unpriced requests."""
        while self.open and not self._may_pass():
            self._left.clear()
            await self._left.wait()
        if why := self.reason or self.refusal():
            raise RequestRefused(PAYMENT_REQUIRED, why)
        self._number += 1
        self.open.add(self._number)
        self.passed = (self.passed or 0) + 1
        self.changed()
        return self._number

    def _may_pass(self) -> bool:
        if self.most is not None and self.unpriced + len(self.open) >= self.most:
            return False
        if self.reason or self.refusal() or self.affords(len(self.open) + 1):
            return True
        self.waits()
        return False

    def leave(self, number: int, *, charged: bool, known: bool, answered: bool = True) -> None:
        """Count a request that has ended; one that was not charged is none."""
        self.open.discard(number)
        self.answered += answered
        if not charged:
            self.passed = (self.passed or 1) - 1
        elif not (known and self.is_priced(number)):
            self.unpriced += 1
            if self.most is not None and self.unpriced >= self.most:
                what = "1 request" if self.unpriced == 1 else f"{self.unpriced} requests"
                self.reason = f"it made {what} the meter cannot price; the limit is {self.most}"
        self._left.set()
        self.changed()
        self.ended()
