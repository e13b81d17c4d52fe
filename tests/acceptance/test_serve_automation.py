"""What starts by itself and whom it tells: schedules, signed triggers with limits, signed webhooks that are tried again."""

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from corral.rules.text import signing
from tests.rig.command import Corral
from tests.rig.receiver import Receiver
from tests.rig.repository import Repo
from tests.rig.server import Answer, Server, serving
from tests.rig.waiting import until

pytestmark = pytest.mark.slow
SECRET = "0123456789abcdef0123"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


@pytest.fixture
def server(corral: Corral) -> Iterator[Server]:
    with serving(corral, corral.root, "--rate", "0") as going:
        yield going


def test_a_webhook_is_signed_and_tried_again(server: Server, repo: Repo, receiver: Receiver) -> None:
    receiver.answers = [500]
    made = server.ask("POST", "webhooks", {"url": receiver.url, "types": ["run.done"]})
    assert made.status == 201, made
    assert (
        "secret" not in server.ask("GET", "webhooks").json[0] or server.ask("GET", "webhooks").json[0]["secret"] is None
    )
    hook, secret = made.json["id"], made.json["secret"]
    agent = server.corral.agent("hi", "echo hi > hi.txt")
    run = server.client.run("t", repo=str(repo.folder), agents=[agent])
    headers, body = receiver.got.get(timeout=60)
    assert signing.holds(secret, headers, body, time.time())
    assert not signing.holds(SECRET, headers, body, time.time())
    assert json.loads(body)["type"] == "run.done"
    assert json.loads(body)["data"]["run"] == run.run
    path = f"webhooks/{hook}/deliveries"
    failed = until(lambda: [each for each in server.ask("GET", path).json if each["tries"]], "the failure is kept")[0]
    assert (failed["state"], failed["answer"]) == ("waiting", "500")
    assert server.ask("POST", f"deliveries/{failed['id']}/again").status == 202
    again, same = receiver.got.get(timeout=60)
    assert (again["webhook-id"], same) == (headers["webhook-id"], body)
    until(lambda: server.ask("GET", path).json[0]["state"] == "delivered", "it is delivered")
    assert len(server.ask("GET", path).json) == 1


def test_one_who_is_gone_is_told_no_more(server: Server, repo: Repo, receiver: Receiver) -> None:
    receiver.answers = [410]
    hook = server.ask("POST", "webhooks", {"url": receiver.url}).json["id"]
    server.client.run("t", repo=str(repo.folder), agents=[server.corral.agent("hi", "echo hi > hi.txt")])
    dead = until(lambda: server.ask("GET", f"webhooks/{hook}/deliveries?state=dead").json, "it is dead")
    assert dead[0]["tries"] == 1
    assert until(lambda: not server.ask("GET", "webhooks").json[0]["enabled"], "it is switched off")
    assert server.ask("POST", "webhooks", {"url": "file:///etc/passwd"}).status == 400


def test_a_webhook_hears_what_waits_for_a_person_and_what_they_said(
    server: Server, repo: Repo, receiver: Receiver
) -> None:
    """A budget that is used up is told; raised over HTTP, the server goes on with the run by itself."""
    agent = server.corral.agent("dear", "echo hi > hi.txt", "cost_usd = 0.5")
    types = ["inbox.opened", "inbox.answered", "run.over_budget", "run.done"]
    server.ask("POST", "webhooks", {"url": receiver.url, "types": types})
    run = server.ask(
        "POST", "runs", {"task": "t", "repo": str(repo.folder), "agents": [agent], "budget_usd": 0.3}
    ).json["run"]
    told: dict[str, dict[str, Any]] = {}

    def heard(kind: str) -> dict[str, Any]:
        while kind not in told:
            body = json.loads(receiver.got.get(timeout=60)[1])
            told[body["type"]] = body["data"]
        return told[kind]

    opened = heard("inbox.opened")
    assert (opened["run"], opened["about"]) == (run, "budget")
    assert heard("run.over_budget")["run"] == run
    answered = server.client.answer(opened["id"], opened["choices"][0])
    assert "continues it" in answered.outcome
    assert heard("inbox.answered")["answered_by"] == "token first"
    assert heard("run.done")["run"] == run
    overview = server.ask("GET", "cost/overview").json
    assert overview["tables"]["agent"] == server.ask("GET", "cost?by=agent").json
    assert overview["days"] == server.ask("GET", "cost?by=day").json
    assert {*overview["tables"]} == {"agent", "account", "model", "repo", "task-kind"}
    assert overview["budget"] == server.ask("GET", "budget").json


