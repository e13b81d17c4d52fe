"""A provider answered from outside the box: the real key goes there and nowhere else, and usage is read on the way."""

import gzip
import json
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from corral.model import Tokens
from corral.model.errors import BadRequest
from corral.rules.scope.hosts import api_paths
from corral.testing import ScriptedModel, Turn, Usage
from corral.world.proxy.listener import ConnectionLimits
from corral.world.proxy.provider import Key, OnDenied, Paths, ProviderProxy, Upstream
from corral.world.proxy.secret import KeyMask, SecretValue
from tests.rig import proxies
from tests.rig.proxies import Certificates, Kept, Stream, answering, ask, curl, dial, serving

REAL, PLACEHOLDER = "sk-real-0123456789abcdef", "corral-placeholder"
KEY = Key(real=SecretValue(REAL), placeholder=PLACEHOLDER, query=("key",))


def provider(
    url: str,
    kept: Kept | None = None,
    *,
    key: Key | None = KEY,
    limits: ConnectionLimits | None = None,
    ca: Path | None = None,
    paths: Paths | None = None,
    denied: OnDenied | None = None,
) -> Callable[[socket.socket], ProviderProxy]:
    def make(listener: socket.socket) -> ProviderProxy:
        upstream = Upstream(url, ca_file=str(ca) if ca else None)
        made = ProviderProxy(listener, upstream, key, kept or Kept(), limits=limits)
        made.paths, made.denied = paths, denied
        return made

    return make


def post(url: str, path: str, body: object, *headers: str) -> Any:
    arguments = [word for header in headers for word in ("-H", header)]
    done = curl("--data-binary", "@-", *arguments, url + path, stdin=json.dumps(body).encode())
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


# --- every wire format

TOOL: dict[str, Any] = {"name": "t", "description": "", "parameters": {"type": "object"}}
MESSAGES = [{"role": "user", "content": "hi"}]
FORMATS = {
    "/v1/messages": ({"messages": MESSAGES, "tools": [{"name": "t", "input_schema": {}}]}, "x-api-key: KEY"),
    "/v1/chat/completions": (
        {"messages": MESSAGES, "tools": [{"type": "function", "function": TOOL}]}, "Authorization: Bearer KEY",
    ),
    "/v1/responses": ({"input": MESSAGES, "tools": [{"type": "function", **TOOL}]}, "authorization: bearer KEY"),
    "/v1beta/models/fake-model:STREAM": (
        {"contents": [{"role": "user", "parts": []}], "tools": [{"functionDeclarations": [TOOL]}]}, "x-goog-api-key: KEY",
    ),
    "/api/chat": ({"messages": MESSAGES, "tools": [{"type": "function", "function": TOOL}]}, "Authorization: Bearer KEY"),
}  # fmt: skip


@pytest.mark.parametrize("path", FORMATS)
@pytest.mark.parametrize("stream", [False, True])
def test_every_wire_format_gets_the_real_key_and_is_metered(path: str, stream: bool) -> None:
    body, header = FORMATS[path]
    target = path.replace("STREAM", "streamGenerateContent?alt=sse" if stream else "generateContent")
    cached = not path.startswith("/api")
    usage = Usage(
        input=1000,
        output=50,
        cache_read=300 if cached else 0,
        cache_write=200 if "models" not in path and cached else 0,
    )
    kept = Kept()
    with ScriptedModel([Turn(text="hello " * 100, usage=usage)]) as model, serving(provider(model.url, kept)) as served:
        asked = {"model": "fake-model", "stream": stream, **body}
        got = post(served.url, target, asked, header.replace("KEY", PLACEHOLDER), "Accept-Encoding: gzip")
        served.empty()
        (request,) = model.requests
    assert "hello" in got
    name, _, value = header.partition(": ")
    assert request.headers[name.lower()] == value.replace("KEY", REAL)
    assert PLACEHOLDER not in str(request.headers)
    assert request.headers["accept-encoding"] == "identity"
    assert request.body == asked
    assert kept.sum == Tokens(usage.input, usage.output, usage.cache_read, usage.cache_write)
    assert {model for model, _ in kept.told} == {"fake-model"}
    assert kept.ended == [(True, True)]


