"""The event log: a page of it, server-sent events, WebSocket. All replay by sequence."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from corral.frontends.web.api.rows import EventPage
from corral.frontends.web.app_state import CurrentSite, Site, site_of
from corral.frontends.web.auth import Caller, Reader, identify_socket
from corral.frontends.web.bodies import answer, gives
from corral.frontends.web.guard import KEY, deny
from corral.frontends.web.problems import of_error
from corral.frontends.web.streams import Hub, Viewer, encode_event, follow
from corral.frontends.web.wire import StreamConnection
from corral.model.errors import CorralError

router = APIRouter(tags=["events"])
MOST_SUBSCRIPTIONS = 32
REFUSED = 1008  #: a WebSocket's word for: you may not
SSE: dict[int | str, dict[str, Any]] = {
    200: {"description": "Events as they come.", "content": {"text/event-stream": {}}}
}
After = Annotated[int, Query(ge=0, le=2**62)]


@router.get("/runs/{run}/log", responses=gives(EventPage))
async def page(
    run: str,
    site: CurrentSite,
    _: Reader,
    after: After = 0,
    before: Annotated[int | None, Query(ge=0, le=2**62, description="Read backwards from here.")] = None,
    limit: Annotated[int, Query(ge=1, le=2000)] = 500,
    node: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Show a page of a run's events, oldest first; with `before`, the last ones before that."""
    name = site.engine.find(run)
    if before is not None:
        found = site.engine.history.log_before(name, before, limit)
    else:
        found = site.engine.history.log(name, after, limit, node)
    events = [msgspec.Raw(encode_event(each).body) for each in found]
    return answer(EventPage(run=name, events=events, next=found[-1].stored.seq if found else after))


@router.get("/runs/{run}/events", responses=SSE)
async def of_run(
    run: str,
    site: CurrentSite,
    caller: Reader,
    after: After = 0,
    node: Annotated[str | None, Query(max_length=200)] = None,
    last_event_id: Annotated[str | None, Header(max_length=30)] = None,
) -> Response:
    """Stream the events of a run, or of one of its nodes, from `after` or Last-Event-ID on, until the run ends."""
    name = site.engine.find(run)
    after = _after(last_event_id, after)
    if last_event_id is not None and site.hub.over(name) and not site.engine.history.log(name, after, 1, node):
        return Response(status_code=204)  # tells an EventSource not to come back
    return EventStream(site.hub, site.hub.watch(caller.login, name, node, after))


@router.get("/events", responses=SSE)
async def of_all(
    site: CurrentSite,
    caller: Reader,
    after: After | None = None,
    last_event_id: Annotated[str | None, Header(max_length=30)] = None,
) -> Response:
    """Stream the events of all runs, from `after` or Last-Event-ID on; without either, from now on."""
    start = site.engine.history.last_sequence() if after is None else after
    return EventStream(site.hub, site.hub.watch(caller.login, None, None, _after(last_event_id, start)))


def _after(header: str | None, otherwise: int) -> int:
    return int(header) if header and header.isascii() and header.isdigit() else otherwise


class EventStream(Response):
    """Writes server-sent events, one write for all that is there; ends when the reader leaves."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, viewer: Viewer) -> None:
        self.status_code, self.background, self.body = 200, None, b""
        self.init_headers({"X-Accel-Buffering": "no"})
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        self._hub, self._viewer = hub, viewer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wire: StreamConnection | None = scope.get(KEY)
        writing = asyncio.create_task(self._write(send, wire))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait((writing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, leaving):
                task.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)
            self._hub.leave(self._viewer)

    async def _write(self, send: Send, wire: StreamConnection | None) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _chunk(send, b"retry: 1000\n\n")
        self._viewer.wire = wire  # from here on the answer is in chunks
        async for batch, ended in follow(self._hub, self._viewer):
            if ended:
                last = msgspec.json.encode({"run": self._viewer.run, "status": ended})
                await _chunk(send, b"event: end\ndata: " + last + b"\n\n")
            else:
                await _chunk(send, b"".join(event.sse for event in batch) or b": still here\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _chunk(send: Send, text: bytes) -> None:
    await send({"type": "http.response.body", "body": text, "more_body": True})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # nothing else that the client sends matters


# --- WebSocket


class WatchMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client of the WebSocket says: watch this from there on, or no longer."""

    watch: str | None = None  #: a run, or `*` for all
    node: str | None = None
    after: int = 0
    leave: str | None = None
    id: str = ""  #: chosen by the client; it is in every answer


@router.websocket("/ws")
async def socket(websocket: WebSocket) -> None:
    """Hear {"watch": RUN or "*", "after": SEQ, "id": NAME}; send {"id": …, "event": …} and {"id": …, "end": STATUS}."""
    try:
        caller = identify_socket(websocket)
    except CorralError as error:
        await deny(websocket.send, of_error(error))
        return
    await websocket.accept()
    talk = _WatchSocket(websocket, site_of(websocket), caller)
    with contextlib.suppress(WebSocketDisconnect):
        await talk.hear()
    await talk.close()


class _WatchSocket:
    """One open WebSocket with what is watched over it."""

    def __init__(self, websocket: WebSocket, site: Site, caller: Caller) -> None:
        self._socket, self._site, self._caller = websocket, site, caller
        self._watching: dict[str, asyncio.Task[None]] = {}

    async def hear(self) -> None:
        while True:
            text = await self._socket.receive_text()
            try:
                self._obey(msgspec.json.decode(text, type=WatchMessage))
            except (msgspec.DecodeError, CorralError) as error:
                hint = error.hint if isinstance(error, CorralError) else 'say {"watch": "@last", "after": 0, "id": "a"}'
                await self._send({"error": str(error), "hint": hint})

    def _obey(self, wish: WatchMessage) -> None:
        for name in [name for name, task in self._watching.items() if task.done()]:
            del self._watching[name]
        if wish.leave is not None and (task := self._watching.pop(wish.leave, None)):
            task.cancel()
        if wish.watch is None:
            return
        if len(self._watching) >= MOST_SUBSCRIPTIONS or wish.id in self._watching:
            raise CorralError("this connection cannot watch that as well", hint="leave one first, and use new ids")
        run = None if wish.watch == "*" else self._site.engine.find(wish.watch)
        viewer = self._site.hub.watch(self._caller.login, run, wish.node, wish.after)
        self._watching[wish.id] = asyncio.create_task(self._tell(wish.id, viewer))

    async def _tell(self, name: str, viewer: Viewer) -> None:
        viewer.head = b'{"id":' + msgspec.json.encode(name)
        viewer.wire = self._socket.scope.get(KEY)
        async for batch, ended in follow(self._site.hub, viewer):
            for event in batch:
                await self._socket.send_text(event.under(viewer.head).decode())
            if ended:
                await self._send({"id": name, "end": ended})
        if viewer.out:
            await self._socket.close(REFUSED, "this token is not known any more")

    async def _send(self, value: object) -> None:
        await self._socket.send_text(msgspec.json.encode(value).decode())

    async def close(self) -> None:
        for task in self._watching.values():
            task.cancel()
        await asyncio.gather(*self._watching.values(), return_exceptions=True)
