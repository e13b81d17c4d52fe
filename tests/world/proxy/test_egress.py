"""The way out of a box, seen by real clients and by hostile ones: what is allowed arrives, nothing else leaves."""

import base64
import contextlib
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from corral.rules.scope import hosts
from corral.world.proxy.dialing import Dialer, chain
from corral.world.proxy.egress import MOST_REPORTED, Egress, kind_of
from corral.world.proxy.listener import ConnectionLimits
from corral.world.proxy.secret import SecretValue
from tests.rig.proxies import Certificates, Served, Stream, Upstream, answering, ask, curl, dial, serving
from tests.rig.waiting import until

Told = list[tuple[str, int, bool, str]]
PUBLIC = "203.0.114.7"  # public by its number; nothing is ever sent there


class Names:
    """A resolver that answers as a test wants, and counts."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        del port
        self.asked.append(host)
        return self._answers[min(len(self.asked), len(self._answers)) - 1]


HERE = ("127.0.0.1",)


def out(
    words: Sequence[str],
    told: Told | None = None,
    *,
    names: Names | None = None,
    limits: ConnectionLimits | None = None,
) -> Callable[[socket.socket], Egress]:
    def make(listener: socket.socket) -> Egress:
        kept = told if told is not None else []
        dialer = Dialer(resolve=names) if names else None
        return Egress(listener, hosts.read(words), lambda *said: kept.append(said), dialer=dialer, limits=limits)

    return make


# --- what is allowed


def test_plain_http_to_a_listed_host_arrives() -> None:
    seen: list[bytes] = []
    told: Told = []
    with Upstream(answering(seen=seen)) as upstream, serving(out([f"localhost:{upstream.port}"], told)) as served:
        done = curl(f"http://localhost:{upstream.port}/a?b=c", proxy=served.url)
    assert done.stdout == b"hello\n", done.stderr
    assert seen[0].startswith(b"GET /a?b=c HTTP/1.1\r\nHost: localhost:%d\r\n" % upstream.port)
    assert told == [("localhost", upstream.port, True, "")]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_arrives_byte_for_byte(chunked: bool) -> None:
    seen: list[bytes] = []
    body = bytes(range(256)) * 400
    how = ["-H", "Transfer-Encoding: chunked"] if chunked else []
    with Upstream(answering(seen=seen)) as upstream, serving(out([f"127.0.0.1:{upstream.port}"])) as served:
        done = curl("--data-binary", "@-", *how, f"{upstream.url}/up", proxy=served.url, stdin=body)
    assert done.stdout == b"hello\n", done.stderr
    head, _, got = seen[0].partition(b"\r\n\r\n")
    assert (b"Transfer-Encoding: chunked" in head) is chunked
    assert _unchunked(got) == body if chunked else got == body


def _unchunked(data: bytes) -> bytes:
    whole = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        whole += data[: int(size, 16)]
        data = data[int(size, 16) + 2 :]
    return whole


def test_tls_goes_through_untouched(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path, ["up.test"])
    told: Told = []
    with Upstream(answering(), certificates.context()) as upstream:
        names = Names(HERE)
        with serving(out([f"private:up.test:{upstream.port}"], told, names=names)) as served:
            url = f"https://up.test:{upstream.port}/"
            done = curl("--cacert", str(certificates.authority), url, proxy=served.url)
            again = curl("--cacert", str(certificates.authority), url, proxy=served.url)
            served.empty()
    assert (done.stdout, again.stdout) == (b"hello\n", b"hello\n"), done.stderr
    assert names.asked == ["up.test", "up.test"]  # once for each connection
    assert told == [("up.test", upstream.port, True, "")]  # the same decision is told once


def test_who_speaks_first_does_not_matter() -> None:
    def greets(stream: Stream) -> None:
        stream.send(b"220 welcome\n")
        stream.send(b"you said " + stream.until(b"\n"))

    with Upstream(greets) as upstream, serving(out([f"127.0.0.1:{upstream.port}"])) as served:
        client = dial(served.port)
        client.send(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % upstream.port)
        assert client.until(b"\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert client.until(b"\n") == b"220 welcome\n"
        client.send(b"hello\n")
        assert client.rest() == b"you said hello\n"
        client.close()
        served.empty()


# --- what is not


def test_an_empty_list_refuses_all_in_one_line_that_says_what_to_add() -> None:
    told: Told = []
    with Upstream(answering()) as upstream, serving(out([], told)) as served:
        plain = curl("-w", "%{http_code}", "http://Example.org/x", proxy=served.url)
        tunnelled = ask(served.port, "CONNECT example.org:443 HTTP/1.1\n\n")
        curl(upstream.url, proxy=served.url)
    line = 'corral: example.org:80 is not in the net list; to allow it add "example.org" to net\n'
    assert plain.stdout.decode() == line + "403"
    assert tunnelled.startswith(b"HTTP/1.1 403 ")
    assert tunnelled.count(b"example.org:443") == 1
    assert [(host, port, allowed) for host, port, allowed, _ in told] == [
        ("example.org", 80, False), ("example.org", 443, False), ("127.0.0.1", upstream.port, False),
    ]  # fmt: skip
    assert upstream.came == 0


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "0.0.0.0", "[::]",
        "2130706433", "0x7f000001", "127.1", "017700000001", "169.254.169.254", "127.0.0.1.", "[fe80::1]",
    ],
)  # fmt: skip
def test_on_is_all_that_is_public_and_nothing_of_this_machine(host: str) -> None:
    with Upstream(answering()) as upstream, serving(out(["on"])) as served:
        for request in (
            f"CONNECT {host}:{upstream.port} HTTP/1.1\n\n",
            f"GET http://{host}:{upstream.port}/ HTTP/1.1\nHost: example.org\n\n",
        ):
            assert ask(served.port, request).split(b" ")[1] in {b"403", b"400"}
    assert upstream.came == 0


def test_a_name_that_leads_to_a_private_address_is_refused_whatever_else_it_leads_to() -> None:
    told: Told = []
    with Upstream(answering()) as upstream:
        for answer in (HERE, (PUBLIC, "127.0.0.1"), ("::ffff:127.0.0.1",), ("169.254.169.254",)):
            names = Names(answer)
            with serving(out([f"rebound.test:{upstream.port}"], told, names=names)) as served:
                got = ask(served.port, f"CONNECT rebound.test:{upstream.port} HTTP/1.1\n\n")
            assert got.startswith(b"HTTP/1.1 403 "), got
            assert names.asked == ["rebound.test"]
    assert upstream.came == 0
    assert [allowed for _, _, allowed, _ in told] == [False] * 4


def test_a_second_answer_of_a_resolver_is_never_asked_for() -> None:
    with Upstream(answering()) as upstream, Upstream(answering(b"the wrong one\n")) as other:
        names = Names(HERE, ("127.0.0.2",))
        with serving(out([f"private:up.test:{upstream.port}"], names=names)) as served:
            done = curl(f"http://up.test:{upstream.port}/", proxy=served.url)
    assert done.stdout == b"hello\n"
    assert names.asked == ["up.test"]
    assert other.came == 0


def test_a_redirect_to_a_private_host_is_refused_like_any_other_request() -> None:
    with Upstream(answering(b"secret\n")) as inner:
        head = f"302 Found\r\nLocation: {inner.url}/secret"
        with Upstream(answering(head=head)) as upstream, serving(out([f"localhost:{upstream.port}"])) as served:
            done = curl("-L", "-w", "%{http_code}", f"http://localhost:{upstream.port}/", proxy=served.url)
    assert done.stdout.endswith(b"403")
    assert b"secret" not in done.stdout
    assert inner.came == 0


def test_tls_for_another_server_by_an_allowed_way_is_cut(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path, ["up.test", "other.test"])
    told: Told = []
    context = ssl.create_default_context(cafile=certificates.authority)
    with (
        Upstream(answering(), certificates.context()) as upstream,
        serving(out([f"private:up.test:{upstream.port}"], told, names=Names(HERE))) as served,
    ):
        for name, reached in (("up.test", True), ("UP.test", True), ("other.test", False)):
            client = dial(served.port)
            client.send(b"CONNECT up.test:%d HTTP/1.1\r\n\r\n" % upstream.port)
            client.until(b"\r\n\r\n")
            if reached:
                with context.wrap_socket(client.socket, server_hostname=name) as secured:
                    secured.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    assert secured.recv(100).startswith(b"HTTP/1.1 200")
            else:
                with pytest.raises(OSError):
                    context.wrap_socket(client.socket, server_hostname=name)
                client.close()
        served.empty()
    assert [(host, allowed) for host, _, allowed, _ in told] == [("up.test", True), ("up.test", False)]


def test_a_greeting_in_many_small_records_hides_no_name() -> None:
    name = b"other.test"
    extension = (
        b"\0\0"
        + (len(name) + 5).to_bytes(2, "big")
        + (len(name) + 3).to_bytes(2, "big")
        + b"\0"
        + len(name).to_bytes(2, "big")
        + name
    )
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + len(extension).to_bytes(2, "big") + extension
    greeting = b"\1" + len(body).to_bytes(3, "big") + body
    records = b"".join(b"\x16\3\1\0\1" + bytes([byte]) for byte in greeting)
    got: list[bytes] = []
    with (
        Upstream(lambda stream: got.append(stream.rest())) as upstream,
        serving(out([f"private:up.test:{upstream.port}"], names=Names(HERE))) as served,
    ):
        client = dial(served.port)
        client.send(b"CONNECT up.test:%d HTTP/1.1\r\n\r\n" % upstream.port)
        client.until(b"\r\n\r\n")
        for byte in records[:20]:
            client.send(bytes([byte]))
        client.send(records[20:])
        assert client.rest() == b""
        client.close()
    assert got == [b""]


def in_tunnel(first: bytes, *then: bytes) -> tuple[bytes, bytes, Told]:
    """Say something in a tunnel to up.test; return what arrived there, what came back, and what was told."""
    got, told = list[bytes](), Told()

    def serve(stream: Stream) -> None:
        try:
            got.append(stream.until(b"\r\n\r\n"))
            switches = b"GET /switch " in got[0]
            stream.send(b"HTTP/1.1 101 Switched\r\n\r\n" if switches else b"HTTP/1.1 200 OK\r\n\r\nhello")
            if switches or b"Connection: close" not in got[0]:
                got.append(stream.rest())
        except (AssertionError, OSError):
            got.append(stream._held)  # cut before there was a whole head

    with (
        Upstream(serve) as upstream,
        serving(out([f"private:up.test:{upstream.port}"], told, names=Names(HERE))) as served,
    ):
        client = dial(served.port)
        client.send(b"CONNECT up.test:%d HTTP/1.1\r\n\r\n" % upstream.port)
        client.until(b"\r\n\r\n")
        back = b""
        with contextlib.suppress(OSError):
            for each in (first, *then):
                client.send(each)
            client.socket.shutdown(socket.SHUT_WR)
            back = client.rest()
        client.close()
        served.empty()
    return b"".join(got), back, [each for each in told if not each[2]]


@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost:evil.test:80\r\n\r\n",
        b"GET http://evil.test/ HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"GET http://up.test@evil.test/ HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: up.test\r\nHost: evil.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: up.test.evil.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : evil.test\r\n\r\n",
        b"GET / HTTP/1.1\nHost: evil.test\n\n\r\n\r\n",
        b"GET\t/\tHTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"BREW /pot HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET /\r\nHost: evil.test\r\n\r\n",
        b"GET /\xc3\xa9 HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET /\x01\xff HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"M-SEARCH_1 / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b" \r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET evil.test/ HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: up.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_plain_http_for_another_server_by_an_allowed_way_is_refused(first: bytes) -> None:
    for pieces in ((first,), (*(bytes([byte]) for byte in first[:30]), first[30:])):
        arrived, back, told = in_tunnel(*pieces)
        assert arrived == b""
        assert back.startswith(b"HTTP/1.1 403 Refused\r\n")
        assert [(host, why.startswith("plain HTTP")) for host, _, _, why in told] == [("up.test", True)]


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"A" * 65, None),
        (b"A" * 9000, "http"),  # such a line is refused as one that cannot be checked
        (b"GET" + b" " * 9000, "http"),
        (b"BREW", None),
        (b"GET \xc3\xa9", None),
        (b"\xc3\xa9", "other"),
        (b"A\x00", "other"),
        (b"EHLO me\r\n", "other"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "other"),
        (b"\x00\x00\x00\x08\x04\xd2\x16/", "other"),
        (b"\x16\x03\x01", "tls"),
    ],
)
def test_what_may_still_become_a_request_is_waited_for(start: bytes, kind: str | None) -> None:
    assert kind_of(start) == kind


@pytest.mark.parametrize(
    "first",
    [
        b"GET /x HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"GET /x HTTP/1.1\r\nHost: UP.test.:8080\r\n\r\n",
        b"GET http://up.test/x HTTP/1.1\r\nHost: up.test\r\n\r\n",
        b"GET /x HTTP/1.0\r\n\r\n",
        b"\r\nGET /x HTTP/1.1\r\nHost: up.test\r\n\r\n",
    ],
)
def test_plain_http_for_the_allowed_server_arrives(first: bytes) -> None:
    arrived, back, told = in_tunnel(first)
    assert b"/x HTTP/1." in arrived
    assert b"Connection: close" in arrived
    assert back.endswith(b"hello")
    assert told == []


VIA_PROXY = """#!/usr/bin/env python3
import os, socket, sys, threading
there = socket.create_connection(("127.0.0.1", int(os.environ["PROXY_PORT"])))
there.sendall(b"CONNECT %s:%s HTTP/1.1\\r\\n\\r\\n" % (sys.argv[1].encode(), sys.argv[2].encode()))
head = b""
while not head.endswith(b"\\r\\n\\r\\n"):
    head += there.recv(1)
