"""A connection whose request does not even begin in time is closed: uvicorn itself would wait for ever."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http import h11_impl
from uvicorn.protocols.http.h11_impl import H11Protocol


class Punctual(H11Protocol):
    """Headers are read as ever, but not for ever."""

    seconds: ClassVar[float] = 30.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- as theirs
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP; where an answer has begun already, nothing can be said but by hanging up."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison] -- it begins so
            cycle.disconnected = True  # the application's own answer would be a second one
            cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11_impl.h11.LocalProtocolError:  # pyright: ignore[reportPrivateImportUsage] -- not a package of ours
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        super().connection_lost(exc)

    def _between(self) -> bool:
        """Tell whether we wait for a request to come whole; a WebSocket has a protocol of its own by then."""
        idle = self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison] -- it begins so
        return idle and self.transport.get_protocol() is self

    def _watch(self) -> None:
        if not self._between():
            self._calm()
        elif self._late is None:
            self._late = self.loop.call_later(self.seconds, self._give_up)

    def _calm(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        if self._between() and not self.transport.is_closing():
            self.transport.close()


def punctual(seconds: float) -> type[H11Protocol]:
    """Return the protocol that gives a client so long for its request line and headers."""
    return type("Punctual", (Punctual,), {"seconds": seconds})
