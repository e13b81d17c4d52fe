"""`corral merge --strategy apply` puts a result into the checkout, uncommitted; `corral undo` takes it back exactly."""

import contextlib
import subprocess
import time

import pytest

from tests.rig.command import Corral
from tests.rig.merging import looks, merge_state, work
from tests.rig.person import Person, owners
from tests.rig.repository import Repo, git

SCRIPT = "echo new > n.txt; echo more >> a.txt; chmod +x src/b.txt; rm c.txt; mkdir -p deep/er; echo d > deep/er/d.txt"
FILES = {"a.txt": "one\n", "src/b.txt": "two\n", "c.txt": "three\n", "other.txt": "other\n"}


@pytest.fixture
def repo(corral: Corral) -> Repo:
    made = corral.repo(files=FILES)
    work(corral, made, SCRIPT, "--check", "test -f n.txt")
    return made


def apply(corral: Corral, *more: str) -> dict[str, object]:
    applied = corral("merge", "@last", "--strategy", "apply", "--json", *more)
    assert applied.code == 0, applied
    return applied.json["merge"]


def test_the_files_are_there_uncommitted_and_undo_takes_them_back(corral: Corral, repo: Repo) -> None:
    before, head = looks(repo), repo.head
    preview = corral("merge", "@last", "--strategy", "apply", "--preview", "--json")
    assert preview.code == 0, preview
    assert looks(repo) == before

    state = apply(corral)
    assert (state["status"], state["into"], state["commit"]) == ("merged", "main", None)
    assert repo.head == head
    status = set(repo.git("status", "--porcelain", "-uall").splitlines())
    assert {line.strip() for line in status} == {"M a.txt", "D c.txt", "M src/b.txt", "?? n.txt", "?? deep/er/d.txt"}
    assert (repo.folder / "a.txt").read_text() == "one\nmore\n"
    assert (repo.folder / "src/b.txt").stat().st_mode & 0o111
    assert repo.git("diff", "--cached", "--name-only") == ""
    assert "not committed" in corral("show", "@last").out

    undone = corral("undo", cwd=repo.folder)
    assert undone.code == 0, undone
    assert looks(repo) == before
    assert merge_state(corral)["status"] == "undone"
    assert not (repo.folder / "deep").exists()
    assert repo.git("for-each-ref", "refs/corral/applied") == ""
    apply(corral)


def test_other_files_may_be_dirty_and_stay_so(corral: Corral, repo: Repo) -> None:
    (repo.folder / "other.txt").write_text("mine\n")
    (repo.folder / "untracked.txt").write_text("mine too\n")
    before = looks(repo)
    apply(corral)
    assert (repo.folder / "other.txt").read_text() == "mine\n"
    assert corral("undo", "@last").code == 0
    assert looks(repo) == before


@pytest.mark.parametrize("dirty", ["a.txt", "n.txt", "deep", "c.txt"])
def test_a_file_with_changes_of_its_own_is_not_overwritten(corral: Corral, repo: Repo, dirty: str) -> None:
    (repo.folder / dirty).write_text("mine\n")
    before = looks(repo)
    refused = corral("merge", "@last", "--strategy", "apply")
    assert refused.code == 2
    assert dirty in refused.err
    assert "nothing was changed" in refused.err
    assert "hint:" in refused.err
    assert looks(repo) == before
    assert merge_state(corral)["status"] == "ready"


def test_a_staged_file_is_not_overwritten(corral: Corral, repo: Repo) -> None:
    (repo.folder / "a.txt").write_text("staged\n")
    repo.git("add", "a.txt")
    before = looks(repo)
    assert corral("merge", "@last", "--strategy", "apply").code == 2
    assert looks(repo) == before


def test_what_was_staged_since_is_taken_back_too(corral: Corral, repo: Repo) -> None:
    before = looks(repo)
    apply(corral)
    repo.git("add", "--all")
    assert corral("undo", "@last").code == 0
    assert looks(repo) == before