def back():
    while piece := there.recv(65536):
        os.write(1, piece)
    os._exit(0)
threading.Thread(target=back).start()
while piece := os.read(0, 65536):
    there.sendall(piece)
there.shutdown(socket.SHUT_WR)
"""


def over_git(tmp_path: Path, host: str) -> tuple[subprocess.CompletedProcess[str], Told]:
    """Let git ask a server of git:// through the proxy, which allows up.test; `host` is what it names."""
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "repo"], check=True, timeout=60)
    via, told = tmp_path / "via", Told()
    via.write_text(VIA_PROXY)
    via.chmod(0o755)

    def serve(stream: Stream) -> None:
        command = ["git", "daemon", "--inetd", "--export-all", f"--base-path={tmp_path}"]
        subprocess.run(command, stdin=stream.socket.fileno(), stdout=stream.socket.fileno(), check=False, timeout=60)
        with contextlib.suppress(OSError):
            stream.socket.shutdown(socket.SHUT_RDWR)

    with (
        Upstream(serve) as upstream,
        serving(out([f"private:up.test:{upstream.port}"], told, names=Names(HERE))) as served,
    ):
        env = {
            **os.environ,
            "GIT_PROXY_COMMAND": str(via),
            "PROXY_PORT": str(served.port),
            "GIT_OVERRIDE_VIRTUAL_HOST": host,
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        url = f"git://up.test:{upstream.port}/repo"
        done = subprocess.run(
            ["git", "ls-remote", url], env=env, capture_output=True, text=True, check=False, timeout=60
        )
    return done, [each for each in told if not each[2]]


def test_git_reaches_an_allowed_server_that_is_not_http(tmp_path: Path) -> None:
    done, told = over_git(tmp_path, "up.test")
    assert (done.returncode, told) == (0, []), done


def test_git_for_another_server_is_refused_with_the_reason(tmp_path: Path) -> None:
    done, told = over_git(tmp_path, "evil.test")
    assert "corral: git:// asked for another server by that way" in done.stderr
    assert [why for _, _, _, why in told] == ["git:// asked for another server by that way"]


def test_what_looks_like_git_says_nothing_more_to_a_web_server() -> None:
    request, got, told = b"0028git-upload-pack /x\0host=up.test\0", list[bytes](), Told()
    request = b"%04x" % len(request) + request[4:]

    def serve(stream: Stream) -> None:
        got.append(stream.until(b"host=up.test\0"))
        stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(OSError):
            got.append(stream.rest())

    with (
        Upstream(serve) as upstream,
        serving(out([f"private:up.test:{upstream.port}"], told, names=Names(HERE))) as served,
    ):
        client = dial(served.port)
        client.send(b"CONNECT up.test:%d HTTP/1.1\r\n\r\n" % upstream.port)
        client.until(b"\r\n\r\n")
        with contextlib.suppress(OSError):
            client.send(request + b" HTTP/1.1\r\nHost: evil.test\r\n\r\n")
            client.rest()
        client.close()
        served.empty()
    assert b"".join(got) == request
    assert [why for _, _, ok, why in told if not ok] == ["git:// was answered by something else than git"]


@pytest.mark.parametrize(
    "first",
    [
        b"0000git-upload-pack / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"0022git-upload-pack /\r\nHost: evil.test",
        b"0019git-upload-pack /x\0abc",
        b"002cgit-upload-pack /x\0host=up.test\0host=e.test",
        b"00ffgit-upload-pack /x\0host=up.test\0",
    ],
)
def test_a_git_request_that_cannot_be_checked_is_refused(first: bytes) -> None:
    arrived, back, told = in_tunnel(first)
    assert arrived == b""
    assert b"ERR corral: git://" in back
    assert len(told) == 1


def test_a_second_plain_request_over_one_connection_does_not_arrive() -> None:
    one, other = b"GET / HTTP/1.1\r\nHost: up.test\r\n\r\n", b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    for upgrade in (b"", b"Connection: upgrade\r\nUpgrade: websocket\r\n"):
        arrived, _, told = in_tunnel(one[:-2] + upgrade + b"\r\n" + other)
        assert b"evil" not in arrived
        assert [why for _, _, _, why in told] == ["plain HTTP asked twice over one connection"]


def test_what_switched_to_another_protocol_goes_on_as_it_is() -> None:
    head = b"GET /switch HTTP/1.1\r\nHost: up.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    arrived, back, told = in_tunnel(head, b"frames")
    assert arrived.endswith(b"frames")
    assert back.startswith(b"HTTP/1.1 101 ")
    assert told == []


def hello(*names: bytes, listed: bytes | None = None) -> bytes:
    """Return a TLS greeting that asks for servers."""
    extensions = b""
    for name in names:
        entry = listed or b"\0" + len(name).to_bytes(2, "big") + name
        body = len(entry).to_bytes(2, "big") + entry
        extensions += b"\0\0" + len(body).to_bytes(2, "big") + body
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + len(extensions).to_bytes(2, "big") + extensions
    return b"\1" + len(body).to_bytes(3, "big") + body


def record(content: bytes, kind: int = 22) -> bytes:
    return bytes([kind, 3, 1]) + len(content).to_bytes(2, "big") + content


GOOD, EVIL = hello(b"up.test"), hello(b"evil.test")
TWO = b"\0\0\7up.test\0\0\x09evil.test"


@pytest.mark.parametrize(
    "first",
    [
        record(EVIL),
        record(EVIL[:9]) + record(b"\1\0", 21) + record(EVIL[9:]),  # other records in between
        record(EVIL[:9]) + record(b"\1", 20) + record(EVIL[9:]),
        record(EVIL[:9]) + record(b"", 23) + record(EVIL[9:]),
        record(b"\1\0", 21) + record(EVIL),  # before it
        record(b"\0\0\0\0") + record(EVIL),  # another message before it
        record(b"\0\0\0\0" + EVIL),
        record(b"") + record(EVIL),
        record(hello(b"up.test", b"evil.test")),
        record(hello(b"x", listed=TWO)),
        record(hello(b"x", listed=b"\1\0\7up.test")),
        record(GOOD[:20]),  # it never ends
    ],
)
def test_no_tls_greeting_hides_its_server(first: bytes) -> None:
    arrived, back, told = in_tunnel(first)
    assert (arrived, back) == (b"", b"")
    assert [why.startswith("TLS ") for _, _, _, why in told] == [True]


def test_a_tls_greeting_for_the_allowed_server_arrives_as_it_is() -> None:
    for first in (record(GOOD), record(GOOD[:3]) + record(GOOD[3:]), record(hello())):
        arrived, _, told = in_tunnel(first + record(b"\r\n\r\n", 23))
        assert arrived.startswith(first)
        assert told == []


def test_made_up_names_are_told_up_to_a_limit() -> None:
    told: Told = []
    with serving(out([], told)) as served, ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: ask(served.port, f"CONNECT n{n}.test:443 HTTP/1.1\n\n"), range(MOST_REPORTED + 50)))
    assert len(told) == MOST_REPORTED + 1
    assert told[-1][0] == "*"