def test_a_trigger_is_signed_limited_and_counts_once(server: Server, repo: Repo) -> None:
    agent = server.corral.agent("hi", 'echo "$1" > said.txt')
    wish = {
        "request": {"task": "Look at {{payload.issue.title}}", "repo": str(repo.folder), "agents": [agent]},
        "secret": SECRET,
        "per_hour": 2,
    }
    assert server.ask("PUT", "triggers/issues", wish).json["secret"] == SECRET
    body = json.dumps({"issue": {"title": "a {{bug}}"}}).encode()
    first = called(server, "issues", "one", body)
    assert first.status == 202, first
    run = first.json["run"]
    assert first.json["task"] == "Look at a {{bug}}"
    assert called(server, "issues", "one", body).json["run"] == run
    assert called(server, "issues", "two", body).status == 202
    limited = called(server, "issues", "three", body)
    assert (limited.status, int(limited.headers["Retry-After"]) > 0) == (429, True)
    wrong = signing.sign("wrong-secret-wrong-secret", "four", int(time.time()), body)
    assert server.ask("POST", "triggers/issues", body, token=None, headers=wrong).status == 401
    old = signing.sign(SECRET, "five", int(time.time()) - 3600, body)
    assert server.ask("POST", "triggers/issues", body, token=None, headers=old).status == 401
    assert called(server, "nothing", "six", body).status == 401
    assert len(server.client.runs().runs) == 2
    assert all(each["secret"] is None for each in server.ask("GET", "triggers").json)


def test_a_condition_decides_whether_a_call_starts_anything(server: Server, repo: Repo) -> None:
    request = {
        "task": "{{event}}: {{payload.issue.title}}",
        "repo": str(repo.folder),
        "agents": [server.corral.agent("hi", "echo hi > hi.txt")],
    }
    when = 'event == "issues" and payload.action == "opened" and "corral" in payload.issue.labels'
    for wrong in ("payload.", "nodes.a.output == 1", "__import__('os')", "x" * 1001):
        assert server.ask("PUT", "triggers/issues", {"request": request, "when": wrong}).status in (400, 422)
    assert (
        server.ask("PUT", "triggers/issues", {"request": request, "when": when, "secret": SECRET}).json["when"] == when
    )
    good = {"action": "opened", "issue": {"title": "a bug", "labels": ["corral"]}}
    for number, (event, sent) in enumerate(
        (("issues", {**good, "action": "closed"}), ("push", good), ("issues", {"action": "opened"}), ("issues", []))
    ):
        answer = called(server, "issues", f"no-{number}", json.dumps(sent).encode(), event)
        assert (answer.status, answer.json["run"]) == (200, None), answer
        assert "condition" in answer.json["reason"]
    started = called(server, "issues", "yes", json.dumps(good).encode(), "issues")
    assert (started.status, started.json["task"]) == (202, "issues: a bug")
    assert [run.run for run in server.client.runs().runs] == [started.json["run"]]


def test_a_person_is_asked_before_what_a_stranger_called_for(server: Server, repo: Repo) -> None:
    corral = server.corral
    wish: dict[str, Any] = {
        "request": {"task": "hello", "repo": str(repo.folder), "agents": [corral.agent("hi", "echo hi > hi.txt")]},
        "secret": SECRET,
        "approve": "60m",
        "approve_unless": 'payload.author == "ada"',
    }
    for wrong in ({"approve": "soon"}, {"approve_unless": "nodes.x"}):
        assert server.ask("PUT", "triggers/issues", {**wish, **wrong}).status in (400, 422)
    assert server.ask("PUT", "triggers/issues", wish).json["approve"] == "60m"
    known = called(server, "issues", "one", b'{"author": "ada"}').json["run"]
    until(lambda: corral("show", known, "--json").json["status"] == "done", "who is known is not asked about")
    stranger = called(server, "issues", "two", b'{"author": "eve"}').json["run"]
    entry = until(lambda: corral("inbox", "--json").json, "a person is asked")[0]
    assert (entry["run"], entry["text"], entry["default"]) == (stranger, "Start this? hello", "no")
    assert not [each for node in corral("show", stranger, "--json").json["nodes"] for each in node["attempts"]]
    assert corral("answer", str(entry["id"]), "yes").code == 0
    until(lambda: corral("show", stranger, "--json").json["status"] == "done", "it starts once they said yes")


