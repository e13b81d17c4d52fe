"""Runs whose workspaces are overlays: what comes of them is what a checkout gives, after a kill too."""

from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

FILES = {f"folder-{number % 5}/file-{number}.txt": f"{number}\n" for number in range(40)}


def mounted(corral: Corral) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if line.split()[4].startswith(str(corral.home))]


@pytest.fixture
def overlaid(corral: Corral) -> Corral:
    corral.config('[workspace]\nkind = "overlay"')
    return corral


def test_an_agent_changes_moves_and_removes_files_and_checks_see_it(overlaid: Corral) -> None:
    repo = overlaid.repo(files=FILES)
    work = "echo new > new.txt; mv folder-1 moved; git mv folder-2 also-moved; rm folder-3/file-3.txt; rm -r folder-4"
    overlaid.agent("mine", f"{work}; mkdir folder-4; echo back > folder-4/file-4.txt; chmod +x folder-0/file-0.txt")
    check = "test -f moved/file-1.txt -a -f also-moved/file-2.txt -a ! -e folder-1 -a ! -e folder-4/file-9.txt"
    outcome = overlaid.run(repo, "t", "--agent", "mine", "--check", check)
    assert outcome.code == 0, outcome
    files = repo.files(outcome.attempt["commit"])
    there = {name for name in FILES if not name.startswith(("folder-1/", "folder-2/", "folder-4/"))}
    moved = {name.replace("folder-1", "moved").replace("folder-2", "also-moved") for name in FILES}
    moved = {name for name in moved if "moved" in name}
    assert set(files) == (there - {"folder-3/file-3.txt"}) | moved | {"new.txt", "folder-4/file-4.txt"}
    modes = repo.git("ls-tree", outcome.attempt["commit"], "folder-0/file-0.txt")
    assert modes.startswith("100755")
    assert mounted(overlaid) == []
    assert overlaid.leavings() == []


BY_DAY = ("edit", "folder-replaced", "pipe")


def collected(corral: Corral, repo: Repo, work: str, kind: str) -> tuple[dict[str, str], list[str]]:
    """Let an agent work in a workspace of a kind; return the tree of its commit, and what its bundle was made from."""
    corral.config_file.unlink(missing_ok=True)
    corral.config(f'[workspace]\nkind = "{kind}"')
    corral.agent("mine", work)
    outcome = corral.run(repo, "t", "--agent", "mine", "--retries", "0")
    listed = repo.git("ls-tree", "-r", outcome.attempt["commit"]).splitlines() if outcome.attempt["commit"] else []
    return {line.split("\t")[1]: line.split("\t")[0] for line in listed}, outcome.attempt["files_changed"]


#: What agents do; the last seven of them are not plain: the upper layer is not enough to collect them.
WORK = {
    "edit": "echo more >> folder-1/file-1.txt; rm folder-2/file-2.txt; echo x > 'a b'; ln -s a link",
    "folder-removed": "rm -r folder-1; echo x > x",
    "folder-replaced": "rm -r folder-1; mkdir folder-1; echo x > folder-1/new",
    "folder-is-a-file": "rm -r folder-1; echo x > folder-1; rm folder-2/file-2.txt; mkdir folder-2/file-2.txt",
    "file-is-a-folder": "rm folder-2/file-2.txt; mkdir folder-2/file-2.txt; echo x > folder-2/file-2.txt/x",
    "ignored": "echo x > made.log; echo more >> kept.log; echo x > x",
    "ignored-removed": "git rm -q kept.log; echo x > x",
    "ignored-forced": "echo x > forced.log; git add -f forced.log; echo x > x",
    "committed": "echo x > x; git add x; git commit -qm one; echo y > y; git checkout -q -b other",
    "index-lies": "git rm -q --cached folder-1/file-1.txt; echo x > x; git update-index --chmod=+x folder-3/file-3.txt",
    "nothing": "true",
    "folder-moved": "mv folder-1 moved; echo x > x",
    "rules": "echo '*.txt' > .gitignore; echo x > x.txt",
    "pipe": "mkfifo pipe; echo x > x",
    "nested": "mkdir inner; cd inner; git init -q; echo x > x",
    "broken-index": "echo broken > .git/index; echo x > x",
    "merging": "echo x > x; touch .git/MERGE_HEAD",
    "odd-name": "echo x > \"$(printf 'new\\nline')\"",
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[] if each in BY_DAY else pytest.mark.night("more of the same")) for each in WORK],
)
def test_what_is_collected_is_what_a_checkout_gives(corral: Corral, name: str) -> None:
    repo = corral.repo(files={**FILES, ".gitignore": "*.log\n"})
    (repo.folder / "kept.log").write_text("kept\n")
    repo.git("add", "-f", "kept.log")
    repo.commit({"more.txt": "more\n"})
    assert collected(corral, repo, WORK[name], "overlay") == collected(corral, repo, WORK[name], "clone")


def test_killed_in_the_middle_nothing_is_lost_and_no_mount_stays(overlaid: Corral) -> None:
    repo = overlaid.repo(files=FILES)
    overlaid.agent("mine", "echo first > first.txt; rm folder-1/file-1.txt; touch begun; sleep 300")
    with overlaid.going("run", "t", "--repo", repo.folder, "--agent", "mine", "--retries", "0", "--json"):
        until(lambda: list((overlaid.home / "workspaces").glob("*/work/begun")), "the agent has begun")
    (line,) = overlaid("ls", "--json").json
    assert len(mounted(overlaid)) == 1
    (overlaid.config_file.parent / "mine.sh").write_text("#!/bin/sh\necho second > second.txt\n")
    resumed = overlaid("resume", line["run"], "--json").json
    assert resumed["status"] == "done"
    assert mounted(overlaid) == []
    assert overlaid.leavings() == []
    kept = [ref for ref in repo.refs("refs/corral/") if "first.txt" in repo.files(ref)]
    assert kept
    assert "folder-1/file-1.txt" not in repo.files(kept[0])


def test_clean_removes_templates_that_no_workspace_needs(overlaid: Corral) -> None:
    repo = overlaid.repo(files=FILES)
    overlaid.agent("mine", "echo x > x.txt")
    assert overlaid.run(repo, "t", "--agent", "mine").code == 0
    assert (overlaid.home / "templates").is_dir()
    assert overlaid("clean", "--keep", "0", "--json").code == 0
    assert [path for path in (overlaid.home / "templates").glob("*/*") if path.is_dir()] == []
