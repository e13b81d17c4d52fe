"""Held-out files on disk: kept once by their contents, laid over a tree, cleaned when no run needs them."""

import os
import time
from pathlib import Path

import pytest

from corral.model.errors import BadRequest, CorralError
from corral.world.workspace import held_out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "hidden"
    (place / "tests" / ".git").mkdir(parents=True)
    (place / "tests" / ".git" / "config").write_text("not a held-out file")
    (place / "tests" / "test_a.py").write_text("a\n")
    (place / "run.sh").write_text("#!/bin/sh\n")
    (place / "run.sh").chmod(0o755)
    return place


def test_files_are_kept_by_their_contents_and_laid_over_a_tree(tmp_path: Path, folder: Path) -> None:
    state, tree = tmp_path / "state", tmp_path / "tree"
    name = held_out.keep(folder, "--held-out", state, [])
    assert held_out.keep(folder, "--held-out", state, []) == name
    assert (state / "held-out").stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in (state / "held-out").iterdir()) == [name]
    tree.mkdir()
    (tree / "tests").symlink_to("/etc")
    (tree / "run.sh").mkdir()
    held_out.lay(state, name, tree, None)
    assert (tree / "tests" / "test_a.py").read_text() == "a\n"
    assert os.access(tree / "run.sh", os.X_OK)
    assert not (tree / "tests" / ".git").exists()
    (folder / "tests" / "test_a.py").write_text("b\n")
    assert held_out.keep(folder, "--held-out", state, []) != name


def test_what_no_run_needs_is_cleaned_after_an_hour(tmp_path: Path, folder: Path) -> None:
    state = tmp_path / "state"
    name = held_out.keep(folder, "--held-out", state, [])
    now = time.time()
    assert held_out.clean(state, {name}, now + 7200) == []
    assert held_out.clean(state, (), now) == []
    assert held_out.clean(state, (), now + 7200) == [name]
    with pytest.raises(CorralError, match="gone"):
        held_out.lay(state, name, tmp_path, None)


@pytest.mark.slow
def test_too_many_files_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(held_out.MOST_FILES + 1):
        (folder / str(number)).touch()
    with pytest.raises(BadRequest, match="more than 10,000 files"):
        held_out.keep(folder, "--held-out", tmp_path / "state", [])
    assert list((tmp_path / "state" / "held-out").iterdir()) == []


def test_too_large_a_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "large"
    folder.mkdir()
    with (folder / "data").open("wb") as file:
        file.truncate(held_out.MOST_BYTES + 1)
    with pytest.raises(BadRequest, match="64 MB"):
        held_out.keep(folder, "--held-out", tmp_path / "state", [])


def test_a_folder_around_corral_s_own_state_is_refused(folder: Path) -> None:
    with pytest.raises(BadRequest, match="own state"):
        held_out.keep(folder, "--held-out", folder / "state", [])
    assert not (folder / "state").exists()