# --- what two readers could understand differently

PLACE = "HOST"
SMUGGLED = [
    "POST http://HOST/ HTTP/1.1\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\n\nGET /x HTTP/1.1\n\n",
    "POST http://HOST/ HTTP/1.1\nContent-Length: 5\nContent-Length: 6\n\nabcdef",
    "POST http://HOST/ HTTP/1.1\nContent-Length: 5\nContent-Length: 5\n\nabcde",
    "POST http://HOST/ HTTP/1.1\nContent-Length: 5, 5\n\nabcde",
    "POST http://HOST/ HTTP/1.1\nContent-Length: +5\n\nabcde",
    "POST http://HOST/ HTTP/1.1\nContent-Length: -1\n\n",
    "POST http://HOST/ HTTP/1.1\nTransfer-Encoding: chunked, identity\n\n0\n\n",
    "POST http://HOST/ HTTP/1.1\nTransfer-Encoding: xchunked\n\n0\n\n",
    "POST http://HOST/ HTTP/1.1\nTransfer-Encoding: gzip\nTransfer-Encoding: chunked\n\n0\n\n",
    "POST http://HOST/ HTTP/1.0\nTransfer-Encoding: chunked\n\n0\n\n",
    "POST http://HOST/ HTTP/1.1\nTransfer-Encoding : chunked\n\n0\n\n",
    "GET http://HOST/ HTTP/1.1\nX: a\n b\n\n",
    "GET http://HOST/ HTTP/1.1\nno colon\n\n",
    "GET http://HOST/ HTTP/1.1\n: no name\n\n",
    "GET http://HOST/ HTTP/1.1\nX: a\0b\n\n",
    "GET  http://HOST/ HTTP/1.1\n\n",
    "GET http://HOST/ HTTP/2.0\n\n",
    "GET http://HOST/\n\n",
    "GET /relative HTTP/1.1\nHost: HOST\n\n",
    "GET https://HOST/ HTTP/1.1\n\n",
    "GET http://user@HOST/ HTTP/1.1\n\n",
    "GET http://HOST#@example.org/ HTTP/1.1\n\n",
    "GET http://HOST\\@example.org/ HTTP/1.1\n\n",
    "CONNECT user@HOST HTTP/1.1\n\n",
    "CONNECT HOST/path HTTP/1.1\n\n",
    "CONNECT 127.0.0.1 HTTP/1.1\n\n",
    "\n\nGARBAGE\n\n",
]


