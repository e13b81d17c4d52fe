"""`kill -9` of the engine again and again while a flow of 30 nodes goes on: it ends as if nothing had happened."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from typing import Any

import pytest

from tests.rig.command import Corral
from tests.rig.flows import doer, nodes, write
from tests.rig.repository import Repo
from tests.rig.tagged import tagged_processes
from tests.rig.waiting import until

KILLS = 200  #: by night, in two series; by day one flow is killed as often as it is there
A_FLOW = KILLS // 10  #: of them
#: 30 nodes: a chain, a fan of 12, a fan-in, a race, a failure that is mended, items of a list, a nested flow.
PART = """
inputs: {word: {}}
nodes:
  one: {run: "echo {{word}} > {{word}}-1.txt"}
  two: {needs: [one], run: "echo {{word}} > {{word}}-2.txt"}
"""
FLOW = (
    """
parallel: 4
defaults: {retries: 0}
nodes:
  start: {task: "DO: echo s > start.txt; echo begun"}
"""
    + "".join(f'  fan{n}: {{needs: [start], task: "DO: echo {n} > fan{n}.txt; echo fan{n}"}}\n' for n in range(12))
    + """
  join: {needs: [fan0, fan1, fan2, fan3, fan4, fan5, fan6, fan7, fan8, fan9, fan10, fan11], task: "DO: ls fan*.txt > join.md; echo joined"}
  race: {needs: [join], race: [doer, doer], task: "DO: echo r > race.txt"}
  bad: {needs: [start], task: "DO: exit 3"}
  never: {needs: [bad], task: "DO: echo n > never.txt"}
  mend: {needs: [{node: bad, on: failure}], task: "DO: echo m > mend.txt"}
  list: {read_only: true, task: "DO: echo '[\\"x\\", \\"y\\", \\"z\\"]'", output: [string]}
  each: {needs: [list, mend], for_each: list.output, task: "DO: echo {{item}} > item-{{item}}.txt"}
  part: {flow: part.yaml, needs: [start], with: {word: part}}
  grow:
    needs: [part]
    task: "DO: case $PROMPT in *'not acc'epted*) echo 2 > grow.txt;; *) echo 1 > grow.txt;; esac"
    checks: ["grep -q 2 grow.txt"]
    repeat: {until: checks, most: 4}
  off: {needs: [part], when: "false", run: "true"}
  end: {needs: [race, each, grow, {node: off, on: always}], task: "DO: ls *.txt join.md > all.md; echo ended"}
  last: {needs: [end], run: "cat all.md"}
"""
)


class Torture:
    """One flow, whose engine is killed at chance moments and started again."""

    def __init__(self, corral: Corral, repo: Repo, run: str, chance: random.Random) -> None:
        self.corral, self.repo, self.run, self._chance = corral, repo, run, chance
        self.kills = 0

    def go_on(self, soonest: float, latest: float) -> bool:
        """Resume; kill it after a while. Return whether the run is over."""
        process = self.corral.start("resume", self.run, "--json", stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            process.wait(timeout=self._chance.uniform(soonest, latest))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.kills += 1
        _, error = process.communicate()
        over = process.returncode == 2 and b"is over" in error  # it was killed after its last word
        assert process.returncode in (-9, 1) or over, error
        return process.returncode != -9


def shape(document: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    """Return what became of each node: what must not depend on crashes."""
    return {node["id"]: (node["status"], node["reason"]) for node in document["nodes"]}


def made(repo: Repo, document: dict[str, Any]) -> dict[str, str]:
    """Return the files that came of it all."""
    node = next(node for node in document["nodes"] if node["id"] == "end")
    commit = node["attempts"][-1]["commit"]
    return {name: repo.read(commit, name) for name in repo.files(commit)}


def judge(torture: Torture, document: dict[str, Any]) -> None:
    """Nothing was done twice, nobody is left, nothing lies about."""
    corral, run = torture.corral, torture.run
    ended = [
        (event["node"], event["attempt"]) for event in corral.events(run) if event["type"] == "ended" and event["ok"]
    ]
    assert len(ended) == len(set(ended)), "an agent that had finished was started again"
    done = Counter(node for node, _ in ended)
    rounds = {"race": 2, "grow": 2}
    for node in document["nodes"]:
        if node["status"] == "done" and node["attempts"]:
            assert done[node["id"]] == rounds.get(node["id"], 1), (node, ended)
    assert not tagged_processes(f"CORRAL_ATTEMPT={run}")
    assert corral.leavings() == []
    assert torture.repo.git("status", "--porcelain") == ""
    assert not list((torture.repo.folder / ".git").rglob("*.lock"))
    assert corral.is_sound()
    assert corral.stored("SELECT count(*) FROM runs WHERE owner IS NOT NULL") == [(0,)]


def begun(corral: Corral, repo: Repo) -> str:
    """Start a flow and kill it as soon as it is promised; return its run."""
    before = {line["run"] for line in corral("ls", "--json").json}
    file = corral.root / "flow.yaml"
    words = ("flow", "run", file, "--repo", repo.folder, "--agent", "doer", "--json")
    quiet = subprocess.DEVNULL
    process = corral.start(*words, stdout=quiet, stderr=quiet, start_new_session=True)
    found = until(
        lambda: [line["run"] for line in corral("ls", "--json").json if line["run"] not in before], "it is promised"
    )
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return found[0]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("series", "most"),
    [
        pytest.param(0, A_FLOW, id="day"),
        *(pytest.param(each, KILLS // 2, marks=pytest.mark.night("more of the same kills")) for each in (1, 2)),
    ],
)
def test_killed_again_and_again_flows_end_as_if_nothing_had_happened(corral: Corral, series: int, most: int) -> None:
    doer(corral)
    write(corral, PART, "part.yaml")
    file = write(corral, FLOW)
    repo = corral.repo("whole")
    whole = corral("flow", "run", file, "--repo", repo.folder, "--agent", "doer", "--json")
    assert whole.code == 1, whole
    assert len(nodes(whole)) == 30
    tree = made(repo, whole.json)
    started = time.monotonic()
    assert corral.run(corral.repo("small"), "DO: echo x > x.txt", "--agent", "doer").code == 0
    a_node = time.monotonic() - started  # what one takes
    chance, kills, flows = random.Random(series), 0, 0
    while kills < most:
        flows += 1
        repo = corral.repo(f"repo-{flows}")
        torture = Torture(corral, repo, begun(corral, repo), chance)
        while torture.kills < A_FLOW and not torture.go_on(0.1 * a_node, 2.0 * a_node):
            pass
        document = corral("show", torture.run, "--json").json
        if document["status"] == "running":
            assert corral("resume", torture.run, "--json").code == 1
            document = corral("show", torture.run, "--json").json
        kills += torture.kills + 1
        assert document["status"] == "partial"
        assert shape(document) == shape(whole.json)
        assert made(repo, document) == tree
        judge(torture, document)


@pytest.mark.slow
def test_two_engines_on_one_store_never_run_a_node_twice(corral: Corral) -> None:
    doer(corral)
    write(corral, PART, "part.yaml")
    write(corral, FLOW)
    repo = corral.repo()
    run = begun(corral, repo)
    with corral.going("resume", run, "--json") as one, corral.going("resume", run, "--json") as two:
        ends = [one.end(), two.end()]
    assert sorted(end.code for end in ends) == [1, 2], ends
    refused = next(end for end in ends if end.code == 2)
    assert "drives" in refused.err or "belongs" in refused.err or "another process" in refused.err, refused
    document = corral("show", run, "--json").json
    judge(Torture(corral, repo, run, random.Random(0)), document)
