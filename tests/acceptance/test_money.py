"""Budgets that act: across runs and processes, before the start and mid-run; costs, quotas, a halt of everything."""

import csv
import io
import os
import pty
import re
import select
import subprocess
import time
from typing import Any

import pytest

from corral.testing import ScriptedModel, Turn, Usage
from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.server import serving
from tests.rig.suites import claude_program
from tests.rig.waiting import until

pytestmark = pytest.mark.both_stores

SPENDS = '[[step]]\nwrite = "x.txt"\ntext = "x"\n[[step]]\nspend = {usd}\ninput = 1000\noutput = 200\n'
WAITS = '[[step]]\nwrite = "x.txt"\n[[step]]\nspend = 0.1\n[[step]]\nsay = "ready"\n[[step]]\nhang = 600\n'


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


def spends(corral: Corral, usd: float, name: str = "spends.toml") -> str:
    return corral.script(SPENDS.replace("{usd}", str(usd)), name)


def entries(corral: Corral) -> list[dict[str, Any]]:
    return corral("inbox", "--json").json


def test_limits_are_set_once_and_hold_for_all_runs(corral: Corral, repo: Repo) -> None:
    assert corral("budget", "set", "--per-day", "1.0").code == 0
    agent = spends(corral, 0.6)
    assert corral.run(repo, "t", "--agent", agent).code == 0
    second = corral.run(repo, "t", "--agent", agent)
    assert second.code == 4, second
    assert second.json["status"] == "over_budget"
    assert "the budget of the day is $1.00: $0.60 is spent" in second.json["reason"]
    assert second.attempt["tokens"]["input"] == 0  # it was asked before the limit, not killed after it
    (entry,) = entries(corral)
    assert (entry["kind"], entry["about"], entry["default"]) == ("approval", "budget", "stop")
    assert entry["choices"] == ["raise 1.00", "stop"]
    assert second.attempt["error"]["class"] == "budget"
    assert second.attempt["cost"] == {"usd": 0.0, "source": "fixed", "reserved_usd": 0.0}  # nothing ran
    assert second.json["cost"]["usd"] == 0.0
    shown = corral("budget", "--json").json
    assert shown["limits"][0]["spent"] == 0.6
    assert shown["limits"][0]["reserved"] == 0.0
    assert shown["zone"]


def test_yes_goes_past_a_budget_but_not_past_the_ceiling(corral: Corral, repo: Repo) -> None:
    corral("budget", "set", "--per-day", "1.0", "--ceiling", "2.0")
    agent = spends(corral, 0.6)
    codes = [corral.run(repo, "t", "--agent", agent, "--yes").code for _ in range(4)]
    assert codes == [0, 0, 4, 4]  # the third would want more than is left below the ceiling
    entry, _ = entries(corral)  # one for each run
    assert "budget set --ceiling" in entry["context"]
    for text in ("yes", "5", "1000000"):
        refused = corral("answer", entry["id"], text)
        assert (refused.code, "corral budget set --ceiling" in refused.err) == (2, True), refused
    shown = corral("show", entry["run"])
    assert f"next     corral budget set --ceiling USD   corral resume {entry['run']}\n" in shown.out
    assert "corral answer" not in shown.out
    assert corral("answer", entry["id"], "stop").code == 0
    assert "--ceiling" not in corral("show", entry["run"]).out
    reset = corral("budget", "reset")
    assert "the ceiling of $2.00 stays: corral budget reset --all\n" in reset.err
    assert "stays" not in corral("budget", "reset", "--all").err


