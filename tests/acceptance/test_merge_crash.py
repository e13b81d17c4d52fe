"""Killed at any moment, a merge or an undoing is all or nothing; the next command ends what was cut off."""

import asyncio
import contextlib
import subprocess
import time
from pathlib import Path

import pytest
from msgspec import structs

from corral.engine.merge.apply import BranchMover
from corral.model.merge import MergeRecord
from corral.store.sqlite.store import Store
from corral.world.git import merge_commits, move_branch
from corral.world.git.repository import Repository
from tests.rig.command import Corral
from tests.rig.merging import looks, work
from tests.rig.repository import Repo

FILES = {"a.txt": "one\n", "src/b.txt": "two\n" * 50, "c.txt": "three\n"}


class Cut:
    """A merge that somebody began and did not end: as far as a test says."""

    def __init__(self, folder: Path) -> None:
        self.repo = Repo.make(folder / "repo", FILES)
        self.before = self.repo.head
        self.repo.git("checkout", "--quiet", "-b", "work")
        (self.repo.folder / "c.txt").unlink()
        self.after = self.repo.commit({"a.txt": "new\n", "src/b.txt": "TWO\n" * 50, "deep/n.txt": "n\n"})
        self.repo.git("checkout", "--quiet", "main")
        self.repository = Repository(self.repo.folder, self.repo.folder / ".git")
        self.store = Store(folder / "state")
        self.told: list[str] = []
        self.branch_mover = BranchMover(self.store, self.repository, self.told.append)
        record = MergeRecord(
            run="r", git_dir=str(self.repository.git_dir), state="begun", ref="refs/heads/main", before=self.before,
            after=self.after, strategy="auto", at=time.time(), checkouts=(str(self.repo.folder),),
        )  # fmt: skip
        self.record = self.store.merges.add(record)

    async def checkout(self) -> move_branch.Checkout:
        return await move_branch.checkout_at(self.repository, self.repo.folder)

    async def move(self) -> None:
        await move_branch.move_ref(self.repository, "refs/heads/main", self.before, self.after, "test")

    async def lock(self) -> None:
        """Leave what one that was killed leaves: its lock and its copy of the index."""
        checkout = await self.checkout()
        checkout.lock.write_bytes(move_branch.OURS)
        checkout.private.write_bytes(checkout.index.read_bytes())
        checkout.private.with_name("index.corral.lock").write_bytes(b"half")

    def state(self) -> str:
        (record,) = self.store.merges.everything() or [None]
        return record.state if record else "dropped"


@pytest.fixture
def cut(tmp_path: Path) -> Cut:
    return Cut(tmp_path)


def is_new(cut: Cut) -> bool:
    repo = cut.repo
    assert repo.git("status", "--porcelain") == ""
    assert not (repo.folder / "c.txt").exists()
    return repo.head == cut.after and (repo.folder / "deep/n.txt").read_text() == "n\n"


def test_cut_off_before_the_ref_moved_nothing_has_happened(cut: Cut) -> None:
    before = looks(cut.repo)

    async def steps() -> None:
        await cut.lock()
        await cut.branch_mover.recover()

    asyncio.run(steps())
    assert looks(cut.repo) == before
    assert cut.state() == "dropped"


def test_cut_off_between_the_ref_and_the_files(cut: Cut) -> None:
    async def steps() -> None:
        await cut.lock()
        await cut.move()
        await cut.branch_mover.recover()

    asyncio.run(steps())
    assert is_new(cut)
    assert cut.state() == "merged"
    assert cut.told


@pytest.mark.parametrize("torn", ["", "TWO\nTW", "TWO\n" * 50])
def test_cut_off_in_the_middle_of_the_files(cut: Cut, torn: str) -> None:
    async def steps() -> None:
        await cut.lock()
        await cut.move()
        cut.repo.write({"a.txt": "new\n", "src/b.txt": torn, "deep/n.txt": ""})
        (cut.repo.folder / "c.txt").unlink()
        await cut.branch_mover.recover()

    asyncio.run(steps())
    assert is_new(cut)
    assert cut.state() == "merged"


def test_what_a_person_wrote_after_the_crash_is_not_overwritten(cut: Cut) -> None:
    async def steps() -> None:
        await cut.lock()
        await cut.move()
        cut.repo.write({"a.txt": "written by a person since\n"})
        await cut.branch_mover.recover()

    with pytest.raises(Exception, match=r"a\.txt was changed after a merge was cut off"):
        asyncio.run(steps())
    assert (cut.repo.folder / "a.txt").read_text() == "written by a person since\n"
    assert not (cut.repo.folder / ".git/index.lock").exists()
    assert cut.state() == "begun"


