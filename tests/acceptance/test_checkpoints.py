"""Named states of a run: of work that is done, and of an agent that is still at work."""

import pytest

from corral.testing.stage import until
from tests.rig.command import Corral
from tests.rig.flows import doer
from tests.rig.server import waits_for


def test_a_state_of_an_agent_at_work_can_be_named_and_restored(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    flag = corral.root / "shared" / "flag"
    flag.parent.mkdir()
    corral.config(f'[scope]\nread = ["**", "{flag.parent}/**"]\n')
    task = f"DO: echo half > work.txt; echo begun; {waits_for(flag)}; echo whole > work.txt"
    with corral.going("run", task, "--agent", "doer", "--repo", repo.folder):
        corral.until_said("begun")
        made = corral("checkpoint", "@last", "half-way", "--json")
        assert made.code == 0, made
        (named,) = made.json
        assert (named["name"], named["now"]) == ("half-way", True)
        assert corral("checkpoint", "@last", "half-way").code == 2, "a name stays what it was"
        flag.touch()
        until(lambda: corral("show", "@last", "--json").json["status"] == "done", "the run is done")
    run = corral("show", "@last", "--json").json["run"]
    assert repo.read(named["commit"], "work.txt") == "half"
    restored = corral("restore", f"{run}@half-way", "--json")
    assert restored.code == 0, restored
    assert repo.read(restored.json["branch"], "work.txt") == "half"
    folder = corral.root / "half"
    assert corral("restore", f"{run}@half-way", "--into", folder).code == 0
    assert (folder / "work.txt").read_text() == "half\n"
    assert [each["name"] for each in corral("checkpoint", run, "--json").json] == ["half-way"]
    assert "half-way" in corral("restore", "--list", named["attempt"]).out
    assert repo.read(corral("restore", run, "--into", "whole", "--json").json["branch"], "work.txt") == "whole"


def test_corral_names_states_of_an_agent_by_itself(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    flag = corral.root / "shared" / "flag"
    flag.parent.mkdir()
    corral.config(f'[workspace]\nsnapshot = "0.3s"\n[scope]\nread = ["**", "{flag.parent}/**"]\n')
    task = f"DO: echo half > work.txt; {waits_for(flag)}; echo whole > work.txt"
    with corral.going("run", task, "--agent", "doer", "--repo", repo.folder):
        until(lambda: repo.refs("refs/corral/snapshots/"), "there is a snapshot")
        flag.touch()
        until(lambda: corral("show", "@last", "--json").json["status"] == "done", "the run is done")
    made = corral("checkpoint", "@last", "--json").json[0]
    assert (made["automatic"], made["name"][:6]) == (True, "after-"), made
    assert made["name"] in corral("checkpoint", "@last").out
    run = made["attempt"].partition("-")[0]
    restored = corral("restore", f"{run}@{made['name']}", "--json")
    assert restored.code == 0, restored
    assert repo.read(restored.json["branch"], "work.txt") == "half"
    assert corral("restore", f"{made['attempt']}@{made['name']}", "--into", corral.root / "half").code == 0
    assert (corral.root / "half" / "work.txt").read_text() == "half\n"
    assert corral("restore", f"{run}@after-99h").code == 2


def test_the_result_of_a_run_that_is_over_can_be_named(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    outcome = corral.run(repo, "DO: echo done > work.txt", "--agent", "doer")
    (named,) = corral("checkpoint", "@last", "v1", "--json").json
    assert named["commit"] == outcome.attempt["commit"]
    assert corral("clean", "--keep", "0").code == 0
    assert repo.read(corral("restore", f"{outcome.json['run']}@v1", "--json").json["commit"], "work.txt") == "done"


@pytest.mark.parametrize("name", ["1st", "../x", "a b", "A", "", "x.lock", "a..b", "x" * 64])
def test_a_name_that_is_none_is_refused(corral: Corral, name: str) -> None:
    doer(corral)
    repo = corral.repo()
    corral.run(repo, "DO: echo done > work.txt", "--agent", "doer")
    outcome = corral("checkpoint", "@last", name)
    assert outcome.code == (2 if name else 0), outcome
    assert repo.git("for-each-ref", "refs/corral/checkpoints") == ""


def test_a_run_or_a_checkpoint_that_is_missing_is_told(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    assert corral("checkpoint", "@last", "v1").code == 2
    run = corral.run(repo, "DO: echo done > work.txt", "--agent", "doer").json["run"]
    missing = corral("restore", f"{run}@never")
    assert missing.code == 2
    assert "nothing is kept" in missing.err
