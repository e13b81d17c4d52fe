"""Limits hold for attempts side by side: what each is expected to cost is reserved, so fewer start at once."""

from contextlib import ExitStack
from typing import Any

import pytest

from tests.rig.command import Corral, Outcome, RunningCommand
from tests.rig.repository import Repo
from tests.rig.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.both_stores]  # each starts several boxes

AT_WORK, PAID = "at-work-now", '{"usd": 0.08}'
REPORTS = 'output = "jsonl"\ncost = "usd"'


def pays(corral: Corral, usd: float, steps: int = 1, name: str = "pay") -> str:
    """Make an agent that reports its cost, in so many steps."""
    printed = "".join(f"echo '{{\"usd\": {usd * (step + 1) / steps:.4f}}}'\n" for step in range(steps))
    return corral.agent(name, f"echo $$ > work-$$.txt\n{printed}", REPORTS)


def flow(corral: Corral, agent: str, nodes: int, usd: float | None = None, parallel: int = 8) -> list[str]:
    file = corral.root / "flow.yaml"
    limit = f"budget: {{usd: {usd}}}\n" if usd else ""
    tasks = "".join(f"  n{number}: {{agent: {agent}, task: do {number}}}\n" for number in range(nodes))
    file.write_text(f"name: wide\nparallel: {parallel}\n{limit}nodes:\n{tasks}")
    return ["flow", "run", str(file), "--json"]


def attempts(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for node in run["nodes"] for each in node["attempts"]]


def held(outcome: Outcome, limit: float, price: float) -> None:
    """Look at the money from outside: what was reported in all, and how many attempts it came from."""
    found = attempts(outcome.json)
    spent = sum(each["cost"]["usd"] or 0.0 for each in found)
    assert spent == pytest.approx(outcome.json["cost"]["usd"])
    assert spent <= limit + 1e-6, found
    paid = [each for each in found if each["cost"]["usd"]]
    assert len(paid) == int(limit / price + 1e-6)
    assert outcome.json["cost"]["reserved_usd"] == 0.0


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


def assume(corral: Corral, usd: float) -> None:
    corral.config(f"[budget]\nunknown_cost_usd = {usd}")


def test_a_flow_of_eight_whose_price_is_assumed(corral: Corral, repo: Repo) -> None:
    assume(corral, 0.5)
    outcome = corral(*flow(corral, pays(corral, 0.5), 8, 1.0), "--repo", repo.folder)
    assert outcome.code == 4, outcome
    held(outcome, 1.0, 0.5)
    assert [node["status"] for node in outcome.json["nodes"]].count("done") == 2
    (entry,) = corral("inbox", "--json").json
    assert corral("answer", entry["id"], *entry["choices"][0].split()).code == 0
    resumed = corral("resume", "@last", "--json")
    assert resumed.code == 0, resumed  # what is offered is enough for all that is left
    assert resumed.json["cost"]["usd"] == pytest.approx(4.0)


def test_a_flow_whose_price_is_known_from_earlier_runs(corral: Corral, repo: Repo) -> None:
    agent = pays(corral, 0.5)
    for _ in range(3):
        assert corral.run(repo, "t", "--agent", agent).code == 0
    assume(corral, 0.01)  # what is known counts, not what is assumed
    outcome = corral(*flow(corral, agent, 8, 1.0), "--repo", repo.folder)
    assert outcome.code == 4, outcome
    held(outcome, 1.0, 0.5)


@pytest.mark.parametrize("limit", ["--per-run", "--per-day", "--per-month"])
def test_a_flow_of_eight_under_a_limit_that_was_set(corral: Corral, repo: Repo, limit: str) -> None:
    assume(corral, 0.5)
    corral("budget", "set", limit, "1.0")
    outcome = corral(*flow(corral, pays(corral, 0.5), 8), "--repo", repo.folder)
    assert outcome.code == 4, outcome
    held(outcome, 1.0, 0.5)


@pytest.mark.parametrize("limit", ["--per-day", "--per-month"])
def test_a_flow_of_eight_with_a_fixed_price_under_a_shared_limit(corral: Corral, repo: Repo, limit: str) -> None:
    """A price that is known makes none of them wait: what is reserved for those at work leaves room for two."""
    corral("budget", "set", limit, "1.0")
    agent = corral.agent("fixed", "echo $$ > work-$$.txt", "cost_usd = 0.5")
    outcome = corral(*flow(corral, agent, 8), "--repo", repo.folder)
    assert outcome.code == 4, outcome
    held(outcome, 1.0, 0.5)