def test_a_branch_that_moves_starts_runs_but_not_by_what_they_land(server: Server, repo: Repo) -> None:
    agent = server.corral.agent("hi", 'echo "$1" >> seen.txt')
    request = {
        "task": "Look at {{payload.subject}} ({{payload.files}})",
        "repo": str(repo.folder),
        "agents": [agent],
        "merge": "auto",
    }
    wish = {"request": request, "branch": "main", "when": '"docs.md" in payload.files', "most_open": 1}
    assert server.ask("PUT", "triggers/docs", {**wish, "branch": "nowhere"}).status == 400
    assert server.ask("PUT", "triggers/docs", wish).json["seen"] == repo.head

    def shown() -> Any:
        return server.ask("GET", "triggers").json[0]

    repo.commit({"a.txt": "other\n"})
    until(lambda: shown()["seen"] == repo.head, "it looked")
    assert shown()["last"].startswith("not started: the condition does not hold")
    repo.commit({"docs.md": "new words\n"})
    run = until(lambda: server.client.runs().runs, "the branch started it")[0].run
    until(lambda: server.client.show(run).merge.status == "merged", "its work has landed on the branch that is watched")
    assert "docs.md" in server.client.show(run).task
    until(lambda: shown()["seen"] == repo.head, "it looked at what it landed itself")
    assert shown()["last"] == f"not started: its own run {run} moved the branch"
    assert len(server.client.runs().runs) == 1


def called(server: Server, name: str, once: str, body: bytes, event: str = "") -> Answer:
    headers = signing.sign(SECRET, once, int(time.time()), body) | ({"X-GitHub-Event": event} if event else {})
    return server.ask("POST", f"triggers/{name}", body, token=None, headers=headers)


def test_a_schedule_starts_runs_within_its_limits(server: Server, repo: Repo) -> None:
    agent = server.corral.agent("hi", "echo hi > hi.txt")
    request = {"task": "every minute", "repo": str(repo.folder), "agents": [agent]}
    for cron, status in (("* * * * *", 200), ("61 * * * *", 400), ("* * *", 400), ("0 0 30 2 *", 400)):
        answer = server.ask("PUT", "schedules/often", {"cron": cron, "request": request, "per_day": 1})
        assert (cron, answer.status) == (cron, status), answer
    assert (
        server.ask("PUT", "schedules/often", {"cron": "@daily", "zone": "Nowhere/x", "request": request}).status == 400
    )
    shown = server.ask("GET", "schedules").json[0]
    assert shown["next"] > shown.get("last_at", "") if shown["last_at"] else shown["next"]
    run = until(lambda: server.client.runs(q="every minute").runs, "the clock started it")[0].run
    until(lambda: server.client.show(run).status == "done", "it is done")
    assert server.ask("GET", "schedules").json[0]["last"] == run
    assert server.ask("DELETE", "schedules/often").status == 204
    assert server.ask("GET", "schedules").json == []


def test_schedules_by_the_command_line(corral: Corral, repo: Repo) -> None:
    agent = corral.agent("hi", "echo hi > hi.txt")
    empty = corral("schedule", "ls")
    assert "corral schedule add" in empty.err
    wish = ("every minute", "--repo", "repo", "--agent", agent, "--check", "test -f hi.txt", "--zone", "Europe/Berlin")
    own = ("--per-day", "7", "--name", "greet", "--json")
    made = corral("schedule", "add", "often", "* * * * *", *wish, *own, cwd=corral.root)
    assert made.code == 0, made
    assert (made.json["name"], made.json["request"]["name"]) == ("often", "greet")  # of the schedule, and of its runs
    assert (made.json["request"]["repo"], made.json["per_day"]) == (str(repo.folder), 7)
    assert "corral serve" in made.err  # nothing starts by itself yet
    for name, cron, *more in (
        ("often", "@daily", "again"),
        ("Wrong Name", "@daily", "t"),
        ("a", "61 * * * *", "t"),
        ("a", "@daily", "t", "--zone", "No/where"),
        ("a", "@daily", "t", "--agent", "nobody-knows-it"),
        ("a", "@daily"),
    ):
        refused = corral("schedule", "add", name, cron, *more, "--repo", repo.folder)
        assert (refused.code, "hint:" in refused.err) == (2, True), (name, cron, refused)
    assert corral("schedule", "add", "often", "@daily", *wish, "--replace", cwd=corral.root).code == 0
    assert corral("schedule", "pause", "often", "--json").json["next"] is None
    assert "paused" in corral("schedule", "ls").out
    assert corral("schedule", "resume", "often", "--json").json["next"]
    started = corral("schedule", "run", "often", "--json").json
    assert started["task"] == "every minute"
    until(lambda: corral("show", started["run"], "--json").json["status"] == "done", "a process of its own drives it")
    assert [each["name"] for each in corral("schedule", "ls", "--json").json] == ["often"]
    for command in ("rm", "pause", "resume", "run"):
        unknown = corral("schedule", command, "never")
        assert (unknown.code, "corral schedule ls" in unknown.err) == (2, True)
    assert corral("schedule", "rm", "often").code == 0
    assert corral("schedule", "ls", "--json").json == []


