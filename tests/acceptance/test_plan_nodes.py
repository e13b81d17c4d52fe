"""Plan nodes: an agent writes a flow inside a flow; it is checked, approved, run there, and survives a kill."""

import json
from typing import Any

import pytest

from tests.acceptance.test_plan import GOOD, HOSTILE, planner
from tests.rig.command import Corral, Outcome
from tests.rig.flows import doer, nodes, run_flow, statuses, winner, write
from tests.rig.waiting import until

FLOW = """
name: outer
nodes:
  words: {task: "DO: echo first > first.txt", agent: doer}
  greet:
    plan: "Greet the world as {{words.status}}"
    needs: [words]
    agent: planner
    %s
  after: {task: "DO: cat first.txt hello.txt loud.txt > all.txt", agent: doer, needs: [greet]}
"""
UNASKED = FLOW % "approve: false"


def test_a_plan_runs_below_its_node_after_an_approval(corral: Corral) -> None:
    doer(corral)
    planner(corral, GOOD)
    repo = corral.repo()
    outcome = run_flow(corral, repo, FLOW % "")
    assert outcome.code == 3, outcome
    assert statuses(outcome) == {
        "words": "done", "greet/plan": "done", "greet/approve": "waiting", "greet/write": "queued",
        "greet/shout": "queued", "greet": "queued", "after": "queued",
    }  # fmt: skip
    (entry,) = corral("inbox", "--json").json
    assert entry["text"] == "Run the plan of `greet`? 2 nodes: write -> shout"
    assert corral("answer", entry["id"], "yes").code == 0
    resumed = corral("resume", outcome.json["run"], "--json")
    assert (resumed.code, set(statuses(resumed).values())) == (0, {"done"}), resumed
    assert len(nodes(resumed)["greet/plan"]["attempts"]) == 1, "what was planned is not planned again"
    assert repo.read(winner(nodes(resumed)["after"])["branch"], "all.txt") == "first\nhello\nHELLO"


def test_a_plan_that_the_user_refuses_runs_nothing(corral: Corral) -> None:
    doer(corral)
    planner(corral, GOOD)
    outcome = run_flow(corral, corral.repo(), FLOW % "")
    (entry,) = corral("inbox", "--json").json
    assert corral("answer", entry["id"], "no").code == 0
    resumed = corral("resume", outcome.json["run"], "--json")
    found = statuses(resumed)
    assert {name for name, status in found.items() if status == "done"} == {"words", "greet/plan"}
    assert {found[name] for name in ("greet/write", "greet/shout", "greet", "after")} == {"skipped"}


def test_a_flow_may_say_that_nobody_is_asked(corral: Corral) -> None:
    doer(corral)
    planner(corral, {**GOOD, "reasons": {"write": "A-SECRET-REASON"}})
    repo = corral.repo()
    outcome = run_flow(corral, repo, UNASKED)
    assert (outcome.code, set(statuses(outcome).values())) == (0, {"done"}), outcome
    assert "greet/approve" not in nodes(outcome)
    assert repo.read(winner(nodes(outcome)["after"])["branch"], "all.txt") == "first\nhello\nHELLO"
    logs = corral("logs", outcome.json["run"], "--json").out
    assert "`greet` is planned: greet/write, greet/shout" in logs
    drawn = corral("show", outcome.json["run"]).out
    assert "greet/shout" in drawn


def test_the_planner_reads_its_task_filled_in_and_no_other_agent_reads_the_plan(corral: Corral) -> None:
    doer(corral)
    told = {
        "flow": {"nodes": {"write": {"task": "DO: printf '%s' \"$PROMPT\" > prompt.txt", "agent": "doer"}}},
        "reasons": {"write": "A-SECRET-REASON"},
    }
    planner(corral, told)
    repo = corral.repo()
    text = UNASKED.replace("cat first.txt hello.txt loud.txt", "cat prompt.txt")
    outcome = run_flow(corral, repo, text)
    assert outcome.code == 0, outcome
    assert "A-SECRET-REASON" not in repo.read(winner(nodes(outcome)["greet/write"])["branch"], "prompt.txt")
    events = corral("logs", outcome.json["run"], "--json").out
    assert "A-SECRET-REASON" in events, "the planner said it"