@pytest.mark.parametrize("request_", SMUGGLED)
def test_what_is_ambiguous_is_refused_before_anybody_is_connected_to(request_: str) -> None:
    with Upstream(answering()) as upstream, serving(out([f"127.0.0.1:{upstream.port}"])) as served:
        got = ask(served.port, request_.replace(PLACE, f"127.0.0.1:{upstream.port}"))
        assert got.startswith(b"HTTP/1.1 400 "), got
    assert upstream.came == 0


@pytest.mark.parametrize("end", [b"\n", b"\r"])
def test_bare_line_ends_are_refused(end: bytes) -> None:
    with Upstream(answering()) as upstream, serving(out([f"127.0.0.1:{upstream.port}"])) as served:
        request = b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nX: a%bHost: evil\r\n\r\n" % (upstream.port, end)
        assert ask(served.port, request).startswith(b"HTTP/1.1 400 ")
    assert upstream.came == 0


@pytest.mark.parametrize(
    "chunks",
    ["zz\r\nab\r\n0\r\n\r\n", "2\r\nabc\r\n0\r\n\r\n", "-1\r\n\r\n", "2\nab\r\n0\r\n\r\n", "0x2\r\nab\r\n0\r\n\r\n"],
)
def test_a_broken_chunk_is_not_passed_on(chunks: str) -> None:
    got: list[bytes] = []
    with (
        Upstream(lambda stream: got.append(stream.rest())) as upstream,
        serving(out([f"127.0.0.1:{upstream.port}"])) as served,
    ):
        head = f"POST http://127.0.0.1:{upstream.port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert ask(served.port, (head + chunks).encode()).startswith(b"HTTP/1.1 400 ")
        served.empty()
    assert b"0\r\n\r\n" not in b"".join(got).partition(b"\r\n\r\n")[2]


