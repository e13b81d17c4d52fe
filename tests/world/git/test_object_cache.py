"""What a workspace borrows is what its base reaches: no more, and nothing of it missing."""

import asyncio
import os
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from corral.world.git import object_cache
from corral.world.git.repository import Repository
from tests.rig.repository import Repo, git

pytestmark = pytest.mark.slow  # left out of `make quick`

LARGE = random.Random(7).randbytes(object_cache.SMALL_BYTES + 1)  #: does not compress


class Borrower:
    """Borrows objects of a repository, as a workspace does."""

    def __init__(self, folder: Path, origin: Path) -> None:
        self.cache, self._folder, self._count = folder / "state" / "objects", folder, 0
        self.origin = Repository(origin, origin / ".git")

    async def lend(self, *commits: str) -> Path:
        self._count += 1
        place = self._folder / f"borrower-{self._count}"
        form = "sha256" if len(commits[0]) == 64 else "sha1"
        words = ("init", "--quiet", "--initial-branch=main", f"--object-format={form}")
        git(self._folder, *words, str(place))
        lent = self._folder / f"lent-{self._count}"
        shallow = await object_cache.lend(self.origin, commits, self.cache, lent)
        (place / ".git/objects/info/alternates").write_text(f"{lent}\n")
        if shallow:
            (place / ".git/shallow").write_text("".join(f"{commit}\n" for commit in shallow))
        git(place, "update-ref", "refs/heads/main", commits[0])
        return place

    def __call__(self, *commits: str) -> Path:
        return asyncio.run(self.lend(*commits))

    def packs(self, place: Path) -> list[Path]:
        return sorted(Path((place / ".git/objects/info/alternates").read_text().strip()).glob("pack/*.pack"))

    def bases(self) -> set[str]:
        return {file.parent.name[:40] for file in self.cache.glob("*/*/layers.json")}


