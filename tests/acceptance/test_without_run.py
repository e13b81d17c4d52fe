"""Commands without RUN: the newest run of this repository, or the only one at work there."""

import pytest

from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.waiting import until


@pytest.fixture
def repo(corral: Corral) -> Repo:
    corral.agent("mine", "echo x > x.txt")
    return corral.repo()


def test_leaving_it_out_means_the_newest_run_of_this_repository(corral: Corral, repo: Repo) -> None:
    first, second = (corral.run(repo, task, "--agent", "mine").json["run"] for task in "ab")
    other = corral.repo("other")
    elsewhere = corral.run(other, "c", "--agent", "mine", "--check", "true").json["run"]
    below = repo.folder / "below"
    below.mkdir()
    assert corral("show", "--json", cwd=below).json["run"] == second
    assert corral("show", "--json", cwd=other.folder).json["run"] == elsewhere
    assert corral("show", "@last", "--json", cwd=repo.folder).json["run"] == elsewhere
    assert corral("show", "--json").json["run"] == elsewhere, "outside of a repository: the newest of all"
    assert corral("watch", "--json", cwd=repo.folder).json["run"] == second
    assert corral("compare", "--json", cwd=repo.folder).json["run"] == second
    assert corral("verify", "--json", cwd=repo.folder).json["run"] == second
    assert corral("evidence", "--json", cwd=repo.folder).json["run"] == second
    assert second in corral("logs", "--json", cwd=repo.folder).out
    assert "x.txt" in corral("diff", "--stat", cwd=repo.folder).out
    assert corral("diff", "1", "--json", cwd=repo.folder).json["attempt"] == f"{second}-1", "an attempt comes next"
    assert corral("diff", f"{first}-1", "--json", cwd=repo.folder).json["attempt"] == f"{first}-1"
    assert corral("retry", "main", "--json", cwd=repo.folder).json["run"] == second, "a node comes next"
    assert corral("merge", "--json", cwd=repo.folder).json["run"] == second
    assert corral("undo", "--json", cwd=repo.folder).json["run"] == second
    assert second in corral("resume", cwd=repo.folder).err, "it is over, and says so by its name"


def test_every_checkout_of_a_repository_means_the_same_runs(corral: Corral, repo: Repo) -> None:
    run = corral.run(repo, "a", "--agent", "mine").json["run"]
    beside = corral.root / "beside"
    repo.git("worktree", "add", "-q", str(beside))
    assert corral("show", "--json", cwd=beside).json["run"] == run
    inner = Repo.make(repo.folder / "inner")
    refused = corral("show", cwd=inner.folder)
    assert refused.code == 2
    assert "no run of this repository yet" in refused.err
    assert "corral ls" in refused.err


def test_what_looks_like_an_id_is_not_taken_for_the_next_argument(corral: Corral, repo: Repo) -> None:
    corral.run(repo, "a", "--agent", "mine")
    refused = corral("retry", "01q2swcwy2ds", cwd=repo.folder)
    assert refused.code == 2
    assert "no run is called `01q2swcwy2ds`" in refused.err
    missing = corral("steer", cwd=repo.folder)
    assert missing.code == 2
    assert "Missing argument 'TEXT'" in missing.err


def started(corral: Corral, repo: Repo, task: str, sleep: str) -> str:
    corral.agent(f"slow{task}", f"touch began\nsleep {sleep}")
    run = corral("run", task, "--agent", f"slow{task}", "--repo", repo.folder, "--detach").out.strip()
    until(lambda: corral("show", run, "--json").json["nodes"][0]["status"] == "running", "an agent is at work")
    return run


def test_stop_pause_and_steer_take_the_only_run_at_work(corral: Corral, repo: Repo, sleep: str) -> None:
    for command in (["stop"], ["pause"], ["steer", "shorter"]):
        none = corral(*command, cwd=repo.folder)
        assert (none.code, "no run is at work here" in none.err) == (2, True), none.err
    first = started(corral, repo, "a", sleep)
    assert corral("steer", "also the docs", "--json", cwd=repo.folder).json["run"] == first
    second = started(corral, repo, "b", sleep)
    for command in (["stop"], ["pause"], ["steer", "shorter"]):
        refused = corral(*command, cwd=repo.folder)
        assert refused.code == 2
        assert "2 runs are at work here" in refused.err
        assert first in refused.err
        assert second in refused.err
    assert corral("stop", first, cwd=repo.folder).code == 0
    assert corral("pause", "--json", cwd=repo.folder).json["run"] == second
    assert corral("stop", "--json", cwd=repo.folder).json["run"] == second, "a paused one is not over"


def test_a_plain_folder_has_runs_of_its_own(corral: Corral) -> None:
    corral.agent("mine", "echo x > x.txt")
    plain = corral.root / "plain"
    plain.mkdir()
    (plain / "a.txt").write_text("a\n")
    run = corral("run", "a", "--agent", "mine", "--json", cwd=plain).json["run"]
    corral.run(corral.repo(), "b", "--agent", "mine")
    assert corral("show", "--json", cwd=plain).json["run"] == run
    assert [each.name for each in plain.iterdir()] == ["a.txt"]