def test_one_request_for_each_connection_and_the_host_that_was_checked() -> None:
    seen: list[bytes] = []
    with Upstream(answering(seen=seen)) as upstream, serving(out([f"127.0.0.1:{upstream.port}"])) as served:
        place = f"127.0.0.1:{upstream.port}"
        got = ask(
            served.port,
            f"GET http://{place}/one HTTP/1.1\nHost: evil.example\nConnection: keep-alive, X-Dropped\nX-Dropped: 1\n"
            "Proxy-Authorization: Basic x\nKeep-Alive: 5\nTE: trailers\nUpgrade: websocket\nX-Kept: 1\n\n"
            f"GET http://evil.example/two HTTP/1.1\nHost: evil.example\n\n",
        )
        served.empty()
    assert got.endswith(b"\r\n\r\nhello\n")
    assert got.count(b"HTTP/1.1 200") == 1
    assert upstream.came == 1
    text = seen[0].decode()
    assert text.startswith(f"GET /one HTTP/1.1\r\nHost: {place}\r\n")
    assert "X-Kept: 1" in text
    for word in ("evil", "two", "Dropped", "Proxy-", "Keep-Alive", "TE:", "Upgrade", "keep-alive"):
        assert word not in text


def test_heads_without_measure_are_refused() -> None:
    with serving(out(["on"])) as served:
        long = ask(served.port, f"GET http://example.org/ HTTP/1.1\nX: {'a' * 200_000}\n\n")
        many = ask(served.port, "GET http://example.org/ HTTP/1.1\n" + "X: a\n" * 500 + "\n")
        endless = ask(served.port, b"GET http://example.org/" + b"a" * 300_000)
    for got in (long, many, endless):
        assert got.startswith(b"HTTP/1.1 431 "), got