def seen(place: Path) -> set[str]:
    listed = git(place, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(listed.split())


def reached(folder: Path, *commits: str) -> set[str]:
    return {line.split()[0] for line in git(folder, "rev-list", "--objects", *commits).splitlines()}


def large(repo: Repo) -> str:
    (repo.folder / "large").write_bytes(LARGE)
    return repo.commit({})


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.make(tmp_path / "repo")


@pytest.fixture
def borrow(tmp_path: Path, repo: Repo) -> Borrower:
    return Borrower(tmp_path, repo.folder)


@pytest.mark.parametrize("packed", [False, True])
def test_nothing_but_what_the_base_reaches(repo: Repo, borrow: Borrower, packed: bool) -> None:
    repo.commit({"a.txt": "amended away\n"})
    (repo.folder / "a.txt").write_text("two\n")
    repo.git("commit", "--quiet", "--all", "--amend", "-m", "amended")
    base = repo.head
    repo.git("notes", "add", "-m", "a note", base)
    repo.git("tag", "-a", "v1", "-m", "a tag")
    repo.git("checkout", "--quiet", "-b", "other")
    repo.commit({"other.txt": "of another branch\n"})
    repo.git("checkout", "--quiet", "main")
    repo.write({"a.txt": "stashed\n"})
    repo.git("stash", "--quiet")
    if packed:
        repo.git("repack", "-a", "-d", "-q", "--keep-unreachable")
    everything = set(repo.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())
    place = borrow(base)

    assert seen(place) == reached(repo.folder, base) < everything
    assert git(place, "log", "--format=%s") == "amended\na change"
    git(place, "fsck", "--full", "--strict")
    git(place, "reset", "--hard", "--quiet")
    assert "two" in git(place, "blame", "a.txt")


def test_a_later_base_builds_on_the_packs_of_an_earlier_one_and_a_sibling_sees_neither(
    repo: Repo, borrow: Borrower
) -> None:
    first = large(repo)
    early = borrow(first)
    second = repo.commit({"a.txt": "second\n"})
    later = borrow(second)
    repo.git("checkout", "--quiet", "-b", "side", first)
    third = repo.commit({"a.txt": "third\n"})
    side = borrow(third)

    for place, commit in ((early, first), (later, second), (side, third)):
        assert seen(place) == reached(repo.folder, commit)
    shared = [{file.stat().st_ino for file in borrow.packs(place)} for place in (early, later, side)]
    assert [len(inodes) for inodes in shared] == [1, 2, 2]
    assert shared[0] == shared[1] & shared[2]
    assert sum(file.stat().st_size for file in borrow.packs(later)) < len(LARGE) + 10_000


def test_many_bases_in_a_row_stay_few_packs(repo: Repo, borrow: Borrower) -> None:
    borrow(large(repo))
    for number in range(object_cache.MOST_LAYERS + 3):
        head = repo.commit({"a.txt": f"{number}\n"})
        place = borrow(head)
        assert len(borrow.packs(place)) <= object_cache.MOST_LAYERS
        assert seen(place) == reached(repo.folder, head)


def test_a_rewritten_history_builds_on_nothing_foreign(repo: Repo, borrow: Borrower) -> None:
    large(repo)
    borrow(repo.commit({"a.txt": "to be rewritten\n"}))
    (repo.folder / "a.txt").write_text("rewritten\n")
    repo.git("commit", "--quiet", "--all", "--amend", "-m", "rewritten")
    assert seen(borrow(repo.head)) == reached(repo.folder, repo.head)


def test_two_commits_at_once(repo: Repo, borrow: Borrower) -> None:
    first = repo.commit({"a.txt": "first\n"})
    repo.git("checkout", "--quiet", "-b", "side", "HEAD~1")
    second = repo.commit({"a.txt": "second\n"})
    assert seen(borrow(second, first)) == reached(repo.folder, first, second)


def test_a_long_packing_says_how_far_it_is(repo: Repo, borrow: Borrower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "SLOW_SECONDS", 0.0)
    (repo.folder / "large").write_bytes(random.Random(8).randbytes(24 << 20))
    repo.git("add", ".")
    repo.git("commit", "--quiet", "-m", "large")
    repo.git("repack", "--quiet", "-a", "-d", "--window=0")
    said: list[str] = []
    asyncio.run(object_cache.lend(borrow.origin, [repo.head], borrow.cache, repo.folder.parent / "lent", said.append))
    assert said[0].endswith("later runs build on it")
    assert re.search(r"for workspaces: \d+ of 25 MB, [\d,.]+/s, .+ left$", said[-1]), said[:5]


def test_many_at_once_make_one_pack(repo: Repo, borrow: Borrower) -> None:
    async def all_at_once() -> Sequence[Path]:
        return await asyncio.gather(*(borrow.lend(repo.head) for _ in range(6)))

    places = asyncio.run(all_at_once())
    assert len({borrow.packs(place)[0].stat().st_ino for place in places}) == 1
    assert all(seen(place) == reached(repo.folder, repo.head) for place in places)


def test_the_cache_may_go_while_a_workspace_lives(repo: Repo, borrow: Borrower) -> None:
    place = borrow(repo.head)
    shutil.rmtree(borrow.cache)
    git(place, "fsck", "--full")
    assert seen(borrow(repo.head)) == seen(place)


def test_clean_keeps_what_a_workspace_uses(repo: Repo, borrow: Borrower) -> None:
    first = repo.head
    used = borrow(first)
    second = repo.commit({"a.txt": "second\n"})
    ended = borrow(second)
    object_cache.clean(borrow.cache)
    assert borrow.bases() == {first, second}
    shutil.rmtree(borrow.packs(ended)[0].parent)
    object_cache.clean(borrow.cache)
    assert borrow.bases() == {first}
    git(used, "fsck", "--full")
    shutil.rmtree(borrow.packs(used)[0].parent)
    object_cache.clean(borrow.cache)
    assert not list(borrow.cache.rglob("*.pack"))


def test_old_bases_are_forgotten(repo: Repo, borrow: Borrower) -> None:
    commits = [repo.commit({"a.txt": f"{number}\n"}) for number in range(object_cache.MOST_BASES + 2)]
    for number, commit in enumerate(commits):
        borrow(commit)
        os.utime(next(borrow.cache.glob(f"*/{commit}")), (number, number))
    assert borrow.bases() == set(commits[2:])


def test_packs_that_did_not_reach_the_disk_before_a_restart_are_made_again(repo: Repo, borrow: Borrower) -> None:
    place = borrow(repo.head)
    entry = next(borrow.cache.glob(f"*/{repo.head}"))
    noted = (entry / "layers.json").read_text()
    (entry / "layers.json").write_text(noted.replace('"boot":"', '"boot":"another'))
    for file in entry.glob("*.pack"):
        file.unlink()
        file.write_bytes(b"")
    assert seen(borrow(repo.head)) == seen(place)


def test_a_shallow_clone_and_the_same_deepened(repo: Repo, borrow: Borrower, tmp_path: Path) -> None:
    for number in range(4):
        repo.commit({"a.txt": f"{number}\n"})
    repo.git("checkout", "--quiet", "-b", "other")
    foreign = [repo.commit({"b.txt": f"{number}\n"}) for number in range(3)]
    repo.git("checkout", "--quiet", "main")
    git(tmp_path, "clone", "--quiet", "--depth=2", "--no-single-branch", f"file://{repo.folder}", "shallow")
    folder = tmp_path / "shallow"
    borrow.origin = Repository(folder, folder / ".git")
    place = borrow(repo.head)
    assert git(place, "rev-list", "--count", "HEAD") == "2"
    assert foreign[1] in (folder / ".git/shallow").read_text()
    assert (place / ".git/shallow").read_text().split() == [repo.git("rev-parse", "HEAD~1")]
    assert seen(place) == reached(folder, repo.head)
    git(folder, "fetch", "--quiet", "--unshallow")
    deep = borrow(repo.head)
    assert git(deep, "rev-list", "--count", "HEAD") == "5"
    git(deep, "fsck", "--full")


@pytest.mark.parametrize("kind", ["blob:none", "tree:0"])
def test_a_partial_clone(repo: Repo, borrow: Borrower, tmp_path: Path, kind: str) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    first = repo.head
    for number in range(3):
        repo.commit({"a.txt": f"{number}\n"})
    git(tmp_path, "clone", "--quiet", f"--filter={kind}", f"file://{repo.folder}", "partial")
    folder = tmp_path / "partial"
    borrow.origin = Repository(folder, folder / ".git")
    place = borrow(repo.head)
    git(place, "reset", "--hard", "--quiet")
    assert (place / "a.txt").read_text() == "2\n"
    assert git(place, "rev-list", "--count", "HEAD") == "4"
    (place / "a.txt").write_text("work\n")
    git(place, "commit", "--quiet", "--all", "-m", "work")
    git(place, "bundle", "create", "-q", "work.bundle", "HEAD", f"^{repo.head}")
    git(folder, "checkout", "--quiet", first)  # fetches what was left out
    again = borrow(first)
    git(again, "reset", "--hard", "--quiet")
    assert (again / "a.txt").read_text() == "one\n"


def test_a_history_with_a_hole_is_shown_without_what_lies_before(repo: Repo, borrow: Borrower) -> None:
    lost = repo.head
    base = repo.commit({"a.txt": "later\n"})
    (repo.folder / ".git/objects" / lost[:2] / lost[2:]).unlink()
    place = borrow(base)
    git(place, "reset", "--hard", "--quiet")
    assert git(place, "log", "--format=%H") == base
    git(place, "fsck", "--full")


def test_objects_of_sha256_and_of_a_borrowing_clone(borrow: Borrower, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "--object-format=sha256", "modern")
    modern = Repo(tmp_path / "modern")
    head = modern.commit({"a.txt": "one\n"})
    git(tmp_path, "clone", "--quiet", "--shared", "modern", "shared clone")
    folder = tmp_path / "shared clone"
    borrow.origin = Repository(folder, folder / ".git")
    assert seen(borrow(head)) == reached(folder, head)
