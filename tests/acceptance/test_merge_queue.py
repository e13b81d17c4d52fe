"""Several runs landed in order, tested together; and a forecast of what will clash."""

import signal

import pytest

from tests.rig.command import Corral
from tests.rig.merging import looks, merge_state, work
from tests.rig.waiting import until

pytestmark = pytest.mark.both_stores

LIMIT = {"limit.sh": "test $(cat *.txt | wc -l) -le 3\n", "a.txt": "a\n"}
CHECK = ("--check", "sh ./limit.sh")


def test_what_goes_together_lands_and_the_one_that_breaks_it_is_left_out(corral: Corral) -> None:
    repo = corral.repo(files=LIMIT)
    runs = [work(corral, repo, f"echo {name} > {name}.txt", *CHECK)["run"] for name in "kl"]
    runs += [work(corral, repo, "echo m > m.txt", *CHECK)["run"], work(corral, repo, "echo x > readme", *CHECK)["run"]]
    queued = corral("merge", "--queue", *runs, "--json")
    assert queued.code == 1, queued
    assert queued.json["merged"] == [runs[0], runs[1], runs[3]]
    ((lost, why),) = queued.json["lost"]
    assert lost == runs[2]
    assert "limit.sh" in why
    assert {"k.txt", "l.txt", "readme"} <= set(repo.files("main"))
    assert "m.txt" not in repo.files("main")
    assert repo.git("status", "--porcelain") == ""
    assert [merge_state(corral, run)["status"] for run in runs] == ["merged", "merged", "ready", "merged"]
    assert any("left out of the queue" in event.get("text", "") for event in corral.events(runs[2]))
    for run in (runs[3], runs[1], runs[0]):
        assert corral("undo", run).code == 0
    assert repo.files("main") == ["a.txt", "limit.sh"]


def test_a_conflict_in_a_queue_leaves_the_later_one_out(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "a\n"})
    runs = [work(corral, repo, f"echo {name} > a.txt")["run"] for name in "kl"]
    queued = corral("merge", "--queue", *runs)
    assert queued.code == 1, queued
    assert (repo.folder / "a.txt").read_text() == "k\n"
    assert f"left out {runs[1]}" in queued.out
    assert "a.txt" in queued.out


def test_a_queue_that_is_killed_goes_on_where_it_was(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "a\n"})
    gate = corral.root / "gate"
    gate.mkdir()
    (gate / "open").touch()
    check = f"until test -e {gate}/open; do sleep 0.05; done"
    scope = ("--read", f"{gate}/**", "--read", "**")
    runs = [work(corral, repo, f"echo {name} > {name}.txt", "--check", check, *scope)["run"] for name in "kl"]
    before = looks(repo)
    (gate / "open").unlink()
    with corral.going("merge", "--queue", *runs, cwd=repo.folder) as going:
        until(lambda: list(corral.home.glob("logs/*-merge/*.log")), "it tests")
        going.signal(signal.SIGKILL)
        going.process.wait()
    assert looks(repo) == before
    (gate / "open").touch()
    ended = corral("merge", "--queue", "--json", cwd=repo.folder)
    assert ended.code == 0, ended
    assert ended.json["merged"] == runs
    assert {"k.txt", "l.txt"} <= set(repo.files("main"))
    assert corral("merge", "--queue", cwd=repo.folder).code == 2


def test_the_forecast_names_who_clashes_with_whom_and_how_far_behind(corral: Corral) -> None:
    repo = corral.repo(files={"a.txt": "a\n", "b.txt": "b\n"})
    one = work(corral, repo, "echo one > a.txt")["run"]
    two = work(corral, repo, "echo two > a.txt; echo two > b.txt")["run"]
    free = work(corral, repo, "echo free > c.txt")["run"]
    repo.commit({"b.txt": "ours\n"})
    corral.config('[workspace]\nsnapshot = "0.3s"')
    agent = corral.agent("live", "echo live > c.txt; sleep 600")
    with corral.going("run", "t", "--repo", repo.folder, "--agent", agent):
        until(lambda: repo.refs("refs/corral/snapshots/"), "there is a snapshot")
        found = corral("overlap", "--repo", repo.folder, "--json").json
    work_of = {each["run"]: each for each in found["work"]}
    clashes = {frozenset((clash["one"][:12], clash["other"][:12])): clash["files"] for clash in found["clashes"]}
    (live,) = [each["run"] for each in found["work"] if each["live"]]
    expected = {(one, two): ["a.txt"], (free, live): ["c.txt"]}  # live did not change b.txt: only its base is newer
    assert clashes == {frozenset(pair): files for pair, files in expected.items()}
    assert work_of[two]["conflicts"] == ["b.txt"]
    assert (work_of[one]["behind"], work_of[live]["behind"]) == (1, 0)
    shown = corral("overlap", "--repo", repo.folder)
    assert "1 behind main" in shown.out
    assert corral("merge", one).code == 0
    again = corral("overlap", "--repo", repo.folder, "--json").json
    assert one not in {each["run"] for each in again["work"]}


def test_work_clashes_by_what_it_changed_not_by_where_it_started(corral: Corral) -> None:
    lines = "".join(f"{number}\n" for number in range(20))
    repo = corral.repo(files={"mod.py": lines, "NOTES.md": "first\n", "both.txt": lines})
    early = work(corral, repo, "sed -i s/^1$/early/ mod.py; sed -i s/^1$/early/ both.txt")["run"]
    repo.write({"NOTES.md": "second\n", "both.txt": lines.replace("10\n", "ten\n")})
    repo.git("commit", "--quiet", "--all", "--amend", "-m", "amended")
    late = work(corral, repo, "echo late >> NOTES.md; sed -i s/^18$/late/ both.txt")["run"]
    repo.write({"NOTES.md": "third\n", "both.txt": lines.replace("10\n", "TEN\n")})
    repo.git("commit", "--quiet", "--all", "--amend", "-m", "amended again")
    last = work(corral, repo, "echo last > new; sed -i s/^1$/last/ both.txt")["run"]
    found = corral("overlap", "--repo", repo.folder, "--json").json
    clashes = {frozenset((clash["one"][:12], clash["other"][:12])): clash["files"] for clash in found["clashes"]}
    assert clashes == {frozenset((early, last)): ["both.txt"]}, late
