"""Runs of an ordinary user whose workspaces come from the pool: what one agent leaves, the next one does not find."""

import json
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.person import Person
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

FILES = {f"folder-{number % 5}/file-{number}.txt": f"{number}\n" for number in range(40)} | {".gitignore": "*.log\n"}
HOSTILE = """
touch -r folder-1/file-1.txt stamp; echo X > folder-1/file-1.txt; touch -r stamp folder-1/file-1.txt
git update-index --assume-unchanged folder-1/file-1.txt
mkfifo pipe; mkdir -p folder-2/deep/deep; echo x > folder-2/left.log; ln folder-2/file-2.txt folder-2/hard.log
chmod 4755 folder-3/file-3.txt; chmod 500 folder-4; echo work > work.txt
"""
LOOK = """
test "$(cat folder-1/file-1.txt)" = 1 && test ! -e pipe && test ! -e folder-2/deep && test ! -e folder-2/left.log
test ! -u folder-3/file-3.txt && test -w folder-4 && test -z "$(git status --porcelain --ignored)" && echo clean > clean.txt
"""


def ready(corral: Corral) -> list[Path]:
    return [path for path in (corral.home / "pool").glob("*/*") if not path.name.startswith(".")]


@pytest.fixture
def pooled(person: Person) -> Person:
    person.config('[workspace]\nkind = "pool"')
    return person


def test_what_an_agent_and_its_check_left_is_not_there_for_the_next(pooled: Person) -> None:
    repo = pooled.repo(files=FILES)
    pooled.agent("first", HOSTILE)
    first = pooled.run(repo, "t", "--agent", "first", "--check", "test -f work.txt; echo x > folder-0/file-0.txt")
    assert "work.txt" in repo.files(first.attempt["commit"]), first
    assert len(ready(pooled)) >= 1
    pooled.agent("second", LOOK)
    second = pooled.run(repo, "t", "--agent", "second", "--check", 'test "$(cat folder-0/file-0.txt)" = 0')
    assert second.code == 0, second
    assert repo.files(second.attempt["commit"]) == sorted([*FILES, "clean.txt"])
    assert pooled.leavings() == []


def test_one_that_could_hand_open_files_to_others_is_not_used_again(pooled: Person) -> None:
    repo = pooled.repo(files=FILES)
    pooled.agent("mine", "echo x > x.txt")
    shared = pooled.root / "shared"
    shared.mkdir()
    pooled.settle()
    scope = json.dumps([str(shared), "**"])
    pooled.config(f"[scope]\nwrite = {scope}")
    assert pooled.run(repo, "t", "--agent", "mine").code == 0
    assert ready(pooled) == []


def test_killed_in_the_middle_its_work_is_kept_and_the_next_one_finds_none_of_it(pooled: Person) -> None:
    repo = pooled.repo(files=FILES)
    pooled.agent("mine", "echo first > first.txt; rm folder-1/file-1.txt; touch begun; sleep 300")
    pooled.settle()
    with pooled.going("run", "t", "--repo", repo.folder, "--agent", "mine", "--retries", "0", "--json"):
        until(lambda: list((pooled.home / "workspaces").glob("*/work/begun")), "the agent has begun")
    (line,) = pooled("ls", "--json").json
    (pooled.config_file.parent / "mine.sh").write_text(
        "#!/bin/sh\ntest -f folder-1/file-1.txt && echo x > second.txt\n"
    )
    resumed = pooled("resume", line["run"], "--json").json
    assert resumed["status"] == "done", resumed
    assert pooled.leavings() == []
    assert [ref for ref in repo.refs("refs/corral/") if "first.txt" in repo.files(ref)]
    assert pooled("clean", "--keep", "0", "--json").code == 0
    assert ready(pooled) == []