def test_an_answer_lets_the_run_go_on_from_its_saved_work(corral: Corral, repo: Repo) -> None:
    script = corral.script(
        '[[step]]\nresumed = false\nwrite = "first.txt"\n[[step]]\nspend = 0.7\n[[step]]\nrun = "test -e first.txt && touch second.txt; sleep 0.5"\n'
    )
    over = corral.run(repo, "t", "--agent", script, "--budget", "0.5")
    assert over.code == 4, over
    assert repo.read(over.attempt["branch"], "first.txt") == ""
    (entry,) = entries(corral)
    wrong = corral("answer", entry["id"], "perhaps")
    assert wrong.code == 2
    assert "an amount in USD" in wrong.err
    told = corral("budget", "set", "--per-month", "100")
    assert f"corral resume {over.json['run']}" in told.err
    answered = corral("answer", entry["id"], "5")
    assert answered.out == f"answered {entry['id']}: 5; continue it: corral resume {over.json['run']}\n"
    assert "corral resume" not in corral("budget", "set", "--per-month", "100").err
    resumed = corral("resume", over.json["run"], "--json")
    assert resumed.code == 0, resumed
    attempt = resumed.json["nodes"][0]["attempts"][-1]
    assert "second.txt" in attempt["files_changed"]
    assert resumed.json["cost"]["usd"] == pytest.approx(1.4)


@pytest.mark.slow
def test_an_answer_can_have_the_run_go_on_by_itself(corral: Corral, repo: Repo) -> None:
    over = corral.run(repo, "t", "--agent", spends(corral, 0.7), "--budget", "0.5")
    assert over.code == 4, over
    (entry,) = entries(corral)
    answered = corral("answer", entry["id"], "5", "--resume")
    assert answered.code == 0, answered
    assert f"it continues; watch it: corral logs -f {over.json['run']}" in answered.out
    until(lambda: corral("show", "@last", "--json").json["status"] == "done", "it is done, though nobody resumed it")
    (kept,) = corral("inbox", "--all", "--json").json
    assert kept["outcome"].startswith("it continues")


def test_a_flow_that_is_over_budget_asks_and_says_how_it_goes_on(corral: Corral, repo: Repo) -> None:
    dear = corral.agent("dear", "echo x >> x.txt", "cost_usd = 0.5")
    file = corral.root / "two.yaml"
    file.write_text(
        f"name: two\nbudget: {{usd: 0.5}}\nnodes:\n  a: {{agent: {dear}, task: first}}\n"
        f"  b: {{agent: {dear}, task: second, needs: [a]}}\n"
    )
    over = corral("flow", "run", file, "--repo", repo.folder)
    assert over.code == 4, over
    (entry,) = entries(corral)
    assert f"next     corral answer {entry['id']} {entry['choices'][0]}   corral resume" in over.out
    assert "the budget of this run is $0.50: $0.50 is spent" in entry["text"]
    raised = corral("answer", entry["id"], *entry["choices"][0].split())  # as it is typed
    assert "continue it: corral resume" in raised.out, raised
    assert "corral answer" not in corral("show", "@last").out
    resumed = corral("resume", entry["run"], "--json")
    assert resumed.code == 0, resumed
    assert [node["status"] for node in resumed.json["nodes"]] == ["done", "done"]
    assert resumed.json["cost"]["usd"] == pytest.approx(1.0)


def test_what_costs_nothing_can_be_let_past_a_limit_that_is_used_up(corral: Corral, repo: Repo) -> None:
    assert corral.run(repo, "t", "--agent", corral.agent("paid", "echo hi > hi.txt", "cost_usd = 0.5")).code == 0
    assert corral("budget", "set", "--per-day", "0.3").code == 0
    flow = corral.root / "flow.yaml"
    flow.write_text("nodes:\n  a: {run: 'echo hi > new.txt'}\n")
    assert corral("flow", "run", flow, "--repo", repo.folder).code == 4
    (entry,) = corral("inbox", "--json").json
    assert corral("answer", entry["id"], entry["choices"][0]).code == 0, entry  # what is offered is taken
    assert corral("resume", "@last", "--json").json["status"] == "done"