def test_the_scripted_agent_plans_and_works_on_what_it_planned(corral: Corral) -> None:
    look = {"task": "Look at hello.txt", "needs": ["write"], "read_only": True}
    said = json.dumps({"flow": {"nodes": {"write": {"run": "echo hello > hello.txt"}, "look": look}}})
    agent = corral.script(f"[[step]]\nrun = \"ls\"\n[[step]]\nend = '{said}'\n")
    file = write(corral, "nodes: {greet: {plan: Greet, approve: false}}")
    outcome = corral("flow", "run", file, "--repo", corral.repo().folder, "--agent", agent, "--json")
    assert (outcome.code, set(statuses(outcome).values())) == (0, {"done"}), outcome
    made = {name: node["attempts"][0] for name, node in nodes(outcome).items() if node["attempts"]}
    assert {name: each["agent"] for name, each in made.items()} == {
        "greet/plan": "scripted", "greet/write": "shell", "greet/look": "scripted",
    }  # fmt: skip
    assert made["greet/write"]["files_changed"] == ["hello.txt"]


def test_mistakes_are_sent_back_within_the_attempt(corral: Corral) -> None:
    doer(corral)
    wrong = {"flow": {"nodes": {"a": {"task": "x", "needs": ["b"]}, "b": {"task": "y", "agent": "nobody"}}}}
    planner(corral, wrong, GOOD)
    script = corral.config_file.parent / "planner.sh"
    script.write_text(script.read_text().replace("Your last plan was", "Your output does not fit"))
    outcome = run_flow(corral, corral.repo(), UNASKED)
    assert (outcome.code, statuses(outcome)["greet"]) == (0, "done"), outcome
    (attempt,) = nodes(outcome)["greet/plan"]["attempts"]
    rejected = [
        event for line in corral("logs", outcome.json["run"], "--json").out.splitlines()
        if (event := json.loads(line))["attempt"] == attempt["id"] and event["type"] == "rejected"
    ]  # fmt: skip
    assert len(rejected) == 1
    assert "no agent is called `nobody`" in json.dumps(rejected)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_plan_runs_nothing(corral: Corral, name: str) -> None:
    doer(corral)
    planner(corral, HOSTILE[name])
    outcome = run_flow(corral, corral.repo(), UNASKED)
    assert outcome.code == 1, outcome
    found = nodes(outcome)
    assert set(found) == {"words", "greet/plan", "greet", "after"}
    assert found["greet/plan"]["attempts"][-1]["error"]["class"] == "bad_output"
    assert (found["greet"]["status"], found["after"]["status"]) == ("failed", "skipped")


UNPLANNED: dict[str, dict[str, Any]] = {
    "its own budget": {"budget": {"usd": 1000}},
    "its own inputs": {"inputs": {"x": {"default": 1}}},
    "another machine": {"nodes": {"a": {"task": "x", "machine": "box1"}}},
    "a race": {"nodes": {"a": {"task": "x", "race": ["doer", "doer"]}}},
    "a loop": {"nodes": {"a": {"task": "x", "for_each": [1, 2, 3]}}},
    "a script": {"nodes": {"a": {"task": "x", "agent": "scripted:/etc/passwd"}}},
    "the name of the gate": {"nodes": {"approve": {"task": "x"}}},
    "shares over all": {"nodes": {"a": {"task": "x", "share": 90}, "b": {"task": "x", "share": 90}}},
    "nothing left": {"nodes": {"a": {"task": "x", "share": 100}, "b": {"task": "x"}}},
}


@pytest.mark.parametrize("name", UNPLANNED)
def test_what_only_a_user_may_say_is_refused(corral: Corral, name: str) -> None:
    doer(corral)
    planner(corral, {"flow": {**GOOD["flow"], **UNPLANNED[name]}})
    outcome = run_flow(corral, corral.repo(), UNASKED)
    assert (outcome.code, statuses(outcome)["greet/plan"]) == (1, "failed"), outcome
    assert "its plan is wrong" in nodes(outcome)["greet/plan"]["attempts"][-1]["error"]["message"]


