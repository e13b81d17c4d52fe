"""HTTP requests of programs: which hosts are reached, what an answer may be, and what a log has of it."""

import asyncio
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from corral.machines.http_tool import HttpReply, fetch
from corral.machines.tool_calls import CallFailed, ProgramTool, RecordedCalls, ToolCalls
from corral.model.program import ProgramLimits, ToolCall
from corral.rules.context.program_tools import Http, logged_arguments


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str, str | None]]] = []  #: paths, and what was meant for a proxy

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers["Proxy-Authorization"]))
        body = b"x" * 5000 if self.path == "/long" else b"hello \xff"
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Location", "http://elsewhere.example/")
        self.send_header("Set-Cookie", "secret=1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        said = self.headers["Authorization"].encode() + b" " + body
        self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(said), said))


@pytest.fixture
def port() -> Generator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def ask(url: str, net: Any, **more: Any) -> HttpReply:
    return asyncio.run(fetch(Http(url=url, **more), net))


def test_a_host_that_the_scope_names_answers(port: int) -> None:
    net = (f"localhost:{port}",)
    found = ask(f"http://localhost:{port}/a?b=c", net)
    assert (found.status, found.body, found.whole) == (200, "hello \ufffd", True)
    assert "set-cookie" not in found.headers
    moved = ask(f"http://localhost:{port}/moved", net)
    assert (moved.status, moved.headers["location"]) == (302, "http://elsewhere.example/")
    long = ask(f"http://localhost:{port}/long", net, most_bytes=10)
    assert (long.body, long.whole) == ("x" * 10, False)
    posted = ask(f"http://localhost:{port}/", net, method="POST", body="given", headers={"Authorization": "Bearer k"})
    assert (posted.status, posted.body) == (201, "Bearer k given")


def test_a_host_beside_the_proxy_is_not_given_the_proxys_password(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://user:word@127.0.0.1:9")
    Answers.seen.clear()
    assert ask(f"http://localhost.:{port}/x", (f"localhost:{port}",)).status == 200
    assert Answers.seen == [("/x", None)]


@pytest.mark.parametrize(
    ("url", "net", "kind"),
    [
        ("http://localhost:{port}/", "off", "refused"),
        ("http://localhost:{port}/", "on", "refused"),
        ("http://localhost:{port}/", (), "refused"),
        ("http://localhost:{port}/", ("@registries",), "refused"),
        ("http://localhost:{port}/", ("example.org",), "refused"),
        ("http://127.0.0.1:{port}/", ("localhost:{port}",), "refused"),
        ("http://localhost.:{port}/", ("example.org",), "refused"),
        ("http://169.254.169.254/", ("localhost:{port}",), "refused"),
        ("http://user:word@localhost:{port}/", ("localhost:{port}",), "bad_arguments"),
        ("file:///etc/passwd", ("localhost:{port}",), "bad_arguments"),
        ("http://localhost:{port}/\r\nX: y", ("localhost:{port}",), "bad_arguments"),
        ("http://[::1/", ("localhost:{port}",), "bad_arguments"),
        ("http://localhost:99999/", ("localhost:{port}",), "bad_arguments"),
        ("https://localhost:{port}/", ("localhost:{port}",), "failed"),
        ("http://localhost:1/", ("localhost:1",), "failed"),
    ],
)
def test_all_else_is_refused_or_fails(port: int, url: str, net: Any, kind: str) -> None:
    words = net if isinstance(net, str) else tuple(each.format(port=port) for each in net)
    with pytest.raises(CallFailed) as failed:
        ask(url.format(port=port), words)
    assert failed.value.error.kind == kind, failed.value


@pytest.mark.parametrize("headers", [{"Host": "x"}, {"a b": "x"}, {"a": "x\r\nb: y"}, {"Content-Length": "3"}])
def test_headers_that_would_change_the_request_are_refused(port: int, headers: dict[str, str]) -> None:
    with pytest.raises(CallFailed, match="header"):
        ask(f"http://localhost:{port}/", (f"localhost:{port}",), headers=headers)


def test_a_log_has_no_secret_of_a_request() -> None:
    given = {
        "url": "https://user:s3cret@example.org/a?key=s3cret",
        "headers": {"Authorization": "s3cret", "Accept": "s3cret"},
        "body": "s3cret",
    }
    assert "s3cret" not in str(logged_arguments("http", given))
    assert logged_arguments("http", given) == {
        "url": "https://example.org/a?...", "headers": ["Accept", "Authorization"], "body": "6 characters",
    }  # fmt: skip
    for broken in ({"url": "http://[s3cret"}, {"url": "x", "headers": "y"}, "text", None):
        assert "s3cret" not in str(logged_arguments("http", broken))


def test_a_call_is_logged_without_secrets_and_can_be_replayed() -> None:
    log: list[ToolCall] = []

    async def answer(_: Http) -> str:
        return "fine"

    tools = {"http": ProgramTool(Http, answer)}
    given = {"url": "http://x.example/?k=s3cret"}
    asyncio.run(ToolCalls(tools, ["http"], ProgramLimits(), log.append).answer("http", given))
    assert "s3cret" not in str(log)
    assert asyncio.run(RecordedCalls(log).answer("http", given)) == b'"fine"'