def test_the_cheapest_that_fits_goes_on_where_settings_say_so(corral: Corral, repo: Repo) -> None:
    for name, usd in (("dear", 0.9), ("middling", 0.4), ("cheap", 0.2)):
        corral.agent(name, "echo x > x.txt", f'cost_usd = {usd}\nfamily = "one"')
    arguments = ("--agent", "dear", "--fallback", "middling,cheap", "--budget", "0.5")
    refused = corral.run(repo, "t", *arguments)
    assert refused.code == 4, refused
    assert len(refused.json["nodes"][0]["attempts"]) == 1
    corral.config("[budget]\ncheaper = true")
    outcome = corral.run(repo, "t", *arguments)
    assert outcome.code == 0, outcome
    first, second = outcome.json["nodes"][0]["attempts"]
    assert (first["status"], first["cost"]["usd"]) == ("over_budget", 0.0)
    assert "cheap continues, at about $0.20" in first["error"]["message"]
    assert (second["agent"], second["fallback_of"]) == ("cheap", first["id"])
    assert outcome.json["cost"]["usd"] == 0.2
    assert len(entries(corral)) == 1  # of the first run: nobody need be asked for the second
    none = corral.run(repo, "t", *arguments[:-1], "0.1")
    assert none.code == 4, none


def test_no_leaves_it_over(corral: Corral, repo: Repo) -> None:
    over = corral.run(repo, "t", "--agent", spends(corral, 0.7), "--budget", "0.5")
    (entry,) = entries(corral)
    assert "stays over" in corral("answer", entry["id"], "no").out
    assert corral("resume", over.json["run"], "--json").json["status"] == "over_budget"


def test_on_a_terminal_it_asks(corral: Corral, repo: Repo) -> None:
    agent = spends(corral, 0.7)
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*corral.program, "run", "t", "--repo", str(repo.folder), "--agent", agent, "--budget", "0.5"],
        env={**corral.env, "TERM": "dumb"}, stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    seen, end = "", time.monotonic() + 60
    while "an amount in USD" not in seen and time.monotonic() < end:
        if select.select([leader], [], [], 1)[0]:
            seen += os.read(leader, 4096).decode(errors="replace")
    assert "the budget of this task is $0.50" in seen
    os.write(leader, b"2\n")
    while process.poll() is None and time.monotonic() < end:
        if select.select([leader], [], [], 0.2)[0]:
            try:
                seen += os.read(leader, 4096).decode(errors="replace")
            except OSError:
                break
    assert process.wait(timeout=200) == 0, seen
    os.close(leader)


def test_a_warning_at_eighty_percent(corral: Corral, repo: Repo) -> None:
    assert corral.run(repo, "t", "--agent", spends(corral, 0.85), "--budget", "1").code == 0
    assert any("85 % of the budget of this task is used" in event.get("text", "") for event in corral.events())


def test_tokens_have_a_limit_too(corral: Corral, repo: Repo) -> None:
    outcome = corral.run(repo, "t", "--agent", spends(corral, 0.1), "--max-tokens", "1000")
    assert outcome.code == 4, outcome
    assert "1000 tokens" in outcome.json["reason"]
    assert corral.run(repo, "t", "--agent", spends(corral, 0.1), "--max-tokens", "5000").code == 0


def test_unknown_cost_stays_reserved_and_is_never_shown_as_spent(corral: Corral, repo: Repo) -> None:
    corral.config("[budget]\nper_day_usd = 1.5\nunknown_cost_usd = 0.9")
    agent = corral.agent("mute", "echo x > x.txt; echo '{}'", 'output = "regex"\ncost = "cost: (.*)"')
    first = corral.run(repo, "t", "--agent", agent)
    assert first.code == 0, first
    unknown = {"usd": None, "source": "unknown", "reserved_usd": 0.9}
    assert first.attempt["cost"] == first.json["cost"] == unknown
    assert corral("cost", "--json").json["total"] == {"usd": 0.0, "source": "unknown", "reserved_usd": 0.9}
    assert "$0.00 spent, up to $0.90 reserved for unknown cost" in corral("cost").out
    assert "cost unknown, up to $0.90 reserved" in corral("show", "@last").out
    assert corral("budget", "--json").json["day"] == {"spent": 0.0, "reserved": 0.9}
    assert corral.run(repo, "t", "--agent", agent).code == 4


