"""Checkouts that are busy, dirty or no checkouts at all, and many runs at once."""

import contextlib
import re
import subprocess
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.repository import Repo

pytestmark = pytest.mark.slow  # left out of `make quick`


@pytest.fixture
def ready(corral: Corral) -> Corral:
    corral.agent("mine", 'listed=$(ls -A | grep -v ^.git$); cat a.txt > seen; echo "$listed" > listed; echo x > x')
    return corral


def dirty(repo: Repo) -> None:
    """Leave staged, unstaged, untracked and deleted work behind."""
    repo.write({"a.txt": "staged\n", "new.txt": "staged too\n"})
    repo.git("add", "a.txt", "new.txt")
    repo.write({"a.txt": "changed again\n", "untracked.txt": "u\n"})
    (repo.folder / "src" / "b.txt").unlink()


def test_dirty_work_is_neither_seen_nor_touched_and_that_is_said(ready: Corral) -> None:
    repo = ready.repo()
    dirty(repo)
    before, status = repo.fingerprint(), repo.git("status", "--porcelain")
    outcome = ready("run", "t", "--agent", "mine", cwd=repo.folder)
    assert outcome.code == 0, outcome
    assert "4 files are not committed" in outcome.err
    attempt = ready("show", "@last", "--json").json["nodes"][0]["attempts"][0]
    assert repo.read(attempt["commit"], "seen") == "one"
    assert repo.read(attempt["commit"], "listed").split() == ["a.txt", "src"]
    assert (repo.fingerprint(), repo.git("status", "--porcelain")) == (before, status)


def test_a_repository_in_the_middle_of_a_merge(ready: Corral) -> None:
    repo = ready.repo()
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit({"a.txt": "side\n"})
    repo.git("checkout", "--quiet", "main")
    repo.commit({"a.txt": "main\n"})
    with contextlib.suppress(AssertionError):
        repo.git("merge", "side")
    before = repo.fingerprint()
    assert "UU a.txt" in repo.git("status", "--porcelain")
    outcome = ready.run(repo, "t", "--agent", "mine")
    assert outcome.code == 0, outcome
    assert repo.read(outcome.attempt["commit"], "seen") == "main"
    assert repo.fingerprint() == before


def test_a_locked_index_does_no_harm(ready: Corral) -> None:
    repo = ready.repo()
    lock = repo.folder / ".git" / "index.lock"
    lock.write_text("")
    outcome = ready.run(repo, "t", "--agent", "mine", "--check", "test -f x")
    assert outcome.code == 0, outcome
    assert lock.exists()


@pytest.mark.parametrize("name", ["packed-refs.lock", "HEAD.lock", "config.lock", "shallow.lock"])
def test_other_locks_do_no_harm_either(ready: Corral, name: str) -> None:
    repo = ready.repo()
    (repo.folder / ".git" / name).write_text("")
    outcome = ready.run(repo, "t", "--agent", "mine", "--retries", "0")
    assert outcome.code == 0, outcome
    assert (repo.folder / ".git" / name).exists()


def test_hooks_and_programs_of_the_repository_are_not_run(ready: Corral) -> None:
    repo = ready.repo()
    evil = repo.folder / ".git" / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {ready.root}/evil-ran\n")
    evil.chmod(0o755)
    for hook in ("post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-update"):
        (repo.folder / ".git" / "hooks" / hook).symlink_to(evil)
    for key in ("core.fsmonitor", "core.sshCommand", "diff.external", "credential.helper", "core.pager", "gpg.program"):
        repo.git("config", key, str(evil))
    repo.git("config", "commit.gpgSign", "true")
    outcome = ready.run(repo, "t", "--agent", "mine", "--check", "test -f x")
    assert outcome.code == 0, outcome
    assert ready("diff", "@last").code == 0
    assert not (ready.root / "evil-ran").exists()


