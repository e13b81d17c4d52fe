"""`kill -9` between the end of a task and its clean-up: the note is written and the workspace removed later."""

import signal
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.mounts import in_private_mounts
from tests.rig.repository import Repo

pytestmark = pytest.mark.both_stores

#: Kills who starts it as soon as a receipt is to be noted: by then the end of the attempt is stored.
KILLING_GIT = """#!/bin/sh
case " $* " in *" notes --ref="*" add "*) kill -9 $PPID; exit 1;; esac
exec /usr/lib/git-core/git "$@"
"""


@pytest.fixture
def killed(corral: Corral, tmp_path: Path) -> tuple[Corral, Repo, str]:
    """Return a run that is done, and whose process was killed before its clean-up."""
    corral.agent("mine", "echo good > b.txt")
    repo, git = corral.repo(), tmp_path / "killing-git"
    git.write_text(KILLING_GIT)
    git.chmod(0o755)
    with in_private_mounts(f"mount --bind {git} /usr/bin/git", corral.program) as program:
        words = ("run", "mend it", "--agent", "mine", "--repo", repo.folder)
        done = Corral(corral.root / "other", program)(*words, env=corral.env)
    assert done.code == -signal.SIGKILL, done
    (line,) = corral("ls", "--json").json
    assert line["status"] == "done"
    assert corral.leavings() == [f"{line['run']}-1"]
    assert not repo.refs("refs/notes")
    return corral, repo, line["run"]


def test_a_receipt_is_noted_by_who_looks_for_it(killed: tuple[Corral, Repo, str]) -> None:
    corral, repo, run = killed
    assert corral("verify", run).code == 0
    assert corral.leavings() == []
    commit = corral("show", run, "--json").json["nodes"][0]["attempts"][0]["commit"]
    assert corral("show", run, "--receipt", "--json").json == repo.receipt(commit)
    repo.git("notes", "--ref=refs/notes/corral", "remove", commit)  # by someone else: that is not made good
    assert corral("verify", run).code == 1


def test_clean_finishes_it(killed: tuple[Corral, Repo, str]) -> None:
    corral, repo, _ = killed
    assert corral("clean", "--older", "30d").code == 0
    assert corral.leavings() == []
    assert repo.refs("refs/notes")


def test_resume_finishes_it_and_says_that_the_run_is_over(killed: tuple[Corral, Repo, str]) -> None:
    corral, repo, run = killed
    resumed = corral("resume", run)
    assert resumed.code == 2
    assert "is over: done" in resumed.err
    assert corral.leavings() == []
    assert repo.refs("refs/notes")