def test_an_answer_of_anthropic_is_metered_while_it_comes() -> None:
    kept, counted, go = Kept(), threading.Event(), threading.Event()

    def streams(stream: Stream) -> None:
        stream.until(b"\r\n\r\n")
        stream.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n")
        stream.send(
            b'data: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":7,"output_tokens":1}}}\n\n'
        )
        go.wait(120)
        stream.send(b'data: {"type":"message_delta","usage":{"output_tokens":9}}\n\n')

    with proxies.Upstream(streams) as upstream, serving(provider(upstream.url, kept)) as served:
        client = dial(served.port)
        client.send(b"POST / HTTP/1.1\r\n\r\n")
        client.until(b"message_start")  # it is not held back either
        client.until(b"\n\n")
        assert kept.told == [("m", Tokens(7, 1))]
        counted.set()
        go.set()
        client.rest()
        client.close()
        served.empty()
    assert kept.told == [("m", Tokens(7, 1)), ("m", Tokens(0, 8))]


# --- where the key goes, and where not


@pytest.mark.parametrize(
    ("target", "fields", "arrives", "fails"),
    [
        ("/a", f"X-Api-Key: {PLACEHOLDER}\n", f"X-Api-Key: {REAL}", PLACEHOLDER),
        ("/a", f"Authorization: Bearer {PLACEHOLDER}\n", f"Authorization: Bearer {REAL}", PLACEHOLDER),
        (f"/a?b=1&key={PLACEHOLDER}&c=%20", "", f"GET /a?b=1&key={REAL}&c=%20 HTTP/1.1", PLACEHOLDER),
        ("/a", f"X-Other: {PLACEHOLDER}\n", f"X-Other: {PLACEHOLDER}", REAL),
        ("/a", f"User-Agent: Bearer {PLACEHOLDER}\n", f"Bearer {PLACEHOLDER}", REAL),
        (f"/a?other={PLACEHOLDER}", "", f"other={PLACEHOLDER}", REAL),
        (f"/{PLACEHOLDER}", "", f"/{PLACEHOLDER}", REAL),
        # Not a bit of it beside other things: the value is the placeholder, or it is none of ours.
        ("/a", f"X-Api-Key: x{PLACEHOLDER}\n", "GET /a", REAL),
        ("/a", f"Authorization: Bearer x {PLACEHOLDER}\n", "GET /a", REAL),
        # With a key of its own an agent could hand what it read to somebody else's account.
        ("/a", "X-Api-Key: sk-of-a-stranger\nAuthorization: Bearer sk-of-a-stranger\n", "GET /a", "stranger"),
        ("/a?key=of-a-stranger&b=1", "Cookie: of-a-stranger\n", "GET /a?b=1 HTTP", "stranger"),
        ("/a", f"Connection: Authorization\nAuthorization: {PLACEHOLDER}\n", "GET /a", REAL),
    ],
)
def test_the_key_stands_where_the_placeholder_stood_and_nowhere_else(
    target: str, fields: str, arrives: str, fails: str
) -> None:
    seen: list[bytes] = []
    with proxies.Upstream(answering(seen=seen)) as upstream, serving(provider(upstream.url)) as served:
        ask(served.port, f"GET {target} HTTP/1.1\nHost: evil.example\n{fields}\n")
    text = seen[0].decode()
    assert arrives in text
    assert fails not in text
    assert f"Host: 127.0.0.1:{upstream.port}\r\n" in text
    assert "evil" not in text


def test_a_body_is_not_changed() -> None:
    seen: list[bytes] = []
    with proxies.Upstream(answering(seen=seen)) as upstream, serving(provider(upstream.url)) as served:
        post(served.url, "/", {"x": PLACEHOLDER}, f"x-api-key: {PLACEHOLDER}")
    assert seen[0].endswith(json.dumps({"x": PLACEHOLDER}).encode())


def test_where_others_could_come_in_the_placeholder_is_needed() -> None:
    key = Key(real=SecretValue(REAL), placeholder=PLACEHOLDER, needed=True)
    with proxies.Upstream(answering()) as upstream, serving(provider(upstream.url, key=key)) as served:
        assert ask(served.port, "GET / HTTP/1.1\n\n").startswith(b"HTTP/1.1 401 ")
        assert ask(served.port, "GET / HTTP/1.1\nx-api-key: guess\n\n").startswith(b"HTTP/1.1 401 ")
        assert ask(served.port, f"GET / HTTP/1.1\nx-api-key: {PLACEHOLDER}\n\n").startswith(b"HTTP/1.1 200 ")
    assert upstream.came == 1


