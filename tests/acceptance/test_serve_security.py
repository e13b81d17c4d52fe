"""The server against those who should not: no token, wrong scope, other sites, other names, climbing paths, floods."""

import http.client
import json
import socket
import sqlite3
import ssl
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.server import Server, serving
from tests.rig.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corral(tmp_path_factory: pytest.TempPathFactory) -> Corral:
    return Corral(tmp_path_factory.mktemp("person"))


@pytest.fixture(scope="module")
def repo(corral: Corral) -> Repo:
    return Repo.make(corral.root / "roots" / "repo")


@pytest.fixture(scope="module")
def server(corral: Corral, repo: Repo) -> Iterator[Server]:
    with serving(corral, repo.folder.parent, "--rate", "0") as going:
        yield going


def token(server: Server, *scopes: str) -> str:
    made = server.ask("POST", "tokens", {"name": "t", "scopes": list(scopes)})
    assert made.status == 201, made
    return made.json["secret"]


def printed_link(server: Server) -> str:
    """Return the path of the link of this start, which is printed after the address."""
    start = f"{server.address}/login?token="
    until(lambda: start in server.log.read_text() and server.log.read_text().endswith("\n"), "the link is printed")
    return "/login?token=" + server.log.read_text().rpartition(start)[2].split()[0]


def test_nothing_without_a_token(server: Server) -> None:
    paths = server.ask("GET", "openapi.json").json["paths"]
    asked = 0
    for path, methods in paths.items():
        if path.startswith("/health") or path == "/api/v1/triggers/{name}":
            continue
        for method in methods:
            answer = server.ask(method.upper(), path.replace("{", "").replace("}", ""), token=None)
            assert (method, path, answer.status) == (method, path, 401)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            asked += 1
    assert asked > 30


def test_a_wrong_token_is_refused_and_many_are_slowed_down(repo: Repo, tmp_path: Path) -> None:
    other = Corral(tmp_path / "other")
    with serving(other, repo.folder.parent) as server:
        assert server.ask("GET", "runs", token="corral_wrong").status == 401
        assert server.ask("GET", "runs", token="x").status == 401
        statuses = [server.ask("GET", "runs", token=f"corral_{number}").status for number in range(30)]
        assert statuses[-1] == 429
        last = server.ask("GET", "runs", token="corral_wrong")
        assert int(last.headers["Retry-After"]) >= 1
        assert server.ask("GET", "runs").status == 200, "who is known is not kept out by others of the same address"


def test_scopes_hold(server: Server) -> None:
    reads, runs, merges = token(server, "read"), token(server, "run"), token(server, "merge")
    refused = {
        reads: ("POST runs", "POST runs/x/stop", "POST runs/x/merge", "PATCH queue", "GET tokens", "POST inbox/1"),
        runs: (
            "POST runs/x/merge",
            "POST runs/x/undo",
            "PATCH queue",
            "POST tokens",
            "PUT schedules/x",
            "GET webhooks",
        ),
        merges: ("POST runs", "POST tokens", "PUT triggers/x"),
    }
    for secret, calls in refused.items():
        assert server.ask("GET", "runs", token=secret).status == 200
        for call in calls:
            method, path = call.split()
            answer = server.ask(method, path, {}, token=secret)
            assert (call, answer.status) == (call, 403)
            assert answer.json["code"] == "scope"


def test_what_lands_or_widens_needs_more_than_run(server: Server, repo: Repo) -> None:
    runs = token(server, "run")
    for more in (
        {"merge": "auto"}, {"env": ["HOME"]}, {"net": "on"}, {"net": "example.org"}, {"require_sandbox": "landlock"},
        {"flow": MERGES, "task": ""},
    ):  # fmt: skip
        answer = server.ask("POST", "runs", {"task": "x", "repo": str(repo.folder), **more}, token=runs)
        assert (more, answer.status) == (more, 403), answer


MERGES = "name: f\nnodes:\n  ok: {gate: 'Go?'}\n  land: {merge: {into: main}, needs: [ok]}\n"


def test_an_answer_that_lands_work_or_lifts_a_limit_needs_the_scope_for_it(server: Server, repo: Repo) -> None:
    runs = token(server, "run")
    server.client.submit("", repo=str(repo.folder), flow=MERGES)
    gate = until(lambda: server.ask("GET", "inbox").json, "the gate asks")[0]["id"]
    assert server.ask("POST", f"inbox/{gate}", {"answer": "yes"}, token=runs).status == 403
    assert server.ask("POST", f"inbox/{gate}", {"answer": "no"}).status == 200
    assert server.ask("PUT", "budget", {"per_day": 0.01}).status == 200
    spends = server.corral.agent("dear", "echo x > x.txt", "cost_usd = 0.5")
    server.client.submit("x", repo=str(repo.folder), agents=[spends])
    money = until(lambda: server.ask("GET", "inbox").json, "the limit asks")[0]
    assert money["about"] == "budget"
    for words in ("500", "raise", money["choices"][0]):
        refused = server.ask("POST", f"inbox/{money['id']}", {"answer": words}, token=runs)
        assert (words, refused.status, refused.json["code"]) == (words, 403, "scope")
    assert server.ask("POST", f"inbox/{money['id']}", {"answer": "stop"}, token=runs).status == 200


