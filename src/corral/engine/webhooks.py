"""Posts to web addresses of users, signed and sent again: webhooks for what happens, callbacks for one run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncGenerator

import msgspec
from msgspec import structs

from corral.engine.views import run_document
from corral.model import ENCODER, OPEN, Entry, InboxEntry, Run, moment
from corral.model.errors import NotFound
from corral.model.events import StatusChanged
from corral.model.server import Callback, Delivery, LoggedEvent, WebhookRecord
from corral.rules.text import signing
from corral.store.interface import Store
from corral.version import __version__
from corral.world import http_client
from corral.world.notify import http_post

#: How long to wait after each try that failed; then it is dead, and stays visible.
BACKOFF_SECONDS = (5.0, 60.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0)
GONE = 410  #: the receiver asks for no more
AT_ONCE = 8
LOOK_SECONDS = 1.0
SEEN = "webhooks_seen"
log = logging.getLogger("corral.outgoing")
STORED_AS = "callback_secret"
SENDING_SECONDS = 60.0  #: for so long nobody else tries what one process has begun to send
MERGE_SECONDS = 60.0  #: for so long a run that merges by itself is given time to do so
PARKED = OPEN | {"limited"}


class Webhooks:
    """Whom one store tells of what happens."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> list[WebhookRecord]:
        return self._store.automation.webhooks()

    def add(self, url: str, types: tuple[str, ...], secret: str = "") -> WebhookRecord:
        """Add an address; it hears of what happens from now on. Without a secret it is given one."""
        record = WebhookRecord(
            id=os.urandom(4).hex(),
            url=http_client.check_address(url, "url"),
            secret=secret or signing.secret_of(os.urandom(32)),
            types=types,
            created=time.time(),
        )
        if not self.all():
            self._store.queue.set_value(SEEN, str(self._store.pages.last_sequence()))
            self._store.inbox.begin_news()
        self._store.automation.put_webhook(record)
        return record

    def drop(self, name: str) -> None:
        if not self._store.automation.drop_webhook(name):
            raise NotFound(f"no webhook is called `{name}`", hint="GET /api/v1/webhooks lists them")

    def deliveries(self, name: str, state: str | None, most: int) -> list[Delivery]:
        """Return the deliveries to an address, done or still to do, newest first."""
        return self._store.automation.deliveries(name, state, most)

    def again(self, name: str) -> Delivery:
        """Try a delivery once more, now."""
        found = self._store.automation.delivery(name)
        if found is None:
            raise NotFound(
                f"no delivery is called `{name}`", hint="GET /api/v1/webhooks lists the addresses and their deliveries"
            )
        again = structs.replace(found, state="waiting", next_at=time.time())
        self._store.automation.move_delivery(again)
        return again

    async def keep(self) -> None:
        """Send what there is to tell until cancelled."""
        await WebhookSender(self._store).keep()

    def counts(self) -> dict[str, int]:
        return self._store.automation.delivery_counts()


