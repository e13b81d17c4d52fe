"""`[toolbox]` of two files: a repository may allow less, never more."""

from pathlib import Path

import pytest

from corral.config import loader
from corral.config.paths import REPOSITORY_FILE, user_file
from corral.model import ToolboxRules
from corral.model.errors import BadRequest


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "corral").mkdir(parents=True)
    (tmp_path / "repo").mkdir()
    return tmp_path / "repo"


def rules(repo: Path, mine: str = "", theirs: str = "") -> ToolboxRules:
    user_file().write_text(mine)
    (repo / REPOSITORY_FILE).write_text(theirs)
    return loader.load(repo).toolbox


def test_without_a_word_the_limits_hold(repo: Path) -> None:
    assert rules(repo) == ToolboxRules(enabled=True, depth=2, children=8)


def test_a_person_says_how_many(repo: Path) -> None:
    found = rules(repo, '[toolbox]\ndepth = 5\nchildren = 20\nagents = ["codex"]')
    assert (found.depth, found.children, found.agents) == (5, 20, ("codex",))


@pytest.mark.parametrize(
    ("theirs", "depth", "children", "enabled"),
    [
        ("depth = 9\nchildren = 99", 3, 8, True),
        ("depth = 1\nchildren = 0", 1, 0, True),
        ("enabled = false", 3, 8, False),
        ('agents = ["dear"]', 3, 8, True),
    ],
)
def test_a_repository_only_narrows(repo: Path, theirs: str, depth: int, children: int, *, enabled: bool) -> None:
    found = rules(repo, "[toolbox]\ndepth = 3", f"[toolbox]\n{theirs}")
    assert (found.depth, found.children, found.enabled, found.agents) == (depth, children, enabled, ())


def test_pairs_must_be_allowed_by_both(repo: Path) -> None:
    mine = '[toolbox.delegate]\narchitect = ["developer", "tester"]\n"*" = ["tester"]'
    theirs = '[toolbox.delegate]\narchitect = ["developer", "reviewer"]\ndeveloper = ["*"]'
    assert rules(repo, mine, theirs).delegate == {"*": (), "architect": ("developer",), "developer": ("tester",)}


@pytest.mark.parametrize("bad", ["depth = -1", "children = 1000", 'depth = "deep"', "child = 3"])
def test_bad_settings_are_named_with_their_line(repo: Path, bad: str) -> None:
    with pytest.raises(BadRequest, match=r"config\.toml:2"):
        rules(repo, f"[toolbox]\n{bad}")