def test_limits_of_one_agent_and_of_one_repository(corral: Corral, repo: Repo) -> None:
    dear = corral.agent("dear", "echo x > x.txt", "cost_usd = 0.4")
    other = corral.repo("other")
    corral("budget", "set", "--per-day", "0.5", "--agent", dear)
    assert [corral.run(repo, "t", "--agent", dear).code for _ in range(2)] == [0, 4]
    assert corral.run(repo, "t", "--agent", spends(corral, 0.6)).code == 0
    assert corral("budget", "reset").code == 0
    corral("budget", "set", "--per-month", "0.5", "--repo", other.folder)
    assert corral.run(repo, "t", "--agent", dear).code == 0
    assert [corral.run(other, "t", "--agent", dear).code for _ in range(2)] == [0, 4]


def test_a_limit_of_what_does_not_exist_is_refused(corral: Corral, repo: Repo) -> None:
    typo = corral("budget", "set", "--per-day", "1", "--agent", "claud")
    assert typo.code == 2, typo
    assert "claude" in typo.err
    nowhere = corral("budget", "set", "--per-day", "1", "--repo", corral.root / "nowhere")
    assert nowhere.code == 2, nowhere
    assert "nowhere" in nowhere.err
    assert "hint:" in nowhere.err
    assert corral("budget", "--json").json["limits"] == []
    (repo.folder / "inner").mkdir()
    assert corral("budget", "set", "--per-day", "1", "--repo", repo.folder / "inner").code == 0
    assert corral("budget", "--json").json["limits"][0]["repo"] == str(repo.folder)
    assert corral("budget", "reset", "--repo", repo.folder / "inner").code == 0
    assert corral("budget", "--json").json["limits"] == []


def test_what_an_agent_may_have_spent_when_its_process_was_killed_stays_reserved(corral: Corral, repo: Repo) -> None:
    corral.config("[budget]\nunknown_cost_usd = 0.9")
    corral("budget", "set", "--per-day", "1.0")
    with corral.going("run", "t", "--repo", repo.folder, "--agent", corral.script(WAITS), "--json") as run:
        corral.until_said("ready")
        held = corral("budget", "--json").json["day"]
        assert (held["spent"], held["reserved"]) == (0.1, pytest.approx(0.8))
        assert corral.run(repo, "t", "--agent", spends(corral, 0.2)).code == 4
        run.process.kill()
        run.process.wait()
    assert corral.run(repo, "t", "--agent", spends(corral, 0.2)).code == 4  # nobody knows what the first one spent
    assert corral("budget", "--json").json["day"] == {"spent": 0.1, "reserved": pytest.approx(0.8)}
    killed = corral("ls", "--json").json[-1]["run"]
    resumed = corral("resume", killed, "--json")
    assert resumed.code == 4, resumed
    assert resumed.json["cost"]["usd"] == pytest.approx(0.1)  # what is reserved is not spent
    assert resumed.json["cost"]["reserved_usd"] == pytest.approx(0.8)
    assert corral("cost", "--json").json["total"]["reserved_usd"] == pytest.approx(0.8)


def test_what_a_killed_process_held_for_an_agent_that_had_not_started_is_given_back(corral: Corral, repo: Repo) -> None:
    corral.config("[budget]\nunknown_cost_usd = 0.9\n")
    corral.config(f"[[hooks]]\non = \"before_prompt\"\nrun = 'touch {corral.root}/begun; sleep 600.41'\n")
    corral("budget", "set", "--per-day", "1.0")
    agent = spends(corral, 0.2)
    with corral.going("run", "t", "--repo", repo.folder, "--agent", agent) as run:
        until(lambda: corral("budget", "--json").json["day"]["reserved"] == 0.9, "its price is reserved")
        until(lambda: any(corral.root.rglob("begun")), "its hook is at work")
        run.process.kill()
        run.process.wait()
    assert corral("budget", "--json").json["day"] == {"spent": 0.0, "reserved": 0.0}


