"""The door of a toolbox: only the token opens it, and nobody who comes through holds it up."""

import asyncio
import json
import socket
from collections.abc import Generator
from contextlib import closing

import pytest

from corral.world.proxy.listener import MOST_BODY_BYTES, ConnectionLimits, RpcEndpoint
from corral.world.proxy.secret import SecretValue
from tests.rig.proxies import Served, Stream, ask, dial, serving

TOKEN = "the-token-of-this-attempt"
AUTHORIZED = f"Authorization: Bearer {TOKEN}\r\n"


async def echo(body: bytes) -> bytes | None:
    if body == b"wait":
        await asyncio.sleep(3600)
    return None if body == b"quiet" else b'{"told":' + json.dumps(body.decode(errors="replace")).encode() + b"}"


def door(listener: socket.socket) -> RpcEndpoint:
    return RpcEndpoint(listener, SecretValue(TOKEN), echo, ConnectionLimits(most_connections=8))


@pytest.fixture
def served() -> Generator[Served]:
    with serving(door) as at_work:
        yield at_work


def request(body: bytes = b"x", fields: str = AUTHORIZED, method: str = "POST", path: str = "/mcp") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body


def last(body: bytes = b"x", fields: str = AUTHORIZED, method: str = "POST", path: str = "/mcp") -> bytes:
    """Return a request after which the connection is closed."""
    return request(body, fields + "Connection: close\r\n", method, path)


def test_it_answers_one_request_after_the_other(served: Served) -> None:
    with closing(dial(served.port)) as stream:
        for word in (b"one", b"two"):
            stream.send(request(word))
            assert word in stream.until(b"}")
        stream.send(request(b"quiet"))
        assert b"202" in stream.until(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("fields", "method", "path", "status"),
    [
        ("", "POST", "/mcp", 401),
        ("Authorization: Bearer wrong\r\n", "POST", "/mcp", 401),
        (f"Authorization: Basic {TOKEN}\r\n", "POST", "/mcp", 401),
        (f"Authorization: Bearer {TOKEN}x\r\n", "POST", "/mcp", 401),
        (AUTHORIZED * 2, "POST", "/mcp", 401),
        (AUTHORIZED, "GET", "/mcp", 405),
        (AUTHORIZED, "DELETE", "/mcp", 405),
        (AUTHORIZED, "POST", "/", 404),
        (AUTHORIZED, "POST", "/.well-known/oauth-authorization-server", 404),
        (f"{AUTHORIZED}Transfer-Encoding: chunked\r\n", "POST", "/mcp", 400),
    ],
)
def test_who_is_not_let_in(served: Served, fields: str, method: str, path: str, status: int) -> None:
    answer = ask(served.port, last(b"x", fields, method, path))
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert TOKEN.encode() not in answer


def test_who_asks_for_a_stream_can_go_on_over_the_same_connection(served: Served) -> None:
    with closing(dial(served.port)) as stream:
        for word in (b"one", b"two"):
            stream.send(request(b"", method="GET"))
            assert stream.until(b"\r\n\r\n").startswith(b"HTTP/1.1 405 ")
            stream.send(request(word))
            assert word in stream.until(b"}")


def test_what_is_too_big_is_refused(served: Served) -> None:
    head = f"POST /mcp HTTP/1.1\r\nHost: x\r\n{AUTHORIZED}Content-Length: {MOST_BODY_BYTES + 1}\r\n\r\n"
    assert b" 413 " in ask(served.port, head.encode())
    chunk = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
    head = f"POST /mcp HTTP/1.1\r\nHost: x\r\n{AUTHORIZED}Transfer-Encoding: chunked\r\n\r\n"
    assert b" 413 " in ask(served.port, head.encode() + chunk + b"1\r\nx\r\n0\r\n\r\n")


def test_those_who_wait_hold_up_nobody_until_there_are_too_many(served: Served) -> None:
    waiting: list[Stream] = []
    try:
        for _ in range(7):
            waiting.append(dial(served.port))
            waiting[-1].send(request(b"wait"))
        assert b"hello" in ask(served.port, last(b"hello"))
        waiting.append(dial(served.port))
        waiting[-1].send(request(b"wait"))
        assert b" 503 " in ask(served.port, last(b"hello"))
    finally:
        for stream in waiting:
            stream.close()


def test_a_flood_is_answered_at_a_walk_and_others_meanwhile(served: Served) -> None:
    with closing(dial(served.port)) as stream:
        stream.send(request(b"x") * 150)
        assert b"hello" in ask(served.port, last(b"hello"))
        for _ in range(150):
            stream.until(b'{"told":"x"}')
