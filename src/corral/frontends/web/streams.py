"""The one event log, pushed to many viewers: replayed from the store, then live; the slow read on from there."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
from msgspec import Struct

from corral.engine.engine import Engine, Watch
from corral.engine.views.run_document import moment
from corral.frontends.web.problems import RefusedRequest
from corral.frontends.web.wire import StreamConnection, chunk, message
from corral.model import OPEN
from corral.model.errors import CorralError
from corral.model.events import RunEvent
from corral.model.server import LoggedEvent

MOST_PENDING = 1000  #: events kept for one viewer; one that is further behind is given up until it reads on
BATCH = 500
BEAT_SECONDS = 15.0
ASK_SECONDS = 1.0  #: how soon one whose token was revoked hears nothing more
ENCODER = msgspec.json.Encoder()

#: How an event that changes the status of a run begins, as it is stored now and as it was before.
STATUS_EVENTS = (b'{"type":"status_changed"', b'{"type":"moved"')
Login = tuple[str, str | None]  #: the id of a token, and the cookie of the browser that showed it


class EncodedEvent(Struct, frozen=True):
    """An event as viewers get it, encoded once for all of them."""

    seq: int
    run: str
    node: str | None
    body: bytes
    sse: bytes
    closing: bool = False  #: it may be the last of its run

    def under(self, head: bytes) -> bytes:
        """Return it as a message of a WebSocket, whose head says for what it was asked."""
        return head + b',"event":' + self.body + b"}"


def encode_event(logged: LoggedEvent) -> EncodedEvent:
    """Encode an event as `logs --json` prints it, with its run."""
    stored = logged.stored
    head = {
        "seq": stored.seq,
        "at": moment(stored.at),
        "run": logged.run,
        "node": stored.node,
        "attempt": stored.attempt,
    }
    body = ENCODER.encode(head)[:-1] + b"," + stored.body[1:]
    sse = b"id: %d\ndata: %b\n\n" % (stored.seq, body)
    return EncodedEvent(stored.seq, logged.run, stored.node, body, sse, closing=stored.body.startswith(STATUS_EVENTS))


class Batch:
    """What all viewers of the same page get together; framed once for all of a kind, when the first can take it."""

    def __init__(self, events: list[EncodedEvent]) -> None:
        self.events, self.first = events, events[0].seq
        self.closing = any(event.closing for event in events)  #: then each viewer looks whether its run is over
        self._frames: dict[bytes, bytes] = {}

    def frame(self, head: bytes) -> bytes:
        """Return it as it goes over the wire: a chunk of server-sent events, or messages that begin with `head`."""
        found = self._frames.get(head)
        if found is None:
            messages = (message(event.under(head)) for event in self.events)
            found = b"".join(messages) if head else chunk(b"".join(event.sse for event in self.events))
            self._frames[head] = found
        return found


class Viewer:
    """One who watches all runs, one run, or one node of it."""

    def __init__(self, hub: Hub, by: Login, run: str | None, node: str | None, after: int) -> None:
        self._hub, self.by, self.run, self._node, self.sent = hub, by, run, node, after
        self.out = False  #: it may hear nothing more
        self._pending: deque[EncodedEvent] = deque()
        self.wire: StreamConnection | None = None  #: where it is written to without further ado while it keeps up
        self.head = b""  #: of its messages, over a WebSocket
        self._rung: asyncio.Future[None] | None = None
        self.behind = True  #: it reads from the store until there is nothing more

    def push(self, batch: Batch) -> None:
        """Take what is new. Never waits: what a slow viewer does not take in time, it reads from the store later."""
        if self.behind or self._write_now(batch):
            return
        events = [event for event in batch.events if self._node is None or event.node == self._node]
        if not events:
            return
        if len(self._pending) + len(events) > MOST_PENDING:
            self._pending.clear()
            self.behind = True
        else:
            self._pending.extend(events)
        self.ring()

    def _write_now(self, batch: Batch) -> bool:
        """Write to one who has all that was before and waits; tell whether that went."""
        idle = self._rung is not None and not self._rung.done() and not self._pending
        last = batch.closing and self.run is not None  # it may be the end: the one that waits reports that
        if self.wire is None or not idle or self._node is not None or last or batch.first <= self.sent:
            return False
        if not self.wire.write(batch.frame(self.head)):
            return False
        self.sent = batch.events[-1].seq
        return True

    def ring(self) -> None:
        """Wake up who waits for what comes next."""
        if self._rung is not None and not self._rung.done():
            self._rung.set_result(None)

    async def next(self, *, wait: bool = True) -> list[EncodedEvent]:
        """Return what comes next, in order, without gap or duplicate; nothing at a heartbeat."""
        while not self.out:
            if self.behind:
                batch = [
                    encode_event(each) for each in self._hub.engine.history.log(self.run, self.sent, BATCH, self._node)
                ]
                if batch:
                    self.sent = batch[-1].seq
                    return batch
                self.behind = False  # no await since the look: what comes from here on is pushed
            if batch := self._take_pending():
                return batch
            if not wait:
                return []
            self._rung = asyncio.get_running_loop().create_future()
            await self._rung
            if not self._pending and not self.behind:
                return []
        return []

    def _take_pending(self) -> list[EncodedEvent]:
        batch = [event for event in self._pending if event.seq > self.sent]
        self._pending.clear()
        if batch:
            self.sent = batch[-1].seq
        return batch


class Hub:
    """Reads the log once and tells all viewers."""

    def __init__(self, engine: Engine, most: int = 2000) -> None:
        self.engine, self._most = engine, most
        self._viewers: dict[str | None, set[Viewer]] = {}
        self._wake = asyncio.Event()
        self._last = 0
        self._asked = 0.0
        self.delivered = 0

    @property
    def count(self) -> int:
        return sum(map(len, self._viewers.values()))

    def hear(self, heard: RunEvent) -> None:
        """Learn at once of what happens in this process, before it is written down by itself."""
        if heard.run in self._viewers or None in self._viewers:
            self._wake.set()

    async def keep(self) -> None:
        """Tell viewers of what is new, until cancelled."""
        bell = self.engine.changes()
        ringing = asyncio.gather(self._ring(bell), self._beat())
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._tell()
                await asyncio.sleep(0)  # viewers write first; what comes meanwhile is sent together
        finally:
            ringing.cancel()
            await asyncio.gather(ringing, return_exceptions=True)
            bell.close()

    async def _ring(self, bell: Watch) -> None:
        while True:
            await bell.listen(1.0)
            self._wake.set()
            with suppress(CorralError):  # the next look follows a moment later; what is new must still be sent
                self._see_out()

    def _see_out(self) -> None:
        """Tell nothing more to those whose token was revoked, or who logged out, since they came."""
        now = time.monotonic()
        if now - self._asked < ASK_SECONDS:
            return
        self._asked = now
        watching = [viewer for viewers in self._viewers.values() for viewer in viewers]
        access = self.engine.access
        lost = {by for by in {viewer.by for viewer in watching} if not access.counts(*by)}
        for viewer in watching:
            if viewer.by in lost:
                viewer.out = True
                self.leave(viewer)
                viewer.ring()

    async def _beat(self) -> None:
        """Let every viewer say now and then that it is still here: so one that has left is noticed."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            for viewers in self._viewers.values():
                for viewer in viewers:
                    viewer.ring()

    async def _tell(self) -> None:
        if not self._viewers:
            return
        self.engine.flush()
        while found := self.engine.history.log(None, self._last, BATCH):
            self._last = found[-1].stored.seq
            runs: dict[str, list[EncodedEvent]] = {}
            for logged in found:
                if logged.run in self._viewers or None in self._viewers:
                    runs.setdefault(logged.run, []).append(encode_event(logged))
            for run, events in runs.items():
                self._push(run, events)
            if None in self._viewers:
                self._push(None, sorted((event for events in runs.values() for event in events), key=_place))
            await asyncio.sleep(0)  # of very much at once no more than this before others have their turn

    def _push(self, run: str | None, events: list[EncodedEvent]) -> None:
        viewers = self._viewers.get(run)
        if viewers and events:
            batch = Batch(events)
            self.delivered += len(viewers) * len(events)
            for viewer in viewers:
                viewer.push(batch)

    def watch(self, by: Login, run: str | None, node: str | None, after: int) -> Viewer:
        if self.count >= self._most:
            raise RefusedRequest(
                503, "viewers", f"{self._most} watch already", hint="try again later", retry_seconds=30
            )
        if not self._viewers:
            self._last = self.engine.history.last_sequence()
        viewer = Viewer(self, by, run, node, after)
        self._viewers.setdefault(run, set()).add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        watching = self._viewers.get(viewer.run, set())
        watching.discard(viewer)
        if not watching:
            self._viewers.pop(viewer.run, None)

    def over(self, run: str) -> str | None:
        """Return the status in which a run has ended; None while it continues."""
        status = self.engine.history.status(run)
        return None if status in OPEN else status


def _place(event: EncodedEvent) -> int:
    return event.seq


async def follow(hub: Hub, viewer: Viewer) -> AsyncIterator[tuple[list[EncodedEvent], str | None]]:
    """Yield what comes, and at last the status in which the run has ended; nothing at all is a heartbeat."""
    try:
        ended = hub.over(viewer.run) if viewer.run else None
        while True:
            batch = await viewer.next(wait=not ended)
            if viewer.out:
                return
            if viewer.run and not ended and any(event.closing for event in batch):
                ended = hub.over(viewer.run)
                yield batch, None
                continue
            if ended and not batch:
                yield [], ended
                return
            yield batch, None
    finally:
        hub.leave(viewer)