def test_halt_stops_everything_and_lets_nothing_start(corral: Corral, repo: Repo) -> None:
    with corral.going("run", "t", "--repo", repo.folder, "--agent", corral.script(WAITS), "--json") as run:
        corral.until_said("ready")
        assert "1 run stopped" in corral("halt").out
        assert run.end().code == 130
    refused = corral.run(repo, "t", "--agent", spends(corral, 0.1))
    assert refused.code == 2
    assert "corral halt --off" in refused.err
    corral("halt", "--off")
    assert corral.run(repo, "t", "--agent", spends(corral, 0.1)).code == 0


def test_costs_by_every_dimension(corral: Corral, repo: Repo) -> None:
    dear = corral.agent("dear", "echo x > x.txt", "cost_usd = 0.4")
    for _ in range(2):
        corral.run(repo, "t", "--agent", dear, "--type", "bugfix")
    corral.run(repo, "t", "--agent", spends(corral, 0.1))
    found = corral("cost", "--json").json
    assert found["total"] == {"usd": pytest.approx(0.9), "source": "fixed", "reserved_usd": 0.0}
    assert [(row["key"], row["usd"], row["attempts"]) for row in found["rows"]] == [
        ("dear", 0.8, 2),
        ("scripted", 0.1, 1),
    ]
    kinds = corral("cost", "--by", "task-kind", "--json").json["rows"]
    assert [(row["key"], row["attempts"]) for row in kinds] == [("bugfix", 2), ("-", 1)]
    (day,) = corral("cost", "--by", "day", "--json").json["rows"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day["key"])
    (place,) = corral("cost", "--by", "repo", "--json").json["rows"]
    assert place["key"] == str(repo.folder)
    rows = list(csv.DictReader(io.StringIO(corral("cost", "--by", "agent", "--csv").out)))
    assert [row["key"] for row in rows] == ["dear", "scripted"]
    assert "█" in corral("cost").out
    metrics = corral("cost", "--prometheus").out
    assert 'corral_spent_usd_total{agent="dear",model=""} 0.8' in metrics
    assert 'corral_attempts_total{agent="dear",status="done"} 2' in metrics
    assert 'corral_tokens_total{agent="scripted",kind="input"} 1000' in metrics
    corral("budget", "set", "--per-day", "3")
    metrics = corral("cost", "--prometheus").out
    assert 'corral_limit_usd{window="day",agent="",repo=""} 3' in metrics
    assert 'corral_limit_spent_usd{window="day",agent="",repo=""} 0.9' in metrics


def test_quotas_that_agents_met(corral: Corral, repo: Repo) -> None:
    assert corral("quota", "--json").json == []
    corral.run(repo, "t", "--agent", corral.script('[[step]]\nlimit = 7200\ntext = "usage limit reached"\n'))
    (found,) = corral("quota", "--json").json
    assert (found["agent"], found["times"], found["message"]) == ("scripted", 1, "usage limit reached")
    assert found["until"] > found["seen"]
    assert "usage limit reached" in corral("quota").out


def test_a_repository_narrows_and_never_lifts(corral: Corral) -> None:
    narrow = corral.repo("narrow", {"corral.toml": "[budget]\nper_run_usd = 0.3\n"})
    over = corral.run(narrow, "t", "--agent", spends(corral, 0.5))
    assert over.code == 4, over
    bold = corral.repo("bold", {"corral.toml": "[budget]\nunknown_cost_usd = 0.0001\n"})
    refused = corral.run(bold, "t", "--agent", spends(corral, 0.5))
    assert refused.code == 2
    assert "is yours to say" in refused.err


@pytest.mark.parametrize("text", ["per_day_usd = -1.0", "per_day_usd = nan", "per_run_usd = 0.0", "ceiling_usd = inf"])
def test_a_limit_that_is_none(corral: Corral, repo: Repo, text: str) -> None:
    corral.config(f"[budget]\n{text}")
    outcome = corral.run(repo, "t", "--agent", spends(corral, 0.1))
    assert outcome.code == 2
    assert ":2: [budget]" in outcome.err