def test_sequential_means_one_after_another(corral: Corral) -> None:
    doer(corral)
    planner(corral, {"flow": {"nodes": {"a": {"task": "x"}, "b": {"task": "y"}}}})
    outcome = run_flow(corral, corral.repo(), FLOW % "approve: false\n    parallelism: sequential")
    assert (outcome.code, statuses(outcome)["greet"]) == (1, "failed"), outcome
    assert "side by side" in nodes(outcome)["greet/plan"]["attempts"][-1]["error"]["message"]


def test_planned_nodes_share_what_planning_left_of_the_budget(corral: Corral) -> None:
    doer(corral, settings="cost_usd = 0.5\n")
    planner(corral, GOOD)  # costs 0.25
    text = FLOW.replace("name: outer", "name: outer\nbudget: {usd: 2.5}") % "approve: false"
    poor = run_flow(corral, corral.repo(), text.replace("approve: false", "approve: false\n    share: 40"))
    found = nodes(poor)
    assert statuses(poor)["greet/plan"] == "done"
    assert found["greet/write"]["status"] == "over_budget", "half of $0.75 is less than its price"
    rich = text.replace("approve: false", "approve: false\n    share: 60")
    outcome = run_flow(corral, corral.repo("second"), rich.replace("{usd: 2.5}", "{usd: 5}"))
    assert (outcome.code, statuses(outcome)["greet"]) == (0, "done"), outcome


def test_a_run_that_is_killed_continues_with_the_plan_that_is_stored(corral: Corral) -> None:
    doer(corral)
    go = corral.root / "plans" / "go"
    words = f"touch here; while [ ! -e {go} ]; do sleep 0.05; done; echo hello > hello.txt; echo HELLO > loud.txt"
    planner(corral, {"flow": {"nodes": {"write": {"task": f"DO: {words}", "agent": "doer"}}}})
    repo, file = corral.repo(), write(corral, UNASKED)
    with corral.going("flow", "run", file, "--repo", repo.folder, "--agent", "doer", "--json") as going:
        until(lambda: list(corral.home.glob("workspaces/*/work/here")), "the planned node is at work")
        going.process.kill()
    (corral.root / "plans" / "1.json").write_text("no plan any more")
    go.touch()
    resumed: Outcome = corral("resume", "@last", "--json")
    assert (resumed.code, set(statuses(resumed).values())) == (0, {"done"}), resumed
    assert len(nodes(resumed)["greet/plan"]["attempts"]) == 1


def test_a_plan_that_is_made_again_replaces_the_first(corral: Corral) -> None:
    doer(corral)
    planner(corral, GOOD)
    repo = corral.repo()
    outcome = run_flow(corral, repo, UNASKED)
    assert outcome.code == 0, outcome
    other = {"flow": {"nodes": {"one": {"task": "DO: echo a > hello.txt; echo b > loud.txt", "agent": "doer"}}}}
    (corral.root / "plans" / "1.json").write_text(json.dumps(other))
    again = corral("retry", outcome.json["run"], "greet/plan", "--json")
    assert again.code == 0, again
    assert set(nodes(again)) == {"words", "greet/plan", "greet/one", "greet", "after"}
    assert repo.read(winner(nodes(again)["after"])["branch"], "all.txt") == "first\na\nb"


WRONG = {
    "most: 0": "`most` is a whole number, 1 to 50",
    "most: 51": "`most` is a whole number, 1 to 50",
    "parallelism: wild": "`parallelism` is one of",
    "approve: perhaps": "`approve` is true or false",
    "for_each: [1]": "a nested flow is done once",
    "checks: [true]": "unknown key `checks`",
    "race: [doer]": "unknown key `race`",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_bad_plan_node_starts_nothing(corral: Corral, line: str) -> None:
    doer(corral)
    planner(corral, GOOD)
    outcome = corral("flow", "check", write(corral, FLOW % line), "--repo", corral.repo().folder)
    assert outcome.code == 2, outcome
    assert WRONG[line] in outcome.err


def test_it_is_drawn_and_rehearsed(corral: Corral) -> None:
    doer(corral)
    planner(corral, GOOD)
    repo, file = corral.repo(), write(corral, UNASKED)
    drawn = corral("flow", "graph", file, "--repo", repo.folder).out
    assert "greet/plan  planner plans" in drawn
    assert "runs what is planned" in drawn
    rehearsed = corral("flow", "run", file, "--repo", repo.folder, "--dry-run")
    assert rehearsed.code == 0, rehearsed
