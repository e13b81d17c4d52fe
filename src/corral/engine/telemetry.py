"""Tell a collector of OpenTelemetry what attempts and runs came to, as they end; off unless settings name one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from corral.attempt.run_events import tell
from corral.config import loader
from corral.model import OPEN
from corral.model.events import Listener, Noted, RunEvent, StatusChanged
from corral.rules.text import telemetry
from corral.store.interface import Store

if TYPE_CHECKING:
    from corral.world.otlp import Collector


class RunTelemetry:
    """Listens to one run; what is told to others passes through unchanged."""

    def __init__(self, store: Store, run: str, listen: Listener, collector: Collector) -> None:
        self._store, self._run, self._listen, self._collector = store, run, listen, collector
        self._ended: set[str] = set()  # attempts whose record is being written

    def hear(self, heard: RunEvent) -> None:
        tell(self._listen, heard)
        self._send_ended()
        event = heard.event
        if isinstance(event, StatusChanged) and heard.attempt and event.status not in OPEN:
            self._ended.add(heard.attempt)

    def _send_ended(self) -> None:
        if not self._ended:
            return
        for record in self._store.attempts(self._run):
            if record.attempt.id in self._ended and record.phase == "over":
                self._ended.discard(record.attempt.id)
                self._collector.add(*telemetry.of_attempt(record))

    async def close(self) -> None:
        """Send the rest, and the run itself if it is over; a collector that is away holds nothing up for long."""
        self._send_ended()
        record = self._store.run(self._run)
        if record.status not in OPEN:
            child = self._store.lineage.of(self._run)
            self._collector.add(*telemetry.of_run(record, child.parent if child else None))
        if not await asyncio.to_thread(self._collector.close):
            tell(
                self._listen, RunEvent(self._run, None, None, Noted("the collector of [telemetry] did not take it all"))
            )


def open_telemetry(store: Store, run: str, listen: Listener) -> RunTelemetry | None:
    """Return what listens to a run for a collector, if the person named one."""
    url = loader.telemetry().otlp
    if url is None:
        return None
    try:
        from corral.world.otlp import Collector  # noqa: PLC0415 -- an extra, and slow to load
    except ImportError:
        tell(listen, RunEvent(run, None, None, Noted("[telemetry] is not sent: pip install 'corral[otel]'")))
        return None
    return RunTelemetry(store, run, listen, Collector(url))
