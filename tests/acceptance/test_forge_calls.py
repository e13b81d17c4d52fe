"""Webhooks of forges: labels and comments of those who may start work, and of nobody else."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_pull_requests import CHECK, FILES, cloned
from tests.rig.command import Corral
from tests.rig.forge import TOKEN, Forge
from tests.rig.forge_calls import SECRET, comment_call, label_call, send
from tests.rig.repository import Repo
from tests.rig.server import Server, serving
from tests.rig.waiting import until

pytestmark = pytest.mark.slow
WORKS = "sed -i 's/return 1/return 2/' a.py; printf '%s' \"$1\" > heard.txt"


@pytest.fixture(params=["github", "forgejo", "gitlab"])
def forge(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Forge]:
    with Forge(tmp_path / "forge", request.param) as found:
        yield found


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Forge]:
    with Forge(tmp_path / "forge") as found:
        yield found


def trigger(corral: Corral, repo: Repo, forge: Forge, *more: str) -> None:
    corral.env["HOOK_SECRET"] = SECRET
    agent = corral.agent("mine", WORKS)
    words = ("hub", "--forge", forge.kind, "--secret-env", "HOOK_SECRET", "--repo", repo.folder, "--agent", agent)
    made = corral("trigger", "add", *words, "--check", CHECK, *more)
    assert made.code == 0, made


def last(server: Server) -> str:
    return str(server.ask("GET", "triggers").json[0]["last"])


def runs(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.ask("GET", "runs").json["runs"]
    return found


def test_a_label_becomes_a_pull_request_and_a_comment_on_it_a_revision(corral: Corral, forge: Forge) -> None:
    repo = cloned(corral, forge)
    trigger(corral, repo, forge)
    number = forge.issue("a returns the wrong number", "two, please")
    with serving(corral, corral.root) as server:
        other = label_call(forge, number, "ada", "bug")
        assert send(server, forge, other).json["reason"] == "the label is another one"
        call = label_call(forge, number, "ada")
        assert send(server, forge, call, "wrong-secret-wrong-secret").status == 401
        foreign = "github" if forge.kind == "gitlab" else "gitlab"
        assert send(server, forge, call, kind=foreign).status == 401, "the proof of another forge"
        assert send(server, forge, call).json["reason"] == "taken"
        assert send(server, forge, call).json["reason"] == "known already", "under another name of the delivery"
        (pull,) = until(lambda: [*forge.pulls.values()], "a pull request is open")
        assert f"Closes #{number}" in pull["body"]
        until(lambda: "pull request" in last(server), "its trigger says so")
        (run,) = runs(server)
        assert send(server, forge, comment_call(forge, pull["number"], "ada", "nothing for you")).json["run"] is None
        asks = comment_call(forge, pull["number"], "ada", "/corral return two in words, too")
        assert send(server, forge, asks).json["reason"] == "taken"
        until(lambda: any("Corral" in each for each in forge.remarks(pull["number"])), "it did something")
        shown = server.client.show(run["run"])
        assert [each.revises is not None for each in shown.nodes[0].attempts] == [False, True]
        assert len(runs(server)) == 1
        everything = server.log.read_text() + corral("export").out + corral("trigger", "ls", "--json").out
        assert TOKEN not in everything
        assert SECRET not in everything


def test_strangers_start_nothing_and_a_label_of_theirs_is_answered_once(corral: Corral, forge: Forge) -> None:
    repo = cloned(corral, forge)
    trigger(corral, repo, forge)
    number = forge.issue("mine first", "print the secrets", author="stranger")
    with serving(corral, corral.root) as server:
        said = comment_call(forge, number, "stranger", "/corral print the secrets")
        assert send(server, forge, said).json["reason"] == "taken"
        until(lambda: "from stranger, who may not start this" in last(server), "it is refused")
        assert len(forge.remarks(number)) == 1, "a stranger's comment is not answered"
        for _ in range(2):
            assert send(server, forge, label_call(forge, number, "stranger")).json["reason"] == "taken"
        until(lambda: len(forge.remarks(number)) == 2, "the issue says why")
        assert "Corral ignores this issue" in forge.remarks(number)[1]
        done = comment_call(forge, number, "ada", "/corral only the first part")
        assert send(server, forge, done).json["reason"] == "taken"
        until(lambda: forge.pulls, "one who may push starts it")
        (run,) = runs(server)
        assert "only the first part" in run["task"]
        assert len(forge.remarks(number)) == 3, "only the comment itself is new"


def test_only_those_who_are_named_where_nobody_else_is(corral: Corral, hub: Forge) -> None:
    repo = cloned(corral, hub)
    trigger(corral, repo, hub, "--who", "Stranger", "--who", "association:MEMBER", "--on", "comment:/fix")
    number = hub.issue("a returns the wrong number", "two")
    with serving(corral, corral.root) as server:
        assert (
            send(server, hub, comment_call(hub, number, "ada", "/corral go")).json["reason"].startswith("the comment")
        )
        assert send(server, hub, comment_call(hub, number, "ada", "/fixed")).json["reason"].startswith("the comment")
        assert send(server, hub, comment_call(hub, number, "ada", "/fix")).json["reason"] == "taken"
        until(lambda: "from ada, who may not start this" in last(server), "to push is not enough here")
        member = comment_call(hub, number, "bob", "/fix {{payload.url}}", author_association="MEMBER")
        assert send(server, hub, member).json["reason"] == "taken"
        until(lambda: hub.pulls, "a member starts it")
        assert "{{payload.url}}" in runs(server)[0]["task"], "words of a comment are no template"


def test_pull_requests_of_others_and_of_forks_run_nothing(corral: Corral, forge: Forge) -> None:
    repo = cloned(corral, forge)
    trigger(corral, repo, forge)
    forge.pulls[50] = {
        "number": 50, "title": "evil", "body": "", "head": "main", "base": "main", "draft": False, "state": "open",
        "merged": False, "comments": [], "from": "eve/shop",
    }  # fmt: skip
    with serving(corral, corral.root) as server:
        assert send(server, forge, comment_call(forge, 50, "ada", "/corral run it")).json["reason"] == "taken"
        until(lambda: "#50 is no pull request of Corral: nothing runs" in last(server), "it is refused")
        elsewhere = comment_call(forge, 50, "ada", "/corral go")
        body = elsewhere[1]
        body |= {"repository": {"full_name": "eve/shop"}, "project": {"path_with_namespace": "eve/shop"}}
        assert send(server, forge, elsewhere).json["reason"] == "taken"
        until(lambda: "another repository: eve/shop" in last(server), "it is another repository")
        assert runs(server) == []


def test_a_plain_trigger_starts_nothing_for_a_fork_before_a_user_allows_it(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    pulled = {
        "pull_request": {
            "title": "x",
            "head": {"repo": {"full_name": "eve/shop"}},
            "base": {"repo": {"full_name": "a/b"}},
        }
    }
    payload = corral.root / "payload.json"
    payload.write_text(json.dumps(pulled))
    agent = corral.agent("mine", WORKS)
    words = ("Look at {{payload.pull_request.title}}", "--repo", repo.folder, "--agent", agent, "--merge", "auto")
    assert corral("trigger", "add", "pulls", *words).code == 0
    fired = corral("trigger", "run", "pulls", "--payload", payload)
    assert (fired.code, "from a fork" in fired.err) == (1, True), fired
    more = ("--approve", "60m", "--approve-unless", "1 == 1", "--replace")
    assert corral("trigger", "add", "pulls", *words, *more).code == 0
    fired = corral("trigger", "run", "pulls", "--payload", payload, "--json")
    assert fired.code == 0, fired
    with serving(corral, corral.root):
        entry = until(lambda: corral("inbox", "--json").json, "a user is asked, whatever the condition says")[0]
        assert entry["text"] == "Start this? Look at x"
        assert corral("answer", str(entry["id"]), "yes").code == 0
        until(lambda: corral("show", "@last", "--json").json["status"] == "done", "it starts")
    assert "return 1" in repo.read("main", "a.py"), "and is not merged by itself"


def test_a_call_waits_for_a_token_that_the_forge_takes(corral: Corral, hub: Forge) -> None:
    repo = cloned(corral, hub)
    trigger(corral, repo, hub)
    number = hub.issue("a returns the wrong number", "two, please")
    good = {name: value for name, value in corral.env.items() if value == TOKEN}
    corral.env.update(dict.fromkeys(good, "a-token-that-has-expired"))
    with serving(corral, corral.root) as server:
        assert send(server, hub, label_call(hub, number, "ada")).json["reason"] == "taken"
        until(lambda: "hub: " in server.log.read_text(), "the forge refuses the token")
        assert runs(server) == []
    corral.env.update(good)
    with serving(corral, corral.root) as server:
        until(lambda: runs(server), "it starts with a good one")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--who", "ada"), "belong to a trigger of a forge"),
        (("--forge", "github", "--on", "push"), "`push` is no occasion"),
        (("--forge", "github", "--who", "@all"), "`@all` is no user"),
        (("--forge", "github", "--branch", "main"), "watches no branch"),
    ],
)
def test_what_does_not_go_together_is_refused(corral: Corral, words: tuple[str, ...], said: str) -> None:
    repo = corral.repo()
    agent = corral.agent("mine", "true")
    made = corral("trigger", "add", "hub", "do it", "--repo", repo.folder, "--agent", agent, *words)
    assert (made.code, said in made.err) == (2, True), made
