"""The nodes in a real n8n: both workflows that come with them, and the trigger."""

import http.client
import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.rig.command import Corral
from tests.rig.n8n import PACKAGE, RealN8n, package_copy, run_node
from tests.rig.server import Server, serving
from tests.rig.waiting import until

TRIGGER = {
    "id": "corralTrigger1",
    "name": "answer every question",
    "active": False,
    "settings": {"executionOrder": "v1"},
    "nodes": [
        {"id": "a", "name": "Asked", "type": "n8n-nodes-corral.corralTrigger", "typeVersion": 1, "position": [0, 0],
         "webhookId": "corral-asked", "credentials": {"corralApi": {"id": "corral", "name": "Corral"}},
         "parameters": {"events": ["inbox.opened"], "withRun": True}},
        {"id": "b", "name": "Answer", "type": "n8n-nodes-corral.corral", "typeVersion": 1, "position": [200, 0],
         "credentials": {"corralApi": {"id": "corral", "name": "Corral"}},
         "parameters": {"resource": "inbox", "operation": "answer", "entry": "={{ $json.data.id }}", "answer": "yes"}},
    ],
    "connections": {"Asked": {"main": [[{"node": "Answer", "type": "main", "index": 0}]]}},
}  # fmt: skip


def post(url: str, data: object) -> tuple[int, Any]:
    request = urllib.request.Request(url, json.dumps(data).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            if "json" not in answer.headers.get("Content-Type", ""):
                return 503, None  # a page that says that n8n starts
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError):
        return 0, None


def workflows() -> list[Any]:
    return [*(json.loads(file.read_text()) for file in sorted((PACKAGE / "workflows").glob("*.json"))), TRIGGER]


@pytest.mark.night("a real n8n takes minutes to install and half a minute to start")
def test_workflows_of_a_real_n8n(corral: Corral, tmp_path: Path) -> None:
    package = package_copy(tmp_path / "package")
    run_node("node_modules/@n8n/node-cli/bin/n8n-node.mjs", "build", cwd=package)
    n8n = RealN8n(tmp_path / "n8n", package)
    corral.agent("mine", "echo said > said.txt", "cost_usd = 0.25")
    corral.agent("other", "sleep 1; echo said > other.txt", "cost_usd = 0.5")
    corral.agent("bad", "exit 3")
    corral.config("[retry]\nmost = 0")
    repo = corral.repo()
    with serving(corral, corral.root) as server:
        data = {"baseUrl": server.address, "token": server.token}
        n8n.take("credentials", [{"id": "corral", "name": "Corral", "type": "corralApi", "data": data}])
        n8n.take("workflow", workflows())
        n8n.command("update:workflow", "--all", "--active=true")
        with n8n.serving():
            try:
                _submit(n8n, repo.folder)
                _race(n8n, server, repo.folder)
                _answers(server, repo.folder)
            except BaseException as error:
                error.add_note((n8n.folder / "n8n.log").read_text()[-6000:])
                raise
        assert server.token not in (n8n.folder / "n8n.log").read_text()


def _submit(n8n: RealN8n, repo: Path) -> None:
    """A task is submitted by a webhook; the workflow branches on its result, and the caller gets it."""
    wish = {"task": "t", "repo": str(repo), "agents": "mine", "checks": "test -e said.txt"}
    answer = until(lambda: _unless_early(post(f"{n8n.url}/webhook/corral-task", wish)), "n8n answers")
    status, done = answer or (0, {})
    assert (status, done["result"], done["cost_usd"]) == (200, "merged", 0.25), done
    assert (repo / "said.txt").exists()
    status, failed = post(f"{n8n.url}/webhook/corral-task", {**wish, "agents": "bad"})
    assert (status, failed["result"]) == (200, "failed"), failed


def _unless_early(answer: tuple[int, Any]) -> tuple[int, Any] | None:
    """Return an answer, or nothing while n8n starts: it answers 404 until it knows its webhooks."""
    return None if answer[0] in (0, 404, 503) else answer


def _race(n8n: RealN8n, server: Server, repo: Path) -> None:
    """A race; the execution is stored until Corral calls, then until a user approves."""
    wish = {"task": "t", "repo": str(repo), "agents": "other\nmine", "checks": "test -e other.txt"}
    assert post(f"{n8n.url}/webhook/corral-race", wish)[0] == 200
    run = until(lambda: _run_of(server, "other"), "the race is over") or ""

    def approval() -> str | None:
        workflow, status, data = n8n.executions()[-1]
        assert (workflow, status) in {("corralRace1", "waiting"), ("corralRace1", "running")}, (status, data[-3000:])
        found = re.search(r'"(http[^"]*/webhook-waiting/[^"]*)"', data)
        return found[1] if found and '"Results"' in data else None

    address = until(approval, "the results are there") or ""
    assert server.client.show(run).merge.status == "ready"
    yes = f"{address}{'&' if '?' in address else '?'}answer=yes"
    with urllib.request.urlopen(yes, timeout=60) as answer:
        assert answer.status == 200
    until(lambda: server.client.show(run).merge.status == "merged", "n8n merges")
    assert (repo / "other.txt").exists()


def _run_of(server: Server, agent: str) -> str | None:
    found = [each for each in server.client.runs(limit=5).runs if each.status == "done"]
    ours = [each.run for each in found if agent in server.ask("GET", f"runs/{each.run}").body.decode()]
    return ours[0] if ours else None


def _answers(server: Server, repo: Path) -> None:
    """The trigger is called when a question opens, and n8n answers it."""
    flow = "nodes:\n  ok: {gate: 'Go on?', default: 'no', deadline: 1h}\n"
    run = server.ask("POST", "runs", {"flow": flow, "repo": str(repo)}).json["run"]
    until(lambda: server.client.show(run).status == "done", "n8n answers")
    (entry,) = [each for each in server.ask("GET", "inbox?all=true").json if each["run"] == run]
    assert entry["answer"] == "yes"
