"""What one trivial task costs, in counts: programs, transactions, syncs and thread hops. None comes back unnoticed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Started beside the box, or at level none the agent and its collecting; launchers around them are not counted.
AT_SUBMIT = ["git cat-file", "git config", "git rev-parse", "git status"]
OF_THE_WORK = ["git diff", "git update-ref"]  #: the latter for the note
PROGRAMS = {"strict": ["bwrap"], "none": ["agent.sh"]}
TRANSACTIONS = 7
VISIBLE_TRANSACTIONS = 1  #: of these: others see it at once, and the disk has it with the next one
#: Besides those of the store and of git: the base's ref, a pack and its index with the refs of the work, and those of
#: its note; each with the folders that got a new name.
SYNCS_OF_FILES = 14
THREAD_HOPS = {"strict": 9, "none": 9}  #: without those of the gauges of a box, which look again and again


@pytest.mark.parametrize("level", list(PROGRAMS))
def test_one_task_costs_no_more_than_today(tmp_path: Path, level: str) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    env.pop("CORRAL_STORE", None)
    argv = [sys.executable, "-m", "tests.rig.task_counts", str(tmp_path), level]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts.pop("programs") == sorted([*AT_SUBMIT, *OF_THE_WORK, *PROGRAMS[level]])
    assert counts.pop("transactions") == TRANSACTIONS
    assert counts.pop("durable transactions") == TRANSACTIONS - VISIBLE_TRANSACTIONS
    assert counts.pop("syncs of files") == SYNCS_OF_FILES
    assert counts.pop("thread hops") == THREAD_HOPS[level]
    assert counts == {}
