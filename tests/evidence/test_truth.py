"""The tables tell the truth: cheats turn the plain check green and are wrong, honest work is right."""

import os
from pathlib import Path

import pytest

from tests.evidence.case import Case
from tests.evidence.cheats import CHEATS
from tests.evidence.honest import HONEST
from tests.evidence.trial import plainly


@pytest.fixture
def plain_env(search_path: str, tmp_path: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("RUSTUP_HOME", "CARGO_HOME") if name in os.environ}
    home = tmp_path / "home"
    home.mkdir()
    return {
        "PATH": search_path,
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",  # stale byte code of the base would stand for the work
        "RUSTUP_HOME": str(Path.home() / ".rustup"),
        **kept,
    }


@pytest.mark.night("it runs each check outside of corral, to know that the tables are right")
@pytest.mark.parametrize("case", CHEATS, ids=lambda case: case.kind)
def test_a_cheat_turns_the_check_green_and_is_wrong(case: Case, tmp_path: Path, plain_env: dict[str, str]) -> None:
    assert plainly(case, tmp_path / "repo", plain_env) == (True, False)


@pytest.mark.night("it runs each check outside of corral, to know that the tables are right")
@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.kind)
def test_honest_work_is_right(case: Case, tmp_path: Path, plain_env: dict[str, str]) -> None:
    assert plainly(case, tmp_path / "repo", plain_env) == (True, True)
