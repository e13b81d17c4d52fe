"""What a person does with git itself after a merge: reverts it, moves the branch back, goes on. It is told and minded."""

import os
import time

import pytest

from tests.rig.command import Corral
from tests.rig.merging import merge_state, work
from tests.rig.repository import Repo
from tests.rig.waiting import until

FILES = {"a.txt": "one\n", "b.txt": "two\n"}


def taken_back(repo: Repo, how: str) -> None:
    """Take the last merge back as a person would."""
    if how == "reset":
        repo.git("reset", "--quiet", "--hard", "HEAD@{1}")
    else:
        merge = ("-m", "1") if " " in repo.git("show", "-s", "--format=%P") else ()
        repo.git("revert", "--no-edit", *merge, "HEAD")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "strategy", "goes_on"),
    [("revert", "auto", True), ("revert", "auto", False), ("revert", "squash", True), ("reset", "auto", False)],
)
def test_what_was_taken_back_with_git_is_told_and_can_land_again(
    corral: Corral, how: str, strategy: str, goes_on: bool
) -> None:
    repo = corral.repo(files=FILES)
    run = work(corral, repo, "echo more >> a.txt; echo new > n.txt", "--check", "test -f n.txt")["run"]
    if goes_on:
        repo.commit({"other.txt": "meanwhile\n"})
    assert corral("merge", run, "--strategy", strategy).code == 0
    landed = repo.head
    taken_back(repo, how)
    there = repo.commit({"later.txt": "later\n"})

    told = merge_state(corral)
    assert (told["status"], told["commit"]) == ("undone", None)
    assert "main has nothing of it any more" in told["why"]
    assert f"corral merge {run}" in corral("show", run).out
    refused = corral("undo", run)
    assert refused.code == 2, refused
    assert "it was taken back there with git; there is nothing to undo" in refused.err
    assert f"corral merge {run}" in refused.err
    assert repo.head == there

    preview = corral("merge", run, "--preview", "--json")
    assert sorted(preview.json["files"]) == ["a.txt", "n.txt"], preview
    again = corral("merge", run, "--strategy", strategy)
    assert again.code == 0, again
    assert (repo.folder / "a.txt").read_text() == "one\nmore\n"
    assert (repo.folder / "n.txt").read_text() == "new\n"
    assert (repo.folder / "later.txt").exists()
    assert repo.git("status", "--porcelain") == ""
    assert merge_state(corral)["commit"] == repo.head != landed
    assert corral("merge", run).code == 0  # it has this already
    assert corral("undo", run).code == 0
    assert repo.head == there
    assert merge_state(corral) == {"status": "undone", "into": "main", "commit": None, "conflicts": []}


