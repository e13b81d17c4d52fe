"""Repositories of every kind: the agent gets the right files, the result lands, the checkout stays as it is."""

from pathlib import Path

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo, git

pytestmark = pytest.mark.slow  # left out of `make quick`


@pytest.fixture
def ready(corral: Corral) -> Corral:
    corral.agent(
        "mine", "ls -A > /dev/null; cat a.txt > seen 2>/dev/null; echo x > x; find . -path ./.git -prune -o -print"
    )
    return corral


def proven(ready: Corral, folder: Path, *arguments: str) -> Outcome:
    """Run a task there; the work is on its branch, whose parent is the base."""
    outcome = ready.run(folder, "t", "--agent", "mine", "--check", "test -f x", "--retries", "0", *arguments)
    assert outcome.code == 0, outcome
    attempt, base = outcome.attempt, outcome.json["base"]
    assert git(folder, "rev-parse", f"refs/heads/{attempt['branch']}") == attempt["commit"]
    assert git(folder, "show", f"{attempt['commit']}:x") == "x"
    parents = git(folder, "log", "-1", "--format=%P", attempt["commit"])
    assert parents == (base or "")
    assert ready("diff", "@last").bytes.startswith(b"diff --git")
    return outcome


@pytest.mark.parametrize("kind", ["branch", "tag", "annotated tag", "sha", "short sha", "expression"])
def test_a_base_of_every_kind(ready: Corral, kind: str) -> None:
    repo = ready.repo()
    old = repo.head
    repo.git("branch", "older")
    repo.git("tag", "v1")
    repo.git("tag", "-a", "v2", "-m", "two")
    repo.commit({"a.txt": "newer\n"})
    before = repo.fingerprint()
    names = {"branch": "older", "tag": "v1", "annotated tag": "v2", "sha": old, "short sha": old[:8]}
    outcome = proven(ready, repo.folder, "--base", names.get(kind, "main~1"))

    assert outcome.json["base"] == old
    assert repo.read(outcome.attempt["commit"], "seen") == "one"
    assert outcome.json["merge"]["into"] == ("older" if kind == "branch" else "main")
    assert repo.fingerprint() == before


def test_a_detached_head(ready: Corral) -> None:
    repo = ready.repo()
    old = repo.head
    repo.commit({"a.txt": "newer\n"})
    repo.git("checkout", "--quiet", "--detach", old)
    before = repo.fingerprint()
    outcome = proven(ready, repo.folder)
    assert (outcome.json["base"], outcome.json["merge"]["into"]) == (old, None)
    assert repo.fingerprint() == before


def test_an_empty_repository(ready: Corral) -> None:
    repo = ready.repo(files={})
    outcome = proven(ready, repo.folder)
    assert outcome.json["base"] is None
    assert outcome.json["merge"]["into"] == "main"
    assert sorted(outcome.attempt["files_changed"]) == ["seen", "x"]
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert repo.git("status", "--porcelain") == ""


def test_a_shallow_clone(ready: Corral) -> None:
    origin = ready.repo("origin")
    for number in range(3):
        origin.commit({"a.txt": f"{number}\n"})
    git(ready.root, "clone", "--quiet", "--depth=1", f"file://{origin.folder}", "shallow")
    outcome = proven(ready, ready.root / "shallow")
    assert outcome.attempt["files_changed"] == ["seen", "x"]


def test_a_clone_that_borrows_its_objects(ready: Corral) -> None:
    origin = ready.repo("origin")
    git(ready.root, "clone", "--quiet", "--shared", str(origin.folder), "borrower")
    proven(ready, ready.root / "borrower")


def test_packed_refs_and_objects(ready: Corral) -> None:
    repo = ready.repo()
    repo.git("gc", "--quiet", "--aggressive", "--prune=now")
    repo.git("pack-refs", "--all")
    proven(ready, repo.folder)


def test_a_repository_of_sha256(ready: Corral) -> None:
    folder = ready.root / "modern"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    repo = Repo(folder)
    repo.commit({"a.txt": "one\n"})
    assert len(proven(ready, folder).attempt["commit"]) == 64


