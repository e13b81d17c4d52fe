"""Nothing is lost: snapshots while agents work, `restore`, and a `clean` that keeps what no branch has."""

import contextlib
import signal
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.rig.command import Corral
from tests.rig.merging import work
from tests.rig.processes import gone
from tests.rig.repository import Repo
from tests.rig.server import serving
from tests.rig.waiting import until

FILES = {"a.txt": "one\n", ".gitignore": "*.log\n"}


def snapshots(repo: Repo) -> list[str]:
    return repo.refs("refs/corral/snapshots/")


def test_what_an_agent_has_so_far_is_kept_while_it_works(corral: Corral) -> None:
    corral.config('[workspace]\nsnapshot = "0.3s"')
    repo = corral.repo(files=FILES)
    script = (
        "echo first > w.txt; echo noise > x.log; until test -e go; do sleep 0.1; done; echo second > w.txt; sleep 600"
    )
    agent = corral.agent("mine", script)
    with corral.going("run", "t", "--repo", repo.folder, "--agent", agent) as going:
        until(lambda: snapshots(repo), "there is a snapshot")
        (first,) = snapshots(repo)
        assert repo.read(first, "w.txt") == "first"
        assert "x.log" not in repo.files(first)
        (tree,) = corral.home.glob("workspaces/*/work")
        (tree / "go").touch()
        until(lambda: any(repo.read(ref, "w.txt") == "second" for ref in snapshots(repo)), "there is another")
        assert not (tree / ".git" / "refs" / "corral").exists()
        going.signal(signal.SIGKILL)
        going.process.wait()
    (attempt,) = {ref.split("/")[3] for ref in snapshots(repo)}
    before = repo.fingerprint()
    listed = corral("restore", attempt, "--list", "--json").json
    assert corral("restore", "@last", "--list", "--json").json == listed
    assert repo.read(listed[0]["commit"], "w.txt") == "first"
    folder = corral.root / "back"
    restored = corral("restore", f"{attempt}@{listed[0]['at']}", "--into", folder)
    assert restored.code == 0, restored
    assert (folder / "w.txt").read_text() == "first\n"
    assert (folder / "a.txt").read_text() == "one\n"
    assert corral("restore", attempt, "--into", folder).code == 2
    assert repo.fingerprint() == before
    branch = corral("restore", attempt, "--json").json["branch"]
    assert repo.read(branch, "w.txt") == "second"
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert corral("restore", f"{attempt}@{later}", "--into", "later").code == 0
    assert corral("restore", f"{attempt}@2001-01-01T00:00:00").code == 2
    assert corral("stop", "@last").code == 0


#: An agent that throws its work away when it is told to end.
DISCARDS = "trap 'rm -f w.txt; exit 1' TERM; echo precious > w.txt; while :; do sleep 0.1; done"


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop", "timeout", "idle"])
def test_what_is_there_right_before_an_agent_is_ended_is_kept(corral: Corral, end: str) -> None:
    repo = corral.repo(files=FILES)
    agent = corral.agent("mine", DISCARDS)
    limits = {"timeout": ("--timeout", "2s"), "idle": ("--idle", "2s")}
    words = ("run", "t", "--repo", repo.folder, "--agent", agent, "--retries", "0", *limits.get(end, ()))
    with corral.going(*words) as going:
        if end == "stop":
            until(lambda: list(corral.home.glob("workspaces/*/work/w.txt")), "it has written")
            assert corral("stop", "@last").code == 0
        going.process.wait(60)
    attempt = corral("show", "@last", "--json").json["nodes"][0]["attempts"][0]
    assert attempt["status"] == ("stopped" if end == "stop" else "timed_out"), attempt
    _thrown_away_and_back(corral, attempt)


HOLD = "b = bytearray(100 << 20); b[::4096] = b'x' * len(b[::4096]); import time; time.sleep(3600)"
BARE = ("--allow-unsandboxed", "--require-sandbox", "none")
#: How to use up too much, the setting for that, and the class of the failure.
TOO_MUCH = {
    "memory": (f'for i in 1 2 3 4; do python3 -c "{HOLD}" & done', "[scope]\nmemory_mb = 256", BARE),
    "disk": ("head -c 90M /dev/zero > big.log", "[scope]\ndisk_mb = 64", ()),
    "processes": ("for i in $(seq 80); do sleep 31536000.79 & done", "[scope]\nprocesses = 40", BARE),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOO_MUCH)
