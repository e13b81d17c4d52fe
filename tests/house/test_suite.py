"""The suite itself: what it costs is told by parts that exist, and its temporary files are where they should be."""

import subprocess
from pathlib import Path

from tests.rig.parts import HOUSE, missing_paths, part_of

PROJECT = Path(__file__).parents[2]


def test_the_parts_of_the_suite_exist() -> None:
    assert missing_paths(PROJECT) == []
    assert part_of("tests/acceptance/test_run.py::test_it") == HOUSE
    assert part_of("tests/acceptance/test_plan.py::test_it") == "plans, programs, memory"
    assert part_of("tests/store/test_runs.py::test_it[postgres]") == part_of(
        "tests/store/postgres/test_server.py::test"
    )


def test_files_in_memory_are_gone_with_the_command_and_its_code_is_kept(tmp_path: Path) -> None:
    """Where this user may not mount, the command runs all the same, with its files on disk."""
    step = 'echo x > "${TMPDIR:-/tmp}/kept.$$" && printf %s "$TMPDIR" && exit 7'
    words = [str(PROJECT / "tools" / "in_memory"), "sh", "-c", step]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env, timeout=60)
    assert done.returncode == 7, done
    assert done.stdout.startswith(str(tmp_path)), done
    assert done.stdout == str(tmp_path) or not list(tmp_path.iterdir()), "its folder is left"
