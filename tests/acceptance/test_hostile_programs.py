"""Hostile programs in code mode, judged from outside: by how they end, and by what is left of the world around them."""

from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.hostile_programs import PROGRAMS, SECRET, Hostile

CLASSES = {"memory", "cpu", "timeout", "output", "refused", "program"}


def world(corral: Corral) -> Path:
    repo = corral.repo(files={"a.txt": "ab", "sub/b.txt": "b"}).folder
    (repo.parent / "secret").write_text(SECRET)
    (repo / "link").symlink_to("../secret")
    (repo / "linked").symlink_to("..")
    return repo


def files(folder: Path) -> dict[str, str]:
    """Return all files with their content, git's objects left out."""
    found = [each for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]
    kept = [each for each in found if "objects" not in each.parts and each.name != "index"]
    return {str(each.relative_to(folder)): each.read_bytes().decode(errors="replace") for each in kept}


@pytest.mark.parametrize("hostile", PROGRAMS, ids=[f"{each.language}: {each.name}" for each in PROGRAMS])
def test_a_hostile_program_gets_nothing_but_its_own_failure(corral: Corral, hostile: Hostile) -> None:
    repo = world(corral)
    file = corral.root / f"program.{hostile.language}"
    file.write_text(hostile.body)
    before = files(repo)
    granted = [word for name in hostile.tools for word in ("--tool", name)]
    outcome = corral("code", file, *granted, *hostile.options, "--repo", repo, "--json")
    found = outcome.json
    allowed = hostile.ends if isinstance(hostile.ends, tuple) else (hostile.ends,)
    ended = found["error"]["class"] if found["error"] else found["result"]
    assert ended in allowed, found
    assert outcome.code == (1 if found["error"] else 0)
    assert found["error"] is None or found["error"]["class"] in CLASSES
    assert SECRET not in outcome.out + outcome.err
    assert "root:x:" not in outcome.out
    assert files(repo) == before
    assert (repo.parent / "secret").read_text() == SECRET
    assert not list((corral.home / "programs").glob("*"))
    assert corral.leavings() == []