def test_a_flow_of_eight_under_a_limit_of_the_day_with_a_price_that_is_assumed_too_low(
    corral: Corral, repo: Repo
) -> None:
    assume(corral, 0.1)
    corral("budget", "set", "--per-day", "1.0")
    outcome = corral(*flow(corral, pays(corral, 0.5), 8), "--repo", repo.folder)
    assert outcome.code == 4, outcome
    held(outcome, 1.0, 0.5)


@pytest.mark.parametrize(("price", "limit", "assumed"), [(0.5, 1.0, 0.1), (3.0, 4.0, 1.0)])
def test_a_price_that_is_assumed_too_low(
    corral: Corral, repo: Repo, price: float, limit: float, assumed: float
) -> None:
    """They work one after another until the price is known."""
    assume(corral, assumed)
    outcome = corral.run(repo, "t", "--agent", pays(corral, price) + "*4", "--budget", str(limit), "--retries", "0")
    assert outcome.code == 0, outcome
    held(outcome, limit, price)


@pytest.mark.parametrize("limit", ["--per-day", "--per-month", "--ceiling"])
def test_processes_under_a_shared_limit_with_a_price_that_is_assumed_too_low(
    corral: Corral, repo: Repo, limit: str
) -> None:
    """Of runs in processes of their own, too, one is at work until the price is known; the others say what for."""
    assume(corral, 0.1)
    corral("budget", "set", limit, "1.5")
    long = corral.agent("long", f"echo {AT_WORK}; sleep 600.37", REPORTS)
    agent = pays(corral, 0.5)
    with ExitStack() as stack:

        def start(name: str) -> RunningCommand:
            return stack.enter_context(corral.going("run", "t", "--agent", name, "--repo", str(repo.folder)))

        first = start(long)
        until(lambda: started(corral), "the first one is at work")
        (before,) = runs(corral)
        others = [start(agent) for _ in range(4)]
        until(lambda: len(runs(corral)) == 5 and all(waits(corral, run, before) for run in runs(corral) - {before}),
              "four wait for the first one, and name it")  # fmt: skip
        for run in runs(corral) - {before}:
            assert f"why      waits until {before}-1 is over" in corral("show", run).out
        first.process.kill()  # nobody tells them
        assert sorted(run.process.wait(timeout=120) for run in others) == [0, 0, 4, 4]
    assert corral("cost", "--json").json["total"]["usd"] == pytest.approx(1.0)


def runs(corral: Corral) -> set[str]:
    return {each["run"] for each in corral("ls", "--json").json}


def waits(corral: Corral, run: str, before: str) -> bool:
    return any(f"waits until {before}-1 is over" in each.get("text", "") for each in corral.events(run))


def test_a_flow_of_one_node_with_many_items(corral: Corral, repo: Repo) -> None:
    assume(corral, 0.5)
    file = corral.root / "flow.yaml"
    agent = pays(corral, 0.5)
    file.write_text(
        f"name: f\nbudget: {{usd: 1}}\nnodes:\n  a: {{agent: {agent}, task: x, for_each: [1, 2, 3, 4], retries: 0}}\n"
    )
    outcome = corral("flow", "run", str(file), "--json", "--repo", repo.folder)
    assert outcome.code == 4, outcome
    held(outcome, 1.0, 0.5)
    (entry,) = corral("inbox", "--json").json
    # For the two that are left, and not for their node besides; one that ends just then may be counted once more.
    assert entry["choices"][0] in ("raise 1.00", "raise 1.50")
    assert corral("answer", entry["id"], *entry["choices"][0].split()).code == 0
    resumed = corral("resume", "@last", "--json")
    assert resumed.code == 0, (entry, resumed)
    assert resumed.json["cost"]["usd"] == pytest.approx(2.0)


@pytest.mark.parametrize("limit", ["per run", "its own"])
def test_a_race_of_eight(corral: Corral, repo: Repo, limit: str) -> None:
    assume(corral, 0.5)
    own = ["--budget", "1.0"] if limit == "its own" else []
    if limit == "per run":
        corral("budget", "set", "--per-run", "1.0")
    outcome = corral.run(repo, "t", "--agent", pays(corral, 0.5) + "*8", *own)
    assert outcome.code == 0, outcome  # two were paid for, and one of them won
    held(outcome, 1.0, 0.5)
    assert corral("inbox", "--json").json == []


