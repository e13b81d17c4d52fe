"""Whatever an agent leaves, and wherever, is kept; and what looks like success is looked at twice."""

import os
import signal
import subprocess

import pytest

from tests.rig.command import Corral
from tests.rig.repository import Repo, git
from tests.rig.waiting import until


def saved(repo: Repo, attempt: dict[str, str]) -> list[str]:
    return repo.refs(f"refs/corral/saved/{attempt['id']}/")


@pytest.mark.parametrize(
    ("script", "file"),
    [
        ("echo work > w.txt; git add w.txt; git stash -q", "w.txt"),
        ("git checkout -qb fix; echo work > w.txt; git add w.txt; git commit -qm w; git checkout -q -", "w.txt"),
    ],
)
def test_work_beside_the_branch_is_kept_and_told(corral: Corral, script: str, file: str) -> None:
    repo = corral.repo()
    outcome = corral.run(repo, "t", "--agent", corral.agent("mine", script), "--retries", "0")
    assert outcome.attempt["error"]["class"] == "no_change"
    (kept,) = saved(repo, outcome.attempt)
    assert kept in outcome.attempt["error"]["message"]
    assert repo.read(kept, file) == "work"
    restored = corral("restore", outcome.attempt["id"])
    assert restored.code == 2
    assert kept in restored.err


@pytest.mark.parametrize("before", ["true", "echo 1 > one.txt; git add .; git commit -qm one"])
@pytest.mark.parametrize("lock", ["index", "$(git symbolic-ref HEAD)"])
def test_locks_of_a_git_that_was_ended_in_the_middle_hold_up_nothing(corral: Corral, before: str, lock: str) -> None:
    repo = corral.repo()
    agent = corral.agent("mine", f'{before}\necho work > w.txt\n: > ".git/{lock}.lock"')
    outcome = corral.run(repo, "t", "--agent", agent, "--retries", "0")
    assert outcome.attempt["status"] == "done", outcome
    assert repo.read(outcome.attempt["commit"], "w.txt") == "work"


def test_a_lock_that_is_a_folder_or_a_link_holds_up_nothing_and_is_not_followed(corral: Corral) -> None:
    repo = corral.repo()
    script = """echo work > w.txt; mkdir kept; echo kept > kept/a.lock
mkdir -p .git/index.lock/in; ln -s ../kept .git/HEAD.lock; ln -s ../../../kept .git/refs/heads/other
ln -s "$PWD/kept" ".git/$(git symbolic-ref HEAD).lock\""""
    outcome = corral.run(repo, "t", "--agent", corral.agent("mine", script), "--retries", "0")
    assert outcome.attempt["status"] == "done", outcome
    assert {"kept/a.lock", "w.txt"} <= set(repo.files(outcome.attempt["commit"]))


def test_files_of_a_repository_made_inside_are_the_work(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.agent("mine", "git init -q sub; cd sub; echo in > in.txt; git add .; git commit -qm in")
    outcome = corral.run(repo, "t", "--agent", agent, "--check", "test -f sub/in.txt")
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["commit"], "sub/in.txt") == "in"


@pytest.mark.parametrize(
    "script", ["echo more > lib/more.txt", "cd lib; echo more > more.txt; git add .; git commit -qm m"]
)
def test_work_in_a_submodule_comes_over(corral: Corral, script: str) -> None:
    library = corral.repo("library", {"lib.txt": "library\n"})
    repo = corral.repo()
    repo.git("submodule", "--quiet", "add", str(library.folder), "lib")
    repo.git("commit", "--quiet", "-m", "with a library")
    outcome = corral.run(repo, "t", "--agent", corral.agent("mine", script), "--check", "test -f lib/more.txt")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["lib"]
    inner = repo.git("rev-parse", f"{outcome.attempt['commit']}:lib")
    assert git(repo.folder / "lib", "show", f"{inner}:more.txt") == "more"