def test_what_was_changed_or_committed_since_is_not_lost(corral: Corral, repo: Repo) -> None:
    apply(corral)
    (repo.folder / "n.txt").write_text("better\n")
    changed = corral("undo", "@last")
    assert changed.code == 2
    assert "n.txt" in changed.err
    assert (repo.folder / "n.txt").read_text() == "better\n"
    (repo.folder / "n.txt").write_text("new\n")
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "-m", "kept")
    committed = corral("undo", "@last")
    assert committed.code == 2
    assert "committed since" in committed.err
    assert merge_state(corral)["status"] == "merged"


def test_taken_back_by_hand_it_can_be_merged_again(corral: Corral, repo: Repo) -> None:
    apply(corral)
    repo.git("checkout", "--quiet", ".")
    repo.git("clean", "--quiet", "-fd")
    assert merge_state(corral)["status"] == "undone"
    merged = corral("merge", "@last")
    assert merged.code == 0, merged
    assert (repo.folder / "n.txt").read_text() == "new\n"


def test_it_goes_into_the_branch_that_is_checked_out(corral: Corral, repo: Repo) -> None:
    repo.git("checkout", "--quiet", "-b", "other")
    repo.commit({"a.txt": "zero\none\n", "later.txt": "later\n"})
    state = apply(corral)
    assert state["into"] == "other"
    assert (repo.folder / "a.txt").read_text() == "zero\none\nmore\n"
    elsewhere = corral("merge", "@last", "--strategy", "apply", "--into", "main")
    assert elsewhere.code == 2
    assert "checked out nowhere" in elsewhere.err


def test_a_conflict_changes_nothing_and_a_choice_ends_it(corral: Corral, repo: Repo) -> None:
    repo.commit({"a.txt": "one\nclash\n"})
    before = looks(repo)
    clash = corral("merge", "@last", "--strategy", "apply")
    assert clash.code == 3, clash
    assert looks(repo) == before
    chosen = corral("merge", "@last", "--resolve", "a.txt=theirs", "--no-checks")
    assert chosen.code == 0, chosen
    assert (repo.folder / "a.txt").read_text() == "one\nmore\n"
    assert repo.git("log", "-1", "--format=%s") != "a task"  # still not committed


def test_no_checkout_and_no_branch(corral: Corral, repo: Repo) -> None:
    repo.git("checkout", "--quiet", "--detach")
    refused = corral("merge", "@last", "--strategy", "apply")
    assert refused.code == 2
    assert "on no branch" in refused.err


@pytest.mark.slow
def test_killed_at_any_moment_it_is_all_or_nothing(corral: Corral, repo: Repo) -> None:
    before = looks(repo)
    apply_now = ("merge", "@last", "--strategy", "apply")
    started = time.monotonic()
    assert corral.anew(*apply_now).code == 0
    usual = time.monotonic() - started
    assert corral("undo", "@last").code == 0
    for place in range(6):
        kill_after(corral, usual * (0.4 + place * 0.1), *apply_now)
        if merge_state(corral)["status"] != "merged":
            applied = corral(*apply_now)  # ends what was cut off, and does it
            assert applied.code == 0, (place, applied)
        assert (repo.folder / "n.txt").read_text() == "new\n"
        assert not (repo.folder / "c.txt").exists()
        kill_after(corral, usual * (0.4 + place * 0.1), "undo", "@last")
        corral("undo", "@last")
        assert looks(repo) == before, place


def kill_after(corral: Corral, seconds: float, *words: str) -> None:
    with corral.going(*words) as going:
        with contextlib.suppress(subprocess.TimeoutExpired):
            going.process.wait(seconds)
        going.process.kill()


@pytest.mark.slow
def test_an_ordinary_user_applies(person: Person) -> None:
    repo = person.repo(files=FILES)
    work(person, repo, SCRIPT)
    before = owners(repo.folder)
    applied = person("merge", "@last", "--strategy", "apply")
    assert applied.code == 0, applied
    assert owners(repo.folder) == before
    assert (repo.folder / "n.txt").read_text() == "new\n"
    assert person("undo", "@last").code == 0
    assert git(repo.folder, "status", "--porcelain") == ""
