"""Files that a user names may be anything: what cannot be meant is refused in a line, before anything starts."""

import os

import pytest

from tests.rig.command import Corral

TEXT_LIMIT, SETTINGS_LIMIT = 10 << 20, 4 << 20
#: Commands that read a file: F.
READ: dict[str, list[str]] = {
    "tasks": ["run", "--agent", "mine", "--strategy", "parallel", "--tasks", "F"],
    "output": ["run", "t", "--agent", "mine", "--output", "F"],
    "scope": ["run", "t", "--agent", "mine", "--scope", "F"],
    "script": ["run", "t", "--agent", "scripted:F"],
    "recording": ["run", "t", "--agent", "replay:F"],
    "image": ["run", "t", "--agent", "mine", "--image", "F"],
    "flow check": ["flow", "check", "F"],
    "flow run": ["flow", "run", "F"],
    "stub": ["flow", "test", "good.yaml", "--stub", "F"],
    "import": ["agents", "--import", "F"],
    "program": ["code", "F.py"],
    "schema": ["tools", "add", "mine", "prog.py", "--input-schema", "F"],
    "payload": ["trigger", "run", "mine", "--payload", "F"],
}


@pytest.mark.parametrize("kind", ["folder", "device", "large"])
@pytest.mark.parametrize("command", READ)
def test_what_is_no_file_or_too_large_is_refused(corral: Corral, command: str, kind: str) -> None:
    corral.agent("mine", "echo x > x")
    repo = corral.repo(files={"good.yaml": "nodes:\n  a: {task: t}\n", "prog.py": "async def main(input): return 1\n"})
    name = next(word.split(":")[-1] for word in READ[command] if word.split(":")[-1] in {"F", "F.py"})
    place = repo.folder / name
    if kind == "folder":
        place.mkdir()
    elif kind == "device":
        place.symlink_to("/dev/zero")
    else:
        with place.open("wb") as file:
            file.truncate(200 << 20)
    outcome = corral(*READ[command], cwd=repo.folder, timeout=30)
    assert outcome.code == 2, outcome
    assert len(outcome.err.splitlines()) <= 2, outcome.err
    assert outcome.err.startswith("error: ")
    assert "itself failed" not in outcome.err
    assert corral("ls", "--json").json == []


def test_tasks_come_through_a_pipe_and_from_stdin(corral: Corral) -> None:
    repo = corral.repo()
    agent = corral.agent("mine", "echo x > x")
    for number, name in enumerate(("-", "/dev/stdin")):
        asked = ("run", "--agent", agent, "--strategy", "parallel", "--tasks", name, "--json")
        outcome = corral(*asked, cwd=repo.folder, stdin=f"first{number}\nsecond{number}\n".encode())
        assert outcome.code == 0, outcome
        assert [node["status"] for node in outcome.json["nodes"]] == ["done", "done"]


def test_more_than_a_task_may_hold_is_refused_without_reading_on(corral: Corral) -> None:
    repo = corral.repo()
    outcome = corral("run", "-", "--agent", "mine", cwd=repo.folder, stdin=b"x" * (TEXT_LIMIT + 1))
    assert outcome.code == 2, outcome
    assert "larger than 10 MB" in outcome.err


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "large"])
def test_settings_that_are_no_file_are_not_waited_for(corral: Corral, kind: str) -> None:
    repo, place = corral.repo(), corral.config_file
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    else:
        with place.open("wb") as file:
            file.truncate(SETTINGS_LIMIT + 1)
    outcome = corral("run", "t", cwd=repo.folder, timeout=30)
    assert outcome.code == 2, outcome
    assert outcome.err.startswith(f"error: {place}: "), outcome.err


def test_empty_settings_may_be_the_null_device(corral: Corral) -> None:
    repo = corral.repo()
    corral.config_file.parent.mkdir(parents=True, exist_ok=True)
    corral.config_file.symlink_to(os.devnull)
    assert corral("ls", cwd=repo.folder).code == 0


def test_settings_of_a_repository_are_read_with_a_limit(corral: Corral) -> None:
    """A gigabyte of zeros is a megabyte in a clone."""
    repo = corral.repo()
    with (repo.folder / "corral.toml").open("wb") as file:
        file.truncate(SETTINGS_LIMIT + 1)
    for command in (["run", "t"], ["trust"], ["trust", "."]):
        outcome = corral(*command, cwd=repo.folder, timeout=30)
        assert outcome.code == 2, outcome
        assert "larger than 4 MB" in outcome.err, outcome
