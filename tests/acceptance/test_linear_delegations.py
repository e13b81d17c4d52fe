"""An issue that is delegated in Linear: thoughts, plan, questions, stop and result there."""

import time
from collections.abc import Iterator

import pytest

from tests.rig.command import Corral
from tests.rig.linear import FakeLinear
from tests.rig.server import Server, serving
from tests.rig.waiting import until

SECRET, TOKEN = "CANARY-webhook-secret", "CANARY-app-token"
ASKS = """
[[step]]
ask = "Which colour?"
wait = true
choices = ["red", "blue"]
default = "blue"
[[step]]
write = "colour.txt"
text = "{answer}"
"""


@pytest.fixture
def linear(corral: Corral) -> Iterator[FakeLinear]:
    with FakeLinear(TOKEN, SECRET) as found:
        corral.env |= {"LINEAR_AGENT_TOKEN": TOKEN, "LINEAR_API_URL": f"{found.url}/graphql"}
        yield found


def trigger(corral: Corral, server: Server) -> None:
    """Make the trigger that Linear calls."""
    request = {"task": "", "repo": str(corral.repo().folder), "agents": [corral.script(ASKS)]}
    made = server.ask("PUT", "triggers/linear", {"request": request, "secret": SECRET})
    assert made.status == 200, made


def test_a_delegated_issue_becomes_a_run_that_reports_and_asks_there(corral: Corral, linear: FakeLinear) -> None:
    with serving(corral, corral.root) as server:
        corral.config(f'[notify]\nanswer_url = "{server.address}"')
        trigger(corral, server)
        assert linear.call(server, "created", "d1", at=time.time() - 61).status == 401, "too old"
        linear.refuses = 1
        assert linear.call(server, "created", "d1").json["reason"] == "taken"
        assert linear.call(server, "created", "d1").json["reason"] == "known already"
        first = linear.activities.get(timeout=60)
        assert first["content"] == {"type": "thought", "body": "Corral reads the issue."}
        asked = linear.said("elicitation")
        assert "Which colour?" in asked["content"]["body"]
        assert (asked["signal"], [each["value"] for each in asked["signalMetadata"]["options"]]) == (
            "select",
            ["red", "blue"],
        )
        assert [step["status"] for step in linear.plans[-1]] == ["inProgress"]
    with serving(corral, corral.root) as server:  # the next server knows it all, and its agent asks again
        linear.said("elicitation")
        (run,) = server.ask("GET", "runs").json["runs"]
        reply = {"content": {"type": "prompt", "body": "red"}}
        assert linear.call(server, "prompted", "d2", agentActivity=reply).json["reason"] == "taken"
        assert linear.call(server, "prompted", "d2", agentActivity=reply).json["reason"] == "known already"
        result = linear.said("response")["content"]["body"]
        assert "is done" in result
        assert f"/runs/{run['run']}" in result
        until(lambda: linear.plans[-1][0]["status"] == "completed", "the plan is done")
        assert linear.links[-1]["url"].endswith(f"/runs/{run['run']}")
        entry, _ = server.ask("GET", "inbox?all=true").json
        assert (entry["answer"], entry["answered_by"]) == ("red", "linear")
        assert len(server.ask("GET", "runs").json["runs"]) == 1
        assert "CANARY" not in server.log.read_text() + corral("export").out + corral("logs", "@last").out


def test_an_answer_elsewhere_is_said_there(corral: Corral, linear: FakeLinear) -> None:
    with serving(corral, corral.root) as server:
        trigger(corral, server)
        assert linear.call(server, "created", "d1").status == 200
        linear.said("elicitation")
        (entry,) = server.ask("GET", "inbox").json
        assert server.ask("POST", f"inbox/{entry['id']}", {"answer": "red"}).status == 200
        assert linear.said("thought")["content"]["body"].startswith("No answer is needed any more: `red` (token ")
        late = {"body": "blue"}
        assert linear.call(server, "prompted", "d2", agentActivity=late).status == 200
        assert "Nothing waits for an answer now" in linear.said("thought")["content"]["body"]
        assert "is done" in linear.said("response")["content"]["body"]


def test_stop_in_linear_stops_the_run(corral: Corral, linear: FakeLinear) -> None:
    with serving(corral, corral.root) as server:
        trigger(corral, server)
        assert linear.call(server, "created", "d1").status == 200
        linear.said("elicitation")
        halt = {"signal": "stop", "content": {"type": "prompt", "body": "stop"}}
        assert linear.call(server, "prompted", "d2", agentActivity=halt).status == 200
        assert "is stopped" in linear.said("response")["content"]["body"]
        assert [each["status"] for each in server.ask("GET", "runs").json["runs"]] == ["stopped"]


def test_what_cannot_start_is_an_error_there(corral: Corral, linear: FakeLinear) -> None:
    with serving(corral, corral.root) as server:
        trigger(corral, server)
        bad = linear.call(server, "created", "d0", agentSession={"issue": 3})
        assert (bad.status, b"no AgentSessionEvent" in bad.body) == (400, True)
        (corral.root / "script.toml").unlink()
        assert linear.call(server, "created", "d1").status == 200
        assert "No run was started" in linear.said("error")["content"]["body"]
        assert server.ask("GET", "runs").json["runs"] == []