def test_without_a_key_what_the_agent_says_goes_as_it_is() -> None:
    seen: list[bytes] = []
    with proxies.Upstream(answering(seen=seen)) as upstream, serving(provider(upstream.url, key=None)) as served:
        ask(served.port, "GET / HTTP/1.1\nAuthorization: Bearer ollama\n\n")
    assert b"Authorization: Bearer ollama" in seen[0]


def test_the_key_never_comes_back_however_the_answer_is_cut() -> None:
    body = f"you sent {REAL}, I say {REAL}{REAL} and {REAL[:10]} and {REAL[:-1]}"
    for size in (1, 2, 7, len(REAL), len(REAL) + 1):
        chunks = [body[at : at + size].encode() for at in range(0, len(body), size)]

        def echoes(stream: Stream, chunks: list[bytes] = chunks) -> None:
            stream.until(b"\r\n\r\n")
            stream.send(f"HTTP/1.1 401 No {REAL}\r\nX-Echo: {REAL}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            for chunk in chunks:
                stream.send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            stream.send(b"0\r\n\r\n")

        with proxies.Upstream(echoes) as upstream, serving(provider(upstream.url)) as served:
            done = curl("-i", "-H", f"x-api-key: {PLACEHOLDER}", served.url)
        text = done.stdout.decode()
        assert REAL not in text
        assert text.startswith(f"HTTP/1.1 401 No {PLACEHOLDER}\r\nX-Echo: {PLACEHOLDER}\r\n")
        assert text.endswith("\r\n\r\n" + body.replace(REAL, PLACEHOLDER))


def test_the_key_is_shown_nowhere() -> None:
    secret = SecretValue(REAL)
    for thing in (secret, KEY, KeyMask(secret, PLACEHOLDER), [secret], {"a": KEY}):
        assert REAL not in f"{thing} {thing!r}"
    with pytest.raises(TypeError):
        json.dumps(secret)
    for wrong in ("", f"{REAL}\n", f"a b{REAL}", f"{REAL}\u20ac"):
        with pytest.raises(BadRequest) as refused:
            Key(real=SecretValue(wrong), placeholder=PLACEHOLDER)
        assert REAL not in f"{refused.value} {refused.value!r}"


# --- the agent does not choose where


@pytest.mark.parametrize(
    "line",
    [
        "GET http://evil.example/ HTTP/1.1", "CONNECT evil.example:443 HTTP/1.1", "GET /../x HTTP/1.1", "GET /a/../../x HTTP/1.1",
        "GET /%2e%2e/x HTTP/1.1", "GET /%2E./x HTTP/1.1", "GET /a%2f..%2fx HTTP/1.1", "GET /..%5cx HTTP/1.1", "GET /..;/x HTTP/1.1",
        "GET /x?$httpMethod=DELETE HTTP/1.1", "GET /x?a=1&%24httpMethod=DELETE HTTP/1.1", "POST /x?_METHOD=put HTTP/1.1",
        "GET /./x HTTP/1.1", "GET * HTTP/1.1", "GET x HTTP/1.1", "GET /a#b HTTP/1.1", "TRACE / HTTP/1.1", "OPTIONS * HTTP/1.1",
    ],
)  # fmt: skip
def test_what_would_lead_elsewhere_is_refused(line: str) -> None:
    with proxies.Upstream(answering()) as upstream, serving(provider(f"{upstream.url}/team/a")) as served:
        assert ask(served.port, f"{line}\nx-api-key: {PLACEHOLDER}\n\n").split(b" ")[1] in {b"400", b"405"}
    assert upstream.came == 0


def test_paths_are_below_the_providers_own() -> None:
    seen: list[bytes] = []
    with proxies.Upstream(answering(seen=seen)) as upstream, serving(provider(f"{upstream.url}/team/a/")) as served:
        for path in ("/v1/x?y=../z", "//evil.example/x", "/", "/a..b"):
            ask(served.port, f"GET {path} HTTP/1.1\n\n")
    assert [one.split(b" ")[1] for one in seen] == [
        b"/team/a/v1/x?y=../z", b"/team/a//evil.example/x", b"/team/a/", b"/team/a/a..b",
    ]  # fmt: skip


def test_a_redirect_is_handed_back_and_not_followed() -> None:
    with (
        proxies.Upstream(answering()) as other,
        proxies.Upstream(answering(head=f"307 Go\r\nLocation: {other.url}/")) as upstream,
        serving(provider(upstream.url)) as served,
    ):
        got = ask(served.port, f"GET / HTTP/1.1\nx-api-key: {PLACEHOLDER}\n\n")
    assert got.startswith(b"HTTP/1.1 307 ")
    assert other.came == 0


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET / HTTP/1.1\nUpgrade: websocket\nConnection: Upgrade\n\n", b"426"),
        ("POST / HTTP/1.1\nContent-Length: 1\nTransfer-Encoding: chunked\n\n0\n\n", b"400"),
        ("POST / HTTP/1.1\nContent-Length: 1\nContent-Length: 2\n\nab", b"400"),
        (f"GET / HTTP/1.1\nX: {'a' * 200_000}\n\n", b"431"),
        ("GET / HTTP/1.1\nX: a\0\n\n", b"400"),
    ],
)
def test_what_does_not_go_this_way_is_said_plainly(request_: str, status: bytes) -> None:
    with proxies.Upstream(answering()) as upstream, serving(provider(upstream.url)) as served:
        got = ask(served.port, request_)
    assert got.split(b" ")[1] == status
    assert b"\r\n\r\ncorral: " in got
    assert upstream.came == 0


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/",
        "api.example.org",
        "https://",
        "http://u:p@h/",
        "http://h:99999/",
        "http://h/?q=1",
        "http://@h/",
        "http://h/a b",
    ],
)
def test_a_base_url_that_is_none(url: str) -> None:
    with pytest.raises(BadRequest):
        Upstream(url)


