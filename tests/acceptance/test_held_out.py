"""Held-out files: checks that no agent sees, laid over its work; what they are and say never reaches an agent."""

import os
from pathlib import Path

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo

CHECK = "python3 -m unittest discover -s tests"
TEST = """import sys, unittest
sys.path.insert(0, ".")
from sums import add
class Sums(unittest.TestCase):
    def test_add(self): self.assertEqual(add(1, 2), 3)
"""
HIDDEN = TEST.replace("add(1, 2), 3", "add(20, 22), 42").replace("test_add", "test_secret_name")
BROKEN = "def add(a, b):\n    return 0\n"
GOOD = "def add(a, b):\n    return a + b\n"
SPECIAL = "def add(a, b):\n    return 3\n"
FILES = {"sums.py": BROKEN, "tests/test_sums.py": TEST}


def folder(corral: Corral, files: dict[str, str]) -> Path:
    place = corral.root / "hidden"
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    return place


def judged(corral: Corral, script: str, *arguments: str, files: dict[str, str] | None = None) -> Outcome:
    hidden = folder(corral, files or {"tests/test_hidden.py": HIDDEN})
    corral.agent("mine", script)
    return corral.run(
        corral.repo(files=FILES), "fix add", "--agent", "mine", "--check", CHECK, "--held-out", str(hidden), *arguments
    )


def test_work_that_passes_checks_it_never_saw_is_held_out(corral: Corral) -> None:
    outcome = judged(
        corral, f"cat > sums.py <<'END'\n{GOOD}END\nfind / -name 'test_hidden*' 2>/dev/null > found.txt; true"
    )
    assert outcome.code == 0, outcome
    assert outcome.attempt["evidence"]["grade"] == "held-out"
    assert outcome.json["nodes"][0]["evidence"]["grade"] == "held-out"
    repo = Repo(Path(outcome.json["repo"]))
    assert repo.git("show", f"{outcome.attempt['commit']}:found.txt").strip() == ""
    assert "test_secret_name" not in repo.git("log", "--all", "-p")
    again = corral("verify", "@last", "--rerun")
    assert again.code == 0, again


def test_work_that_fails_them_is_told_no_more_than_that(corral: Corral) -> None:
    script = f"cat > sums.py <<'END'\n{SPECIAL}END"
    outcome = judged(corral, script, "--retries", "1")
    assert outcome.code == 1
    first, second = outcome.json["nodes"][0]["attempts"]
    assert first["error"]["class"] == second["error"]["class"] == "check_failed"
    assert first["error"]["message"] == "held-out checks fail"
    assert first["evidence"] is None
    assert "test_secret_name" not in outcome.out
    prompts = [file.read_text() for file in corral.home.glob("logs/*/prompt.txt")]
    assert any("held-out checks fail" in text for text in prompts)
    assert not any("test_secret_name" in text or "42" in text for text in prompts)
    printed = [file.read_text() for file in corral.home.glob("logs/*/heldout*.log")]
    assert any("test_secret_name" in text for text in printed)  # the user's own logs have it


def test_held_out_files_go_over_links_and_folders_of_the_work(corral: Corral) -> None:
    script = f"cat > sums.py <<'END'\n{GOOD}END\nmkdir extra\nln -s /etc extra/link\nmkdir extra/data.txt\ntouch extra/data.txt/x"
    files = {"tests/test_hidden.py": HIDDEN, "extra/link/a.txt": "a", "extra/data.txt": "b"}
    outcome = judged(corral, script, files=files)
    assert outcome.code == 0, outcome
    assert outcome.attempt["evidence"]["grade"] == "held-out"


@pytest.mark.parametrize(
    "kind", ["missing", "file", "empty", "link", "pipe", "inside", "around", "shown", "uncheck", "unnamed"]
)
def test_a_folder_that_cannot_be_meant_is_refused(corral: Corral, kind: str) -> None:
    repo = corral.repo(files=FILES)
    hidden = folder(corral, {} if kind in ("missing", "empty", "file") else {"tests/test_hidden.py": HIDDEN})
    corral.agent("mine", "echo x > x")
    more: tuple[str, ...] = ()
    if kind == "file":
        hidden.write_text("x")
    elif kind == "empty":
        hidden.mkdir()
    elif kind == "link":
        (hidden / "link").symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(hidden / "pipe")
    elif kind == "inside":
        hidden = repo.folder / "tests"
    elif kind == "around":
        hidden = repo.folder.parent
    elif kind == "shown":
        more = ("--read", "**", "--read", str(hidden))
    named = "" if kind == "unnamed" else str(hidden)
    check = () if kind == "uncheck" else ("--check", CHECK)
    outcome = corral("run", "t", "--repo", repo.folder, "--agent", "mine", *check, "--held-out", named, *more)
    assert outcome.code == 2, outcome
    assert "--held-out" in outcome.err
    assert "hint:" in outcome.err
    assert corral("ls", "--json").json == []


def test_the_user_s_file_may_name_them_and_a_repository_s_may_not(corral: Corral) -> None:
    hidden = folder(corral, {"tests/test_hidden.py": HIDDEN})
    corral.config(f'[evidence]\nheld_out = "{hidden}"\n')
    corral.agent("mine", f"cat > sums.py <<'END'\n{GOOD}END")
    outcome = corral.run(corral.repo(files=FILES), "fix add", "--agent", "mine", "--check", CHECK)
    assert outcome.attempt["evidence"]["grade"] == "held-out"
    theirs = corral.repo("theirs", files={**FILES, "corral.toml": f'[evidence]\nheld_out = "{hidden}"\n'})
    refused = corral("run", "t", "--repo", theirs.folder, "--agent", "mine", "--check", CHECK)
    assert (refused.code, "yours to say" in refused.err) == (2, True)