# --- many, slow, gone


def test_who_never_ends_a_request_is_sent_away() -> None:
    with serving(out(["on"], limits=ConnectionLimits(head_seconds=0.2))) as served:
        client = dial(served.port)
        client.send(b"GET http://example.org/ HTTP/1.1\r\nX: ")
        assert client.rest().startswith(b"HTTP/1.1 408 ")
        client.close()
        served.empty()


def test_a_hundred_at_once() -> None:
    everybody = threading.Barrier(100)

    def waits(stream: Stream) -> None:
        stream.until(b"\r\n\r\n")
        everybody.wait(120)  # nobody is answered before all have come
        stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with Upstream(waits) as upstream, serving(out([f"127.0.0.1:{upstream.port}"])) as served:
        with ThreadPoolExecutor(100) as pool:
            got = list(pool.map(lambda _: ask(served.port, f"GET {upstream.url}/ HTTP/1.1\n\n"), range(100)))
        served.empty()
    assert all(one.startswith(b"HTTP/1.1 200") for one in got)


def test_one_too_many_is_told_so() -> None:
    with serving(out(["on"], limits=ConnectionLimits(most_connections=3))) as served:
        held = [dial(served.port) for _ in range(3)]
        until(lambda: served.proxy.count == 3, "three are in")
        assert ask(served.port, "GET http://example.org/ HTTP/1.1\n\n").startswith(b"HTTP/1.1 503 ")
        for one in held:
            one.close()
        served.empty()


