"""Callbacks from outside: one signed post when a run is over or waits for an answer, tried again, also by the next server."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from corral.rules.text import signing
from tests.rig.command import Corral
from tests.rig.receiver import Receiver
from tests.rig.repository import Repo
from tests.rig.server import serving, waits_for
from tests.rig.waiting import until

pytestmark = pytest.mark.both_stores


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


def heard(receiver: Receiver, secret: str) -> dict[str, Any]:
    headers, body = receiver.got.get(timeout=60)
    assert signing.holds(secret, headers, body, time.time())
    return json.loads(body)


def test_a_run_calls_back_once_when_it_is_over(corral: Corral, repo: Repo, receiver: Receiver) -> None:
    agent = corral.agent("hi", "echo hi > hi.txt")
    done = corral.run(repo, "t", "--agent", agent, "--callback", f"{receiver.url}?key=canary")
    assert done.code == 0, done
    secret = corral("token", "callback").out.strip()
    post = heard(receiver, secret)
    assert post["type"] == "run.done"
    assert {key: post["data"][key] for key in ("run", "status")} == {"run": done.json["run"], "status": "done"}
    assert not signing.holds(secret + "x", {}, b"", time.time())
    assert corral("revise", "@last", "again", "--json").json["run"] == done.json["run"]
    assert receiver.got.empty()  # one post for each run
    assert "canary" not in corral("export").out + corral("show", "--json").out + done.err


def test_a_run_that_fails_or_waits_calls_back_too(corral: Corral, repo: Repo, receiver: Receiver) -> None:
    flow = corral.root / "flow.yaml"
    flow.write_text('nodes:\n  ok: {gate: "go?", default: "no", deadline: 24h}\n')
    with serving(corral, corral.root) as server:
        secret = server.ask("GET", "callbacks/secret").json["secret"]
        assert secret == corral("token", "callback").out.strip()
        wish = {"flow": flow.read_text(), "repo": str(repo.folder), "callback": receiver.url}
        run = server.ask("POST", "runs", wish).json["run"]
        post = heard(receiver, secret)
        assert (post["type"], post["data"]["run"]) == ("run.waiting", run)
        again = server.ask("POST", f"runs/{run}/callback", {"url": receiver.url})
        assert (again.status, again.json["state"]) == (202, "asked")
        (entry,) = server.client.inbox()
        heard(receiver, secret)  # it still waits
        server.client.answer(entry.id, "yes")
        assert server.client.wait(run).status == "done"
        failing = corral.agent("bad", "exit 3")
        wish = {"task": "t", "repo": str(repo.folder), "agents": [failing], "retries": 0, "callback": receiver.url}
        run = server.ask("POST", "runs", wish).json["run"]
        assert heard(receiver, secret)["data"]["run"] == run
        assert receiver.got.empty()


def test_what_was_not_delivered_is_tried_again_by_the_next_server(
    corral: Corral, repo: Repo, receiver: Receiver
) -> None:
    receiver.answers, receiver.pause = [500], 0.5  # the run is over before its answer is there
    done = corral.run(repo, "t", "--agent", corral.agent("hi", "echo hi > hi.txt"), "--callback", receiver.url)
    assert done.code == 0, done
    secret = corral("token", "callback").out.strip()
    first, body = receiver.got.get(timeout=60)
    with serving(corral, corral.root):
        second, same = receiver.got.get(timeout=40)
    assert (second["webhook-id"], same) == (first["webhook-id"], body)
    assert signing.holds(secret, second, same, time.time())


def test_a_server_that_was_killed_leaves_the_post_to_the_next(corral: Corral, repo: Repo, receiver: Receiver) -> None:
    signs = corral.root / "signs"
    signs.mkdir()
    agent = corral.agent("slow", f"{waits_for(signs / 'go')}; echo hi > hi.txt")
    corral.config(f'[scope]\nread = ["**", "{signs}"]')
    with serving(corral, corral.root) as server:
        wish = {"task": "t", "repo": str(repo.folder), "agents": [agent], "callback": receiver.url}
        run = server.ask("POST", "runs", wish).json["run"]
        until(lambda: server.client.show(run).status == "running", "it runs")
        server.kill()
    (signs / "go").touch()
    with serving(corral, corral.root) as server:
        post = heard(receiver, server.ask("GET", "callbacks/secret").json["secret"])
        assert (post["type"], post["data"]["run"]) == ("run.done", run)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://u:p@h/",
        "x",
        "http://169.254.169.254/latest",
        "http://[fe80::1]/",
        "http://0.0.0.0/",
    ],
)
def test_an_address_that_is_none_is_refused(corral: Corral, repo: Repo, url: str) -> None:
    refused = corral.run(repo, "t", "--agent", corral.agent("hi", "true"), "--callback", url)
    assert refused.code == 2, refused
    assert "is no address" in refused.err
    assert corral("ls", "--json").json == []
