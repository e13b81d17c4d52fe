"""What waits for a person, asked through the client in both eras; a client that cannot ask is told how to answer."""

import asyncio
from typing import Any

import pytest

from tests.acceptance.test_mcp import done, play
from tests.rig.command import Corral
from tests.rig.mcp import MODES, Person, connected, told
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

GATED = """
nodes:
  make: {task: make it, agent: mine}
  ok: {gate: "Go past the gate?", needs: [make]}
  more: {task: more, agent: mine, needs: [ok]}
"""
ASKS = """
[[step]]
ask = "Which colour?"
wait = true
[[step]]
write = "colour.txt"
text = "it is {answer}"
"""


@pytest.fixture
def ready(corral: Corral) -> Corral:
    corral.agent("mine", 'echo "$1" >> said.txt')
    return corral


@pytest.mark.parametrize("mode", MODES)
def test_a_gate_is_asked_at_the_client(ready: Corral, mode: str) -> None:
    repo, person = ready.repo(), Person("yes")

    async def work() -> Any:
        async with connected(ready, mode, person) as client:
            return await done(client, "engine_flow", action="run", path=str(repo.folder), flow=GATED)

    run = play(work())
    assert run["status"] == "done"
    assert {node["id"]: node["status"] for node in run["nodes"]} == {"make": "done", "ok": "done", "more": "done"}
    assert len(person.questions) == 1
    assert "Go past the gate?" in person.questions[0]
    answered = ready("inbox", "--all", "--json").json[0]
    assert (answered["answer"], "mcp" in answered["answered_by"]) == ("yes", True)


@pytest.mark.parametrize("mode", MODES)
def test_who_would_not_answer_finds_it_in_the_inbox(ready: Corral, mode: str) -> None:
    repo, person = ready.repo(), Person(None)

    async def work() -> Any:
        async with connected(ready, mode, person) as client:
            return await client.call_tool("engine_flow", {"action": "run", "path": str(repo.folder), "flow": GATED})

    result = play(work())
    assert not result.is_error
    assert result.structured_content["status"] == "waiting"
    assert len(ready("inbox", "--json").json) == 1


def test_a_client_that_cannot_ask_answers_by_a_tool(ready: Corral) -> None:
    repo = ready.repo()

    async def work() -> None:
        async with connected(ready) as client:
            asked = {"action": "run", "path": str(repo.folder), "flow": GATED}
            result = await client.call_tool("engine_flow", asked)
            assert not result.is_error
            assert result.structured_content["status"] == "waiting"
            assert "Go past the gate?" in told(result)
            waiting = (await done(client, "engine_status"))["waiting"]
            assert [each["text"] for each in waiting] == ["Go past the gate?"]
            said = await done(client, "engine_answer", id=waiting[0]["id"], answer="yes")
            assert said["outcome"] == "the run continues"
            run = await done(client, "engine_result", run=said["run"], wait=120)
            assert run["status"] == "done"

    play(work())


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_at_work_asks_through_the_client(corral: Corral, mode: str) -> None:
    repo, person, agent = corral.repo(), Person("blue"), corral.script(ASKS)

    async def work() -> Any:
        async with connected(corral, mode, person) as client:
            return await done(client, "engine_execute", path=str(repo.folder), task="paint", agents=[agent])

    run = play(work())
    assert repo.read(run["nodes"][0]["attempts"][0]["commit"], "colour.txt") == "it is blue"
    assert "Which colour?" in person.questions[0]


def test_an_agent_at_work_is_answered_by_a_tool(corral: Corral) -> None:
    repo, agent = corral.repo(), corral.script(ASKS)

    async def work() -> Any:
        async with connected(corral) as client:
            result = await client.call_tool(
                "engine_execute", {"path": str(repo.folder), "task": "paint", "agents": [agent]}
            )
            assert not result.is_error
            assert "Which colour?" in told(result)
            waiting = (await done(client, "engine_status"))["waiting"]
            await done(client, "engine_answer", id=waiting[0]["id"], answer="green")
            return await done(client, "engine_result", run=result.structured_content["run"], wait=120)

    run = play(work())
    assert repo.read(run["nodes"][0]["attempts"][0]["commit"], "colour.txt") == "it is green"