def test_an_upstream_that_never_answers_is_given_up() -> None:
    gone = threading.Event()

    def hangs(stream: Stream) -> None:
        stream.until(b"\r\n\r\n")
        stream.rest()
        gone.set()

    with (
        Upstream(hangs) as upstream,
        serving(out([f"127.0.0.1:{upstream.port}"], limits=ConnectionLimits(idle_seconds=0.3))) as served,
    ):
        assert ask(served.port, f"GET {upstream.url}/ HTTP/1.1\n\n").startswith(b"HTTP/1.1 504 ")
        client = dial(served.port)
        client.send(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n\r\n\r\n" % upstream.port)
        assert client.rest().startswith(b"HTTP/1.1 200 ")
        client.close()
        assert gone.wait(120)
        served.empty()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ],
)
def test_an_answer_that_was_cut_looks_cut(said: bytes) -> None:
    def cuts(stream: Stream) -> None:
        stream.until(b"\r\n\r\n")
        stream.send(said)

    with Upstream(cuts) as upstream, serving(out([f"127.0.0.1:{upstream.port}"])) as served:
        done = curl(upstream.url, proxy=served.url)
        old = curl("--http1.0", upstream.url, proxy=served.url)
        served.empty()
    assert done.stdout == b"half"
    assert done.returncode in {18, 56}
    assert old.returncode != 0


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 2",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 200_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_answer_is_a_bad_gateway(said: bytes) -> None:
    def answers(stream: Stream) -> None:
        stream.until(b"\r\n\r\n")
        stream.send(said)

    with Upstream(answers) as upstream, serving(out([f"127.0.0.1:{upstream.port}"])) as served:
        assert ask(served.port, f"GET {upstream.url}/ HTTP/1.1\n\n").startswith(b"HTTP/1.1 502 ")


def test_a_name_that_nobody_knows() -> None:
    with serving(out(["on"])) as served:
        got = ask(served.port, "CONNECT nobody.invalid:443 HTTP/1.1\n\n")
    assert got.startswith(b"HTTP/1.1 502 ")
    assert b"nobody.invalid is not known" in got


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with serving(out([f"127.0.0.1:{port}"])) as served:
        got = ask(served.port, f"CONNECT 127.0.0.1:{port} HTTP/1.1\n\n")
    assert got.startswith(b"HTTP/1.1 502 ")
    assert b"could not be reached" in got