def test_nobody_goes_without_a_box(server: Server, repo: Repo) -> None:
    answer = server.ask("POST", "runs", {"task": "x", "repo": str(repo.folder), "require_sandbox": "none"})
    assert (answer.status, answer.json["code"]) == (403, "sandbox")
    assert server.ask("POST", "runs", {"task": "x", "unsandboxed": True}).status == 422
    assert server.ask("POST", "runs", {"task": "x", "trust": True}).status == 422


def test_a_revoked_token_counts_no_longer(server: Server, corral: Corral) -> None:
    made = corral("token", "new", "--name", "ci", "--scope", "read", "--json").json
    assert server.ask("GET", "tokens/me", token=made["secret"]).json["name"] == "ci"
    assert corral("token", "revoke", made["token"]["id"]).code == 0
    assert server.ask("GET", "tokens/me", token=made["secret"]).status == 401


def test_secrets_are_not_stored(server: Server, corral: Corral) -> None:
    secret = token(server, "read").encode()
    with sqlite3.connect(corral.home / "corral.db") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for file in corral.home.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert secret not in content
            assert server.token.encode() not in content


def test_other_names_are_misdirected(server: Server) -> None:
    for host in (
        "evil.example",
        f"evil.example:{server.port}",
        "127.0.0.1:1",
        "localhost",
        "",
        f"127.0.0.1.nip.io:{server.port}",
    ):
        answer = server.ask("GET", "runs", headers={"Host": host})
        assert (host, answer.status) == (host, 421)
    assert server.ask("GET", "runs", headers={"Host": f"localhost:{server.port}"}).status == 200