def test_cut_off_when_all_was_done_but_told(cut: Cut) -> None:
    async def steps() -> None:
        await cut.move()
        checkout = await cut.checkout()
        with move_branch.hold_index(checkout):
            await move_branch.follow(
                checkout, cut.before, cut.after, await merge_commits.neutral_environment(cut.repository)
            )
            move_branch.adopt(checkout)
        await cut.branch_mover.recover()

    asyncio.run(steps())
    assert is_new(cut)
    assert cut.state() == "merged"


def test_cut_off_with_changes_put_aside_they_come_back(cut: Cut) -> None:
    cut.repo.write({"src/b.txt": "two\n" * 50 + "a person's own line\n"})
    before = looks(cut.repo)

    async def steps() -> None:
        checkout = await cut.checkout()
        env = await merge_commits.neutral_environment(cut.repository)
        with move_branch.hold_index(checkout):
            stash = await move_branch.put_aside(checkout, "refs/corral/stashes/r-1", env)
            assert stash
            aside = ((str(cut.repo.folder), stash),)
            cut.store.merges.save(structs.replace(cut.record, stashes=aside))
            await move_branch.clear(checkout, cut.before, env)
            move_branch.adopt(checkout)
        assert "own line" not in (cut.repo.folder / "src/b.txt").read_text()
        await cut.branch_mover.recover()

    asyncio.run(steps())
    assert looks(cut.repo) == before
    assert cut.state() == "dropped"


def test_what_could_neither_follow_nor_go_back_is_ended_by_the_next(cut: Cut) -> None:
    """As on a disk that is full and stays full: the ref has moved, the files are of both sorts."""

    async def steps() -> None:
        await cut.move()
        checkout = await cut.checkout()
        with move_branch.hold_index(checkout):
            cut.repo.write({"a.txt": "new\n", "src/b.txt": "TWO\nTW"})
        await cut.branch_mover.recover()

    asyncio.run(steps())
    assert is_new(cut)
    assert cut.state() == "merged"


@pytest.mark.parametrize("torn", ["", "TWO\nTW", "TWO\n" * 50])
def test_files_that_could_not_follow_go_back_but_for_what_a_person_wrote(cut: Cut, torn: str) -> None:
    before = looks(cut.repo)

    async def steps() -> None:
        checkout = await cut.checkout()
        env = await merge_commits.neutral_environment(cut.repository)
        with move_branch.hold_index(checkout):
            cut.repo.write({"a.txt": "new\n", "src/b.txt": torn, "deep/n.txt": ""})
            (cut.repo.folder / "c.txt").unlink()
            await move_branch.back_out(checkout, cut.before, cut.after, env)
            assert looks(cut.repo) == before
            cut.repo.write({"a.txt": "a person's\n"})
            await move_branch.back_out(checkout, cut.before, cut.after, env)

    asyncio.run(steps())
    assert (cut.repo.folder / "a.txt").read_text() == "a person's\n"


def test_the_lock_of_another_git_is_respected(cut: Cut) -> None:
    lock = cut.repo.folder / ".git/index.lock"
    lock.write_bytes(b"")
    with pytest.raises(Exception, match="another git is at work"):
        asyncio.run(cut.branch_mover.recover())
    assert lock.exists()


@pytest.mark.slow
def test_killed_at_any_moment_it_is_all_or_nothing(corral: Corral) -> None:
    repo = corral.repo(files={f"f{number}.txt": f"{number}\n" for number in range(300)})
    script = "for f in f*.txt; do echo changed >> $f; done; echo new > n.txt; rm f7.txt"
    work(corral, repo, script)
    before = looks(repo)
    started = time.monotonic()
    assert corral.anew("merge", "@last").code == 0
    usual = time.monotonic() - started
    assert corral("undo", "@last").code == 0
    for place in range(12):
        delay = usual * (0.4 + place * 0.06)
        kill_after(corral, "merge", delay)
        merged = corral("merge", "@last")
        assert merged.code == 0, (place, merged)
        assert repo.git("status", "--porcelain") == "", place
        assert (repo.folder / "n.txt").read_text() == "new\n"
        assert not list((repo.folder / ".git").glob("index.*"))
        kill_after(corral, "undo", delay)
        undone = corral("undo", "@last")
        assert looks(repo) == before, (place, undone)


def kill_after(corral: Corral, command: str, seconds: float) -> None:
    with corral.going(command, "@last") as going:
        with contextlib.suppress(subprocess.TimeoutExpired):
            going.process.wait(seconds)
        going.process.kill()