@pytest.mark.parametrize("tunnelled", [False, True])
def test_when_the_client_leaves_the_other_side_is_left_too(tunnelled: bool) -> None:
    came, gone = threading.Event(), threading.Event()

    def streams(stream: Stream) -> None:
        stream.until(b"\r\n\r\n")
        stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmore\r\n")
        came.set()
        stream.rest()
        gone.set()

    with Upstream(streams) as upstream, serving(out([f"127.0.0.1:{upstream.port}"])) as served:
        client = dial(served.port)
        if tunnelled:
            client.send(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % upstream.port)
            client.until(b"\r\n\r\n")
        client.send(b"GET %b/ HTTP/1.1\r\n\r\n" % upstream.url.encode())
        client.until(b"more")
        assert came.wait(120)
        client.close()
        assert gone.wait(120)
        served.empty()


def test_closing_ends_what_is_open() -> None:
    gone = threading.Event()

    def waits(stream: Stream) -> None:
        stream.rest()
        gone.set()

    with Upstream(waits) as upstream:
        with serving(out([f"127.0.0.1:{upstream.port}"])) as served:
            client = dial(served.port)
            client.send(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % upstream.port)
            client.until(b"\r\n\r\n")
        assert client.rest() == b""
        client.close()
        assert gone.wait(120)
        with pytest.raises(ConnectionRefusedError):
            dial(served.port)


# --- a token, and a proxy behind the proxy


def test_where_others_could_come_in_a_token_is_needed() -> None:
    def make(listener: socket.socket) -> Egress:
        return Egress(listener, hosts.read([f"127.0.0.1:{upstream.port}"]), lambda *_: None, token=SecretValue("t0ken"))

    with Upstream(answering()) as upstream, serving(make) as served:
        good = curl(upstream.url, proxy=f"http://corral:t0ken@127.0.0.1:{served.port}")
        for pair in ("corral:wrong", "t0ken:", "corral:"):
            word = base64.b64encode(pair.encode()).decode()
            request = f"CONNECT 127.0.0.1:{upstream.port} HTTP/1.1\nProxy-Authorization: Basic {word}\n\n"
            assert ask(served.port, request).startswith(b"HTTP/1.1 407 ")
        assert curl("-w", "%{http_code}", upstream.url, proxy=served.url).stdout.endswith(b"407")
    assert good.stdout == b"hello\n"
    assert upstream.came == 1


def test_the_machines_own_proxy_is_gone_through(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path, ["up.test"])
    told: Told = []

    def chained(listener: socket.socket) -> Egress:
        url = f"http://corral:pass@127.0.0.1:{outer.port}"
        names = Names(HERE)
        way = chain({"HTTPS_PROXY": url, "http_proxy": url, "NO_PROXY": ".direct.test, other"})
        words = [f"up.test:{secure.port}", f"up.test:{plain.port}", f"private:x.direct.test:{plain.port}"]
        return Egress(listener, hosts.read(words), lambda *_: None, dialer=Dialer(resolve=names, through=way))

    def outermost(listener: socket.socket) -> Egress:
        words = [f"private:up.test:{secure.port}", f"private:up.test:{plain.port}"]
        dialer = Dialer(resolve=Names(HERE))
        return Egress(
            listener, hosts.read(words), lambda *said: told.append(said), dialer=dialer, token=SecretValue("pass")
        )

    with Upstream(answering(b"tls\n"), certificates.context()) as secure, Upstream(answering(b"plain\n")) as plain:
        outer: Served
        with serving(outermost) as outer, serving(chained) as served:
            done = curl("--cacert", str(certificates.authority), f"https://up.test:{secure.port}/", proxy=served.url)
            simple = curl(f"http://up.test:{plain.port}/", proxy=served.url)
            direct = curl(f"http://x.direct.test:{plain.port}/", proxy=served.url)
            private = ask(served.port, "CONNECT 10.0.0.1:443 HTTP/1.1\n\n")
    assert (done.stdout, simple.stdout, direct.stdout) == (b"tls\n", b"plain\n", b"plain\n"), done.stderr
    assert private.startswith(b"HTTP/1.1 403 ")
    assert [(host, port) for host, port, _, _ in told] == [("up.test", secure.port), ("up.test", plain.port)]