def test_one_absurd_report_does_not_keep_the_agent_from_work(corral: Corral, repo: Repo) -> None:
    assert corral("budget", "set", "--per-day", "100050").code == 0
    agent = pays(corral, 1e5)
    absurd = corral.run(repo, "t", "--agent", agent)
    assert absurd.code == 0, absurd
    assert absurd.json["cost"]["usd"] == pytest.approx(1e5)  # its own word counts for its own run
    cheap = "#!/bin/sh\necho $$ > work-$$.txt\necho '{\"usd\": 0.5}'\n"
    (corral.config_file.parent / "pay.sh").write_text(cheap)
    again = corral.run(repo, "t", "--agent", agent)  # $50 is left of the day
    assert again.code == 0, again
    assert again.json["cost"]["usd"] == pytest.approx(0.5)


def test_many_at_once_with_a_small_price(corral: Corral, repo: Repo) -> None:
    assume(corral, 0.08)
    outcome = corral(*flow(corral, pays(corral, 0.08), 16, 1.0, parallel=16), "--repo", repo.folder)
    assert outcome.code == 4, outcome
    held(outcome, 1.0, 0.08)


def test_a_cost_that_is_reported_in_steps(corral: Corral, repo: Repo) -> None:
    assume(corral, 0.08)
    outcome = corral(*flow(corral, pays(corral, 0.08, steps=8), 14, 1.0), "--repo", repo.folder)
    assert outcome.code == 4, outcome
    held(outcome, 1.0, 0.08)


def test_one_attempt_under_a_limit_below_its_price_is_stopped_in_flight(corral: Corral, repo: Repo) -> None:
    """The overshoot is what one attempt spends after its last report: here all of it, as it reports once."""
    agent = corral.agent("late", "echo x > x.txt; echo '{\"usd\": 0.5}'; sleep 600.29", REPORTS)
    outcome = corral.run(repo, "t", "--agent", agent, "--budget", "0.01", "--retries", "0")
    assert outcome.code == 4, outcome
    assert outcome.attempt["cost"] == {"usd": 0.5, "source": "reported", "reserved_usd": 0.0}
    assert "x.txt" in outcome.attempt["files_changed"]


def test_the_raise_that_is_offered_lets_a_task_finish(corral: Corral, repo: Repo) -> None:
    agent = pays(corral, 0.055)
    for _ in range(3):
        assert corral.run(repo, "t", "--agent", agent).code == 0
    hang = "echo '{\"usd\": 0.055}'; test -e half.txt || { echo x > half.txt; sleep 600.33; }; echo x > done.txt"
    (corral.config_file.parent / "pay.sh").write_text(f"#!/bin/sh\n{hang}\n")  # it works on after its report
    over = corral.run(repo, "t", "--agent", agent, "--budget", "0.05")
    assert over.code == 4, over
    (entry,) = corral("inbox", "--json").json
    assert corral("answer", entry["id"], *entry["choices"][0].split()).code == 0
    resumed = corral("resume", "@last", "--json")
    assert resumed.code == 0, (entry, resumed)
    assert resumed.json["cost"]["usd"] == pytest.approx(0.11)


def test_a_flow_that_was_killed_spends_no_more_than_its_limit(corral: Corral, repo: Repo) -> None:
    """What was at work when corral was killed is unknown: it stays reserved, and the run goes on within the rest."""
    agent = pays(corral, 0.08)
    for _ in range(3):  # of a price that is known, as many start at once as there is money for
        assert corral.run(repo, "t", "--agent", agent).code == 0
    (corral.config_file.parent / "pay.sh").write_text(f"#!/bin/sh\necho {AT_WORK}; sleep 600.31\n")
    with corral.going(*flow(corral, agent, 16, 1.0), "--repo", str(repo.folder)) as run:
        until(lambda: started(corral) == 8, "eight are at work")
        run.process.kill()
        run.process.wait()
    (corral.config_file.parent / "pay.sh").write_text(f"#!/bin/sh\necho x > x.txt; echo {AT_WORK}; echo '{PAID}'\n")
    over = corral("resume", "@last", "--json")
    assert over.code == 4, over
    cost = over.json["cost"]
    assert (cost["usd"], cost["reserved_usd"]) == (pytest.approx(0.32), pytest.approx(0.64))
    assert started(corral) == 12  # from outside: each one that started may have cost its price


def started(corral: Corral) -> int:
    """Count the agents that began to work, by the first thing they printed."""
    return len({each["attempt"] for each in corral.events() if AT_WORK in each.get("line", "")})