class WebhookSender:
    """Finds events for webhooks in the log, and sends them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._seen = 0

    async def keep(self) -> None:
        """Continue until cancelled; what was not sent waits in the store."""
        self._seen = int(self._store.queue.value(SEEN) or 0)
        bell = self._store.watch()
        try:
            while True:
                hooks = [each for each in self._store.automation.webhooks() if each.enabled]
                if hooks:
                    self._find(hooks)
                    self._look_at_inbox(hooks)
                    self._send({hook.id: hook for hook in hooks})
                await bell.listen(LOOK_SECONDS)
        finally:
            bell.close()
            for task in self._sending.values():
                task.cancel()
            await asyncio.gather(*self._sending.values(), return_exceptions=True)

    def _find(self, hooks: list[WebhookRecord]) -> None:
        self._seen = max(self._seen, int(self._store.queue.value(SEEN) or 0))
        while batch := self._store.pages.events(None, self._seen, 500):
            self._seen = batch[-1].stored.seq
            payloads = [found for logged in batch if (found := _run_payload(self._store, logged))]
            if not payloads:
                continue
            with self._store.transaction():  # each is put down once, whatever happens
                self._store_deliveries(hooks, payloads)
                self._store.queue.set_value(SEEN, str(self._seen))

    def _look_at_inbox(self, hooks: list[WebhookRecord]) -> None:
        """Find what waits for a user since, and what does not any more."""
        with self._store.transaction():
            self._store_deliveries(
                hooks, [_inbox_payload(kind, entry) for kind, entry in self._store.inbox.take_news()]
            )

    def _store_deliveries(self, hooks: list[WebhookRecord], payloads: list[tuple[str, bytes]]) -> None:
        for kind, body in payloads:
            for hook in hooks:
                if not hook.types or kind in hook.types:
                    self._store.automation.add_delivery(_delivery(hook, kind, body))

    def _send(self, hooks: dict[str, WebhookRecord]) -> None:
        for name in [name for name, task in self._sending.items() if task.done()]:
            del self._sending[name]
        for due in self._store.automation.due_deliveries(time.time(), AT_ONCE * 4):
            if len(self._sending) >= AT_ONCE:
                return
            if due.id not in self._sending and due.webhook in hooks:
                self._sending[due.id] = asyncio.create_task(self._deliver(due, hooks[due.webhook]))

    async def _deliver(self, due: Delivery, hook: WebhookRecord) -> None:
        now = time.time()
        if not self._store.automation.begin_delivery(due.id, now, now + SENDING_SECONDS):
            return  # another engine of this store was quicker
        headers = signed_headers(hook.secret, due.id, due.body)
        status, words = await http_post.post(hook.url, headers, due.body)
        answer = f"{status} {words}".strip() if status else words
        tries, good = due.tries + 1, 200 <= status < 300
        dead = not good and (status == GONE or tries > len(BACKOFF_SECONDS))
        wait = 0.0 if good or dead else BACKOFF_SECONDS[tries - 1]
        self._store.automation.move_delivery(
            structs.replace(
                due,
                state="delivered" if good else "dead" if dead else "waiting",
                tries=tries,
                next_at=time.time() + wait,
                answer=answer[:500],
            )
        )
        if status == GONE:
            self._store.automation.put_webhook(structs.replace(hook, enabled=False))
        if not good:
            log.warning("not delivered (try %d): %s", tries, answer[:200], extra={"webhook": hook.id})


def signed_headers(secret: str, name: str, body: bytes) -> dict[str, str]:
    """Return the headers of a post: what it is, who sends it, and the proof of that."""
    return {
        **signing.sign(secret, name, int(time.time()), body),
        "Content-Type": "application/json",
        "User-Agent": f"corral/{__version__}",
    }


def _run_payload(store: Store, logged: LoggedEvent) -> tuple[str, bytes] | None:
    """Return what there is to tell of an event: that a run has reached a status."""
    if not logged.stored.body.startswith((b'{"type":"status_changed"', b'{"type":"moved"')):
        return None
    event = logged.stored.event()
    if not isinstance(event, StatusChanged) or (event.kind, event.id) != ("run", logged.run):
        return None
    kind = f"run.{event.status}"
    data = {"run": logged.run, "status": event.status, "reason": event.reason, "seq": logged.stored.seq}
    if event.status == "done":
        data["grade"] = run_document.build(store, logged.run).grade
    return kind, msgspec.json.encode({"type": kind, "timestamp": moment(logged.stored.at), "data": data})


def _inbox_payload(kind: str, entry: Entry) -> tuple[str, bytes]:
    at = (entry.answered_at or entry.created) if kind == "inbox.answered" else entry.created
    data = InboxEntry.of(entry)
    return kind, msgspec.json.encode({"type": kind, "timestamp": moment(at), "data": data})


def _delivery(hook: WebhookRecord, kind: str, body: bytes) -> Delivery:
    now = time.time()
    return Delivery(
        id=f"msg_{os.urandom(12).hex()}",
        webhook=hook.id,
        type=kind,
        state="waiting",
        tries=0,
        next_at=now,
        at=now,
        answer="",
        body=body,
    )


class Callbacks:
    """The callbacks of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sending: set[asyncio.Task[None]] = set()

    def secret(self) -> str:
        """Return the secret that signs all callbacks of this store; made when it is first needed."""
        with self._store.transaction():
            found = self._store.queue.value(STORED_AS)
            if found is None:
                found = signing.secret_of(os.urandom(32))
                self._store.queue.set_value(STORED_AS, found)
        return found

    def ask(self, name: str, url: str) -> Callback:
        """Have a run call an address, in place of what it was to call or has called."""
        return self._store.automation.ask_callback(self._store.find(name), http_client.check_address(url, "callback"))

    async def keep(self) -> None:
        """Send what is owed until cancelled."""
        bell = self._store.watch()
        try:
            while True:
                await self.send()
                await bell.listen(LOOK_SECONDS)
        finally:
            bell.close()

    @contextlib.asynccontextmanager
    async def during(self, run: str) -> AsyncGenerator[None]:
        """Call back when a run that this process drives waits for an answer; at its end, when it is over."""
        keeping = asyncio.create_task(self.keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await asyncio.gather(*self._sending, return_exceptions=True)  # else nobody knows what it came to
            await self.send(driven=run)

    async def send(self, driven: str = "") -> None:
        """Send what is due, once; `driven` has just ended here."""
        now, due = time.time(), list[Callback]()
        for each in self._store.automation.open_callbacks():
            if each.state == "asked" and (run := self._ready(each.run, now, driven=each.run == driven)):
                each = structs.replace(each, state="waiting", body=_body(run))  # noqa: PLW2901 -- as it is from now on
                self._store.automation.put_callback(each)
            if each.state == "waiting" and each.next_at <= now:
                due.append(each)
        for task in [asyncio.create_task(self._deliver(each)) for each in due]:
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        await asyncio.gather(*(asyncio.shield(each) for each in self._sending))

    def _ready(self, name: str, now: float, *, driven: bool) -> Run | None:
        """Return a run if it is over, or waits for an answer."""
        record = self._store.run(name)
        asks = any(entry.is_open for entry in self._store.inbox.of_run(name)) if record.status in OPEN else False
        if record.status in PARKED and not asks:
            return None
        run = run_document.build(self._store, name)
        if record.status in PARKED:
            return run if run.status == "waiting" else None
        merging = record.plan.merge == "auto" and run.merge.status == "ready" and record.status == "done"
        if merging and not driven and now - (record.ended or now) < MERGE_SECONDS:
            return None
        return run

    async def _deliver(self, due: Callback) -> None:
        now = time.time()
        if not self._store.automation.begin_callback(due.run, now, now + SENDING_SECONDS):
            return
        headers = signed_headers(self.secret(), due.id, due.body)
        status, words = await http_post.post(due.url, headers, due.body)
        tries, good = due.tries + 1, 200 <= status < 300
        dead = not good and (status == GONE or tries > len(BACKOFF_SECONDS))
        wait = 0.0 if good or dead else BACKOFF_SECONDS[tries - 1]
        answer = f"{status} {words}".strip() if status else words
        latest = self._store.automation.callback(due.run)
        if latest is None or latest.id != due.id:  # another address was asked for meanwhile
            return
        state = "delivered" if good else "dead" if dead else "waiting"
        self._store.automation.put_callback(
            structs.replace(due, state=state, tries=tries, next_at=time.time() + wait, answer=answer[:500])
        )
        if not good:
            log.warning("callback not delivered (try %d): %s", tries, answer[:200], extra={"run": due.run})


def _body(run: Run) -> bytes:
    """Return what is posted: the run document, as every front end shows it."""
    return ENCODER.encode({"type": f"run.{run.status}", "timestamp": moment(time.time()), "data": run})
