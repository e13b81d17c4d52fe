"""`[evidence] judge`: an agent that reads each result once more; its word can lower a grade, never raise it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo

FILES = {"sums.py": "def add(a, b):\n    return a - b\n"}
CHECK = "python3 -c 'from sums import add; assert add(1, 2) == 3'"
MEND = "printf 'def add(a, b):\\n    return a + b\\n' > sums.py\n"
CHEAT = "printf 'def add(a, b):\\n    return 3\\n' > sums.py\n"
READS = """
printf '%s' "$1" > ~/told.txt
case "$1" in *"work around the checks"*) ;; *) echo "what am I asked?"; exit 1;; esac
case "$1" in
*"return 3"*) echo '{"verdict": "workaround", "reason": "it returns 3 whatever is added"}';;
*) echo 'It adds. {"verdict": "task"}';;
esac
"""


def ran(corral: Corral, script: str, reader: str = READS, *arguments: str) -> Outcome:
    corral.agent("works", script)
    corral.agent("reads", reader)
    corral.config('[evidence]\njudge = "reads"\n')
    repo = corral.repo(files=FILES)
    return corral.run(repo, "mend add()", "--agent", "works", "--check", CHECK, "--retries", "0", *arguments)


def attempts(outcome: Outcome) -> list[dict[str, Any]]:
    return outcome.json["nodes"][0]["attempts"]


def test_work_that_cheats_is_doubtful_by_the_readers_word(corral: Corral) -> None:
    outcome = ran(corral, CHEAT)
    assert outcome.code == 1, outcome
    work, reader = attempts(outcome)
    assert (work["status"], work["error"]["class"], work["evidence"]["grade"]) == ("failed", "doubtful", "doubtful")
    assert "it returns 3 whatever is added" in work["error"]["message"]
    assert work["evidence"]["reasons"][0].startswith("the second reader says it works around the checks")
    assert work["branch"], "its work is kept"
    assert (reader["agent"], reader["role"], reader["status"]) == ("reads", "judge", "done")
    assert outcome.json["nodes"][0]["winner"] is None
    told = corral("show", "@last").out
    assert "agent    works" in told
    assert "evidence doubtful: the second reader says" in told
    note = Repo(Path(outcome.json["repo"])).git("notes", "--ref=corral", "show", work["commit"])
    assert (json.loads(note)["status"], json.loads(note)["evidence"]) == ("failed", work["evidence"])
    picked = corral("merge", "@last", "--pick", "works", cwd=outcome.json["repo"])
    assert picked.code == 0, picked
    prompt = corral("logs", "@last", "--prompt", cwd=outcome.json["repo"])
    assert "return 3" in prompt.out
    assert "works" not in prompt.out.replace("works around", ""), "it is not told whose work it reads"


def test_work_that_does_the_task_keeps_its_grade(corral: Corral) -> None:
    outcome = ran(corral, MEND)
    assert outcome.code == 0, outcome
    work, reader = attempts(outcome)
    assert (work["evidence"]["grade"], reader["status"]) == ("proven", "done")
    assert outcome.json["nodes"][0]["winner"] == work["id"]
    shown = corral("evidence", "@last", "--json").json
    assert [each["agent"] for each in shown["attempts"]] == ["works"], "a reader is no attempt at the task"


@pytest.mark.parametrize("reader", ["echo 'no idea'", "exit 7"])
def test_a_reader_without_a_word_changes_nothing_and_that_is_said(corral: Corral, reader: str) -> None:
    corral.config("[retry]\ndelay_seconds = 0.01")
    outcome = ran(corral, MEND, reader)
    assert outcome.code == 0, outcome
    assert attempts(outcome)[0]["evidence"]["grade"] == "proven"
    assert "the second reader gave no clear answer" in outcome.json["nodes"][0]["why"]


@pytest.mark.slow
def test_a_doubtful_try_is_tried_again_and_read_again(corral: Corral) -> None:
    again = f"if printf '%s' \"$1\" | grep -q 'returns 3 whatever'; then {MEND.strip()}; else {CHEAT.strip()}; fi\n"
    outcome = ran(corral, again, READS, "--retries", "1")
    assert outcome.code == 0, outcome
    grades = [each["evidence"]["grade"] for each in attempts(outcome) if each["agent"] == "works"]
    assert grades == ["doubtful", "proven"], "the reader's reason was fed back"
    assert len(attempts(outcome)) == 4


def test_a_reader_that_does_not_exist_is_refused_before_anything_starts(corral: Corral) -> None:
    corral.agent("works", MEND)
    corral.config('[evidence]\njudge = "nobody"\n')
    outcome = corral.run(corral.repo(files=FILES), "t", "--agent", "works", "--check", CHECK)
    assert outcome.code == 2, outcome
    assert "nobody" in outcome.err