@pytest.mark.slow
def test_the_real_claude_is_stopped_within_one_turn(corral: Corral, repo: Repo) -> None:
    """Its own cap comes late and its cost at the end: what is metered on the way stops it."""
    dear = Usage(input=100_000, output=10_000)  # $0.45 by its price
    turns = [
        Turn(sh="echo 1 > one.txt", usage=dear),
        Turn(sh="echo 2 > two.txt", usage=dear),
        Turn(sh="echo 3 > three.txt", usage=dear),
        Turn(sh="echo 4 > four.txt", usage=dear),
        Turn(text="Done."),
    ]
    with ScriptedModel(turns) as model:
        corral.config(
            f'[agents.claude]\nprogram = "{claude_program()}"\nmodel = "claude-sonnet-4-5"\n'
            f'settings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}\n'
        )
        corral.env["ANTHROPIC_API_KEY"] = "sk-scripted"
        corral("budget", "set", "--per-run", "1.0")
        outcome = corral.run(repo, "t", "--agent", "claude", "--retries", "0")
        asked = model.work_requests
    assert outcome.code == 4, outcome
    assert outcome.json["status"] == "over_budget"
    assert outcome.attempt["cost"]["usd"] == pytest.approx(1.35, rel=0.05)
    assert len(asked) <= 4
    assert "one.txt" in outcome.attempt["files_changed"]
    assert "four.txt" not in outcome.attempt["files_changed"]
    assert len(entries(corral)) == 1
    until(lambda: corral("budget", "--json").json["day"]["reserved"] == 0.0, "nothing is held any more")


def test_a_program_that_reports_cents(corral: Corral, repo: Repo) -> None:
    agent = corral.agent(
        "cents", "echo x > x.txt; echo '{\"cost\": 60}'", 'output = "json"\ncost = "cost"\ncost_unit = "cents"'
    )
    outcome = corral.run(repo, "t", "--agent", agent, "--budget", "1")
    assert outcome.code == 0, outcome
    assert outcome.attempt["cost"] == {"usd": 0.6, "source": "reported", "reserved_usd": 0.0}


@pytest.mark.parametrize("reported", ["NaN", "-5", "1e999", "1e308", '"much"'])
def test_a_cost_that_is_none_is_unknown_and_stays_reserved(corral: Corral, repo: Repo, reported: str) -> None:
    agent = corral.agent("odd", f"echo x > x.txt; echo 'cost: {reported}'", 'output = "regex"\ncost = "cost: (.*)"')
    outcome = corral.run(repo, "t", "--agent", agent)
    assert outcome.code == 0, outcome
    assert outcome.attempt["cost"] == {"usd": None, "source": "unknown", "reserved_usd": 1.0}
    assert corral("cost", "--json").json["total"] == {"usd": 0.0, "source": "unknown", "reserved_usd": 1.0}


def test_pages_show_what_is_reserved_and_not_as_spent(corral: Corral, repo: Repo) -> None:
    corral("budget", "set", "--per-day", "5.0")
    agent = corral.agent(
        "mute", "echo x > x.txt; echo '{}'", 'output = "jsonl"\ncost = "usd"'
    )  # it does not say what it cost
    run = corral.run(repo, "t", "--agent", agent).json["run"]
    assert corral.run(repo, "t", "--agent", spends(corral, 0.25)).code == 0
    with serving(corral, corral.root) as server:
        now, cost, page = (server.ask("GET", path).body.decode() for path in ("/", "/cost", f"/runs/{run}"))
    assert "$1.00 reserved" in now
    assert "$0.25</" in now
    assert "spent, up to $1.00 reserved for unknown cost" in cost
    assert "1 attempt of unknown cost, $1.00 reserved" in cost
    assert "up to $1.00 reserved</small>" in page  # beside what it has spent
    assert "up to $1.00 reserved for unknown cost" in page  # of its attempt
    assert not any("$1.25" in each for each in (now, cost, page))
