"""Events over HTTP: replayed without gap or duplicate, live to many, and no reader can hold up a run."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.server import Server, serving, waits_for
from tests.rig.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


@pytest.fixture
def server(corral: Corral) -> Iterator[Server]:
    with serving(corral, corral.root, "--rate", "0") as going:
        yield going


def submitted(server: Server, repo: Repo, script: str, **more: Any) -> str:
    agent = server.corral.agent("sheller", script)
    return server.client.submit("t", repo=str(repo.folder), agents=[agent], read_only=True, **more).run


def test_replay_has_no_gap_and_no_duplicate(server: Server, repo: Repo) -> None:
    run = submitted(server, repo, "for i in $(seq 300); do echo line $i; done")
    first = server.stream(f"runs/{run}/events")
    seen: list[dict[str, Any]] = []
    for event in first:
        seen.append(event)
        if len(seen) == 20:
            break
    first.close()  # a connection that breaks
    rest = list(server.stream(f"runs/{run}/events", after=seen[-1]["seq"]))
    assert rest.pop() == {"run": run, "status": "done"}
    whole = server.corral("logs", run, "--json").json_lines
    got = [{name: value for name, value in event.items() if name != "run"} for event in (*seen, *rest)]
    assert got == whole
    assert {event["run"] for event in (*seen, *rest)} == {run}
    ended = server.stream(f"runs/{run}/events", after=whole[-1]["seq"])
    ended.close()
    assert ended.answer.status == 204


def test_pages_of_the_log_forwards_and_backwards(server: Server, repo: Repo) -> None:
    run = submitted(server, repo, "for i in $(seq 50); do echo line $i; done")
    list(server.stream(f"runs/{run}/events"))
    whole = [event["seq"] for event in server.corral.events(run)]
    page = server.ask("GET", f"runs/{run}/log?limit=10").json
    assert [event["seq"] for event in page["events"]] == whole[:10]
    page = server.ask("GET", f"runs/{run}/log?limit=10&after={page['next']}").json
    assert [event["seq"] for event in page["events"]] == whole[10:20]
    page = server.ask("GET", f"runs/{run}/log?limit=5&before={whole[-1]}").json
    assert [event["seq"] for event in page["events"]] == whole[-6:-1]
    page = server.ask("GET", f"runs/{run}/log?node=main&limit=2000").json
    assert {event["node"] for event in page["events"]} == {"main"}


def test_one_websocket_watches_all_and_one(server: Server, repo: Repo) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    with connect(f"ws://127.0.0.1:{server.port}/api/v1/ws", additional_headers=headers) as opened:
        opened.send(json.dumps({"watch": "*", "id": "all"}))
        run = submitted(server, repo, "echo hello")
        opened.send(json.dumps({"watch": run, "after": 0, "id": "one"}))
        got: dict[str, list[int]] = {"all": [], "one": []}
        while True:
            message = json.loads(opened.recv(60))
            if "end" in message:
                assert message == {"id": "one", "end": "done"}
                break
            got[message["id"]].append(message["event"]["seq"])
    whole = [event["seq"] for event in server.corral.events(run)]
    assert got["one"] == whole
    assert got["all"] == whole[: len(got["all"])]


def test_many_on_websockets_hear_the_same_whatever_its_length(server: Server, repo: Repo) -> None:
    """What is framed once for all is a right message for each: short, long, very long, and under its own id."""
    server.ask("PATCH", "queue", {"held": True})
    run = submitted(server, repo, "echo é; printf '%0300d\\n%070000d\\n' 0 0; echo over")
    headers = {"Authorization": f"Bearer {server.token}"}
    address = f"ws://127.0.0.1:{server.port}/api/v1/ws"
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connect(address, additional_headers=headers, max_size=None)) for _ in range(20)]
        for number, each in enumerate(opened):
            each.send(json.dumps({"watch": run, "after": 0, "id": "ab"[number % 2]}))
        until(lambda: "corral_viewers 20" in server.ask("GET", "metrics").body.decode(), "all watch")
        server.ask("PATCH", "queue", {"held": False})
        heard = [heard_by(each) for each in opened]
    assert {name for each in heard for name, _ in each} == {"a", "b"}
    told = [[event for _, event in each] for each in heard]
    assert all(each == told[0] for each in told)
    assert told[0] == [{**event, "run": run} for event in server.corral.events(run)]
    said = "\n".join(event["text"] for event in told[0] if event["type"] == "said")
    assert all(words in said for words in ("é", f"\n{'0' * 300}\n", "0" * 1000, "over"))


def heard_by(opened: ClientConnection) -> list[tuple[str, dict[str, Any]]]:
    """Read until the end is told."""
    found: list[tuple[str, dict[str, Any]]] = []
    while "end" not in (message := json.loads(opened.recv(60))):
        found.append((message["id"], message["event"]))
    return found


def test_a_stuck_reader_holds_nobody_up(server: Server, repo: Repo) -> None:
    stuck = socket.socket()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.connect(("127.0.0.1", server.port))
    stuck.sendall(
        f"GET /api/v1/events?after=0 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Authorization: Bearer {server.token}\r\n\r\n".encode()
    )
    until(lambda: "corral_viewers 1" in server.ask("GET", "metrics").body.decode(), "it watches")
    run = submitted(
        server,
        repo,
        "i=0; while [ $i -lt 20000 ]; do echo line $i of very many words that fill a buffer; i=$((i+1)); done",
    )
    events = list(server.stream(f"runs/{run}/events"))
    assert events[-1]["status"] == "done"
    size = len(server.corral("logs", run, "--json").out.splitlines())
    assert len(events) == size + 1
    seen = b""
    stuck.settimeout(60)
    while (
        f'"kind":"run","id":"{run}","status":"done"'.encode() not in seen[-200_000:]
    ):  # at last it reads: nothing is missing
        more = stuck.recv(1 << 20)
        assert more
        seen += more
    stuck.close()
    told = [line for line in seen.split(b"\n") if line.startswith(b"data: ")]
    assert len(told) >= size


def test_two_hundred_viewers_see_the_same(server: Server, repo: Repo) -> None:
    signs = server.corral.root / "signs"
    signs.mkdir()
    server.corral.config(f'[scope]\nread = ["**", "{signs}"]')
    run = submitted(server, repo, f"{waits_for(signs / 'go')}; for i in $(seq 20); do echo line $i; done")
    streams = [server.stream(f"runs/{run}/events") for _ in range(200)]
    (signs / "go").touch()  # all of them watch
    counts: list[int] = []

    def read(number: int) -> None:
        counts.append(len(list(streams[number])))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert set(counts) == {len(server.corral.events(run)) + 1}
    assert len(counts) == 200


def test_who_is_shut_out_hears_nothing_more(server: Server, repo: Repo) -> None:
    """A token that is revoked, from any process, ends what it watches: streams and WebSockets alike."""
    made = server.corral("token", "new", "--name", "guest", "--json").json
    headers = {"Authorization": f"Bearer {made['secret']}"}
    stream = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    stream.request("GET", "/api/v1/events", headers=headers)
    answer = stream.getresponse()
    with connect(f"ws://127.0.0.1:{server.port}/api/v1/ws", additional_headers=headers) as opened:
        opened.send(json.dumps({"watch": "*", "id": "all"}))
        until(lambda: "corral_viewers 2" in server.ask("GET", "metrics").body.decode(), "both watch")
        server.corral("token", "revoke", made["token"]["id"])
        assert b"retry" in answer.read()  # to its end
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(60)
    assert closed.value.rcvd
    assert closed.value.rcvd.code == 1008
    stream.close()
    run = submitted(server, repo, "echo hi")
    assert [event for event in server.stream(f"runs/{run}/events") if event.get("status")], "others go on to hear"
