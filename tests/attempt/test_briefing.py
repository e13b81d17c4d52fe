"""Roles and skills of a repository: no link is followed, and a clone replaces no built-in role."""

import os
from pathlib import Path

import pytest

from corral.attempt import briefing
from corral.model.errors import BadRequest
from corral.world import untrusted_files
from corral.world.untrusted_files import LinkRefused

SECRET = "the key of the user"


pytestmark = pytest.mark.usefixtures("user")


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = tmp_path / "own"
    (own / "notes").mkdir(parents=True)
    (own / "key").write_text(SECRET)
    (own / "SKILL.md").write_text(f"---\ndescription: {SECRET}\n---\n{SECRET}\n")
    return own


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    return tmp_path / "repo"


def link(place: Path, target: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


@pytest.mark.parametrize("place", [".corral/roles/x.md", ".corral/roles", ".corral"])
def test_a_role_behind_a_link_is_refused(user: Path, repo: Path, place: str) -> None:
    hidden = user / "tree" / ".corral/roles/x.md"
    hidden.parent.mkdir(parents=True)
    hidden.write_text(SECRET)
    link(repo / place, user / "tree" / place)
    with pytest.raises(LinkRefused, match="is a link"):
        briefing.role("x", repo, theirs_first=True)
    assert "x" not in briefing.role_names(repo) or place.endswith("x.md")


@pytest.mark.parametrize("place", ["SKILL.md", ""])
@pytest.mark.parametrize("kind", [".corral", ".claude"])
def test_a_linked_skill_is_refused_and_not_offered(user: Path, repo: Path, place: str, kind: str) -> None:
    link(repo / kind / "skills/mine" / place if place else repo / kind / "skills/mine", user / place)
    with pytest.raises(LinkRefused, match="is a link"):
        briefing.skills(["mine"], repo, theirs_first=True)
    assert briefing.offered_skills([], repo) == ()


def test_links_that_appear_later_are_left_out_of_the_copy(user: Path, repo: Path) -> None:
    skill = repo / ".corral/skills/mine"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("Tag it.")
    (found,) = briefing.skills(["mine"], repo, theirs_first=True)
    link(skill / "key", user / "key")
    link(skill / "notes", user)
    assert dict(untrusted_files.files(Path(found.folder), 1000)) == {"SKILL.md": b"Tag it."}
    (skill / "SKILL.md").rename(repo / "SKILL.md")
    for left in skill.iterdir():
        left.unlink()
    skill.rmdir()
    link(skill, user)
    assert dict(untrusted_files.files(Path(found.folder), 1000)) == {}


def test_a_pipe_is_no_role(repo: Path) -> None:
    (repo / ".corral/roles").mkdir(parents=True)
    os.mkfifo(repo / ".corral/roles/x.md")
    with pytest.raises(BadRequest, match="no role"):
        briefing.role("x", repo, theirs_first=True)


def test_a_clone_replaces_no_role_that_nobody_asked_it_for(repo: Path) -> None:
    (repo / ".corral/roles").mkdir(parents=True)
    for name in ("developer", "house"):
        (repo / f".corral/roles/{name}.md").write_text("Theirs.")
    assert briefing.role("developer", repo, theirs_first=True) == "Theirs."
    assert briefing.role("developer", repo, theirs_first=False) != "Theirs."
    assert briefing.role("house", repo, theirs_first=False) == "Theirs."


@pytest.mark.parametrize("name", ["x" * 300, "x" * 100_000, "..", ".", "a/b", "a\0b", "\udcff", "é" * 200, ""])
def test_an_impossible_name_is_refused_in_a_short_line(repo: Path, name: str) -> None:
    with pytest.raises(BadRequest) as role:
        briefing.role(name, repo, theirs_first=True)
    with pytest.raises(BadRequest) as skill:
        briefing.skills([name], repo, theirs_first=True)
    assert max(len(str(role.value)), len(str(skill.value)), len(skill.value.hint)) < 200
