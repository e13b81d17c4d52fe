"""The scripted model as a server on 127.0.0.1: plays the script, records the requests, closes promptly."""

from __future__ import annotations

import gzip
import json
import socket
import socketserver
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol, Self, cast
from urllib.parse import urlsplit

from corral.testing.model.reading import Json
from corral.testing.model.routes import Reply, Request, route
from corral.testing.model.script import Script, Turn
from corral.testing.model.tools import NoSuchToolError, tool_uses
from corral.testing.model.wire import ModelAnswer, ModelRequest, WireFormat

LOOK_FOR_STOP_SECONDS = 0.05
CLOSING_SECONDS = 5


class ScriptedModel:
    """A model provider for tests: `with ScriptedModel([Turn(text="hello")]) as model: ... model.url ...`."""

    def __init__(self, turns: Iterable[Turn] | Script, *, port: int = 0, log: Path | None = None) -> None:
        self._script = turns if isinstance(turns, Script) else Script(turns=tuple(turns))
        self._log = log
        self._changed = threading.Condition()
        self._requests: list[Request] = []
        self._attempts: Counter[int | None] = Counter()
        self._served = 0
        self._listener = ModelListener(port, self)
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(LOOK_FOR_STOP_SECONDS,), name="scripted model", daemon=True
        )
        self.url = f"http://127.0.0.1:{self._listener.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        self._thread.join()
        self._listener.close()

    @property
    def requests(self) -> list[Request]:
        """All requests that came so far, in order."""
        with self._changed:
            return list(self._requests)

    @property
    def posts(self) -> list[Request]:
        """Those requests that ask for something; no look at whether a key is good, or at what models there are."""
        return [request for request in self.requests if request.method == "POST"]

    @property
    def work_requests(self) -> list[Request]:
        """Those requests that hand the model tools and ask for work; no probe, no count of tokens, no title."""
        routes = [(request, route(request)) for request in self.requests]
        return [request for request, found in routes if not isinstance(found, Reply) and found[1].offers]

    def wait_for(self, path: str, count: int = 1, timeout_seconds: float = 60) -> list[Request]:
        """Wait until `count` requests have come whose path ends so, and return them."""

        def matching() -> list[Request]:
            return [request for request in self._requests if request.path.endswith(path)]

        with self._changed:
            if not self._changed.wait_for(lambda: len(matching()) >= count, timeout_seconds):
                raise TimeoutError(f"{len(matching())} of {count} requests for {path} in {timeout_seconds} s")
            return matching()

    def record(self, request: Request) -> None:
        with self._changed:
            self._requests.append(request)
            if self._log:
                with self._log.open("a", encoding="utf-8") as log:
                    log.write(json.dumps(asdict(request)) + "\n")
            self._changed.notify_all()

    def turn_for(self, asked: ModelRequest) -> Turn:
        with self._changed:
            position = self._script.position(asked.history, self._served, has_tools=bool(asked.offers))
            self._attempts[position] += 1
            self._served += position is not None
            turn = self._script.turn(position, self._attempts[position])
        if position is None and asked.side_text is not None and turn.status is None:
            return Turn(text=asked.side_text, hang_seconds=turn.hang_seconds)
        return turn


class TurnSource(Protocol):
    """Who knows the script and keeps the record."""

    def record(self, request: Request) -> None: ...
    def turn_for(self, asked: ModelRequest) -> Turn: ...


