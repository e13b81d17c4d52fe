"""git is asked as seldom as can be; what is found out without it is what git says."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from corral.model.errors import GitTrouble
from corral.world.git import collect, merge_commits, notes
from corral.world.git.repository import Repository
from tests.rig.repository import Repo


def as_corral(repo: Repo) -> Repository:
    return Repository(repo.folder, repo.folder / ".git")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.make(tmp_path / "repo")


def test_a_change_its_numbers_and_its_hash_in_one_go(repo: Repo) -> None:
    base = repo.head
    (repo.folder / "binary").write_bytes(bytes(range(256)) * 40)
    (repo.folder / "link").symlink_to("a.txt")
    (repo.folder / "a.txt").chmod(0o755)
    (repo.folder / "src" / "b.txt").unlink()
    odd = {'odd "name"\twith\nsigns ä': "x\n" * 20_000, "two words": "\0\0 no text"}
    commits = [base, repo.commit(odd), repo.commit({"a.txt": "only this\n"})]
    repository = as_corral(repo)

    async def look(before: str | None, after: str) -> None:
        change, digest = await repository.change_and_sha256(before, after)
        assert change == await repository.change(before, after)
        assert digest == await repository.patch_sha256(before, after)

    for before in (None, *commits):
        for after in commits:
            asyncio.run(look(before, after))
    empty = asyncio.run(repository.change_and_sha256(base, base))
    assert (empty[0].files, empty[1]) == ((), hashlib.sha256().hexdigest())


@pytest.mark.slow
def test_a_change_with_a_file_larger_than_git_may_hold_has_a_hash_of_its_own_kind(repo: Repo) -> None:
    base, repository = repo.head, as_corral(repo)
    with (repo.folder / "large").open("wb") as file:
        file.truncate(450 << 20)
    done = repo.commit({"a.txt": "only this\n"})
    change, digest = asyncio.run(repository.change_and_sha256(base, done))
    assert (change.files, change.insertions, change.deletions) == (("a.txt", "large"), 1, 1)
    assert digest.startswith("ids:")
    assert asyncio.run(repository.patch_sha256(base, done)) == digest
    # What made it decides how it is made again, not what a machine can hold.
    small = repo.commit({"large": "small\n"})
    alike = asyncio.run(repository.patch_sha256(base, small, like=digest))
    assert alike.startswith("ids:")
    assert alike != digest
    assert not asyncio.run(repository.patch_sha256(base, small)).startswith("ids:")


def test_the_tree_of_a_commit_loose_and_packed_and_of_a_damaged_one(repo: Repo) -> None:
    repository, head = as_corral(repo), repo.head
    tree = repo.git("rev-parse", "HEAD^{tree}")
    assert asyncio.run(repository.tree_of(head)) == asyncio.run(repository.tree_of("main")) == tree
    loose = repo.folder / ".git" / "objects" / head[:2] / head[2:]
    other = repo.commit({"c.txt": "another\n"})
    loose.chmod(0o644)
    kept, elsewhere = loose.read_bytes(), repo.folder / ".git" / "objects" / other[:2] / other[2:]
    loose.write_bytes(elsewhere.read_bytes())  # a commit that is not the one it is named
    with pytest.raises(GitTrouble):
        asyncio.run(repository.tree_of(head))
    loose.write_bytes(kept)
    repo.git("gc", "--quiet")
    assert not loose.exists()
    assert asyncio.run(repository.tree_of(head)) == tree


@pytest.mark.parametrize(
    "words", ['[filter "x"]\n\tclean = evil', '[FILTER "x"]\nclean=evil', '[merge "x"]\n\tdriver = evil', "include"]
)
def test_programs_that_settings_name_are_seen_without_asking_git_for_none(repo: Repo, words: str) -> None:
    config, repository = repo.folder / ".git" / "config", as_corral(repo)
    quiet = asyncio.run(merge_commits.neutral_environment(repository))
    assert int(quiet["GIT_CONFIG_COUNT"]) == len(merge_commits.QUIET)
    if words == "include":
        (repo.folder / "more").write_text('[filter "x"]\n\tclean = evil\n')
        words = f"[include]\n\tpath = {repo.folder}/more"
    config.write_text(f"{config.read_text()}\n{words}\n")
    quiet = asyncio.run(merge_commits.neutral_environment(repository, again=True))
    assert int(quiet["GIT_CONFIG_COUNT"]) == len(merge_commits.QUIET) + 1


# --- taking work over


@pytest.fixture
def theirs(repo: Repo, tmp_path: Path) -> Repo:
    repo.git("clone", "--quiet", "--shared", str(repo.folder), str(tmp_path / "theirs"))
    return Repo(tmp_path / "theirs")


def bundle(theirs: Repo, base: str) -> Path:
    theirs.git("bundle", "create", "-q", "../work.bundle", "HEAD", "--branches", f"^{base}")
    return theirs.folder.parent / "work.bundle"


def packs(repo: Repo) -> list[Path]:
    return list((repo.folder / ".git" / "objects" / "pack").glob("*.pack"))


def loose(repo: Repo) -> set[str]:
    folder = repo.folder / ".git" / "objects"
    return {f"{file.parent.name}{file.name}" for file in folder.glob("[0-9a-f][0-9a-f]/*")}


@pytest.mark.parametrize("files", [1, 200])
def test_work_comes_over_as_a_pack_that_no_prune_takes(repo: Repo, theirs: Repo, files: int) -> None:
    base, before = repo.head, loose(repo)
    done = theirs.commit(
        {"a.txt": "one\nand more\n", **{f"new/deep-{number}": f"{number}\n" for number in range(files)}}
    )
    file = bundle(theirs, base)
    asyncio.run(collect.fetch(as_corral(repo), file, ["HEAD:refs/corral/a", "refs/heads/main:refs/heads/corral/b"]))
    assert repo.git("rev-parse", "refs/corral/a") == repo.git("rev-parse", "refs/heads/corral/b") == done
    assert repo.read(done, "new/deep-0") == "0"
    # An object of its own could be taken by a `git prune` before a ref leads to it; that leaves no sign of itself.
    assert (len(packs(repo)), loose(repo)) == (1, before)
    assert not list((repo.folder / ".git" / "objects" / "pack").glob("*.keep"))
    repo.git("prune", "--expire=now")
    repo.git("fsck", "--strict")
    # Once more, as after a crash, and further on: a ref that is there already is moved.
    asyncio.run(collect.fetch(as_corral(repo), file, ["HEAD:refs/corral/a"]))
    more = theirs.commit({"a.txt": "all new\n"})
    asyncio.run(collect.fetch(as_corral(repo), bundle(theirs, base), ["HEAD:refs/corral/a"]))
    assert repo.git("rev-parse", "refs/corral/a") == more


def test_a_note_is_never_an_object_that_no_ref_leads_to(repo: Repo) -> None:
    before, ref = loose(repo), "refs/notes/corral"
    first, second = repo.head, repo.commit({"b.txt": "b\n"})
    before = loose(repo)
    for commit, words in ((first, "one"), (second, "two"), (first, "three")):
        asyncio.run(notes.add_note(as_corral(repo), commit, ref, words.encode()))
    assert [repo.git("notes", f"--ref={ref}", "show", commit) for commit in (first, second)] == ["three", "two"]
    assert loose(repo) == before
    assert not list((repo.folder / ".git" / "objects").glob("corral-*"))
    repo.git("fsck", "--strict")


@pytest.mark.parametrize("packed", [False, True])
def test_notes_that_cannot_be_read_are_begun_anew(repo: Repo, *, packed: bool) -> None:
    ref, head = "refs/notes/corral", repo.head
    repo.git("update-ref", "refs/heads/other", head)
    file = repo.folder / ".git" / ref
    file.parent.mkdir(parents=True, exist_ok=True)
    if packed:
        (repo.folder / ".git" / "packed-refs").write_text(f"{'1' * 40} {ref}\n")
    else:
        file.write_text("1" * 40 + "\n")
    asyncio.run(notes.add_note(as_corral(repo), head, ref, b"words"))
    assert repo.git("notes", f"--ref={ref}", "show", head) == "words"
    repo.git("fsck", "--strict")


def test_work_that_is_not_whole_is_refused(repo: Repo, theirs: Repo) -> None:
    base = repo.head
    theirs.commit({"a.txt": "between\n"})
    between = theirs.head
    theirs.commit({"a.txt": "after\n"})
    file = bundle(theirs, between)  # without what stands between
    with pytest.raises(GitTrouble):
        asyncio.run(collect.fetch(as_corral(repo), file, ["HEAD:refs/corral/a"]))
    file.write_bytes(bundle(theirs, base).read_bytes()[:-30])
    with pytest.raises(GitTrouble):
        asyncio.run(collect.fetch(as_corral(repo), file, ["HEAD:refs/corral/a"]))
    assert repo.refs("refs/corral") == []


def test_objects_that_git_holds_for_harmful_are_refused(repo: Repo, theirs: Repo) -> None:
    blob = theirs.git("hash-object", "-w", "a.txt")
    tree = theirs.git("hash-object", "-t", "tree", "-w", "--literally", str(_tree_file(theirs, blob)))
    commit = theirs.git("commit-tree", tree, "-p", repo.head, "-m", "harmful")
    theirs.git("update-ref", "refs/heads/main", commit)
    with pytest.raises(GitTrouble):
        asyncio.run(collect.fetch(as_corral(repo), bundle(theirs, repo.head), ["HEAD:refs/corral/a"]))
    assert repo.refs("refs/corral") == []


def _tree_file(repo: Repo, blob: str) -> Path:
    """Write a tree that holds a file by the name of .git, as no git would."""
    file = repo.folder / "tree"
    file.write_bytes(b"100644 .git\0" + bytes.fromhex(blob))
    return file