def test_a_submodule_is_filled(ready: Corral) -> None:
    library = ready.repo("library", {"lib.txt": "library\n"})
    repo = ready.repo()
    repo.git("submodule", "--quiet", "add", str(library.folder), "vendor/lib")
    repo.git("commit", "--quiet", "-m", "with a library")
    before = repo.fingerprint()
    ready.agent("reader", "cat vendor/lib/lib.txt > x")
    outcome = ready.run(repo, "t", "--agent", "reader", "--check", "grep -q library vendor/lib/lib.txt")
    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["x"]
    assert repo.read(outcome.attempt["commit"], "x") == "library"
    assert repo.fingerprint() == before


def test_a_submodule_that_was_never_fetched_stays_empty(ready: Corral) -> None:
    library = ready.repo("library", {"lib.txt": "library\n"})
    repo = ready.repo("origin")
    repo.git("submodule", "--quiet", "add", str(library.folder), "lib")
    repo.git("commit", "--quiet", "-m", "with a library")
    git(ready.root, "clone", "--quiet", str(repo.folder), "clone")
    assert proven(ready, ready.root / "clone").attempt["files_changed"] == ["seen", "x"]


def test_lfs_pointers_stay_pointers(ready: Corral) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"
    repo = ready.repo()
    repo.write({".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "big.bin": pointer})
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "-m", "large")
    for key, value in {"clean": "false", "smudge": "false", "process": "false", "required": "true"}.items():
        repo.git("config", f"filter.lfs.{key}", value)
    outcome = proven(ready, repo.folder)
    assert repo.read(outcome.attempt["commit"], "big.bin") + "\n" == pointer
    assert outcome.attempt["files_changed"] == ["seen", "x"]


def test_line_endings_and_modes_are_kept(ready: Corral) -> None:
    repo = ready.repo(files={"a.txt": "one\r\ntwo\n", ".gitattributes": "*.txt text=auto\n", "tool": "#!/bin/sh\n"})
    (repo.folder / "tool").chmod(0o755)
    (repo.folder / "link").symlink_to("a.txt")
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "-m", "modes")
    outcome = proven(ready, repo.folder)
    assert outcome.attempt["files_changed"] == ["seen", "x"]
    assert repo.git("ls-tree", outcome.attempt["commit"], "tool", "link").count("100755") == 1


def test_a_linked_worktree(ready: Corral) -> None:
    repo = ready.repo()
    repo.git("worktree", "add", "--quiet", "-b", "side", str(ready.root / "side"))
    side = Repo(ready.root / "side")
    side.commit({"a.txt": "of the side\n"})
    before, beside = side.fingerprint(), repo.fingerprint()
    outcome = proven(ready, side.folder)
    assert outcome.json["base"] == side.head
    assert outcome.json["merge"]["into"] == "side"
    assert side.read(outcome.attempt["commit"], "seen") == "of the side"
    assert (side.fingerprint(), repo.fingerprint()) == (before, beside)


def test_a_bare_repository(ready: Corral) -> None:
    origin = ready.repo("origin")
    git(ready.root, "clone", "--quiet", "--bare", str(origin.folder), "bare.git")
    outcome = proven(ready, ready.root / "bare.git")
    assert outcome.json["merge"]["into"] == "main"


def test_a_submodule_as_the_repository(ready: Corral) -> None:
    library = ready.repo("library")
    repo = ready.repo()
    repo.git("submodule", "--quiet", "add", str(library.folder), "lib")
    proven(ready, repo.folder / "lib")


@pytest.mark.parametrize(
    "name", ["with spaces in it", "schön 日本 ✓", "-dash", "quote\"'s", "percent%20", "a\\b", "$HOME"]
)
def test_a_path_of_every_kind(ready: Corral, name: str) -> None:
    repo = ready.repo(f"folder/{name}", {"a.txt": "one\n", f"{name}.txt": "inside\n"})
    outcome = proven(ready, repo.folder)
    assert outcome.json["repo"] == str(repo.folder)
    assert f"{name}.txt" in outcome.attempt["output"]


def test_from_a_sub_directory(ready: Corral) -> None:
    repo = ready.repo()
    outcome = ready("run", "t", "--agent", "mine", "--json", cwd=repo.folder / "src")
    assert outcome.code == 0, outcome
    assert outcome.json["repo"] == str(repo.folder)
    assert repo.read(outcome.attempt["commit"], "x") == "x"  # at the top: the whole repository is the workspace


def test_through_a_symbolic_link(ready: Corral) -> None:
    repo = ready.repo()
    (ready.root / "link").symlink_to(repo.folder)
    proven(ready, ready.root / "link")
