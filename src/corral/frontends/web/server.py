"""One server process: bound, announced, served, and left so that the next one can continue."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import ClassVar

import uvicorn
from fastapi import FastAPI
from msgspec import Struct, structs
from uvicorn.protocols.http import h11_impl
from uvicorn.protocols.http.h11_impl import H11Protocol

from corral.engine.engine import Engine
from corral.frontends.web import auth, logs
from corral.frontends.web.app import create
from corral.frontends.web.app_state import Limiter, ServerSettings, Site
from corral.frontends.web.mcp import McpMount
from corral.frontends.web.running_merges import RunningMerges
from corral.frontends.web.running_plans import RunningPlans
from corral.frontends.web.streams import Hub
from corral.model.errors import BadRequest
from corral.model.events import Listener, RunEvent

DRAIN_BYTES = 64 << 20  #: that a client may still send when it was refused
DRAIN_SECONDS = 10.0


class HeaderTimeoutProtocol(H11Protocol):
    """Headers are read as ever, but not for ever."""

    seconds: ClassVar[float] = 30.0
    _late: asyncio.TimerHandle | None = None
    _drain_bytes = DRAIN_BYTES
    _refused = False  #: what still comes is read and forgotten

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- as theirs
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)
            self._watch()
            return
        self._drain_bytes -= len(data)
        if self._drain_bytes < 0:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP; where an answer has begun already, nothing can be said but by hanging up."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison] -- it begins so
            cycle.disconnected = True  # the application's own answer would be a second one
            cycle.message_event.set()
        try:
            self._refuse(getattr(sys.exception(), "error_status_hint", 400), msg.encode())
        except h11_impl.h11.LocalProtocolError:  # pyright: ignore[reportPrivateImportUsage] -- not a package of ours
            self.transport.close()

    def _refuse(self, status: int, words: bytes) -> None:
        """Answer, and let the client be the first to close: closed while it sends, its answer would be lost."""
        h11 = h11_impl.h11  # pyright: ignore[reportPrivateImportUsage] -- not a package of ours
        fields = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        events = (h11.Response(status_code=status, headers=fields), h11.Data(data=words), h11.EndOfMessage())
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._refused = True
        self.flow.resume_reading()
        self._calm()
        self._late = self.loop.call_later(DRAIN_SECONDS, self.transport.close)

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


def header_timeout_protocol(seconds: float) -> type[H11Protocol]:
    """Return the protocol that gives a client so long for its request line and headers."""
    return type("Punctual", (HeaderTimeoutProtocol,), {"seconds": seconds})


LOOPBACK = ("127.0.0.1", "::1", "localhost")
GRACE_SECONDS = 2


class ListenOptions(Struct, frozen=True, kw_only=True):
    """Where to listen, and how."""

    host: str = "127.0.0.1"
    port: int = 4747
    certificate: Path | None = None
    key: Path | None = None
    plain_http: bool = False  #: the user says that it is fine without TLS beyond this machine
    resume: bool = True


class ServerAddress(Struct, frozen=True, kw_only=True):
    """What a user must know to use it."""

    address: str
    token: str | None  #: at the first start
    link: str  #: opens the page, once


class _Server(uvicorn.Server):
    """Ours is the word on signals: what we drive has to be left in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def serve(listening: ListenOptions, settings: ServerSettings, announce: Callable[[ServerAddress], None]) -> int:
    """Serve until a signal comes; return the exit code."""
    gc.enable()
    _refuse_open_door(listening)
    with _bind_socket(listening) as bound:
        engine = Engine()
        try:
            asyncio.run(_serve(engine, bound, listening, settings, announce))
        finally:
            engine.close()
    return 0


def _refuse_open_door(listening: ListenOptions) -> None:
    if bool(listening.certificate) != bool(listening.key):
        raise BadRequest("TLS needs a certificate and its key", hint="--tls-cert FILE --tls-key FILE")
    if listening.host in LOOPBACK or listening.certificate or listening.plain_http:
        return
    raise BadRequest(
        f"--host {listening.host}: tokens would cross the network readable for all",
        hint="give --tls-cert and --tls-key, or put a proxy with TLS before 127.0.0.1; or say --plain-http",
    )


@contextlib.contextmanager
def _bind_socket(listening: ListenOptions) -> Generator[socket.socket]:
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    # Named as TCP: asyncio sends at once (TCP_NODELAY) only on sockets that say what they are.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((listening.host, listening.port))
    except OSError as error:
        bound.close()
        raise BadRequest(
            f"{listening.host}:{listening.port}: {error.strerror}", hint="choose another: corral serve --port 0"
        ) from error
    with bound:
        yield bound


async def _serve(
    engine: Engine,
    bound: socket.socket,
    listening: ListenOptions,
    settings: ServerSettings,
    announce: Callable[[ServerAddress], None],
) -> None:
    port = int(bound.getsockname()[1])
    shown = f"[{listening.host}]" if ":" in listening.host else listening.host
    address = f"{'https' if listening.certificate else 'http'}://{shown}:{port}"
    settings = structs.replace(settings, port=port, secure=settings.secure or listening.certificate is not None)
    hub = Hub(engine, settings.viewers)

    def hear(heard: RunEvent) -> None:
        hub.hear(heard)
        logs.log_attempt_event(heard)

    site = _open_site(engine, settings, hub, hear, resume=listening.resume)
    site.supervisor.claim(address)
    door = McpMount(engine, site.supervisor)
    first = engine.access.first()
    server = _Server(_config(create(site, door), site, listening))
    loop = asyncio.get_running_loop()
    for sent in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sent, _stop, server, door)
    works = (
        hub.keep(),
        site.supervisor.keep(),
        engine.webhooks.keep(),
        engine.callbacks.keep(),
        engine.remote_answers.keep(),
        engine.delegations.keep(site.vet),
        engine.forge_calls.keep(site.vet),
        engine.follows.keep(hear),
        door.keep(),
    )
    background = [asyncio.create_task(work) for work in works]
    for task in background:
        task.add_done_callback(lambda _: _stop(server, door))  # none ends by itself: the store is lost
    bound.listen(2048)
    link = f"{address}/login?token={site.login_code}"
    try:
        with engine.access.keep_server_file(engine.home, address):
            announce(ServerAddress(address=address, token=first.secret if first else None, link=link))
            await server.serve(sockets=[bound])
        for task in background:
            if task.done():
                task.result()
    finally:
        await site.running_merges.close()
        await site.running_plans.close()
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)


def _open_site(engine: Engine, settings: ServerSettings, hub: Hub, hear: Listener, *, resume: bool) -> Site:
    """Return what all routes of this server share."""
    vet = partial(auth.refuse_outside, roots=settings.roots)
    return Site(
        engine=engine,
        settings=settings,
        hub=hub,
        supervisor=engine.supervisor(hear, vet, resume=resume),
        limiter=Limiter(settings.rate_per_second),
        running_merges=RunningMerges(engine),
        running_plans=RunningPlans(engine),
        vet=vet,
        login_code=secrets.token_urlsafe(24),
    )


def _stop(server: uvicorn.Server, door: McpMount) -> None:
    door.served.ending = True
    server.should_exit = True


def _config(app: FastAPI, site: Site, listening: ListenOptions) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=header_timeout_protocol(site.settings.body_seconds),
        ws="websockets-sansio",
        ws_max_size=64 << 10,
        ws_per_message_deflate=False,  # each viewer would be compressed for alone
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=64 << 10,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
