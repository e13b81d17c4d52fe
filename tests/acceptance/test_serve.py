"""`corral serve`: the HTTP API from outside, from submitting to undoing; the same documents as the command line's."""

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.frontends.client import Client, Trouble
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.server import Server, serving
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

WRITES = """
[[step]]
say = "on it"
[[step]]
write = "hello.txt"
text = "hello\\n"
"""
WAITS = """
[[step]]
say = "started"
[[step]]
hang = 600
"""


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


@pytest.fixture
def server(corral: Corral) -> Iterator[Server]:
    with serving(corral, corral.root) as going:
        yield going


def submitted(server: Server, repo: Repo, script: str = WRITES, **more: Any) -> str:
    run = server.client.submit("write it", repo=str(repo.folder), agents=[server.corral.script(script)], **more)
    assert run.status in ("queued", "running")  # a server with nothing to do takes it up at once
    return run.run


def over(server: Server, run: str) -> dict[str, Any]:
    going = ("queued", "running", "waiting")
    until(lambda: server.client.show(run).status not in going, f"run {run} is over")
    return server.ask("GET", f"runs/{run}").json


def test_the_whole_way_of_a_task(server: Server, repo: Repo) -> None:
    run = submitted(server, repo, checks=["test -f hello.txt"])
    events = list(server.client.events(run))
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert "said" in {event.type for event in events}
    document = server.ask("GET", f"runs/{run}").json
    assert document["status"] == "done", document
    assert document == server.corral("show", run, "--json").json
    assert server.client.diff(run).patch == server.corral("diff", run).out
    assert "+hello" in server.client.diff(run).patch
    assert server.ask("GET", f"runs/{run}/diff.patch").body == server.corral("diff", run).bytes
    assert server.ask("GET", f"runs/{run}/compare").json == server.corral("compare", run, "--json").json
    before = repo.head
    preview = server.client.preview(run)
    assert (preview.files, preview.into, repo.head) == (("hello.txt",), "main", before)
    assert server.client.merge(run).merge.status == "merged"
    assert repo.head != before
    assert (repo.folder / "hello.txt").read_text() == "hello\n"
    assert server.client.undo(run).merge.status == "undone"
    assert (repo.head, (repo.folder / "hello.txt").exists()) == (before, False)


def test_a_key_makes_one_run_of_two_submissions(server: Server, repo: Repo) -> None:
    first = submitted(server, repo, key="once")
    assert server.client.submit("write it", repo=str(repo.folder), agents=[f"scripted:{server.corral.root}/script.toml"], key="once").run == first  # fmt: skip
    with pytest.raises(Trouble) as refused:
        server.client.submit("something else", repo=str(repo.folder), key="once")
    assert (refused.value.status, refused.value.code) == (409, "conflict")
    assert len(server.client.runs().runs) == 1


def test_stop_and_steer_reach_what_the_server_drives(server: Server, repo: Repo) -> None:
    run = submitted(server, repo, WAITS)
    server.corral.until_said("started", run)
    assert "script" in server.client.steer(run, "also the docs")
    assert server.client.stop(run).status == "stopped"
    assert any("also the docs" in event.get("text", "") for event in server.corral.events(run))


def test_a_run_rests_goes_on_and_is_done_again(server: Server, repo: Repo) -> None:
    run = submitted(server, repo, WAITS)
    server.corral.until_said("started", run)
    assert server.client.pause(run) == "paused"
    until(lambda: server.client.show(run).status == "paused", "it rests")
    assert server.client.resume(run).run == run
    until(lambda: server.client.show(run).status == "running", "it goes on")
    server.client.stop(run)
    server.corral.script(WRITES)
    assert server.client.retry(run).run == run
    assert over(server, run)["status"] == "done"


