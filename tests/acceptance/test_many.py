"""Twenty agents at once, and corral killed under them: all are gone on with, and no money is left held."""

import pytest

from corral.testing.stage import tagged_processes, until
from tests.rig.command import Corral
from tests.rig.flows import doer, statuses, write

MANY = 20
FLOW = f"""
budget: {{usd: 100}}
parallel: {MANY}
nodes:
  each:
    for_each: {list(range(MANY))}
    task: "DO: if test -f begun-{{{{item}}}}.txt; then echo > done-{{{{item}}}}.txt; else echo > begun-{{{{item}}}}.txt; echo begun; sleep 1000; fi"
"""

pytestmark = pytest.mark.slow


def test_twenty_agents_at_once_survive_a_kill(corral: Corral) -> None:
    doer(corral, settings="cost_usd = 0.25")
    corral.config('[retry]\nfrom = "last"\n')
    repo = corral.repo()
    with corral.going("flow", "run", write(corral, FLOW), "--repo", repo.folder, "--agent", "doer") as going:
        until(
            lambda: sum(event["type"] == "said" for event in corral.events()) == MANY,
            f"{MANY} are at work",
            seconds=200,
        )
        assert {each["status"] for each in corral("show", "@last", "--json").json["nodes"][1:]} == {"running"}
        going.process.kill()
        going.process.wait()
    run = corral("show", "@last", "--json").json["run"]
    outcome = corral("resume", run, "--json", timeout=300)
    assert outcome.code == 0, outcome
    assert set(statuses(outcome).values()) == {"done"}
    tries = [attempt["status"] for node in outcome.json["nodes"] for attempt in node["attempts"]]
    assert sorted(tries) == ["done"] * MANY + ["stopped"] * MANY, "each was cut off once and went on once"
    assert outcome.json["cost"]["usd"] == 0.25 * 2 * MANY
    assert corral("budget", "--json").json["day"] == {"spent": 0.25 * 2 * MANY, "reserved": 0.0}, "no money leaks"
    assert not tagged_processes(f"CORRAL_ATTEMPT={run}")
