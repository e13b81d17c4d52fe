"""What is printed where there is no terminal, or a narrow one, or one that wants no colour."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.repository import Repo

COMMANDS = (["ls"], ["show", "@last"], ["logs", "@last"], ["agents"], ["doctor"], ["--help"], ["run", "--help"])


@pytest.fixture
def repo(corral: Corral) -> Repo:
    corral.agent("mine", "echo x > x; echo some words")
    repo = corral.repo()
    assert corral.run(repo, "a task of many words " * 10, "--agent", "mine").code == 0
    return repo


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}, {"TERM": "xterm-256color"}, {"FORCE_COLOR": "1"}])
def test_no_escape_codes_in_a_pipe(corral: Corral, repo: Repo, env: dict[str, str]) -> None:
    for arguments in (*COMMANDS, ["run", "t", "--repo", str(repo.folder), "--agent", "mine"]):
        outcome = corral(*arguments, env=env)
        assert "\x1b" not in outcome.out + outcome.err, arguments


@pytest.mark.parametrize("width", [1, 20, 40, 80, 200])
def test_lines_keep_to_the_width(corral: Corral, repo: Repo, width: int) -> None:
    assert repo.folder.exists()
    for arguments in (["ls"], ["show", "@last"], ["agents"]):
        assert corral(*arguments, env={"COLUMNS": str(width)}).code == 0
    if width >= 80:
        assert all(len(line) <= width for line in corral("ls", env={"COLUMNS": str(width)}).out.splitlines())


def on_terminal(corral: Corral, arguments: list[str], cwd: Path, env: dict[str, str], width: int = 80) -> str:
    """Run the command on a terminal of its own; return all that was drawn there."""
    master, slave = pty.openpty()
    os.environ.pop("COLUMNS", None)
    size = {"COLUMNS": str(width), "LINES": "24"}
    process = subprocess.Popen(
        [*corral.program, *arguments],
        cwd=cwd,
        env={**corral.env, "TERM": "xterm", **size, **env},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    drawn = b""
    try:
        while chunk := os.read(master, 65536):
            drawn += chunk
    except OSError:
        pass  # the other end was closed: all is drawn
    finally:
        os.close(master)
    assert process.wait(timeout=60) == 0, drawn.decode(errors="replace")
    return drawn.decode(errors="replace")


def into(corral: Corral, target: int, arguments: list[str], cwd: Path) -> tuple[int, str]:
    """Run the command with its output going to `target`; return its exit code and what it complains of."""
    done = subprocess.run(
        [*corral.program, *arguments],
        cwd=cwd,
        env=corral.env,
        stdout=target,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr.decode()


def test_a_reader_that_leaves_is_no_failure_and_a_full_disk_is_told(corral: Corral, repo: Repo) -> None:
    read, write = os.pipe()
    os.close(read)
    for arguments in (["ls"], ["--version"], ["--help"], ["export"], ["logs", "@last", "--json"]):
        assert into(corral, write, arguments, repo.folder) == (0, ""), arguments
    assert into(corral, write, ["run", "t", "--agent", "mine", "--check", "false", "--json"], repo.folder) == (1, "")
    os.close(write)
    with Path("/dev/full").open("wb") as full:
        for arguments in (["ls"], ["--version"]):
            code, told = into(corral, full.fileno(), arguments, repo.folder)
            assert (code, told.count("error: ")) == (1, 1), told
            assert "Traceback" not in told


def test_the_folder_one_is_in_may_be_gone(corral: Corral, repo: Repo) -> None:
    gone = corral.root / "gone"
    corral.program = ["sh", "-c", f'mkdir {gone}; cd {gone}; rmdir {gone}; exec "$@"', "sh", *corral.program]
    refused = corral("run", "t", "--agent", "mine")
    assert (refused.code, refused.err.splitlines()[0]) == (2, "error: the folder you are in is gone")
    assert corral("run", "t", "--agent", "mine", "--repo", repo.folder).code == 0


def test_a_terminal_is_drawn_on(corral: Corral, repo: Repo) -> None:
    drawn = on_terminal(corral, ["run", "t", "--agent", "mine"], repo.folder, {})
    assert "some words" in drawn
    assert "\x1b[32m" in drawn  # `done` is green
    assert "corral diff" in drawn


def test_no_color_means_none(corral: Corral, repo: Repo) -> None:
    drawn = on_terminal(corral, ["run", "t", "--agent", "mine"], repo.folder, {"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", drawn)
    assert "done" in drawn


def test_a_dumb_terminal_gets_plain_lines(corral: Corral, repo: Repo) -> None:
    drawn = on_terminal(corral, ["run", "t", "--agent", "mine"], repo.folder, {"TERM": "dumb", "NO_COLOR": "1"})
    assert "\x1b" not in drawn


def test_a_narrow_terminal_does_no_harm(corral: Corral, repo: Repo) -> None:
    assert "done" in on_terminal(corral, ["run", "t", "--agent", "mine"], repo.folder, {}, width=20)


def test_a_log_is_never_corrupted_by_progress(corral: Corral, repo: Repo) -> None:
    outcome = corral("run", "t", "--agent", "mine", cwd=repo.folder, env={"TERM": "xterm-256color"})
    assert "\r" not in outcome.err
    assert all(line.strip() for line in outcome.err.splitlines())


def test_the_name_of_a_file_is_only_a_name(corral: Corral) -> None:
    """An agent may name its files as it likes; it can neither drive the terminal nor add a line to what we say."""
    script = '[[step]]\nwrite = "x\\nchecks   pytest -q: passed\\nb\\u001b[2J.txt"\ntext = "1"\n'
    repo, agent = corral.repo(), corral.script(script)
    looks = (["show", "@last"], ["merge", "@last", "--preview"], ["diff", "@last", "--stat"], ["overlap"])
    for arguments in (["run", "write", "--agent", agent], *looks):
        drawn = on_terminal(corral, arguments, repo.folder, {})
        assert "\x1b[2J" not in drawn, drawn
        assert not [line for line in drawn.splitlines() if line.startswith("checks")], drawn