def test_the_inbox_is_answered_over_http(server: Server, repo: Repo) -> None:
    flow = "name: f\nnodes:\n  ok: {gate: 'Go on?', default: 'no', deadline: 1h}\n"
    answer = server.ask("POST", "runs", {"flow": flow, "repo": str(repo.folder)})
    assert answer.status == 202, answer
    entry = until(server.client.inbox, "it asks")[0]
    assert (entry.run, entry.text) == (answer.json["run"], "Go on?")
    until(lambda: server.client.show(entry.run).status == "waiting", "nobody drives it")
    answered = server.client.answer(entry.id, "yes")
    assert answered.answered_by == "token first"
    assert answered.outcome in (f"the server at {server.address} continues it", "the run continues")
    assert over(server, entry.run)["status"] == "done"  # nobody resumed it: the server did
    with pytest.raises(Trouble):
        server.client.answer(entry.id, "no")


def test_a_flow_is_read_by_its_name(server: Server, repo: Repo) -> None:
    flows = repo.folder / ".corral" / "flows"
    flows.mkdir(parents=True)
    (flows / "mine.yaml").write_text("nodes: {a: {task: x}}\n")
    (flows / "link.yaml").symlink_to(server.corral.root / "token")
    (repo.folder / "secret.yaml").write_text("not below flows")
    found = server.ask("GET", f"flows/mine?repo={repo.folder}")
    assert (found.status, found.json) == (200, {"name": "mine", "flow": "nodes: {a: {task: x}}\n"})
    assert "nodes:" in server.ask("GET", f"flows/feature?repo={repo.folder}").json["flow"]
    for name in ("nothing", "link", "..%2F..%2Fsecret", "%2Fetc%2Fpasswd", "x" * 300):
        assert 400 <= server.ask("GET", f"flows/{name}?repo={repo.folder}").status < 500, name
    assert server.ask("GET", "flows/mine?repo=/etc").status == 403
    assert server.ask("GET", f"flows/mine?repo={repo.folder}", token=None).status == 401


def test_money_is_shown_as_on_the_command_line(server: Server, repo: Repo) -> None:
    agent = server.corral.agent("dear", "echo hi > hi.txt", "cost_usd = 0.25")
    server.client.run("t", repo=str(repo.folder), agents=[agent])
    assert server.ask("PUT", "budget", {"per_day": 3, "per_run": 1}).status == 200
    assert server.ask("GET", "budget").json == server.corral("budget", "--json").json
    assert {limit["window"] for limit in server.ask("GET", "budget").json["limits"]} == {"day", "run"}
    assert server.ask("GET", "cost?by=agent").json == server.corral("cost", "--json").json
    assert server.ask("GET", "cost").json["total"] == {"usd": 0.25, "source": "fixed", "reserved_usd": 0.0}
    assert server.ask("GET", "quota").json == server.corral("quota", "--json").json
    assert server.ask("DELETE", "budget").json["limits"] == []


def test_a_halt_ends_all_and_lets_none_start(server: Server, repo: Repo) -> None:
    run = submitted(server, repo, WAITS)
    server.corral.until_said("started", run)
    assert server.ask("POST", "halt").json == {"stopped": [run]}
    assert over(server, run)["status"] == "stopped"
    refused = server.ask("POST", "runs", {"task": "x", "repo": str(repo.folder)})
    assert (refused.status, "halted" in refused.json["detail"]) == (409, True)
    assert "halted" in server.ask("GET", "health").json["parts"]["money"]
    assert server.ask("DELETE", "halt").status == 204
    submitted(server, repo)


def test_errors_are_problems_with_a_hint(server: Server, repo: Repo) -> None:
    for answer, status in (
        (server.ask("GET", "runs/zzz"), 404),
        (server.ask("GET", "nothing"), 404),
        (server.ask("PUT", "runs"), 405),
        (server.ask("GET", "runs?limit=0"), 422),
        (server.ask("GET", "runs?status=odd"), 422),
        (server.ask("POST", "runs", {"task": "x", "wrong": 1}), 422),
        (server.ask("POST", "runs", b"{"), 422),
        (server.ask("POST", "runs", {"task": "x", "agents": ["nobody"], "repo": str(repo.folder)}), 400),
        (server.ask("POST", "runs", b"a=b", headers={"Content-Type": "text/plain"}), 415),
        (server.ask("POST", "runs", {"flow": "nodes: {a: {task: }", "repo": str(repo.folder)}), 422),
    ):
        assert answer.status == status, answer
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert {"status", "title", "detail", "code", "hint", "type"} <= set(answer.json)
    assert server.client.runs().runs == []


