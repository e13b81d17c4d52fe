"""How the client talks: JSON over HTTP, errors as exceptions, server-sent events as an iterator that reconnects."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct, field

T = TypeVar("T")
RECONNECT_SECONDS = 1.0
MOST_BEATS_MISSED = 60.0  #: the server says every 15 s that it is still here


class Trouble(Exception):
    """What the server refused, as its problem document says it."""

    def __init__(self, status: int, code: str, detail: str, hint: str = "", retry_seconds: float = 0.0) -> None:
        super().__init__(f"{detail} ({hint})" if hint else detail)
        self.status, self.code, self.detail, self.hint, self.retry_seconds = status, code, detail, hint, retry_seconds


class Event(Struct, frozen=True, kw_only=True):
    """An event of a run; what belongs to its type is in `fields`."""

    seq: int
    at: str
    run: str
    type: str
    node: str | None = None
    attempt: str | None = None
    fields: dict[str, Any] = field(default_factory=dict[str, Any])


class _ServerProblem(Struct):
    detail: str = ""
    code: str = ""
    hint: str = ""


class ApiConnection:
    """One server, one token. A connection is made for each call: it may be used from several threads."""

    def __init__(self, address: str, token: str, timeout_seconds: float = 60.0) -> None:
        self._parts, self._token, self._timeout = urlsplit(address), token, timeout_seconds

    def ask(
        self, method: str, path: str, kind: type[T], *, send: object = None, headers: Mapping[str, str] | None = None
    ) -> T:
        """Call the API and decode the answer."""
        return msgspec.json.decode(self.raw(method, path, send=send, headers=headers), type=kind)

    def raw(
        self, method: str, path: str, *, send: object = None, headers: Mapping[str, str] | None = None,
        fine: tuple[int, ...] = (),
    ) -> bytes:  # fmt: skip
        """Call the API; return the body, or raise what the server says is wrong."""
        connection = self._connection(self._timeout)
        try:
            answer = self._request(connection, method, path, send, headers or {})
            body = answer.read()
        finally:
            connection.close()
        problem = "problem" in answer.headers.get("Content-Type", "")  # 409 may also come with a document
        if answer.status >= 300 and (problem or answer.status not in fine):
            raise _trouble(answer, body)
        return body

    def events(self, path: str, after: int) -> Iterator[Event]:
        """Yield events as they come; a connection that breaks is made again where it broke, until the run is over."""
        while True:
            connection = self._connection(MOST_BEATS_MISSED)
            try:
                answer = self._request(connection, "GET", path, None, {"Last-Event-ID": str(after)})
                if answer.status == 204:
                    return
                if answer.status != 200:
                    raise _trouble(answer, answer.read())
                for name, data in _messages(answer):
                    if name == "end":
                        return
                    event = _event(data)
                    after = event.seq
                    yield event
            except (OSError, http.client.HTTPException):
                pass  # the server, or something between, went away: it is asked again
            finally:
                connection.close()
            time.sleep(RECONNECT_SECONDS)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _request(
        self, connection: http.client.HTTPConnection, method: str, path: str, send: object, more: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        headers = {"Authorization": f"Bearer {self._token}", **more}
        body = None
        if send is not None:
            headers["Content-Type"], body = "application/json", msgspec.json.encode(send)
        connection.request(method, f"{self._parts.path.rstrip('/')}/api/v1{path}", body, headers)
        return connection.getresponse()


def query(path: str, **values: object) -> str:
    """Return a path with what is given as its query."""
    given = {name: value for name, value in values.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _messages(answer: http.client.HTTPResponse) -> Iterator[tuple[str, bytes]]:
    name, data = "message", b""
    for line in answer:
        text = line.rstrip(b"\r\n")
        if not text and data:
            yield name, data
            name, data = "message", b""
        elif text.startswith(b"data: "):
            data += text[6:]
        elif text.startswith(b"event: "):
            name = text[7:].decode()


def _event(data: bytes) -> Event:
    found = msgspec.json.decode(data, type=dict[str, Any])
    known = {name: found.pop(name, None) for name in ("seq", "at", "run", "type", "node", "attempt")}
    return Event(**known, fields=found)  # type: ignore[arg-type]


def _trouble(answer: http.client.HTTPResponse, body: bytes) -> Trouble:
    try:
        problem = msgspec.json.decode(body, type=_ServerProblem)
    except msgspec.DecodeError:
        problem = _ServerProblem(detail=body[:200].decode(errors="replace") or answer.reason)
    wait = answer.headers.get("Retry-After", "0")
    return Trouble(answer.status, problem.code, problem.detail, problem.hint, float(wait) if wait.isdecimal() else 0.0)
