"""Odd surroundings: names that are no text, variables that are missing or strange, streams that are closed."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.test_bad_requests import refused
from tests.rig.command import Corral
from tests.rig.repository import Repo, git

pytestmark = pytest.mark.slow  # left out of `make quick`


@pytest.fixture
def ready(corral: Corral) -> Corral:
    corral.agent("mine", "echo x > x")
    return corral


@pytest.fixture
def repo(ready: Corral) -> Repo:
    return ready.repo()


def test_a_task_that_is_no_text_is_refused_or_read_as_well_as_can_be(ready: Corral, repo: Repo) -> None:
    arguments = [*ready.program, "run", b"caf\xff", "--repo", str(repo.folder), "--agent", "mine", "--json"]
    done = subprocess.run(arguments, env=ready.env, capture_output=True, check=False, timeout=60)
    words = done.stderr.decode()
    assert done.returncode in (0, 2), words
    assert "corral itself failed" not in words
    assert ready.run(repo, "-", "--agent", "mine", stdin=b"caf\xff").code == 0


def test_a_folder_whose_name_is_no_text(ready: Corral) -> None:
    folder = os.fsencode(ready.root) + b"/bad\xffname"
    Repo.make(Path(os.fsdecode(folder)))
    arguments = [*ready.program, "run", "t", "--repo", folder, "--agent", "mine"]
    done = subprocess.run(arguments, env=ready.env, capture_output=True, check=False, timeout=60)
    words = done.stderr.decode(errors="replace")
    assert done.returncode in (0, 2), words
    assert "corral itself failed" not in words


def test_files_whose_names_are_no_text(ready: Corral, repo: Repo) -> None:
    Path(os.fsdecode(os.fsencode(repo.folder) + b"/bad\xff")).write_text("b\n")
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "-m", "bad name")
    ready.agent("other", "echo y > \"$(printf 'worse\\376')\"; rm bad*")
    outcome = ready.run(repo, "t", "--agent", "other", "--check", "ls worse*", "--retries", "0")
    assert outcome.code == 0, outcome
    assert len(outcome.attempt["files_changed"]) == 2


@pytest.mark.parametrize(
    "env",
    [
        {"COLUMNS": "wide"},
        {"COLUMNS": "0"},
        {"TERM": ""},
        {"LANG": "C", "LC_ALL": "C"},
        {"LANG": "de_DE.ISO-8859-1"},
        {"PYTHONIOENCODING": "ascii"},
        {"TMPDIR": "/nowhere"},
        {"PATH": "/nowhere::relative:/usr/bin"},
        {"GIT_DIR": "/nowhere", "GIT_WORK_TREE": "/nowhere", "GIT_INDEX_FILE": "/nowhere"},
        {"XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""},
        {"PYTHONPATH": "/nowhere", "PYTHONSTARTUP": "/nowhere"},
    ],
    ids=lambda env: next(iter(env)) + "=" + next(iter(env.values())),
)
def test_strange_variables_do_no_harm(ready: Corral, repo: Repo, env: dict[str, str]) -> None:
    if "XDG_CONFIG_HOME" in env:
        settings = ready.user_home / ".config" / "corral"
        settings.parent.mkdir()
        settings.symlink_to(ready.config_file.parent)
    outcome = ready("run", "Zürich ✓", "--repo", repo.folder, "--agent", "mine", "--check", "test -f x", env=env)
    assert outcome.code == 0, outcome
    for arguments in (["ls"], ["show", "@last"], ["logs", "@last"], ["diff", "@last"]):
        looked = ready(*arguments, env=env)
        assert looked.code == 0, looked


def test_without_a_home(ready: Corral, repo: Repo) -> None:
    env = {key: value for key, value in ready.env.items() if key != "HOME"}
    done = subprocess.run(
        [*ready.program, "run", "t", "--repo", str(repo.folder), "--agent", "mine"],
        env=env,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(ready: Corral, repo: Repo, closed: str) -> None:
    line = f'{ready.program[0]} run t --repo "{repo.folder}" --agent mine {closed}'
    done = subprocess.run(["sh", "-c", line], env=ready.env, capture_output=True, check=False, timeout=60)
    assert b"Traceback" not in done.stderr
    assert ready("show", "@last", "--json").json["status"] == "done"
    assert done.returncode == 0, done.stderr


def test_the_state_folder_may_be_named_relatively(ready: Corral, repo: Repo) -> None:
    outcome = ready.run(repo, "t", "--agent", "mine", env={"CORRAL_HOME": "here/state"}, cwd=ready.root)
    assert outcome.code == 0, outcome
    assert (ready.root / "here" / "state" / "corral.db").exists()


def test_the_state_folder_may_lie_in_a_path_with_spaces(ready: Corral, repo: Repo) -> None:
    env = {"CORRAL_HOME": str(ready.root / "with spaces" / "ü % 'q'")}
    outcome = ready.run(repo, "t", "--agent", "mine", "--check", "test -f x", env=env)
    assert outcome.code == 0, outcome


def test_an_empty_stdin_is_an_empty_task(ready: Corral, repo: Repo) -> None:
    refused(ready.run(repo, "-", "--agent", "mine"), "empty")


def test_a_repository_inside_the_state_folder_is_not_mixed_up(ready: Corral) -> None:
    repo = Repo.make(ready.home / "workspaces" / "mine")
    outcome = ready.run(repo, "t", "--agent", "mine")
    assert outcome.code in (0, 2), outcome
    assert git(repo.folder, "status", "--porcelain") == ""


def test_logs_of_a_run_whose_process_died_end(ready: Corral, repo: Repo) -> None:
    ready.agent("slow", "echo ready; sleep 86398")
    with ready.going("run", "t", "--repo", repo.folder, "--agent", "slow") as run:
        ready.until_said("ready")
        with ready.going("logs", "-f", "@last") as logs:
            run.signal(signal.SIGKILL)
            assert logs.end().code == 0
    assert ready("stop", "@last").code == 0
