"""`--agent auto`: the agent is chosen, the reason is told, and history is our own."""

import pytest

from tests.rig.command import Corral
from tests.rig.flows import doer, nodes, run_flow, winner

pytestmark = pytest.mark.slow


def test_rules_then_history_then_a_free_agent(corral: Corral) -> None:
    doer(corral, "paid", "cost_usd = 0.5")
    doer(corral, "free", "cost_usd = 0.0")
    repo = corral.repo()
    task = "DO: date +%N > x.txt"
    first = corral.run(repo, task, "--agent", "auto", "--type", "documentation", "--json")
    assert first.attempt["agent"] == "free"
    said = corral("run", task, "--repo", repo.folder, "--agent", "auto", "--type", "documentation").err
    assert "agent free: trivial, 5 points: simple work goes to a free agent" in said
    for _ in range(5):
        assert corral.run(repo, task, "--agent", "paid", "--type", "bugfix").code == 0
    learned = corral("run", task, "--repo", repo.folder, "--agent", "auto", "--type", "bugfix")
    assert "agent paid: of bugfix tasks here it did 100% (n = 5, $0.50 each)" in learned.err
    corral.config(
        '[defaults]\nagent = "auto"\n[[routing]]\ntype = "bugfix"\nagent = "free"\nreason = "bugs are for free"'
    )
    ruled = corral("run", task, "--repo", repo.folder, "--type", "bugfix")
    assert "agent free: [[routing]] 1: bugs are for free" in ruled.err


def test_a_flow_may_leave_it_open_for_each_node(corral: Corral) -> None:
    doer(corral, "plain")
    doer(corral, "tester")
    doer(corral)
    corral.config('[[routing]]\nrole = ["tester"]\nagent = "tester"\n[[routing]]\nagent = "plain"')
    text = """
nodes:
  a: {agent: auto, task: "DO: echo a > a.txt"}
  b: {agent: auto, role: tester, needs: [a], task: "DO: echo b > b.txt"}
  c: {needs: [b], task: "DO: echo c > c.txt"}
"""
    found = nodes(run_flow(corral, corral.repo(), text))
    assert [winner(found[name])["agent"] for name in "abc"] == ["plain", "tester", "doer"]


def test_what_cannot_be_left_open_is_refused(corral: Corral) -> None:
    doer(corral)
    race = corral.run(corral.repo(), "DO: true", "--agent", "doer,auto")
    assert race.code == 2
    assert "`auto` is one agent" in race.err
    corral.config('[[routing]]\nagent = "doer"\ntyp = "bugfix"')
    wrong = corral.run(corral.repo("other"), "DO: true", "--agent", "auto")
    assert wrong.code == 2
    assert "unknown key `routing.typ`" in wrong.err


def test_points_models_and_who_tries_next_are_the_persons_to_say(corral: Corral) -> None:
    doer(corral, "able")
    corral.agent("broken", "exit 1", 'model = "small"')
    corral.config(
        '[agents.broken.models]\nmoderate = "large"\n[retry]\nmost = 0\n'
        "[complexity]\nother_type = 1\n[complexity.words]\nkernel = 20\nfix = 0\n"
        '[[routing]]\nagent = "broken"\ngrade = ["moderate"]\n[[routing]]\nagent = "able"'
    )
    outcome = corral.run(corral.repo(), "fix the kernel\nDO: echo x > x.txt", "--agent", "auto")
    assert outcome.code == 0, outcome
    tried = [(each["agent"], each["model"]) for each in outcome.json["nodes"][0]["attempts"]]
    assert tried == [("broken", "large"), ("able", None)]
    small = corral.run(corral.repo("b"), "fix it\nDO: echo x > x.txt", "--agent", "auto")
    assert [each["agent"] for each in small.json["nodes"][0]["attempts"]] == ["able"]
