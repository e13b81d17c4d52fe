"""Packs that are written without git are packs that git takes."""

import subprocess
from pathlib import Path

import pytest

from corral.world.git.made_objects import MOST_BYTES, write_pack
from tests.rig.repository import GIT_ENV, Repo


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_git_reads_every_object_of_a_written_pack(tmp_path: Path, form: str) -> None:
    subprocess.run(
        ["git", "init", "-q", f"--object-format={form}", tmp_path / "repo"], env=GIT_ENV, check=True, timeout=60
    )
    repo = Repo(tmp_path / "repo")
    repo.commit({"empty.txt": "", "long.txt": "line\n" * 50_000, "d/one.txt": "1"})
    repo.git("tag", "-a", "-m", "words", "v1")
    objects = repo.folder / ".git" / "objects"
    loose = list(objects.glob("[0-9a-f][0-9a-f]/*"))
    names = {file.parent.name + file.name for file in loose}
    assert write_pack(objects / "pack", loose)
    for file in loose:
        file.unlink()
    (index,) = objects.glob("pack/*.idx")
    assert {line.split()[0] for line in repo.git("verify-pack", "-v", str(index)).splitlines()} >= names
    repo.git("fsck", "--full", "--strict")
    assert repo.read("v1", "d/one.txt") == "1"


def test_much_is_left_to_git(tmp_path: Path) -> None:
    repo = Repo.make(tmp_path / "repo")
    repo.commit({"much.txt": "x" * (MOST_BYTES + 1)})
    loose = list((repo.folder / ".git/objects").glob("[0-9a-f][0-9a-f]/*"))
    assert not write_pack(tmp_path, loose)
    assert not list(tmp_path.glob("*.pack"))