def test_what_is_there_right_before_an_agent_that_uses_too_much_is_ended_is_kept(corral: Corral, kind: str) -> None:
    script, settings, level = TOO_MUCH[kind]
    repo = corral.repo(files=FILES)
    corral.config(settings)
    agent = corral.agent("mine", DISCARDS.replace("while", f"{script}; while"))
    words = ("--agent", agent, "--retries", "0", "--timeout", "60s", *level)
    attempt = corral.run(repo, "t", *words).attempt
    assert attempt["error"]["class"] == kind, attempt
    _thrown_away_and_back(corral, attempt)
    gone("31536000.79")


@pytest.mark.slow
def test_what_is_there_right_before_money_ends_an_agent_is_kept(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    settings = 'output = "jsonl"\ncost = "cost"'
    spends = """echo '{"cost": 3.0}'; while"""
    agent = corral.agent("mine", DISCARDS.replace("while", spends), settings)
    outcome = corral.run(repo, "t", "--agent", agent, "--budget", "1", "--timeout", "60s")
    assert outcome.code == 4, outcome
    _thrown_away_and_back(corral, outcome.attempt)


def _thrown_away_and_back(corral: Corral, attempt: dict[str, Any]) -> None:
    assert "w.txt" not in attempt["files_changed"]
    folder = corral.root / "back"
    restored = corral("restore", attempt["id"], "--into", folder)
    assert restored.code == 0, restored
    assert (folder / "w.txt").read_text() == "precious\n"


def test_the_work_of_an_attempt_that_failed_comes_back(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    outcome = corral.run(repo, "t", "--agent", corral.agent("bad", "echo half > w.txt; exit 1"), "--retries", "0")
    attempt = outcome.attempt["id"]
    repo.git("branch", "--quiet", "-D", outcome.attempt["branch"])
    assert corral("restore", attempt, "--into", "rescued").code == 0
    assert repo.read("rescued", "w.txt") == "half"
    assert corral("restore", attempt, "--into", "main").code == 2
    assert corral("restore", "0000-1").code == 2
    # A ref that leads to nothing is not believed: the commit is still there.
    (repo.folder / ".git" / "refs" / "corral" / "attempts" / attempt).write_text("1" * 40 + "\n")
    assert corral("restore", attempt, "--into", "again").code == 0
    assert repo.read("again", "w.txt") == "half"


@pytest.mark.parametrize("strategy", ["auto", "squash", "rebase"])
def test_merged_work_is_cleaned_away_however_it_was_merged(corral: Corral, strategy: str) -> None:
    repo = corral.repo(files=FILES)
    work(corral, repo, "echo new > n.txt")
    repo.commit({"other.txt": "meanwhile\n"})
    assert corral("merge", "@last", "--strategy", strategy).code == 0
    head = repo.head
    dry = corral("clean", "--keep", "0", "--dry-run", "--json")
    assert [each["merged"] for each in dry.json] == [True]
    assert repo.refs("refs/heads/corral/", "refs/corral/attempts/")
    cleaned = corral("clean", "--keep", "0")
    assert cleaned.code == 0, cleaned
    assert repo.refs("refs/heads/corral/", "refs/corral/") == []
    assert not list((corral.home / "logs").glob("*"))
    assert repo.head == head
    assert corral("show", "@last").code == 0


def test_work_that_no_branch_has_stays_under_a_hidden_ref_until_it_expires(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    run = work(corral, repo, "echo precious > n.txt")
    attempt = run["nodes"][0]["attempts"][0]["id"]
    cleaned = corral("clean", "--keep", "0", "--json").json
    assert [each["merged"] for each in cleaned] == [False]
    (kept,) = repo.refs("refs/corral/")
    assert kept == cleaned[0]["kept"]
    assert kept.startswith("refs/corral/expiring/")
    assert repo.refs("refs/heads/corral/") == []
    assert corral("restore", attempt, "--into", "again").code == 0
    assert repo.read("again", "n.txt") == "precious"
    assert corral("clean").code == 0
    assert repo.refs("refs/corral/") == [kept]
    repo.git("update-ref", f"refs/corral/expiring/20010101/{attempt}", kept)
    repo.git("update-ref", "-d", kept)
    assert corral("clean").code == 0
    assert repo.refs("refs/corral/") == []


def test_what_is_chosen_by_number_age_and_room(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    runs = [work(corral, repo, f"echo {name} > {name}.txt")["run"] for name in "klm"]

    def chosen(*arguments: str) -> list[str]:
        outcome = corral("clean", "--dry-run", "--json", *arguments)
        assert outcome.code == 0, outcome
        return [each["run"] for each in outcome.json]

    assert chosen() == []
    assert chosen("--keep", "1") == runs[:2]
    assert chosen("--older", "0h") == runs
    assert chosen("--older", "1d") == []
    assert chosen("--disk", "0") == runs
    assert chosen("--disk", "1GB") == []
    assert corral("clean", "--disk", "much").code == 2
    assert corral("clean", "--older", "soon").code == 2


def test_a_server_cleans_by_itself_but_no_work_that_no_branch_has(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    merged, unmerged = (work(corral, repo, f"echo {name} > {name}.txt") for name in "kl")
    assert corral("merge", merged["run"]).code == 0
    logs = [corral.home / "logs" / run["nodes"][0]["attempts"][0]["id"] for run in (merged, unmerged)]
    kept = repo.refs(f"refs/heads/corral/{unmerged['run']}")
    assert all(folder.exists() for folder in logs), logs
    assert kept
    corral.config('[clean]\nolder = "0h"\n')
    with serving(corral, corral.root):
        until(lambda: not logs[0].exists(), "the merged run to be cleaned")
    assert corral("clean", "--older", "0h", "--merged", "--json").json[0]["trouble"] == "no branch has its work"
    assert logs[1].exists()
    assert repo.refs(f"refs/heads/corral/{unmerged['run']}") == kept
    repo.folder.joinpath("corral.toml").write_text('[clean]\nolder = "0h"\n')
    refused = corral("run", "x", "--agent", "claude", cwd=repo.folder)
    assert (refused.code, "[clean] is yours to say" in refused.err) == (2, True), refused


def test_a_run_that_is_not_over_is_left_alone(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    agent = corral.agent("mine", "echo x > x.txt; sleep 600")
    with corral.going("run", "t", "--repo", repo.folder, "--agent", agent):
        until(lambda: list(corral.home.glob("workspaces/*/work/x.txt")), "it works")
        assert corral("clean", "--keep", "0", "--json").json == []
        assert list(corral.home.glob("workspaces/*/work/x.txt"))


def test_what_agents_said_is_cleaned_from_the_database_and_how_it_went_stays(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    said = "w" * 2000
    agent = corral.agent("talker", f"i=0; while [ $i -lt 8000 ]; do echo {said}$i; i=$((i+1)); done; echo x > w.txt")
    run = corral("run", "t", "--repo", repo.folder, "--agent", agent, "--json").json["run"]
    database = corral.home / "corral.db"
    before = database.stat().st_size
    assert said in corral("logs", run).out
    assert corral("clean", "--keep", "0", "--dry-run").code == 0
    assert said in corral("logs", run).out
    assert corral("clean", "--keep", "0").code == 0
    assert said not in corral("logs", run).out
    assert "done" in corral("logs", run).out
    assert corral("show", run, "--json").json["status"] == "done"
    assert database.stat().st_size < before / 2


def test_work_that_stays_frees_no_room_so_the_next_oldest_run_goes(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    unmerged, merged = (work(corral, repo, f"echo {name} > {name}.txt") for name in "kl")
    assert corral("merge", merged["run"]).code == 0
    logs = [corral.home / "logs" / run["nodes"][0]["attempts"][0]["id"] for run in (unmerged, merged)]
    for folder, size in zip(logs, (6_000_000, 4_000_000), strict=True):
        (folder / "long").write_bytes(b"x" * size)
    dry = corral("clean", "--disk", "7MB", "--merged", "--dry-run", "--json").json
    cleaned = corral("clean", "--disk", "7MB", "--merged", "--json").json
    assert {each["run"]: each["trouble"] for each in cleaned} == {
        unmerged["run"]: "no branch has its work",
        merged["run"]: "",
    }
    assert dry == cleaned
    assert [folder.exists() for folder in logs] == [True, False]
    enough = corral("clean", "--disk", "7MB", "--merged", "--json").json
    assert enough == []


def test_a_run_that_is_opened_again_meanwhile_is_left_alone(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    first, second = (work(corral, repo, f"echo words; echo {name} > {name}.txt") for name in "kl")
    logs = [corral.home / "logs" / run["nodes"][0]["attempts"][0]["id"] for run in (first, second)]
    kept = [ref for ref in repo.refs("refs/heads/corral", "refs/corral") if second["run"] in ref]
    opened = (
        f"CREATE TRIGGER opened AFTER DELETE ON events WHEN old.run = '{first['run']}'"
        f" BEGIN UPDATE runs SET status = 'queued', ended = NULL WHERE id = '{second['run']}'; END"
    )
    with contextlib.closing(sqlite3.connect(corral.home / "corral.db")) as database, database:
        database.execute(opened)  # a user opens the second at the moment when the words of the first are dropped
    cleaned = corral("clean", "--keep", "0", "--json")
    assert [each["run"] for each in cleaned.json] == [first["run"]], cleaned
    assert corral("show", second["run"], "--json").json["status"] == "queued"
    assert [folder.exists() for folder in logs] == [False, True]
    assert kept
    assert [ref for ref in repo.refs("refs/heads/corral", "refs/corral") if second["run"] in ref] == kept
