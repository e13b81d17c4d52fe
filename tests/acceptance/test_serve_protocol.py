"""HTTP by its rules: methods that a path has, bodies that an operation needs, requests that are no HTTP."""

import re
import socket
from collections.abc import Iterator

import pytest

from tests.rig.command import Corral
from tests.rig.server import Server, serving
from tests.rig.waiting import until

pytestmark = pytest.mark.slow
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: What is no name of one token or flow may be that of another.
ODD = (("DELETE", "/api/v1/tokens/me"), ("GET", "/api/v1/flows/check"))
PLACES = {
    "run": "zzz", "name": "n", "number": "1", "webhook": "w", "delivery": "d", "token": "t", "fact": "m1", "comment": "c1",
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    corral = Corral(tmp_path_factory.mktemp("person"))
    with serving(corral, corral.root, "--rate", "0") as going:
        yield going


def spoken(server: Server, data: bytes) -> bytes:
    """Send bytes and return what comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


def test_a_wrong_method_is_told_all_right_ones(server: Server) -> None:
    paths = server.ask("GET", "openapi.json").json["paths"]
    for path, operations in paths.items():
        has = {method.upper() for method in operations}
        wrong = next(method for method in METHODS if method not in has and (method, path) not in ODD)
        answer = server.ask(wrong, re.sub(r"{(\w+)}", lambda found: PLACES[found[1]], path))
        assert answer.status == 405, (path, answer)
        assert {*answer.headers["Allow"].split(", ")} >= has, path
        assert wrong not in answer.headers["Allow"]
    assert server.ask("DELETE", "/static/corral.css").headers["Allow"] == "GET, HEAD"


def test_a_body_that_is_needed_is_asked_for(server: Server) -> None:
    queue, budget = server.ask("GET", "queue").json, server.ask("GET", "budget").json
    asked = 0
    for path, operations in server.ask("GET", "openapi.json").json["paths"].items():
        for method, operation in operations.items():
            if operation.get("requestBody", {}).get("required"):
                place = re.sub(r"{(\w+)}", lambda found: PLACES[found[1]], path)
                for body in (None, b"", b" "):
                    answer = server.ask(method.upper(), place, body)
                    assert 400 <= answer.status < 500, (method, path, answer)
                asked += 1
    assert asked > 8
    assert server.ask("PATCH", "queue").status == server.ask("PUT", "budget").status == 422
    assert (server.ask("GET", "queue").json, server.ask("GET", "budget").json) == (queue, budget)


def test_a_name_that_is_too_long_is_a_bad_request(server: Server) -> None:
    for path, body in (
        ("runs", {"task": "x", "repo": "0" * 300}),
        ("runs", {"task": "x", "repo": "/".join(["0" * 300] * 3)}),
        ("runs", {"task": "x", "agents": ["scripted:" + "0" * 300]}),
        ("runs", {"task": "x", "role": "0" * 300}),
        ("flows/check", {"flow": "nodes: {a: {task: x}}", "repo": "0" * 900}),
        ("flows/check", {"flow": f"nodes: {{a: {{task: x, role: {'0' * 300}}}}}"}),
    ):
        answer = server.ask("POST", path, body)
        assert 400 <= answer.status < 500 or (answer.status == 200 and path == "flows/check"), (path, answer)
        assert len(answer.body) < 5000


@pytest.mark.parametrize("levels", [150, 600, 990, 100_000])
def test_a_deep_body_is_not_understood(server: Server, levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    for path, body in (
        ("runs", b'{"flow": "x", "inputs": {"a": %b}}'),
        ("runs", b'{"task": "x", "output": {"a": %b}}'),
    ):
        answer = server.ask("POST", path, body % deep)
        assert answer.status == 422, answer
        assert "nested" in answer.json["detail"]
    texts = server.ask("POST", "flows/check", {"flow": "[" * 300 + '\\"' * 200})
    assert "nested deeper than 100" not in texts.body.decode()


@pytest.mark.parametrize(
    "data",
    [
        b"rubbish\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nrubbish",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: other\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nrubbish\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\nrubbish\r\n\r\n",
        b"GET /health/live HTTP/9.9\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    ],
)
def test_what_is_no_http_is_answered_without_a_traceback(server: Server, data: bytes) -> None:
    answer = spoken(server, data.replace(b"PORT", str(server.port).encode()))
    understood = data.startswith(b"GET /health/live")
    assert answer.startswith(b"HTTP/1.1 200" if understood else b"HTTP/1.1 4"), answer
    assert server.ask("GET", "/health/live", token=None).status == 200
    assert "Traceback" not in server.log.read_text()


def test_a_body_that_breaks_off_after_the_answer_leaves_no_traceback(server: Server) -> None:
    head = b"POST /api/v1/nothing HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nTransfer-Encoding: chunked\r\n\r\n" % server.port
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 4")
        connection.sendall(b"zz\r\nrubbish\r\n\r\n")
        while connection.recv(65536):
            pass
    until(lambda: server.ask("GET", "/health/live", token=None).status == 200, "the server answers")
    assert "Traceback" not in server.log.read_text()


def test_the_description_suits_generators(server: Server) -> None:
    described = server.ask("GET", "openapi.json").json
    names = [each["operationId"] for path in described["paths"].values() for each in path.values()]
    assert len(names) == len(set(names)) > 50
    assert not [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+){0,3}", name) or "api" in name]
    assert {"list_runs", "show_run", "submit_run", "merge_run", "show_queue"} <= set(names)
    assert all(isinstance(each.get("items", {}), dict) for each in _parts(described))
    assert not [each for each in _parts(described) if "prefixItems" in each]


def _parts(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(inner)