def test_other_sites_may_not_act(server: Server) -> None:
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{server.port + 1}"):
        answer = server.ask("POST", "runs", {"task": "x"}, headers={"Origin": origin})
        assert (origin, answer.status, answer.json["code"]) == (origin, 403, "origin")
    allowed = server.ask("OPTIONS", "runs", headers={"Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in allowed.headers


def test_a_websocket_needs_a_token_and_our_origin(server: Server) -> None:
    address = f"ws://127.0.0.1:{server.port}/api/v1/ws"
    good = {"Authorization": f"Bearer {server.token}"}
    for headers, origin, status in (
        ({}, None, 401),
        (good, "https://evil.example", 403),
        ({"Cookie": f"corral_login={logged_in(server)}"}, None, 403),
        ({"Cookie": f"corral_login={logged_in(server)}"}, "https://evil.example", 403),
    ):
        with pytest.raises(InvalidStatus) as refused, connect(address, additional_headers=headers, origin=origin):  # type: ignore[arg-type]
            pass
        assert (headers, refused.value.response.status_code) == (headers, status)
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    rebound = {**upgrade, "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Host": "evil.example"}
    assert server.ask("GET", "ws", headers=rebound).status == 421
    for headers, origin in ((good, None), ({"Cookie": f"corral_login={logged_in(server)}"}, server.address)):
        with connect(address, additional_headers=headers, origin=origin) as opened:  # type: ignore[arg-type]
            opened.send(json.dumps({"watch": "nothing", "id": "a"}))
            assert "no run" in json.loads(opened.recv())["error"]


def logged_in(server: Server) -> str:
    answer = server.ask(
        "POST", "/login", f"token={server.token}".encode(), token=None,
        headers={"Content-Type": "application/x-www-form-urlencoded", "Origin": server.address},
    )  # fmt: skip
    assert (answer.status, answer.headers["Location"]) == (303, "/"), answer
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    return cookie.partition("corral_login=")[2].partition(";")[0]


def test_a_cookie_needs_its_csrf_token_to_act(server: Server, repo: Repo) -> None:
    from corral.engine.tokens import csrf_of  # noqa: PLC0415

    cookie = logged_in(server)
    browser = {"Cookie": f"corral_login={cookie}", "Origin": server.address}
    wish = {"task": "x", "repo": str(repo.folder), "agents": ["nobody"]}
    assert server.ask("GET", "runs", token=None, headers=browser).status == 200
    assert server.ask("POST", "runs", wish, token=None, headers=browser).json["code"] == "csrf"
    wrong = {**browser, "X-CSRF-Token": csrf_of("other")}
    assert server.ask("POST", "runs", wish, token=None, headers=wrong).json["code"] == "csrf"
    right = {**browser, "X-CSRF-Token": csrf_of(cookie)}
    assert server.ask("POST", "runs", wish, token=None, headers=right).status == 400  # let in: only the agent is wrong
    form = {**browser, "Content-Type": "application/x-www-form-urlencoded"}
    assert server.ask("POST", "/logout", b"", token=None, headers=form).status == 403
    assert server.ask("POST", "/logout", f"csrf={csrf_of(cookie)}".encode(), token=None, headers=form).status == 303
    assert server.ask("GET", "runs", token=None, headers=browser).status == 401


def test_the_printed_link_lets_one_browser_in(server: Server) -> None:
    path = printed_link(server)
    first = server.ask("GET", path, token=None)
    assert (first.status, "corral_login=" in first.headers["Set-Cookie"]) == (303, True)
    assert server.ask("GET", path, token=None).status == 401
    assert "<form" in server.ask("GET", "/login", token=None).body.decode()


def test_no_path_leaves_the_roots(server: Server, corral: Corral, repo: Repo) -> None:
    outside = Repo.make(corral.root / "outside")
    (repo.folder.parent / "link").symlink_to(outside.folder)
    script = corral.script('[[step]]\nsay = "x"\n')
    before = server.client.runs().runs
    for named in (
        str(outside.folder),
        "/",
        "/etc",
        "..",
        "../outside",
        f"{repo.folder}/../../outside",
        "link",
        "a\0b",
    ):
        answer = server.ask("POST", "runs", {"task": "x", "repo": named})
        assert (named, answer.status, answer.json["code"]) == (named, 403, "repo")
    for more in (
        {"files": ["../../etc/passwd"]}, {"files": ["/etc/passwd"]}, {"read": ["/etc/**"]}, {"write": ["../**"]},
        {"agents": [script]}, {"agents": ["replay:/etc/passwd"]}, {"agents": ["scripted:/nowhere/x*2,hi"]}, {"fallback": ["scripted:../x.toml"]},
        {"flow": f"name: f\nnodes:\n  a: {{task: x, agent: '{script}'}}\n", "task": ""},
        {"flow": "name: f\nnodes:\n  a: {task: x, race: [hi, 'replay:/nowhere/x']}\n", "task": ""},
    ):  # fmt: skip
        answer = server.ask("POST", "runs", {"task": "x", "repo": str(repo.folder), **more})
        assert (more, answer.status, answer.json["code"]) == (more, 403, "path")
    for more in ({"role": "../x"}, {"skills": ["/etc"]}, {"base": "--upload-pack=x"}, {"base": "a..b"}):
        answer = server.ask("POST", "runs", {"task": "x", "repo": str(repo.folder), **more})
        assert (more, answer.status) == (more, 400)
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/..%2f..%2fetc/passwd", "/api/v1/runs/..%2f..%2fx"):
        assert server.ask("GET", path).status == 404
    assert server.client.runs().runs == before


def test_large_and_slow_bodies_are_refused(server: Server) -> None:
    assert server.ask("POST", "runs", b" " * ((1 << 20) + 1)).status == 413
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(
        "POST", "/api/v1/runs", (b" " * 65536 for _ in range(40)), encode_chunked=True,
        headers={"Authorization": f"Bearer {server.token}", "Transfer-Encoding": "chunked", "Content-Type": "application/json"},
    )  # fmt: skip
    assert connection.getresponse().status == 413
    connection.close()
    assert server.ask("GET", "runs", headers={"X-Long": "x" * 100_000}).status == 431
    # A client that reads only when it has sent everything, and then closes, gets its answer too.
    large = b" " * (16 << 20)
    assert server.ask("POST", "runs", large, headers={"Connection": "close"}).status == 413
    assert server.ask("POST", "runs", large, token="nobody", headers={"Connection": "close"}).status == 413
    assert server.ask("GET", "runs", headers={"X-Long": "x" * (4 << 20)}).status == 431
    assert server.ask("POST", "nowhere", b" " * 1000, headers={"Connection": "close"}).status == 404


def test_a_body_that_never_ends_is_given_up(repo: Repo, tmp_path: Path) -> None:
    other = Corral(tmp_path / "other")
    with (
        serving(other, repo.folder, "--body-seconds", "1") as server,
        socket.create_connection(("127.0.0.1", server.port)) as raw,
    ):
        raw.settimeout(60)
        raw.sendall(
            f"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode()
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 408")
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.settimeout(60)
            slow.sendall(b"GET /health/live HTTP/1.1\r\nHost: ")
            assert slow.recv(100) == b"", "headers that never end are given up as well"
        with connect(
            f"ws://127.0.0.1:{server.port}/api/v1/ws", additional_headers={"Authorization": f"Bearer {server.token}"}
        ) as opened:
            with pytest.raises(TimeoutError):
                opened.recv(timeout=2)  # longer than a head may take
            opened.send("{")
            assert "error" in json.loads(opened.recv(timeout=60))
        assert server.ask("GET", "runs").status == 200  # others are served meanwhile


def test_each_token_has_its_own_rate(repo: Repo, tmp_path: Path) -> None:
    other = Corral(tmp_path / "other")
    with serving(other, repo.folder, "--rate", "0.2") as server:
        second = other("token", "new", "--scope", "read").out.strip()
        assert server.ask("GET", "runs").status == 200
        limited = server.ask("GET", "runs")
        assert (limited.status, limited.json["code"]) == (429, "too_many")
        assert int(limited.headers["Retry-After"]) >= 1
        assert server.ask("GET", "runs", token=second).status == 200


def test_strict_headers_are_on_every_answer(server: Server) -> None:
    for answer in (server.ask("GET", "/"), server.ask("GET", "/login", token=None), server.ask("GET", "nothing")):
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert "Server" not in answer.headers
    nonces = {server.ask("GET", "/login", token=None).headers["Content-Security-Policy"] for _ in range(2)}
    assert len(nonces) == 2


def test_it_listens_elsewhere_only_with_tls_or_a_word(corral: Corral, repo: Repo, tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "localhost.example"):
        refused = corral("serve", "--host", host, "--port", "0")
        assert (host, refused.code, "hint: give --tls-cert" in refused.err) == (host, 2, True)
    half = corral("serve", "--tls-cert", corral.config_file.parent, "--port", "0")
    assert half.code == 2
    other = Corral(tmp_path / "other")
    with serving(other, repo.folder.parent, "--host", "0.0.0.0", "--plain-http") as server:
        assert server.address == f"http://0.0.0.0:{server.port}"
        assert server.ask("GET", "runs").status == 200
        assert server.ask("GET", "runs", headers={"Host": f"0.0.0.0:{server.port}"}).status == 421


def test_tls(repo: Repo, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    names = ("-subj", "/CN=corral.test", "-addext", "subjectAltName=IP:127.0.0.1,DNS:corral.test")
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1")
    subprocess.run([*made, *names, "-out", certificate, "-keyout", key], check=True, capture_output=True, timeout=60)
    other = Corral(tmp_path / "other")
    given = ("--tls-cert", str(certificate), "--tls-key", str(key))
    with serving(other, repo.folder.parent, "--host", "0.0.0.0", "--host-name", "corral.test", *given) as server:
        assert server.address.startswith("https://")
        server.trusted = ssl.create_default_context(cafile=certificate)
        answer = server.ask("GET", "runs")
        assert (answer.status, answer.headers["Strict-Transport-Security"]) == (200, "max-age=31536000")
        assert server.ask("GET", "runs", headers={"Host": "corral.test"}).status == 200
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        login = server.ask("POST", "/login", f"token={server.token}".encode(), token=None, headers=form)
        assert "Secure" in login.headers["Set-Cookie"]
        here = {"Origin": f"http://127.0.0.1:{server.port}"}  # the same name, but readable for all on the way
        assert server.ask("POST", "runs", {"task": "x"}, headers=here).status == 403
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            plain.sendall(b"GET /health/live HTTP/1.1\r\nHost: corral.test\r\n\r\n")
            plain.settimeout(60)
            assert b"200" not in plain.recv(1000)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.load_verify_locations(certificate)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(ssl.SSLError), socket.create_connection(("127.0.0.1", server.port)) as raw:
            old.wrap_socket(raw, server_hostname="127.0.0.1").close()


@pytest.mark.parametrize("before", ["a token", "a revoked first one"])
def test_the_printed_link_lets_the_local_user_in(repo: Repo, tmp_path: Path, before: str) -> None:
    other = Corral(tmp_path / "other")
    if before == "a token":
        (other.root / "token").write_text(other("token", "new", "--name", "phone", "--scope", "run").out.strip())
    else:
        with serving(other, repo.folder.parent) as server:
            first = other("token", "ls", "--json").json[0]["id"]
            assert other("token", "revoke", first).code == 0
    with serving(other, repo.folder.parent) as server:
        path = printed_link(server)
        opened = server.ask("GET", path, token=None)
        assert opened.status == 303, opened
        cookie = opened.headers["Set-Cookie"].partition(";")[0]
        assert server.ask("GET", "tokens", token=None, headers={"Cookie": cookie}).status == 200, "the user is an admin"
        again = server.ask("GET", path, token=None)
        assert (again.status, b"used already" in again.body) == (401, True)
        names = {each["name"]: each for each in other("token", "ls", "--json").json if each["revoked"] is None}
        assert names["local"]["scopes"] == ["admin"]
        assert other("token", "revoke", names["local"]["id"]).code == 0
        assert server.ask("GET", "tokens", token=None, headers={"Cookie": cookie}).status == 401
