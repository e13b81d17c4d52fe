"""`git gc --prune=now` in a person's repository, at any moment, takes nothing that a run needs."""

import contextlib
import sqlite3
import subprocess
import threading
from typing import Self

import pytest

from tests.rig.command import Corral
from tests.rig.flows import doer, nodes, statuses, write
from tests.rig.repository import Repo
from tests.rig.tries import tries
from tests.rig.waiting import until

pytestmark = pytest.mark.slow


def rewritten(repo: Repo, number: int) -> None:
    """Amend the last commit and drop all that no ref leads to."""
    repo.git("commit", "--quiet", "--allow-empty", "--amend", "-m", f"amended {number}")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")


def pinned(repo: Repo) -> list[str]:
    return repo.refs("refs/corral/bases")


def test_the_base_of_a_run_is_held_from_its_start_to_its_end(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    base = repo.head
    task = "DO: until test -e go; do sleep 0.05; done; echo work > work.txt; git log --oneline > log.txt"
    with corral.going("run", task, "--repo", repo.folder, "--agent", "doer", "--json") as going:
        until(lambda: list(corral.home.glob("workspaces/*/work/a.txt")), "the agent is at work")
        (ref,) = pinned(repo)
        assert repo.git("rev-parse", ref) == base
        rewritten(repo, 1)
        (tree,) = corral.home.glob("workspaces/*/work")
        (tree / "go").touch()
        outcome = going.end()
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["branch"], "work.txt") == "work"
    assert pinned(repo) == []  # its work leads to it
    assert repo.git("merge-base", "--is-ancestor", base, outcome.attempt["commit"]) == ""


def test_a_run_that_waits_keeps_its_base_and_clean_lets_go_of_it(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    flow = """name: waits
nodes:
  ok: {gate: "Go on?"}
  a: {task: "DO: echo work > work.txt", needs: [ok]}
"""
    file = write(corral, flow)
    assert corral("flow", "run", file, "--repo", repo.folder, "--agent", "doer", "--json").json["status"] == "waiting"
    rewritten(repo, 1)
    (question,) = corral("inbox", "--json").json
    assert corral("answer", str(question["id"]), "yes").code == 0
    outcome = corral("resume", "@last", "--json")
    assert outcome.json["status"] == "done", outcome
    failed = corral.run(repo, "DO: false", "--agent", "doer", "--retries", "0")
    assert failed.code == 1
    assert len(pinned(repo)) == 1  # `corral retry` may need it
    assert corral("clean", "--keep", "0").code == 0
    assert pinned(repo) == []


def test_clean_lets_go_of_the_base_of_a_run_that_was_never_stored(corral: Corral) -> None:
    doer(corral)
    repo = corral.repo()
    assert corral.run(repo, "DO: echo work > work.txt", "--agent", "doer").code == 0
    repo.git("update-ref", "refs/corral/bases/of0another00", "HEAD")  # of a run in another state folder
    others = pinned(repo)
    with contextlib.closing(sqlite3.connect(corral.home / "corral.db", isolation_level=None)) as store:
        store.execute("BEGIN IMMEDIATE")  # nothing can be stored meanwhile
        with corral.going("run", "DO: true", "--repo", repo.folder, "--agent", "doer", "--json") as going:
            until(lambda: len(pinned(repo)) > len(others), "the base is held")
            going.process.kill()
            going.process.wait()
        store.execute("ROLLBACK")
    assert len(pinned(repo)) > len(others)
    assert corral("clean", "--keep", "0").code == 0
    assert pinned(repo) == others
    assert list((corral.home / "pins").iterdir()) == []


def test_gc_at_any_moment_loses_nothing(corral: Corral) -> None:
    doer(corral)
    corral.config('[workspace]\nsnapshot = "0.2s"')
    repo = corral.repo()
    flow = "name: many\nnodes:\n"
    for number in range(9):
        flow += f'  n{number}: {{task: "DO: echo {number} > f{number}.txt; sleep 0.3; echo more >> f{number}.txt"}}\n'
    flow += '  both: {task: "DO: cat f*.txt > all.txt", needs: [n0, n1, n2, n3]}\n'
    flow += '  after: {task: "DO: wc -l all.txt > count.txt", needs: [both, n4]}\n'
    file = write(corral, flow)
    moments = 0
    while moments < tries(50):
        with corral.going("flow", "run", file, "--repo", repo.folder, "--agent", "doer", "--json") as going:
            while going.process.poll() is None:
                rewritten(repo, moments)
                moments += 1
            outcome = going.end()
        assert set(statuses(outcome).values()) == {"done"}, outcome
        last = nodes(outcome)["after"]["attempts"][-1]["branch"]
        assert repo.read(last, "count.txt") == "8 all.txt"
    checked = subprocess.run(["git", "fsck", "--connectivity-only"], cwd=repo.folder, capture_output=True, check=False)
    assert checked.returncode == 0, checked


class Gardener:
    """Drops all that no ref leads to, again and again, in a thread of its own; `moments` counts how often."""

    def __init__(self, repo: Repo) -> None:
        self._repo, self._over = repo, threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.moments = 0

    def _work(self) -> None:
        while not self._over.is_set():
            self._repo.git("reflog", "expire", "--expire=now", "--all")
            self._repo.git("gc", "--quiet", "--prune=now")
            self.moments += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_gc_during_races_merges_undos_queues_and_kills_loses_nothing(corral: Corral) -> None:
    doer(corral)
    repo, moments, number = corral.repo(), 0, 0
    while moments < tries(50):
        number += 1
        with Gardener(repo) as gardener:
            raced = corral.run(repo, f"DO: echo {number} > race{number}.txt", "--agent", "doer,doer")
            assert raced.code == 0, raced
            assert corral("merge", raced.json["run"], cwd=repo.folder).code == 0
            merged = repo.head
            assert corral("undo", raced.json["run"], cwd=repo.folder).code == 0
            assert corral("merge", raced.json["run"], cwd=repo.folder).code == 0
            queued = [corral.run(repo, f"DO: echo {each} > {each}{number}.txt", "--agent", "doer") for each in "ab"]
            assert [each.code for each in queued] == [0, 0]
            queue = corral("merge", *(each.json["run"] for each in queued), "--queue", cwd=repo.folder)
            assert queue.code == 0, queue
            task = f"DO: echo {number} > half{number}.txt; until test -e go; do sleep 0.05; done"
            with corral.going("run", task, "--repo", repo.folder, "--agent", "doer") as going:
                until(lambda: list(corral.home.glob("workspaces/*/work/half*")), "it is at work")
                going.process.kill()
                going.process.wait()
            killed = corral("stop", "@last", "--json")
            assert repo.read(killed.attempt["branch"], f"half{number}.txt") == str(number)
        moments += gardener.moments
        assert {f"race{number}.txt", f"a{number}.txt", f"b{number}.txt"} <= set(repo.files("main"))
        assert repo.git("cat-file", "-t", merged) == "commit"
        for each in (raced, *queued):
            assert repo.git("cat-file", "-t", each.attempt["commit"]) == "commit"
    checked = subprocess.run(["git", "fsck", "--connectivity-only"], cwd=repo.folder, capture_output=True, check=False)
    assert checked.returncode == 0, checked