def test_triggers_by_the_command_line(server: Server, repo: Repo) -> None:
    corral = server.corral
    agent = corral.agent("hi", 'echo "$1" > said.txt')
    wish = ("{{event}}: {{payload.title}}", "--repo", repo.folder, "--agent", agent, "--when", "payload.good == true")
    made = corral("trigger", "add", "calls", *wish)
    secret = made.out.strip()
    assert f"{server.address}/api/v1/triggers/calls" in made.err
    assert secret not in corral("trigger", "ls", "--json").out
    body = json.dumps({"title": "a bug", "good": True}).encode()

    def call(once: str) -> Answer:
        headers = signing.sign(secret, once, int(time.time()), body)
        return server.ask("POST", "triggers/calls", body, token=None, headers=headers)

    assert call("one").json["task"] == ": a bug"
    refused = corral("trigger", "add", "calls", *wish)
    assert (refused.code, "--replace" in refused.err) == (2, True)
    assert corral("trigger", "add", "calls", *wish, "--replace").out.strip() == secret
    assert corral("trigger", "pause", "calls").code == 0
    assert call("two").status == 401
    assert corral("trigger", "resume", "calls").code == 0
    assert call("three").status == 202
    sent = corral.root / "sent.json"
    sent.write_text('{"title": "by hand", "good": true}')
    run = corral("trigger", "run", "calls", "--payload", sent, "--event", "tried", "--json")
    assert run.json["task"] == "tried: by hand", run
    against = corral("trigger", "run", "calls")
    assert (against.code, "condition" in against.err) == (1, True)
    other = corral(
        "trigger", "add", "moved", "Look at {{payload.subject}}", "--repo", repo.folder, "--branch", "nowhere"
    )
    assert other.code == 2
    moved = ("Look at {{payload.subject}}", "--repo", repo.folder, "--agent", agent, "--branch", "main", "--json")
    assert corral("trigger", "add", "moved", *moved).json["seen"] == repo.head
    repo.commit({"a.txt": "other\n"})
    last = until(lambda: corral("trigger", "ls", "--json").json[1]["last"], "the branch started a run")
    assert corral("show", last, "--json").json["task"].startswith("Look at ")
    assert corral("trigger", "rm", "moved").code == 0
    assert corral("trigger", "rm", "moved").code == 2


@pytest.mark.parametrize(
    ("names", "event"),
    [
        (("X-Forgejo-Signature", "X-Forgejo-Delivery", "X-Forgejo-Event"), "issues"),
        (("X-Gitlab-Token", "X-Gitlab-Event-UUID", "X-Gitlab-Event"), "Issue Hook"),
        (("Linear-Signature", "Linear-Delivery", "Linear-Event"), "Issue"),
    ],
)
def test_calls_of_forges_count_once_and_forged_ones_not(
    server: Server, repo: Repo, names: tuple[str, str, str], event: str
) -> None:
    agent = server.corral.agent("hi", "echo hi > hi.txt")
    wish = {"task": "look at {{payload.title}}", "repo": str(repo.folder), "agents": [agent]}
    assert (
        server.ask("PUT", "triggers/x", {"request": wish, "secret": SECRET, "when": f"event == '{event}'"}).status
        == 200
    )
    body = json.dumps({"title": "this", "webhookTimestamp": int(time.time() * 1000)}).encode()
    signed = SECRET if names[0] == "X-Gitlab-Token" else hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {names[0]: signed, names[1]: "delivery-1", names[2]: event}
    first = server.ask("POST", "triggers/x", body, token=None, headers=headers)
    again = server.ask("POST", "triggers/x", body, token=None, headers=headers)
    assert (first.status, again.json["run"]) == (202, first.json["run"]), first
    forged = server.ask("POST", "triggers/x", body, token=None, headers={**headers, names[0]: signed[:-1] + "x"})
    assert forged.status == 401
    other = server.ask("POST", "triggers/x", body, token=None, headers={**headers, names[1]: "2", names[2]: "other"})
    assert (other.status, "condition does not hold" in other.json["reason"]) == (200, True)
    if names[0] == "Linear-Signature":
        old = json.dumps({"title": "this", "webhookTimestamp": int(time.time() * 1000) - 61_000}).encode()
        signed = hmac.new(SECRET.encode(), old, hashlib.sha256).hexdigest()
        assert server.ask("POST", "triggers/x", old, token=None, headers={**headers, names[0]: signed}).status == 401
