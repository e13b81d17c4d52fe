"""Runs that rest and go on; nodes that are done again, and only those that must be."""

from pathlib import Path

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.flows import doer, nodes, run_flow, statuses, write
from tests.rig.repository import Repo
from tests.rig.server import waits_for
from tests.rig.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.both_stores]

CHAIN = """
nodes:
  a: {run: "echo a >> a"}
  b: {run: "test -f %s || exit 1; echo b >> b", needs: [a], retries: 0}
  c: {run: "cat a b > c", needs: [b]}
"""


@pytest.fixture
def repo(corral: Corral) -> Repo:
    doer(corral)
    return corral.repo()


def tries(outcome: Outcome) -> dict[str, int]:
    return {name: len(node["attempts"]) for name, node in nodes(outcome).items()}


def test_what_failed_is_done_again_and_nothing_else(corral: Corral, repo: Repo) -> None:
    first = run_flow(corral, repo, CHAIN % "ready")
    assert first.code == 1, first
    assert statuses(first) == {"a": "done", "b": "failed", "c": "skipped"}
    assert corral("retry", "@last", "--json", cwd=repo.folder).code == 1  # nothing has changed
    file = write(corral, CHAIN % "a")
    mended = corral("resume", "@last", "--flow", str(file), "--json", cwd=repo.folder)
    assert mended.code == 0, mended
    assert set(statuses(mended).values()) == {"done"}
    assert tries(mended) == {"a": 1, "b": 3, "c": 1}


def test_from_a_node_on_all_is_done_again_from_the_work_before_it(corral: Corral, repo: Repo) -> None:
    assert run_flow(corral, repo, CHAIN % "a").code == 0
    again = corral("resume", "@last", "--from", "b", "--json", cwd=repo.folder)
    assert again.code == 0, again
    assert tries(again) == {"a": 1, "b": 2, "c": 2}
    branch = nodes(again)["c"]["attempts"][-1]["branch"]
    assert repo.read(branch, "c") == "a\nb"


def test_a_node_that_is_none_is_refused_and_nothing_changes(corral: Corral, repo: Repo) -> None:
    assert run_flow(corral, repo, CHAIN % "a").code == 0
    before = corral("show", "@last", "--json").json
    refused = corral("retry", "@last", "nobody")
    assert refused.code == 2
    assert "nobody" in refused.err
    assert "hint: it has: a, b, c" in refused.err
    assert corral("retry", "@last").code == 2  # every node is done
    assert corral("show", "@last", "--json").json["nodes"] == before["nodes"]


SLOW = """
nodes:
  a: {{run: "echo a > a"}}
  b: {{run: "{until_told}; echo b > b", needs: [a]}}
  c: {{run: "echo c > c", needs: [b]}}
"""


def told_by(corral: Corral) -> Path:
    """Return a file that commands in their box will see once it is there."""
    folder = corral.root / "signs"
    folder.mkdir()
    corral.config(f'[scope]\nread = ["**", "{folder}/**"]')
    return folder / "go"


def test_a_run_rests_and_goes_on(corral: Corral, repo: Repo) -> None:
    go = told_by(corral)
    file = write(corral, SLOW.format(until_told=waits_for(go)))
    with corral.going("flow", "run", file, "--repo", repo.folder, "--json") as run:
        until(lambda: _status(corral, "b") == "running", "b at work")
        paused = corral("pause", "@last")
        assert (paused.code, paused.out) == (0, "paused\n"), paused
        assert corral("ls", "--json").json[0]["status"] == "paused"  # when it says so, it is
        rested = run.end()
    assert rested.code == 3, rested
    assert rested.json["status"] == "paused"
    assert "paused by" in rested.json["reason"]
    unknown = corral("pause", "@last", "d")
    assert (unknown.code, "has no node `d`" in unknown.err) == (2, True)
    go.touch()
    gone_on = corral("resume", "@last", "--json", cwd=repo.folder)
    assert gone_on.code == 0, gone_on
    assert set(statuses(gone_on).values()) == {"done"}
    assert tries(gone_on)["a"] == 1
    assert corral.leavings() == []


def test_a_node_rests_while_others_go_on(corral: Corral, repo: Repo) -> None:
    go = told_by(corral)
    flow = f"""
nodes:
  slow: {{run: "{waits_for(go)}; echo s > s"}}
  other: {{run: "{waits_for(go)}; echo o > o"}}
  last: {{run: "echo l > l", needs: [slow]}}
"""
    with corral.going("flow", "run", write(corral, flow), "--repo", repo.folder, "--json") as run:
        until(lambda: _status(corral, "slow") == "running", "slow at work")
        assert corral("pause", "@last", "last").code == 0
        go.touch()
        rested = run.end()
    assert rested.json["status"] == "paused", rested
    assert statuses(rested) == {"slow": "done", "other": "done", "last": "paused"}
    assert corral("retry", "@last", "last", "--json", cwd=repo.folder).code == 0


def _status(corral: Corral, node: str) -> str:
    listed = corral("ls", "--json").json
    return "" if not listed else nodes(corral("show", "@last", "--json"))[node]["status"]
