"""The bench judges nothing on a busy machine, and compares by what is measured against what."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import programs
from bench.measure import MOST_BUSY, Promise, table


def test_on_a_busy_machine_nothing_is_called_kept_or_broken() -> None:
    rows = [
        Promise("a task", "by hand", ratio, 2.0, busy=busy) for ratio in (1.0, 3.0) for busy in (0.0, MOST_BUSY * 2)
    ]
    assert [row.verdict for row in rows] == ["yes", "busy", "no", "busy"]


def test_what_changed_since_another_run() -> None:
    rows = [Promise("a task", "by hand", 3.0, 2.0), Promise("a task", "a peer", 0.5, 1.0)]
    assert table(rows, {"a task | by hand": 2.0}).splitlines()[2:] == [
        "| a task | by hand | 3.00 | ≤ 2 | no | 2.00 | +50 % |",
        "| a task | a peer | 0.50 | ≤ 1 | yes | - | new |",
    ]


def test_a_part_that_is_none_is_refused_by_name() -> None:
    done = subprocess.run([sys.executable, "-m", "bench", "nosuch"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no part is called nosuch" in done.stderr
    assert "overhead" in done.stderr


def test_without_a_part_all_are_asked_for() -> None:
    names = "from bench.__main__ import _arguments; print(_arguments().names)"
    done = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_programs_and_memory_are_measured() -> None:
    start, look_up = programs.measure(rounds=1, facts=20)
    assert start.ratio > 0
    assert look_up.ratio > 0
    assert look_up.name == "facts for a task, searched among 20"


TINY = """
from bench import large, teams
teams.QUEUED, teams.ENGINES, teams.HOSTS, teams.ATTEMPTS, teams.STORED, teams.FEW, large.EVENTS = 6, 2, 2, 4, 20, 5, 2
for each in teams.measure():
    print(each.ratio, each.most, each.name, sep="|")
"""


@pytest.mark.night("it starts a database, three servers, two hosts and four agents")
def test_what_teams_have_is_measured_at_any_size(tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", TINY], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    rows = [line.split("|") for line in done.stdout.splitlines()]
    assert [float(most) for _, most, _ in rows] == [pytest.approx(1 / 1.3), 1.0, 2.0, 2.0, 2.0, 2.0]
    assert all(0 < float(ratio) < 1000 for ratio, *_ in rows), rows
    assert float(rows[1][0]) == 1.0, "all attempts are at work at one moment"