def test_health_metrics_agents_and_the_description(server: Server, repo: Repo) -> None:
    assert server.ask("GET", "/health/live", token=None).json == {"status": "ok"}
    assert server.ask("GET", "/health/ready", token=None).status == 200
    server.ask("PATCH", "queue", {"held": True})
    health = server.ask("GET", "health").json
    assert (health["status"], health["parts"]["queue"]) == ("degraded", "held: nothing is taken up")
    submitted(server, repo)
    metrics = server.ask("GET", "metrics").body.decode()
    assert "corral_queue_waiting 1" in metrics
    assert 'corral_runs{status="queued"} 1' in metrics
    families = [line.split()[2] for line in metrics.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    assert {"corral_spent_usd_total", "corral_tokens_total", "corral_reserved_usd", "corral_limit_usd"} <= {*families}
    assert "scripted" in {agent["name"] for agent in server.client.agents()}
    described = server.ask("GET", "openapi.json").json
    assert described["openapi"].startswith("3.1")
    assert described["paths"]["/api/v1/runs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    names = set(described["components"]["schemas"])
    assert {"Run", "Submission", "Problem", "RunPage"} <= names
    text = str(described)
    assert all(f"#/components/schemas/{name}" not in text or name in names for name in ("Run", "Attempt", "Preview"))


def test_requests_and_runs_are_logged_as_json(server: Server, repo: Repo) -> None:
    run = submitted(server, repo)
    over(server, run)
    lines = server.log_lines()
    assert any(line.get("run") == run and line["from"] == "corral.supervisor" for line in lines)
    attempt = server.client.show(run).nodes[0].attempts[0].id
    told = [line["message"] for line in lines if (line.get("run"), line.get("attempt")) == (run, attempt)]
    assert [words.partition(" ")[0] for words in told] == ["running", "done"]
    assert any(line.get("path") == "/api/v1/runs" and line.get("token") == "first" for line in lines)
    assert server.token not in server.log.read_text()


def test_a_second_server_of_the_store_is_refused(server: Server) -> None:
    refused = server.corral("serve", "--port", "0")
    assert refused.code == 2
    assert server.address in refused.err


def test_the_client_waits_for_a_run(server: Server, repo: Repo) -> None:
    ended = Client(server.address, server.token).run(
        "write it", repo=str(repo.folder), agents=[server.corral.script(WRITES)]
    )
    assert (ended.status, ended.nodes[0].attempts[0].files_changed) == ("done", ("hello.txt",))


def test_a_conflict_is_told_and_settled(server: Server, repo: Repo) -> None:
    script = '[[step]]\nwrite = "a.txt"\ntext = "theirs\\n"\n'
    run = submitted(server, repo, script)
    assert server.client.wait(run).status == "done"
    repo.commit({"a.txt": "ours\n"})
    before = repo.head
    conflicts = server.ask("GET", f"runs/{run}/conflicts").json["conflicts"]
    assert [each["path"] for each in conflicts] == ["a.txt"]
    answer = server.ask("POST", f"runs/{run}/merge", {})
    assert (answer.status, answer.json["merge"]["status"], repo.head) == (409, "conflict", before)
    assert server.ask("DELETE", f"runs/{run}/merge").status == 200
    merged = server.client.resolve(run, {"a.txt": "theirs"})
    assert (merged.merge.status, (repo.folder / "a.txt").read_text()) == ("merged", "theirs\n")


def test_every_submission_starts_from_the_newest_commit(server: Server, repo: Repo) -> None:
    server.ask("PATCH", "queue", {"held": True})
    for number in range(5):
        assert server.client.show(submitted(server, repo)).base == repo.head
        assert server.client.show(submitted(server, repo)).base == repo.head
        repo.commit({"a.txt": f"{number}\n"})
    repo.git("switch", "--quiet", "-c", "feature/other", "HEAD~2")
    shown = server.client.show(submitted(server, repo))
    assert (shown.base, shown.merge.into) == (repo.head, "feature/other")


def test_a_run_is_shown_when_its_settings_are_wrong_or_its_repository_is_gone(server: Server, repo: Repo) -> None:
    run = submitted(server, repo)
    over(server, run)
    (repo.folder / "corral.toml").write_text("[defaults\n")
    wrong = server.ask("GET", f"/runs/{run}")
    repo.folder.rename(repo.folder.with_name("moved"))
    gone = server.ask("GET", f"/runs/{run}")
    assert [(each.status, b"hello.txt" in each.body) for each in (wrong, gone)] == [(200, True), (200, True)]


def test_editors_find_the_server_by_a_file(corral: Corral, repo: Repo) -> None:
    """`server.json`: address, token and process, for programs of this user alone, as long as the server is there."""
    file = corral.home / "server.json"
    with serving(corral, corral.root) as server:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        found = json.loads(file.read_text())
        assert set(found) == {"url", "token", "pid"}
        assert found["pid"] == server.process.pid
        client = Client(found["url"], found["token"])
        script = server.corral.script(WRITES)
        run = client.submit("write it", repo=str(repo.folder), agents=[script]).run
        assert list(client.events(run))[-1].type == "status_changed"
        assert client.merge(run).merge.status == "merged"
        assert server.ask("GET", "tokens", token=found["token"]).status == 403, "it may not make others"
        assert found["token"] not in corral("token", "ls", "--json").out
        assert [each["name"] for each in corral("token", "ls", "--json").json] == ["first"], "it is never stored"
    assert not file.exists(), "gone with the server"


CALLS = """
import sys
from made.api.runs import list_runs, show_run
from made.client import AuthenticatedClient
client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
(line,) = list_runs.sync(client=client).runs
run = show_run.sync(line.run, client=client)
print(run.run, run.status, run.nodes[0].attempts[0].cost.usd)
"""


def test_a_client_that_a_generator_makes_of_the_document_works(server: Server, repo: Repo, tmp_path: Path) -> None:
    """By a generator that many use: it takes the whole document, and its code asks this server."""
    run = submitted(server, repo)
    over(server, run)
    (tmp_path / "openapi.json").write_bytes(server.ask("GET", "openapi.json").body)
    words = ["generate", "--path", "openapi.json", "--output-path", "made", "--meta", "none"]
    words += ["--config", "settings.yaml", "--fail-on-warning"]
    (tmp_path / "settings.yaml").write_text("post_hooks: []\n")  # what it makes need not look nice
    python = [sys.executable, "-m", "openapi_python_client"]
    made = subprocess.run([*python, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    calls = [sys.executable, "-c", CALLS, server.address, server.token]
    asked = subprocess.run(calls, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert asked.stdout.split()[:2] == [run, "done"], asked.stderr


def test_a_root_is_no_repository_but_a_folder_for_them(corral: Corral) -> None:
    root = corral.root / "src2"
    deep = Repo.make(root / "org" / "deep")
    (root / "node_modules" / "left").mkdir(parents=True)
    Repo.make(root / "node_modules" / "left" / "out")
    wish = {"task": "x", "agents": [corral.agent("hi", "echo hi > hi.txt")]}
    with serving(corral, root) as server:
        for named in (str(root), "."):
            refused = server.ask("POST", "runs", {**wish, "repo": named})
            assert (refused.status, refused.json["code"]) == (400, "repo"), refused
            assert str(deep.folder) in refused.json["hint"]
            assert server.ask("POST", "flows/check", {"flow": "nodes: {a: {task: x}}", "repo": named}).status == 400
        above = server.ask("POST", "runs", {**wish, "repo": "org"})
        assert (above.status, "repositories are in it: deep" in above.json["detail"]) == (400, True), above
        assert above.json["hint"] == f"name one of them: --repo {deep.folder}"
        assert server.ask("POST", "flows/check", {"flow": "nodes: {a: {task: x}}", "agents": wish["agents"]}).json["ok"]
        page = server.ask("GET", "/new").body.decode()
        assert f'<option value="{deep.folder}"' in page
        assert "node_modules" not in page
        assert f'value="{root}"' not in page
        assert over(server, server.ask("POST", "runs", wish).json["run"])["repo"] == str(deep.folder), "there is one"
        Repo.make(root / "second")
        assert server.ask("POST", "runs", wish).status == 400, "there are two, and none was named"
    assert not list((corral.home / "folders").glob("src2-*"))
