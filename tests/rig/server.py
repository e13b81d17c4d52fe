"""A real server process on the loopback, and plain ways to talk to it."""

import contextlib
import http.client
import json
import os
import signal
import ssl
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from corral.frontends.client import Client
from tests.rig.command import Corral


class Answer:
    """What came back: status, headers, body."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:2000]!r}"


class Server:
    """`corral serve`, as a person starts it."""

    def __init__(self, corral: Corral, root: Path, *arguments: str) -> None:
        self.corral, self.log = corral, corral.root / "server.log"
        with self.log.open("ab") as log:
            words = ("serve", "--port", "0", "--root", root, "--log", "json", *arguments)
            self.process = corral.start(*words, stderr=log)
        assert self.process.stdout
        self.address = self.process.stdout.readline().decode().strip()
        assert self.address.startswith("http"), self.log.read_text()
        self.port = urlsplit(self.address).port or 0
        self.trusted: ssl.SSLContext | None = None  #: for one that speaks TLS
        kept = corral.root / "token"
        if not kept.exists():
            kept.write_text(self.process.stdout.readline().decode().strip().removeprefix("token: "))
        self.token = kept.read_text()
        self.client = Client(self.address, self.token)

    def ask(
        self,
        method: str,
        path: str,
        send: Any = None,
        *,
        token: str | None = "",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request with the first token, another, or none."""
        more = dict(headers or {})
        if token is not None:
            more.setdefault("Authorization", f"Bearer {token or self.token}")
        body = send if isinstance(send, bytes) or send is None else json.dumps(send).encode()
        if body is not None:
            more.setdefault("Content-Type", "application/json")
        connection = (
            http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.trusted)
            if self.trusted
            else http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        )
        try:
            connection.request(method, path if path.startswith("/") else f"/api/v1/{path}", body, more)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def stream(self, path: str, after: int | None = None) -> "Stream":
        return Stream(self, path, after)

    def log_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(60)
        finally:
            if self.process.stdout:
                self.process.stdout.close()


class Stream:
    """A reader of server-sent events."""

    def __init__(self, server: Server, path: str, after: int | None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"Authorization": f"Bearer {server.token}"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        self.connection.request("GET", f"/api/v1/{path}", headers=headers)
        self.answer = self.connection.getresponse()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield events until the stream ends; its end is the last, with only a status."""
        try:
            for line in self.answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            self.close()

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


@contextlib.contextmanager
def serving(corral: Corral, root: Path, *arguments: str) -> Generator[Server]:
    """Serve for as long as the block lasts."""
    server = Server(corral, root, *arguments)
    try:
        yield server
    finally:
        server.end()


def waits_for(path: Path) -> str:
    """Return shell words that wait until a file is there: tests say when an agent may go on."""
    return f"until [ -e {os.fspath(path)} ]; do sleep 0.05; done"