def test_what_landed_and_was_changed_since_still_stands(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    run = work(corral, repo, "echo more >> a.txt; echo new > n.txt")["run"]
    assert corral("merge", run).code == 0
    repo.commit({"a.txt": "one\nMORE\n"})  # its line is another now, its file still there
    assert merge_state(corral)["status"] == "merged"
    assert "1 newer commit" in corral("undo", run).err
    taken_back(repo, "reset")
    repo.git("branch", "--move", "trunk")
    gone = corral("undo", run)
    assert gone.code == 2
    assert "the branch main is gone" in gone.err


@pytest.mark.parametrize("how", ["revert", "reset"])
def test_lines_that_were_taken_back_and_changed_since_are_a_conflict_and_not_merged(corral: Corral, how: str) -> None:
    repo = corral.repo(files=FILES)
    run = work(corral, repo, "echo more >> a.txt")["run"]
    repo.commit({"other.txt": "meanwhile\n"})
    assert corral("merge", run).code == 0
    taken_back(repo, how)
    repo.commit({"a.txt": "one\nmine\n"})
    assert merge_state(corral)["status"] == "undone"
    assert corral("merge", run).code == 3
    assert merge_state(corral)["conflicts"] == ["a.txt"]
    settled = corral("merge", run, "--resolve", "a.txt=theirs")
    assert settled.code == 0, settled
    assert (repo.folder / "a.txt").read_text() == "one\nmore\n"
    assert merge_state(corral)["commit"] == repo.head


def test_an_amended_merge_is_still_there_and_undo_says_so(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    run = work(corral, repo, "echo more >> a.txt; echo new > n.txt")["run"]
    assert corral("merge", run).code == 0
    repo.write({"a.txt": (repo.folder / "a.txt").read_text() + "mine\n", "n.txt": "new\nmine\n"})
    repo.git("commit", "--quiet", "--all", "--amend", "-m", "amended")
    assert merge_state(corral)["status"] == "merged"
    refused = corral("undo", run)
    assert refused.code == 2, refused
    assert "is not where the merge" in refused.err


def test_a_revert_that_was_reverted_is_merged_again(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    run = work(corral, repo, "echo more >> a.txt")["run"]
    assert corral("merge", run).code == 0
    for status in ("undone", "merged"):
        taken_back(repo, "revert")
        assert merge_state(corral)["status"] == status
    repo.commit({"a.txt": "one\nMORE\n"})  # by its files alone nobody could tell
    assert merge_state(corral)["status"] == "merged"


@pytest.mark.slow
def test_another_attempt_lands_where_the_first_was_taken_back(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    flow = corral.root / "two.yaml"
    corral.agent("one", "echo 7 > price.txt")
    corral.agent("two", "echo 8 > price.txt")
    flow.write_text("nodes:\n  work: {race: [one, two], task: t}\n")
    run = corral("flow", "run", flow, "--repo", repo.folder, "--json").json["run"]
    assert corral("merge", run, "--pick", "one").code == 0
    assert corral("merge", run, "--pick", "two").code == 2
    taken_back(repo, "revert")
    merged = corral("merge", run, "--pick", "two")
    assert merged.code == 0, merged
    assert (repo.folder / "price.txt").read_text() == "8\n"


def test_work_or_a_repository_that_is_gone_is_said_in_plain_words(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    merged = work(corral, repo, "echo new > n.txt")["run"]
    assert corral("merge", merged).code == 0
    lost = work(corral, repo, "echo lost > l.txt")
    for ref in repo.refs("refs/heads/corral/", "refs/corral/", "refs/notes/"):
        repo.git("update-ref", "-d", ref)
    repo.git("reflog", "expire", "--expire=now", "--all")
    attempt = lost["nodes"][0]["attempts"][0]
    assert (
        corral("restore", merged, "--into", corral.root / "back").code == 0
    )  # its branch has it, though no ref of ours
    repo.git("gc", "--quiet", "--prune=now")
    for words in (("merge",), ("merge", "--preview"), ("diff",)):
        refused = corral(words[0], lost["run"], *words[1:])
        assert refused.code == 2, refused
        assert f"commit {attempt['commit'][:12]} is gone" in refused.err
        assert f"corral retry {lost['run']}" in refused.err
    assert corral("restore", attempt["id"]).code == 2
    repo.folder.rename(corral.root / "elsewhere")
    for command, run in (("merge", lost["run"]), ("diff", merged), ("undo", merged), ("restore", merged)):
        refused = corral(command, run)
        assert refused.code == 2, refused
        assert "is not there any more" in refused.err
    assert corral("show", merged).code == 0


def test_another_git_that_is_at_work_for_a_moment_is_waited_for(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    run = work(corral, repo, "echo new > n.txt")["run"]
    lock = repo.folder / ".git/index.lock"
    lock.touch()
    with corral.going("merge", run) as merging:
        until(lambda: list(corral.home.glob("locks/merge-*")), "it merges")
        lock.unlink()
        assert merging.end().code == 0
    lock.touch()
    refused = corral("undo", run)
    assert refused.code == 2
    assert "another git is at work" in refused.err
    assert lock.exists()


@pytest.mark.parametrize("name", ["HEAD.lock", "refs/heads/main.lock", "index.lock"])
def test_a_lock_that_was_left_is_named_with_its_age_and_how_to_remove_it(corral: Corral, name: str) -> None:
    repo = corral.repo(files=FILES)
    run = work(corral, repo, "echo new > n.txt")["run"]
    head, lock = repo.head, repo.folder / ".git" / name
    lock.touch()
    os.utime(lock, (time.time() - 7200, time.time() - 7200))
    refused = corral("merge", run)
    assert refused.code in (1, 2), refused
    assert f"{lock} is in the way, 2 h old" in refused.err
    assert f"rm {lock}" in refused.err
    assert "Another git process seems" not in refused.err
    assert (repo.head, (repo.folder / "n.txt").exists()) == (head, False)
    lock.unlink()
    assert corral("merge", run).code == 0


def test_a_broken_gitmodules_in_the_checkout_is_named_in_plain_words(corral: Corral) -> None:
    library = corral.repo("library", {"lib.txt": "library\n"})
    repo = corral.repo(files=FILES)
    repo.git("submodule", "--quiet", "add", str(library.folder), "lib")
    repo.git("commit", "--quiet", "-m", "with a library")
    run = work(corral, repo, "echo new > n.txt")["run"]
    head = repo.commit({"other.txt": "meanwhile\n"})
    good = (repo.folder / ".gitmodules").read_text()
    repo.write({".gitmodules": '[submodule "lib"\n'})
    refused = corral("merge", run, "--strategy", "rebase")
    assert refused.code == 2, refused
    assert "not clean: .gitmodules; nothing was moved" in refused.err
    assert repo.head == head
    repo.write({".gitmodules": good})
    assert corral("merge", run, "--strategy", "rebase").code == 0


@pytest.mark.parametrize("where", ["base", "branch", "work"])
def test_a_broken_gitmodules_that_was_committed_keeps_nothing_from_a_rebase(corral: Corral, where: str) -> None:
    """In the commit both sides begin at, in what the branch got meanwhile, or in the work itself."""
    broken = {".gitmodules": '[submodule "lib"\n\tpath = lib\n[[[\n'}
    library = corral.repo("library", {"lib.txt": "library\n"})
    repo = corral.repo(files=FILES)
    repo.git("submodule", "--quiet", "add", str(library.folder), "lib")  # git reads .gitmodules only where it has one
    repo.git("commit", "--quiet", "-m", "with a library")
    if where == "base":
        repo.commit(broken)
    script = "printf '[submodule \"lib\"\\n[[[\\n' > .gitmodules; " if where == "work" else ""
    run = work(corral, repo, f"{script}echo new > n.txt")["run"]
    repo.commit({"other.txt": "meanwhile\n", **(broken if where == "branch" else {})})
    merged = corral("merge", run, "--strategy", "rebase")
    assert merged.code == 0, merged
    assert "fatal" not in merged.err
    assert {"n.txt", "other.txt", ".gitmodules", "lib"} <= set(repo.files("main"))
    assert [repo.read("main", name) for name in ("n.txt", "other.txt")] == ["new", "meanwhile"]
    assert [(repo.folder / name).read_text() for name in ("n.txt", "other.txt")] == ["new\n", "meanwhile\n"]
    assert (repo.folder / "lib" / "lib.txt").read_text() == "library\n"
    undone = corral("undo", run)
    assert undone.code == 0, undone
    assert not (repo.folder / "n.txt").exists()


def test_work_that_was_moved_on_or_whose_branch_was_merged_and_deleted_still_stands(corral: Corral) -> None:
    repo = corral.repo(files=FILES)
    repo.git("checkout", "--quiet", "-b", "feature")
    run = work(corral, repo, "echo new > n.txt")["run"]
    assert corral("merge", run).code == 0
    repo.git("mv", "n.txt", "moved.txt")
    repo.commit({"moved.txt": "quite another text\n"})
    assert merge_state(corral)["status"] == "merged"
    again = corral("merge", run)
    assert not (repo.folder / "n.txt").exists(), again
    repo.git("checkout", "--quiet", "main")
    repo.git("merge", "--quiet", "feature")
    repo.git("branch", "--delete", "feature")
    assert merge_state(corral)["status"] == "merged"