def test_a_plain_folder(ready: Corral) -> None:
    ready.home.mkdir(mode=0o755, exist_ok=True)
    folder = ready.root / "plain folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("one\n")
    (folder / "sub" / "c.txt").write_text("three\n")
    (folder / "link").symlink_to("a.txt")
    outcome = ready.run(folder, "t", "--agent", "mine", "--check", "test -f x && test -f sub/c.txt")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["listed", "seen", "x"]
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "link", "sub"]
    assert b"+x" in ready("diff", "@last").bytes
    assert ready.run(folder, "t", "--agent", "mine").json["base"] == outcome.json["base"]  # the same content
    (folder / "a.txt").write_text("changed\n")
    again = ready.run(folder, "t", "--agent", "mine")
    assert again.code == 0, again
    assert b"+changed" in ready("diff", "@last").bytes  # the agent saw the folder as it is now
    (folder / ".gitignore").write_text("big\n")
    (folder / "big").write_text("x" * 5000)
    said = ready("run", "t", "--repo", folder, "--agent", "mine").err
    copied = re.search(rf"{folder} is no git repository: 4 files \(\d+ bytes\) are copied, and kept in (.+)", said)
    assert copied, said
    assert Path(copied[1]).is_dir()
    assert {(ready.home / name).stat().st_mode & 0o777 for name in ("folders", "logs", "objects")} == {0o700}


def test_a_plain_folder_with_repositories_in_it_is_not_copied(ready: Corral) -> None:
    folder = ready.root / "parent"
    one, empty = Repo.make(folder / "org" / "one"), folder / "tools" / "empty"
    empty.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", empty], check=True)
    outcome = ready.run(folder, "t", "--agent", "mine")
    assert outcome.code == 2, outcome
    assert "repositories are in it: org/one, tools/empty" in outcome.err
    assert f"hint: name one of them: --repo {one.folder}" in outcome.err
    (folder / ".gitignore").write_text("org\ntools\n")
    outcome = ready.run(folder, "t", "--agent", "mine", "--check", "test -f x")
    assert outcome.code == 0, "what the folder leaves out is not in the way"


def test_an_empty_plain_folder(ready: Corral) -> None:
    ready.agent("maker", "echo x > x")
    (ready.root / "empty").mkdir()
    outcome = ready.run(ready.root / "empty", "t", "--agent", "maker")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["x"]


def test_nothing_done_in_a_repository_without_a_commit_is_no_change(ready: Corral) -> None:
    folder = ready.root / "fresh"
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    (folder / "a.txt").write_text("mine\n")
    ready.agent("idle", "true")
    outcome = ready("run", "t", "--repo", folder, "--agent", "idle", "--retries", "0")
    assert outcome.code == 1, outcome
    assert "no_change" in outcome.out
    assert "missing" not in outcome.out
    assert "HEAD" not in outcome.out + outcome.err
    assert "there is no commit here yet, so agents start from nothing" in outcome.err
    seen = ready.run(folder, "t", "--agent", "mine", "--with-changes")
    assert seen.code == 0, seen


def test_a_base_in_a_plain_folder_is_refused(ready: Corral) -> None:
    (ready.root / "plain").mkdir()
    outcome = ready.run(ready.root / "plain", "t", "--agent", "mine", "--base", "main")
    assert outcome.code == 2
    assert "git init" in outcome.err


def all_at_once(ready: Corral, repo: Repo, count: int) -> None:
    before = repo.fingerprint()
    with contextlib.ExitStack() as stack:
        arguments = ("run", "t", "--repo", repo.folder, "--agent", "mine", "--check", "test -f x", "--json")
        runs = [stack.enter_context(ready.going(*arguments)) for _ in range(count)]
        ended = [run.end() for run in runs]
    assert [outcome.code for outcome in ended] == [0] * count, [o for o in ended if o.code]
    branches = {outcome.attempt["branch"] for outcome in ended}
    assert len(branches) == count
    assert len(repo.refs("refs/heads/corral")) == count
    assert len(repo.refs("refs/corral")) >= count
    assert all(repo.receipt(outcome.attempt["commit"])["status"] == "done" for outcome in ended)
    assert len(ready("ls", "--json").json) == count
    assert ready.leavings() == []
    assert repo.fingerprint() == before
    assert not list((repo.folder / ".git").rglob("*.lock"))


def test_two_runs_at_once(ready: Corral) -> None:
    ready.agent("mine2", "true")
    all_at_once(ready, ready.repo(), 2)


@pytest.mark.slow
def test_twenty_runs_at_once_never_fail_on_gits_locks(ready: Corral) -> None:
    all_at_once(ready, ready.repo(), 20)