class ModelListener(ThreadingHTTPServer):
    """Accepts connections, knows the open ones, and ends them all when it is closed."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, player: TurnSource) -> None:
        self.player = player
        self.stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", port), ModelConnection)

    def server_bind(self) -> None:
        # Not that of HTTPServer: it asks for the host's name, which can take long where there is no network.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no error of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(cast("socket.socket", request), client_address)

    def close(self) -> None:
        """End what is open, also where it hangs, and wait for it; `shutdown` was called before."""
        self.stopping.set()
        with self._changed:
            for connection in self._open:
                _shut(connection)
            self._changed.wait_for(lambda: not self._open, CLOSING_SECONDS)
        self.server_close()


class ModelConnection(BaseHTTPRequestHandler):
    """One connection and the requests that come over it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ModelListener  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent: standard error belongs to the test."""

    def do_POST(self) -> None:
        body = self._body()
        address = urlsplit(self.path)
        request = Request(
            method=self.command,
            path=address.path,
            query=address.query,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body or {},
        )
        self.server.player.record(request)
        if body is None:
            self._send_whole(400, {"error": {"type": "invalid_request_error", "message": "the body is not JSON"}})
            return
        found = route(request)
        if isinstance(found, Reply):
            self._send_whole(found.status, found.body)
        else:
            self._play(*found)

    do_GET = do_HEAD = do_POST  # noqa: N815

    def _play(self, wire: WireFormat, asked: ModelRequest) -> None:
        turn = self.server.player.turn_for(asked)
        if turn.hang_seconds:
            self._pause(turn.hang_seconds)
        if turn.status is not None:
            message = f"scripted error {turn.status}" if turn.message is None else turn.message
            headers = {**_retry_after(turn), **turn.headers}
            self._send_whole(turn.status, wire.error(turn.status, message), headers)
            return
        try:
            answer = answer_of(turn, asked)
        except NoSuchToolError as missing:
            self._send_whole(400, wire.error(400, str(missing)))
            return
        if asked.stream:
            self._send_chunks(wire.stream_type, list(wire.chunks(answer)), turn)
        else:
            self._send_whole(200, wire.whole(answer), turn.headers, drop=turn.drop)

    def _pause(self, seconds: float) -> None:
        if self.server.stopping.wait(min(seconds, threading.TIMEOUT_MAX)):
            raise ConnectionAbortedError("the scripted model is closing")

    def _send_whole(
        self, status: int, body: Json, headers: Mapping[str, str] | None = None, *, drop: bool = False
    ) -> None:
        data = json.dumps(body).encode()
        self._send_head(
            status, {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}
        )
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if drop else data)
        self.close_connection = self.close_connection or drop

    def _send_chunks(self, content_type: str, chunks: list[str], turn: Turn) -> None:
        headers = {"Content-Type": content_type, "Cache-Control": "no-cache", "Transfer-Encoding": "chunked"}
        self._send_head(200, {**headers, **turn.headers})
        for chunk in chunks[: len(chunks) // 2] if turn.drop else chunks:
            self._send_chunk(chunk.encode())
            if turn.slow_seconds:
                self._pause(turn.slow_seconds)
        if turn.drop:
            self.close_connection = True
        else:
            self._send_chunk(b"")  # ends the body

    def _send_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("request-id", f"req_{uuid.uuid4().hex[:20]}")
        self.end_headers()

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _body(self) -> Json | None:
        """The body of the request; None where it is no JSON object."""
        data = self._chunked_body() if self.headers.get("Transfer-Encoding") else self._sized_body()
        try:
            if self.headers.get("Content-Encoding") == "gzip":
                data = gzip.decompress(data)
            body: object = json.loads(data or b"{}")
        except (OSError, EOFError, ValueError):
            return None
        return cast("Json", body) if isinstance(body, dict) else None

    def _sized_body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        return self.rfile.read(int(length)) if length.isdecimal() else b""

    def _chunked_body(self) -> bytes:
        chunks: list[bytes] = []
        while True:
            size = self.rfile.readline().partition(b";")[0].strip()
            try:
                chunks.append(self.rfile.read(int(size, 16)))
            except ValueError as error:
                raise ConnectionAbortedError("a broken chunk") from error
            self.rfile.readline()
            if not chunks[-1]:
                return b"".join(chunks)


def answer_of(turn: Turn, asked: ModelRequest) -> ModelAnswer:
    return ModelAnswer(
        id=uuid.uuid4().hex[:20],
        created=int(time.time()),
        model=asked.model,
        text=turn.says,
        thinking=turn.thinking,
        uses=tool_uses(turn.all_calls, asked.offers),
        usage=turn.usage,
    )


def _retry_after(turn: Turn) -> dict[str, str]:
    return {} if turn.retry_after_seconds is None else {"retry-after": f"{turn.retry_after_seconds:g}"}


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the client was faster