def test_how_a_provider_is_named() -> None:
    assert Upstream("http://[::1]:8080/v1/").place == "[::1]:8080"
    assert Upstream("http://API.example.org:80").place == "api.example.org"
    assert Upstream("http://b\u00fccher.example").place == "xn--bcher-kva.example"


# --- TLS


def test_tls_by_an_authority_of_ones_own(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    seen: list[bytes] = []
    with proxies.Upstream(answering(seen=seen), certificates.context()) as upstream:
        url = f"https://localhost:{upstream.port}/v1"
        with serving(provider(url, ca=certificates.authority)) as served:
            got = ask(served.port, f"GET /x HTTP/1.1\nx-api-key: {PLACEHOLDER}\n\n")
        with serving(provider(url)) as served:
            unknown = ask(served.port, f"GET /x HTTP/1.1\nx-api-key: {PLACEHOLDER}\n\n")
        by_number = f"https://127.0.0.1:{upstream.port}"
        with serving(provider(by_number, ca=certificates.authority)) as served:
            wrong = ask(served.port, f"GET /x HTTP/1.1\nx-api-key: {PLACEHOLDER}\n\n")
    assert got.endswith(b"hello\n\r\n0\r\n\r\n")
    for refused in (unknown, wrong):
        assert refused.startswith(b"HTTP/1.1 502 ")
        assert b"certificate" in refused
    assert len(seen) == 1  # nothing was said to whom nobody vouches for
    assert REAL.encode() in seen[0]
    with pytest.raises(BadRequest):
        Upstream("https://x", ca_file=str(tmp_path / "none"))


# --- large, early, slow, cut


def test_a_large_body_is_streamed_and_waited_for_with_100_continue() -> None:
    body = b"x" * (24 << 20)
    got: list[int] = []

    def counts(stream: Stream) -> None:
        head = stream.until(b"\r\n\r\n")
        assert b"xpect" not in head
        left = len(body) - len(stream._held)
        while left:
            left -= len(stream.socket.recv(min(left, 1 << 20)))
        got.append(len(body) - left)
        stream.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with proxies.Upstream(counts) as upstream, serving(provider(upstream.url)) as served:
        done = curl("--data-binary", "@-", "-H", "Expect: 100-continue", served.url, stdin=body)
        served.empty()
    assert done.stdout == b"ok", done.stderr
    assert got == [len(body)]


def test_an_answer_given_early_is_heard() -> None:
    def refuses(stream: Stream) -> None:
        stream.until(b"\r\n\r\n")
        stream.send(b"HTTP/1.1 413 Large\r\nContent-Length: 4\r\n\r\nlarg")
        stream.rest()

    with proxies.Upstream(refuses) as upstream, serving(provider(upstream.url)) as served:
        done = curl("-w", "%{http_code}", "--data-binary", "@-", served.url, stdin=b"x" * (8 << 20))
        served.empty()
    assert done.stdout == b"larg413", done.stderr


def test_a_client_that_sends_all_before_it_reads_gets_an_early_answer() -> None:
    def refuses(stream: Stream) -> None:
        stream.until(b"\r\n\r\n")
        stream.send(b"HTTP/1.1 413 Large\r\nContent-Length: 4\r\n\r\nlarg")
        stream.rest()

    body = b"x" * (16 << 20)
    with proxies.Upstream(refuses) as upstream, serving(provider(upstream.url)) as served:
        for path in ("/early", "/../refused"):
            head = f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
            answer = ask(served.port, head.encode() + body)
            assert answer.startswith((b"HTTP/1.1 413 Large\r\n", b"HTTP/1.1 400 Refused\r\n")), path
        served.empty()


def test_answers_without_a_body() -> None:
    with proxies.Upstream(answering(b"")) as upstream, serving(provider(upstream.url)) as served:
        head = ask(served.port, "HEAD / HTTP/1.1\n\n")
    assert b"Content-Length: 0" in head
    with proxies.Upstream(answering(b"", head="204 None")) as upstream, serving(provider(upstream.url)) as served:
        none = ask(served.port, "GET / HTTP/1.1\n\n")
    assert none.startswith(b"HTTP/1.1 204 None\r\n")
    assert none.endswith(b"Connection: close\r\n\r\n")


def test_a_compressed_answer_passes_untouched() -> None:
    kept = Kept()
    packed = gzip.compress(b'{"model":"m","usage":{"input_tokens":7,"output_tokens":3}}')
    with (
        proxies.Upstream(answering(packed, head="200 OK\r\nContent-Encoding: gzip")) as upstream,
        serving(provider(upstream.url, kept)) as served,
    ):
        done = curl("--raw", "-X", "POST", served.url, "-i")
    assert packed in done.stdout
    assert b"Content-Encoding: gzip" in done.stdout
    assert kept.told == [("m", Tokens(7, 3))]


@pytest.mark.parametrize("turn", [Turn(text="half of this " * 20, drop=True)])
def test_a_cut_stream_looks_cut_and_counts_what_was_said(turn: Turn) -> None:
    kept = Kept()
    body, _ = FORMATS["/v1/messages"]
    with ScriptedModel([turn]) as model, serving(provider(model.url, kept)) as served:
        asked = json.dumps({"model": "m", "stream": True, **body}).encode()
        done = curl("--data-binary", "@-", f"{served.url}/v1/messages", stdin=asked)
        served.empty()
    assert done.returncode == 18
    assert b"message_start" in done.stdout
    assert kept.sum == Tokens(100, 1)
    assert kept.ended == [(True, False)]  # what it said after that is not known


# --- what cannot be priced

STREAM = "200 OK\r\nContent-Type: text/event-stream"
NO_USAGE = b'data: {"model":"m","choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n'
USAGE = b'{"model":"m","usage":{"prompt_tokens":7,"completion_tokens":3}}'


@pytest.mark.parametrize(
    ("head", "body", "ended"),
    [
        (STREAM, NO_USAGE, (True, False)),
        ("200 OK\r\nContent-Type: application/json", b'{"id":"batch_1","status":"validating"}', (True, False)),
        ("200 OK\r\nContent-Encoding: br", USAGE[::-1], (True, False)),
        ("200 OK\r\nContent-Encoding: gzip", USAGE, (True, False)),
        ("200 OK", b"", (True, False)),
        ("200 OK", USAGE, (True, True)),
        ("400 Bad Request", USAGE, (False, False)),
        ("500 Failed", b"", (False, False)),
    ],
)
def test_each_request_that_may_cost_money_is_counted_once(head: str, body: bytes, ended: tuple[bool, bool]) -> None:
    kept = Kept()
    with proxies.Upstream(answering(body, head=head)) as upstream, serving(provider(upstream.url, kept)) as served:
        ask(served.port, "POST /v1/chat/completions HTTP/1.1\nContent-Length: 2\n\n{}")
        ask(served.port, "GET /v1/models HTTP/1.1\n\n")
        served.empty()
    assert kept.ended == [ended]
    assert kept.answered == 1


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("after", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hi\n\n"])
def test_a_client_that_leaves_before_the_answer_ends_is_counted(after: bytes, reset: bool) -> None:
    kept, asked, gone = Kept(), threading.Event(), threading.Event()

    def slow(stream: Stream) -> None:
        stream.until(b"\r\n\r\n{}")
        stream.send(after)
        asked.set()
        gone.wait(60)

    with proxies.Upstream(slow) as upstream, serving(provider(upstream.url, kept)) as served:
        client = dial(served.port)
        client.send(b"POST /v1/messages HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        assert asked.wait(60)
        if after:
            client.until(b": hi")
        if reset:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        served.empty()
        gone.set()
    assert kept.ended == [(True, False)]


def test_a_provider_that_is_not_there_costs_nothing() -> None:
    kept = Kept()
    with proxies.Upstream(lambda _: None) as upstream, serving(provider(upstream.url, kept)) as served:
        assert b" 502 " in ask(served.port, "POST / HTTP/1.1\nContent-Length: 2\n\n{}").split(b"\r\n")[0]
        served.empty()
    assert kept.ended == [(False, False)]
    assert kept.answered == 0


# --- what passes


def test_only_what_an_agent_needs_passes_with_the_key() -> None:
    denied: list[tuple[str, str]] = []
    paths = api_paths("codex", "OPENAI_BASE_URL", ("GET /v1/batches/*",))
    seen: list[bytes] = []
    with proxies.Upstream(answering(seen=seen)) as upstream:
        make = provider(f"{upstream.url}/v1", paths=paths, denied=lambda asked, why: denied.append((asked, why)))
        with serving(make) as served:
            for line in ("GET /files", "DELETE /files/f1", "POST /batches", "GET /models/../files", "PUT /responses"):
                got = ask(served.port, f"{line} HTTP/1.1\nAuthorization: Bearer {PLACEHOLDER}\n\n")
                assert got.split(b" ")[1] in (b"403", b"400"), line
            override = f"X-HTTP-Method-Override: DELETE\nAuthorization: Bearer {PLACEHOLDER}\n"
            assert b" 200 " in ask(served.port, f"GET /models/m?x=1 HTTP/1.1\n{override}\n")
            assert b" 200 " in ask(served.port, "POST /responses HTTP/1.1\nContent-Length: 0\n\n")
            assert b" 200 " in ask(served.port, "GET /v1/batches/b1 HTTP/1.1\n\n")
    assert upstream.came == 3
    assert b"override" not in seen[0].lower()
    assert [asked for asked, _ in denied] == ["GET /files", "DELETE /files/f1", "POST /batches", "PUT /responses"]
    assert 'to allow it: [agents.codex] paths = ["GET /files"]' in denied[0][1]


def test_an_upstream_that_hangs_is_given_up() -> None:
    limits = ConnectionLimits(idle_seconds=0.3)
    with ScriptedModel([Turn(hang_seconds=60)]) as model, serving(provider(model.url, limits=limits)) as served:
        body, _ = FORMATS["/v1/messages"]
        done = curl(
            "-w", "%{http_code}", "--data-binary", "@-", f"{served.url}/v1/messages", stdin=json.dumps(body).encode()
        )
        served.empty()
    assert done.stdout.endswith(b"504")


def test_when_the_agent_leaves_the_provider_is_left_too() -> None:
    gone = threading.Event()

    def hangs(stream: Stream) -> None:
        stream.until(b"\r\n\r\n")
        stream.rest()
        gone.set()

    with proxies.Upstream(hangs) as upstream, serving(provider(upstream.url)) as served:
        client = dial(served.port)
        client.send(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab")
        proxies.until(lambda: upstream.came, "it is connected")
        client.close()
        assert gone.wait(120)
        served.empty()


def test_a_hundred_at_once() -> None:
    kept = Kept()
    body, _ = FORMATS["/v1/messages"]
    with ScriptedModel([Turn(text="hello")]) as model, serving(provider(model.url, kept)) as served:
        data = json.dumps({"model": "m", "stream": True, **body})
        request = f"POST /v1/messages HTTP/1.1\r\nContent-Length: {len(data)}\r\n\r\n{data}".encode()
        with ThreadPoolExecutor(100) as pool:
            got = list(pool.map(lambda _: ask(served.port, request), range(100)))
        served.empty()
    assert all(one.endswith(b"0\r\n\r\n") for one in got)
    assert kept.sum == Tokens(100 * 100, 100 * 20)
