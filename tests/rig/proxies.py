"""A proxy at work in a thread of its own, upstreams that do exactly what a test wants, and certificates nobody knows."""

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Self

from corral.model import Tokens
from corral.rules.money.metering import TokenMeter
from corral.world.proxy.egress import Egress
from corral.world.proxy.listener import RpcEndpoint
from corral.world.proxy.provider import ProviderProxy
from tests.rig.waiting import until

SECONDS = 30.0


class Served:
    """A proxy that is serving: where, and how many connections it holds."""

    def __init__(self, proxy: Egress | ProviderProxy | RpcEndpoint, port: int) -> None:
        self.proxy, self.port = proxy, port
        self.url = f"http://127.0.0.1:{port}"

    def empty(self) -> None:
        until(lambda: self.proxy.count == 0, "the proxy holds no connection")


@contextlib.contextmanager
def serving(make: Callable[[socket.socket], Egress | ProviderProxy | RpcEndpoint]) -> Generator[Served]:
    """Serve on a socket of our own; afterwards nothing has gone wrong unseen in it."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    port = listener.getsockname()[1]
    started, trouble = threading.Event(), list[dict[str, Any]]()
    held: dict[str, Any] = {}

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: trouble.append(context))
        held["loop"], held["stop"] = loop, asyncio.Event()
        async with make(listener) as proxy:
            held["proxy"] = proxy
            started.set()
            await held["stop"].wait()
        assert proxy.count == 0
        held["left"] = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    assert started.wait(SECONDS)
    try:
        yield Served(held["proxy"], port)
    finally:
        held["loop"].call_soon_threadsafe(held["stop"].set)
        thread.join(SECONDS)
    assert not thread.is_alive()
    assert held["left"] == []
    assert trouble == []


class Kept:
    """What was metered: sums by model, and how each request ended."""

    def __init__(self) -> None:
        self.told: list[tuple[str | None, Tokens]] = []
        self.ended: list[tuple[bool, bool]] = []  # charged, known
        self.answered = 0

    @property
    def sum(self) -> Tokens:
        return sum((tokens for _, tokens in self.told), Tokens())

    async def enter(self) -> Self:
        return self

    def meter(self, content_type: str) -> TokenMeter:
        return TokenMeter(content_type, lambda model, tokens: self.told.append((model, tokens)))

    def end(self, *, charged: bool, known: bool, answered: bool) -> None:
        self.ended.append((charged, known))
        self.answered += answered


class Stream:
    """A connection, read and written by a test."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        connection.settimeout(SECONDS)
        self._held = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def until(self, mark: bytes) -> bytes:
        """Read up to and with `mark`."""
        while mark not in self._held:
            piece = self.socket.recv(65536)
            assert piece, f"ended before {mark!r}: {self._held!r}"
            self._held += piece
        found, mark, self._held = self._held.partition(mark)
        return found + mark

    def rest(self) -> bytes:
        """Read until the other side ends, be it rudely."""
        with contextlib.suppress(ConnectionResetError):
            while piece := self.socket.recv(65536):
                self._held += piece
        return self._held

    def close(self) -> None:
        self.socket.close()


class Upstream:
    """A server in a thread: each connection gets `answer`; what came is kept."""

    def __init__(self, answer: Callable[[Stream], None], context: ssl.SSLContext | None = None) -> None:
        self._answer, self._context = answer, context
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.came = 0
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._accepting, *self._threads):
            thread.join(SECONDS)
            assert not thread.is_alive()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.came += 1
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, AssertionError):
            if self._context:
                connection = self._context.wrap_socket(connection, server_side=True)
            self._answer(Stream(connection))
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()


def answering(
    body: bytes = b"hello\n", *, seen: list[bytes] | None = None, head: str = "200 OK"
) -> Callable[[Stream], None]:
    """Answer every request alike, having kept its head and its sized body."""

    def answer(stream: Stream) -> None:
        request = stream.until(b"\r\n\r\n")
        for line in request.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                size = int(line.partition(b":")[2])
                while len(stream._held) < size:
                    stream._held += stream.socket.recv(65536)
                request += stream._held[:size]
            if line.startswith(b"transfer-encoding:"):
                request += stream.until(b"0\r\n\r\n")
        if seen is not None:
            seen.append(request)
        stream.send(f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    return answer


def dial(port: int) -> Stream:
    return Stream(socket.create_connection(("127.0.0.1", port), timeout=SECONDS))


def ask(port: int, request: str | bytes) -> bytes:
    """Say something to a proxy and return all that comes back."""
    stream = dial(port)
    try:
        stream.send(request if isinstance(request, bytes) else request.replace("\n", "\r\n").encode())
        return stream.rest()
    finally:
        stream.close()


def curl(*arguments: str, proxy: str | None = None, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run curl as on a machine without any setting of its own."""
    program = shutil.which("curl")
    assert program, "curl is needed"
    through = ["--proxy", proxy, "--noproxy", ""] if proxy else []
    return subprocess.run(
        [program, "--disable", "--silent", "--show-error", "--max-time", "60", *through, *arguments],
        input=stdin, capture_output=True, check=False, timeout=90, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip


class Certificates:
    """An authority that nobody knows, and a server's certificate by it."""

    def __init__(self, folder: Path, names: Sequence[str] = ("localhost",)) -> None:
        self.authority, self._key, self._certificate = folder / "ca.pem", folder / "srv.key", folder / "srv.pem"
        _openssl(
            folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3", "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=nobody's authority", "-addext", "keyUsage=critical,keyCertSign",
        )  # fmt: skip
        _openssl(
            folder,
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "srv.key",
            "-out",
            "srv.csr",
            "-subj",
            "/CN=a server",
        )
        (folder / "ext").write_text(f"subjectAltName={','.join(f'DNS:{name}' for name in names)}\n")
        _openssl(
            folder, "x509", "-req", "-in", "srv.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "3",
            "-out", "srv.pem", "-extfile", "ext",
        )  # fmt: skip

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, self._key)
        return context


def _openssl(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
