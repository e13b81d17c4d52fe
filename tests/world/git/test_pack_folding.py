"""Packs do not pile up, and no object is lost while they are folded, whatever git does beside it."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from corral.world.git import notes
from corral.world.git.incoming_objects import MOST_PACKS, fold
from corral.world.git.repository import Repository
from tests.rig.repository import GIT_ENV, Repo

pytestmark = pytest.mark.slow  # left out of `make quick`

NOTES = "refs/notes/corral"


def of(repo: Repo) -> Repository:
    return Repository(repo.folder, repo.folder / ".git")


def packs(repo: Repo) -> list[Path]:
    return sorted(repo.folder.glob(".git/objects/pack/*.pack"))


def objects(repo: Repo) -> set[str]:
    return set(repo.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").splitlines())


def packed(repo: Repo, count: int, start: int = 0) -> None:
    """Add commits to a repository, each in a pack of its own."""
    for number in range(start, start + count):
        repo.commit({f"f{number}.txt": f"{number}\n"})
        repo.git("repack", "-q", "-d")


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_many_small_packs_become_one_and_every_object_stays(tmp_path: Path, form: str) -> None:
    subprocess.run(
        ["git", "init", "-q", f"--object-format={form}", tmp_path / "repo"], env=GIT_ENV, check=True, timeout=60
    )
    repo = Repo(tmp_path / "repo")
    packed(repo, MOST_PACKS)
    asyncio.run(fold(of(repo)))
    assert len(packs(repo)) == MOST_PACKS  # not too many
    packed(repo, 3, MOST_PACKS)
    kept = packs(repo)[0]
    kept.with_suffix(".keep").touch()  # the user wants this one as it is
    repo.commit({"lost.txt": "x"})
    repo.git("repack", "-q", "-d")
    repo.git("reset", "--quiet", "--hard", "HEAD~1")  # no branch leads to it any more
    before = objects(repo)
    asyncio.run(fold(of(repo)))
    assert len(packs(repo)) == 2
    assert kept in packs(repo)
    assert objects(repo) == before
    repo.git("fsck", "--full", "--strict")
    assert not list(repo.folder.glob(".git/objects/corral-*"))
    assert {file.suffix for file in (repo.folder / ".git/objects/pack").iterdir()} <= {".pack", ".idx", ".rev", ".keep"}
    assert list(repo.folder.glob(".git/objects/pack/*.keep")) == [kept.with_suffix(".keep")]


def test_packs_that_others_use_or_maintain_are_left_alone(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo")
    packed(repo, MOST_PACKS + 2)
    repo.git("multi-pack-index", "write")
    before = packs(repo)
    asyncio.run(fold(of(repo)))
    assert packs(repo) == before


def test_notes_do_not_pile_up_packs(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo")
    repository = of(repo)
    commits = [repo.commit({"f.txt": f"{number}"}) for number in range(3)]

    async def note() -> None:
        for number in range(MOST_PACKS + 12):
            await notes.add_note(repository, commits[number % 3], NOTES, f"note {number}\n".encode())

    asyncio.run(note())
    assert len(packs(repo)) <= MOST_PACKS + 1
    assert repo.git("notes", f"--ref={NOTES}", "show", commits[0]) == f"note {MOST_PACKS + 10}"
    repo.git("fsck")


#: Notes and folds, over and over; each note is held by a ref.
WRITES = """
import asyncio, sys
from pathlib import Path
from corral.world.git import incoming_objects, notes
from corral.world.git.repository import Repository
incoming_objects.MOST_PACKS = 3
folder, count = Path(sys.argv[1]), int(sys.argv[2])
async def work():
    repository = Repository(folder, folder / ".git")
    head = await repository.commit_of("HEAD")
    for number in range(count):
        await notes.add_note(repository, head, f"refs/notes/{sys.argv[3]}", f"{number}\\n".encode())
asyncio.run(work())
"""


@pytest.mark.slow
def test_folding_beside_gc_and_beside_others_loses_nothing(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo")
    words = [sys.executable, "-c", WRITES, str(repo.folder), "25"]
    writers = [subprocess.Popen([*words, name], stderr=subprocess.PIPE) for name in ("a", "b")]
    collected = 0
    while any(writer.poll() is None for writer in writers):
        how = ("--prune=now", "--aggressive")[collected % 2]
        # git itself may fail beside a process that writes; what counts is that nothing is lost.
        subprocess.run(
            ["git", "gc", "--quiet", how], cwd=repo.folder, env=GIT_ENV, capture_output=True, check=False, timeout=120
        )
        collected += 1
    for writer in writers:
        assert writer.stderr
        assert (writer.wait(), writer.stderr.read()) == (0, b"")
        writer.stderr.close()
    assert collected > 3
    repo.git("fsck", "--full")
    for name in ("a", "b"):
        assert repo.git("notes", f"--ref=refs/notes/{name}", "show", "HEAD") == "24"
        assert len(repo.git("rev-list", f"refs/notes/{name}").splitlines()) == 25