def test_nothing_is_written_through_a_link_in_the_commit(corral: Corral) -> None:
    repo = corral.repo(files={".gitignore": ".env\n", ".worktreeinclude": ".env\n", "a.txt": "a\n"})
    repo.write({".env": "SECRET=1\n"})
    victim = corral.root / "victim"
    victim.write_text("precious")
    agent = corral.agent("mine", f"rm -f .env; ln -s {victim} .env; git add -f .env; git commit -qm link")
    corral.run(repo, "t", "--agent", agent, "--check", "true", "--retries", "0")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    ("files", "check", "script"),
    [
        ({"Makefile": "test:\n\tfalse\n"}, "make test", "printf 'test:\\n\\ttrue\\n' > Makefile"),
        ({"a.txt": "a\n"}, "python3 -m unittest nothing", "printf 'import sys\\nsys.exit(0)\\n' > unittest.py"),
    ],
)
def test_a_check_that_was_swapped_proves_nothing(
    corral: Corral, files: dict[str, str], check: str, script: str
) -> None:
    outcome = corral.run(corral.repo(files=files), "t", "--agent", corral.agent("mine", script), "--check", check)
    assert outcome.attempt["error"]["class"] == "check_failed", outcome
    assert "passes only with changed" in outcome.attempt["error"]["message"]


def test_a_read_only_task_that_changes_files_is_not_done(corral: Corral) -> None:
    outcome = corral.run(corral.repo(), "t", "--agent", corral.agent("mine", "echo x > x"), "--read-only")
    assert outcome.attempt["error"]["class"] == "scope_violation"


@pytest.mark.slow
def test_folders_deeper_than_any_path_do_no_harm(corral: Corral) -> None:
    script = "i=0; while [ $i -lt 1500 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; echo deep > f"
    try:
        outcome = corral.run(corral.repo(), "t", "--agent", corral.agent("mine", script), "--retries", "0")
        assert outcome.json["status"] in ("done", "failed")
        assert not outcome.err.count("corral itself failed")
    finally:  # Python's own way to remove folders, which cleans up after old tests, fails on such
        subprocess.run(["rm", "-rf", corral.home, corral.root / "repo"], check=True)


@pytest.mark.slow
def test_a_patch_larger_than_memory_likes_is_whole(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.agent("mine", "head -c 70000000 /dev/urandom > big.bin")
    outcome = corral.run(repo, "t", "--agent", agent)
    patch = corral.root / "big.patch"
    patch.write_bytes(corral("diff", "@last").bytes)
    repo.git("apply", "--check", str(patch))
    assert outcome.attempt["files_changed"] == ["big.bin"]


def test_a_reader_that_leaves_does_not_stop_the_work(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.agent("mine", "echo work > w.txt; exit 0")
    readable, writable = os.pipe()
    os.close(readable)
    with corral.going("run", "t", "--repo", repo.folder, "--agent", agent, stderr=writable) as going:
        os.close(writable)
        going.process.wait(timeout=60)
    assert corral("show", "@last", "--json").json["status"] == "done"


def test_a_dead_run_says_so_and_can_be_stopped_whatever_became_of_its_agent(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.agent("mine", "echo half > half.txt; sleep 600")
    with corral.going("run", "t", "--repo", repo.folder, "--agent", agent) as going:
        until(
            lambda: any(event["type"] == "status_changed" and event["kind"] == "attempt" for event in corral.events()),
            "it works",
        )
        until(lambda: list(corral.home.glob("workspaces/*/work/half.txt")), "it has written")
        going.signal(signal.SIGKILL)
        going.process.wait()
    shown = corral("show", "@last")
    assert "its process is gone" in shown.out
    assert "corral resume" in shown.out
    assert "orphaned" in corral("ls").out
    corral.config_file.write_text("")  # the agent is not known any more
    stopped = corral("stop", "@last", "--json")
    assert stopped.code == 0, stopped
    assert stopped.json["status"] == "stopped"
    assert repo.read(stopped.attempt["branch"], "half.txt") == "half"
    assert len(stopped.json["nodes"][0]["attempts"]) == 1
