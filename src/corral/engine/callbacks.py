"""Callbacks: one signed post for each run that asked for it, when the run is over or waits for an answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncGenerator

from msgspec import structs

from corral.engine.views import run_document
from corral.engine.webhooks import BACKOFF_SECONDS, GONE, LOOK_SECONDS, signed_headers
from corral.model import ENCODER, OPEN, Run, moment
from corral.model.server import Callback
from corral.rules.text import signing
from corral.store.interface import Store
from corral.world import http_client
from corral.world.notify import http_post

STORED_AS = "callback_secret"
SENDING_SECONDS = 60.0  #: for so long nobody else tries what one process has begun to send
MERGE_SECONDS = 60.0  #: for so long a run that merges by itself is given time to do so
PARKED = OPEN | {"limited"}
log = logging.getLogger("corral.outgoing")


class Callbacks:
    """The callbacks of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

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
        await asyncio.gather(*(self._deliver(each) for each in due))

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
