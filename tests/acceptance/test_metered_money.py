"""What passes to a provider is counted by corral itself: the agent's word can neither hide it nor replace it."""

import asyncio
import signal
import sys
from collections.abc import Iterator

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from tests.rig.command import Corral
from tests.rig.mcp import connected, told
from tests.rig.screen import on_terminal
from tests.rig.server import serving
from tests.rig.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.both_stores]

PRICE = 0.45  #: of one answer, by the price of its model
PROGRAM = """#!{python}
import json, os, sys, time, urllib.request
if "--version" in sys.argv:
    print("2.0.0 (Claude Code)")
    sys.exit()
ASKED = {{"type": "assistant", "message": {{"id": "m", "content": [{{"type": "text", "text": "asked"}}]}}}}
def say(**fields):
    print(json.dumps(fields), flush=True)
def ask():
    body = {{"model": "claude-sonnet-4-5", "max_tokens": 10, "stream": True,
             "messages": [{{"role": "user", "content": "x"}}],
             "tools": [{{"name": "Bash", "description": "x", "input_schema": {{"type": "object"}}}}]}}
    request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
        {{"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"]}})
    urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(request).read()
say(type="system", subtype="init", session_id="s", model="claude-sonnet-4-5")
{does}
say(type="result", subtype="success", is_error=False, result="done", session_id="s", total_cost_usd=0.0,
    usage={{"input_tokens": 0, "output_tokens": 0}})
"""


@pytest.fixture
def model(corral: Corral) -> Iterator[ScriptedModel]:
    dear = Usage(input=100_000, output=10_000)
    with ScriptedModel([Turn(text="Done.", usage=dear)] * 4) as found:
        corral.env["ANTHROPIC_API_KEY"] = "sk-scripted"
        yield found


def claude(corral: Corral, model: ScriptedModel, does: str) -> str:
    """Make `claude` a program of ours that does this between its first line and its last."""
    program = corral.root / "claude"
    program.write_text(PROGRAM.format(python=sys.executable, does=does))
    program.chmod(0o755)
    corral.config(
        f'[agents.claude]\nprogram = "{program}"\nmodel = "claude-sonnet-4-5"\n'
        f'settings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}\n'
    )
    return "claude"


def test_a_reported_nothing_does_not_hide_what_was_metered(corral: Corral, model: ScriptedModel) -> None:
    agent = claude(corral, model, "ask(); open('x.txt', 'w').write('x')")
    outcome = corral.run(corral.repo(), "t", "--agent", agent, "--retries", "0")
    assert outcome.code == 0, outcome
    cost = outcome.attempt["cost"]
    assert cost == {"usd": pytest.approx(PRICE), "source": "metered", "reserved_usd": 0.0, "disputed": True}
    assert corral("cost", "--json").json["total"]["usd"] == pytest.approx(PRICE)
    assert "disputed" in corral("show", "@last").out
    assert any("$0.45 was metered: the larger counts" in event.get("text", "") for event in corral.events())


@pytest.mark.parametrize("does", ["sys.exit(1)", "ask()"])
def test_an_attempt_that_got_no_answer_has_spent_nothing(corral: Corral, does: str) -> None:
    corral.env["ANTHROPIC_API_KEY"] = "sk-scripted"
    with ScriptedModel([Turn(status=401, message="no")]) as model:
        outcome = corral.run(corral.repo(), "t", "--agent", claude(corral, model, does), "--retries", "0")
    assert outcome.code == 1, outcome
    assert outcome.attempt["cost"] == {"usd": 0.0, "source": "metered", "reserved_usd": 0.0}
    assert corral("cost", "--json").json["total"]["reserved_usd"] == 0.0


def test_what_is_metered_is_shown_while_the_agent_works(corral: Corral, model: ScriptedModel) -> None:
    agent = claude(corral, model, "ask(); ask(); say(**ASKED); time.sleep(600.37)")
    arguments = ("run", "t", "--repo", corral.repo().folder, "--agent", agent, "--json", "--retries", "0")
    with corral.going(*arguments) as run:
        corral.until_said("asked")
        until(lambda: corral("show", "@last", "--json").json["cost"]["usd"] == pytest.approx(2 * PRICE), "it is shown")
        shown = corral("show", "@last", "--json").json
        assert shown["status"] == "running"
        assert shown["nodes"][0]["attempts"][0]["cost"]["source"] == "metered"
        assert shown["tokens"]["input"] >= 100_000
        corral("stop", "@last")
        stopped = run.end()
    assert stopped.json["nodes"][0]["attempts"][0]["cost"]["usd"] == pytest.approx(2 * PRICE)


def test_the_live_line_and_the_page_show_what_is_metered(corral: Corral, model: ScriptedModel) -> None:
    """Before the agent has reported anything; it says nothing of its own cost."""
    agent = claude(corral, model, "ask(); ask(); say(**ASKED); time.sleep(600.39)")
    words = ("run", "t", "--repo", corral.repo().folder, "--agent", agent, "--retries", "0")
    with serving(corral, corral.root) as server, on_terminal(corral, *words) as screen:
        screen.sees(r"\$0\.90")
        run = corral("ls", "--json").json[0]["run"]
        page = server.ask("GET", f"/runs/{run}").body.decode()
        assert "$0.90" in page
        assert "200.0k in, 20.0k out" in page
        assert server.ask("GET", f"runs/{run}").json["cost"]["usd"] == pytest.approx(2 * PRICE)
        screen.process.send_signal(signal.SIGTERM)
        assert screen.end() == 130