def test_steering_reaches_the_agent_at_work(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.script('[[step]]\nsay = "ready"\n[[step]]\nrun = "until [ -e go ]; do sleep 0.1; done"\n')

    async def work() -> None:
        async with connected(corral) as client:
            begun = await done(
                client, "engine_execute", path=str(repo.folder), task="work", agents=[agent], background=True
            )
            assert begun["status"] in ("queued", "running")
            await asyncio.to_thread(corral.until_said, "ready", begun["run"])
            said = await done(client, "engine_steer", run=begun["run"], text="also the docs")
            assert said["outcome"]
            stopped = await done(client, "engine_interrupt", run=begun["run"])
            assert stopped["status"] == "stopped"

    play(work())
    until(lambda: not corral.leavings(), "its workspace is gone")


@pytest.mark.parametrize("mode", MODES)
def test_a_budget_that_is_used_up_is_asked_about(corral: Corral, mode: str) -> None:
    repo, person = corral.repo(), Person("yes")
    agent = corral.agent("dear", "echo x > x.txt", "cost_usd = 0.5")

    async def work() -> None:
        async with connected(corral, mode, person) as client:
            asked = {"path": str(repo.folder), "task": "x", "force_runtime": agent, "max_cost": 0.3}
            assert (await done(client, "engine_execute", **asked))["status"] == "done"

    play(work())
    assert "0.3" in person.questions[0]


def test_over_budget_without_anybody_to_ask(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.agent("dear", "echo x > x.txt", "cost_usd = 0.5")

    async def work() -> None:
        async with connected(corral) as client:
            asked = {"path": str(repo.folder), "task": "x", "force_runtime": agent, "max_cost": 0.3}
            result = await client.call_tool("engine_execute", asked)
            assert result.is_error
            assert result.structured_content["status"] == "over_budget"
            waiting = (await done(client, "engine_status"))["waiting"]
            said = await done(client, "engine_answer", id=waiting[0]["id"], answer="yes")
            assert said["outcome"] == "the run continues"
            assert (await done(client, "engine_result", run=said["run"], wait=120))["status"] == "done"

    play(work())


def test_over_budget_with_a_warning_where_settings_say_so(corral: Corral) -> None:
    """Nobody can be asked: it goes on, says so, and stays below the ceiling."""
    repo = corral.repo()
    agent = corral.agent("dear", "echo x > x.txt", "cost_usd = 0.5")
    corral.config("[budget]\nceiling_usd = 0.9\n")

    async def work() -> None:
        async with connected(corral) as client:
            asked = {"path": str(repo.folder), "task": "x", "force_runtime": agent, "max_cost": 0.3}
            result = await client.call_tool("engine_execute", asked)
            assert result.structured_content["status"] == "done"
            assert "warning: the budget of this task is $0.30" in str(result.content[0])
            again = await client.call_tool("engine_execute", asked)
            assert again.structured_content["status"] == "over_budget"

    play(work())
    entries = {entry["id"]: entry for entry in corral("inbox", "--all", "--json").json}
    assert entries["1"]["answer"] == "raise 0.50"  # its whole price


def test_budgets_are_set_hold_and_are_reset(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.agent("dear", "echo x > x.txt", "cost_usd = 0.5")

    async def work() -> None:
        async with connected(corral) as client:
            before = await done(client, "engine_budget")
            assert (before["daily_limit"], before["limits"]) == (None, [])
            found = await done(client, "engine_budget", action="set", max_cost=0.75, per_month=9)
            assert (found["daily_limit"], found["monthly_limit"]) == (0.75, 9.0)
            assert "mcp" in found["limits"][0]["by"], "who set it is kept"
            asked = {"path": str(repo.folder), "task": "x", "force_runtime": agent}
            await done(client, "engine_execute", **asked)
            assert (await done(client, "engine_budget"))["daily_spending"] == 0.5
            assert (await client.call_tool("engine_execute", asked)).is_error, "the day's limit holds"
            bad = await client.call_tool("engine_budget", {"action": "set", "max_cost": -1})
            assert bad.is_error
            found = await done(client, "engine_budget", reset=True)
            assert (found["daily_limit"], found["daily_spending"]) == (None, 0.5)
            await done(client, "engine_execute", **asked)

    play(work())
    assert corral("budget", "--json").json["day"]["spent"] == 1.0