def test_many_requests_at_once_pass_a_limit_by_one_answer(corral: Corral) -> None:
    at_once = (
        "import threading\n"
        "asked = [threading.Thread(target=ask) for _ in range(12)]\n"
        "[each.start() for each in asked]; [each.join() for each in asked]"
    )
    turns = [Turn(text="Done.", usage=Usage(input=100_000, output=10_000), hang_seconds=0.2)] * 12
    corral.env["ANTHROPIC_API_KEY"] = "sk-scripted"
    with ScriptedModel(turns) as model:
        agent = claude(corral, model, at_once)
        outcome = corral.run(corral.repo(), "t", "--agent", agent, "--retries", "0", "--budget", "1.0")
        asked = len(model.work_requests)
    assert outcome.code == 4, outcome
    assert asked == 3
    assert outcome.json["cost"]["usd"] == pytest.approx(asked * PRICE)
    assert any("its requests wait for one another" in event.get("text", "") for event in corral.events())


def subscribed(corral: Corral, does: str) -> str:
    """Make `claude` a program of ours with a login and no key."""
    program = corral.root / "claude"
    program.write_text(PROGRAM.format(python=sys.executable, does=does))
    program.chmod(0o755)
    login = corral.root / "login" / ".credentials.json"
    login.parent.mkdir()
    login.write_text("{}")
    corral.config(f'[agents.claude]\nprogram = "{program}"\naccount = "work"\n')
    corral.config(f'[accounts.work]\nagent = "claude"\nfolder = "{login.parent}"\n')
    return "claude"


PAYS = "say(type='result', subtype='success', result='x', total_cost_usd=0.2)"
WINDOW = (
    "say(type='rate_limit_event', rate_limit_info=dict(status='allowed', rateLimitType='five_hour', utilization=0.42))"
)


def test_dollars_of_a_subscription_are_said_to_be_notional(corral: Corral) -> None:
    agent = subscribed(corral, f"open('x.txt', 'w').write('x'); {WINDOW}; {PAYS}; sys.exit()")
    outcome = corral.run(corral.repo(), "t", "--agent", agent, "--retries", "0")
    assert outcome.code == 0, outcome
    assert outcome.json["cost"]["notional"] is True
    assert outcome.attempt["cost"] == {"usd": 0.2, "source": "reported", "reserved_usd": 0.0, "notional": True}
    assert any("notional: subscription login" in event.get("text", "") for event in corral.events())
    shown = corral("show", "@last").out
    assert "$0.20, notional" in shown
    assert "claude@work 5h 42 % used" in shown
    found = corral("cost", "--json").json
    assert (found["total"]["notional"], found["total"]["notional_usd"]) == (True, 0.2)
    assert found["rows"][0]["notional_usd"] == 0.2
    assert [(each["account"], each["name"], each["used"]) for each in found["windows"]] == [("claude@work", "5h", 0.42)]
    printed = corral("cost").out
    assert "$0.20 of it is notional" in printed
    assert "5h 42 % used" in printed
    assert corral("cost", "--csv").out.splitlines()[1].endswith(",0.2")


def test_pages_the_api_and_mcp_say_that_dollars_are_notional(corral: Corral) -> None:
    agent = subscribed(corral, f"open('x.txt', 'w').write('x'); {WINDOW}; {PAYS}; sys.exit()")
    run = corral.run(corral.repo(), "t", "--agent", agent, "--retries", "0").json["run"]
    with serving(corral, corral.root) as server:
        shown = server.ask("GET", "cost").json
        assert shown == corral("cost", "--json").json
        assert shown["total"]["notional"] is True
        assert b"$0.20 of it is notional" in server.ask("GET", "/cost").body
        assert server.ask("GET", f"/runs/{run}").body.count(b"notional: subscription login") == 2

    async def look() -> str:
        async with connected(corral) as client:
            return told(await client.call_tool("engine_result", {"run": run}))

    assert "$0.20 is notional: subscription login" in asyncio.run(look())


def test_dollars_of_a_subscription_stay_notional_after_a_kill_and_count_against_limits(corral: Corral) -> None:
    """Only the ledger knows of it then."""
    agent = subscribed(corral, f"{PAYS}; say(**ASKED); time.sleep(600.37)")
    corral("budget", "set", "--per-day", "10")
    with corral.going("run", "t", "--repo", corral.repo().folder, "--agent", agent, "--json") as run:
        corral.until_said("asked")
        assert corral("show", "@last", "--json").json["cost"]["notional"] is True
        run.process.kill()
        run.process.wait()
    assert corral("budget", "--json").json["day"]["spent"] == 0.2
    assert corral("cost", "--json").json["total"]["notional_usd"] == 0.2
    stopped = corral("stop", "@last", "--json")
    assert stopped.code == 0, stopped
    assert corral("show", "@last", "--json").json["cost"] == {
        "usd": 0.2, "source": "reported", "reserved_usd": 0.0, "notional": True
    }  # fmt: skip
