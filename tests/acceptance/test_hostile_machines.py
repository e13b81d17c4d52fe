"""A far end that lies: it loses its own attempt, in one line, and nothing else; nothing of ours is read or written."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.testing import ScriptedModel, Turn
from corral.testing.command import PROGRAM
from tests.rig import tampering_host
from tests.rig.command import Corral, Outcome, RunningCommand
from tests.rig.flows import doer, nodes, statuses, write
from tests.rig.machines import add_machine, far_home
from tests.rig.repository import Repo
from tests.rig.suites import claude_program
from tests.rig.waiting import until
from tests.world.git.test_incoming_objects import swelling_bundle

pytestmark = pytest.mark.slow  # left out of `make quick`


def add_hostile(corral: Corral, trick: str) -> None:
    far = far_home(corral)
    words = [sys.executable, tampering_host.__file__, trick, "env", f"CORRAL_HOME={far}", f"HOME={far}/home"]
    add_machine(corral, command=json.dumps([*words, f"XDG_CONFIG_HOME={far}/config", str(PROGRAM), "host"]))


def attempt_there(corral: Corral, repo: Repo, trick: str, *more: str) -> Outcome:
    add_hostile(corral, trick)
    agent = corral.agent("writes", "echo x > x.txt")
    return corral.run(repo, "t", "--agent", agent, "--machine", "box1", "--retries", "0", *more)


def refs_of(repo: Repo) -> list[str]:
    return [each for each in repo.refs("refs") if "/bases/" not in each]


def failed_alone(corral: Corral, repo: Repo, outcome: Outcome, before: list[str]) -> str:
    """Assert that only the attempt failed: one line, no ref, no trace; return that line."""
    assert outcome.json["status"] == "failed", outcome
    attempt = outcome.attempt
    assert attempt["commit"] is None, outcome
    words = attempt["error"]["message"]
    assert "\n" not in words
    assert "Traceback" not in outcome.err
    assert "corral itself failed" not in outcome.err
    assert refs_of(repo) == before
    assert repo.git("fsck", "--strict") == ""
    assert corral.run(repo, "t", "--agent", "writes").code == 0  # all else works on
    return words


def test_a_host_that_says_another_version_is_refused_and_nothing_starts(corral: Corral) -> None:
    outcome = attempt_there(corral, corral.repo(), "version")
    assert outcome.code == 2, outcome
    assert "the machine `box1`: this host says that it is corral 9.9.9" in outcome.err
    assert "hint: install corral" in outcome.err
    assert corral("ls", "--json").json == []


def test_a_frame_that_is_too_large_ends_the_attempt(corral: Corral) -> None:
    repo = corral.repo()
    before = refs_of(repo)
    outcome = attempt_there(corral, repo, "huge")
    assert "a frame of 4294967295 bytes came" in failed_alone(corral, repo, outcome, before)
    assert outcome.attempt["error"]["class"] == "crash"


FLOW = """
name: two places
nodes:
  here: {task: "DO: touch begun; until test -e go; do sleep 0.05; done; echo 1 > one.txt"}
  there: {task: "DO: echo 2 > two.txt", machine: box1}
"""


@pytest.mark.parametrize("verbs", ["make", "collected,collect"], ids=["before", "after"])
def test_a_host_that_says_that_its_disk_is_full_ends_its_own_attempt_alone(corral: Corral, verbs: str) -> None:
    doer(corral)
    add_hostile(corral, f"full:{verbs}")
    repo = corral.repo()
    with corral.going("flow", "run", write(corral, FLOW), "--repo", repo.folder, "--agent", "doer", "--json") as engine:
        error = alone_without_room(corral, engine)
    assert error["message"].startswith("the disk of the machine `box1` is full: ")


def alone_without_room(corral: Corral, engine: RunningCommand) -> dict[str, str]:
    """Assert that the attempt elsewhere ends for want of room while the one here works on; return its error."""

    def has_failed() -> bool:
        assert engine.process.poll() is None, engine.end()
        return '"there","failed"' in json.dumps(states(corral), separators=(",", ":"))

    until(lambda: list(corral.home.glob("workspaces/*/work/begun")), "the agent here has begun")
    until(has_failed, "the other one has failed")
    (next(corral.home.glob("workspaces/*/work/begun")).parent / "go").touch()
    outcome = engine.end()
    assert statuses(outcome) == {"here": "done", "there": "failed"}, outcome
    error = nodes(outcome)["there"]["attempts"][-1]["error"]
    assert error["class"] == "disk"
    assert "make room there" in error["hint"]
    return error


def states(corral: Corral) -> list[tuple[str, str]]:
    shown = corral("show", "@last", "--json").json or {"nodes": []}
    return [(node["id"], node["status"]) for node in shown["nodes"]]


def test_a_full_disk_elsewhere_is_named_and_ends_no_other_attempt(corral: Corral) -> None:
    far = far_home(corral)
    (far / "home").mkdir(parents=True)
    disk = far / "disk"
    disk.mkdir()
    line = f"mount -t tmpfs -o size=20m,mode=0700 none {disk} && exec {PROGRAM} host"
    words = [
        "env",
        f"CORRAL_HOME={disk}",
        f"HOME={far}/home",
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
    ]
    add_machine(corral, command=json.dumps([*words, line]))
    doer(corral)
    flow = write(corral, FLOW.replace("echo 2 > two.txt", "head -c 30000000 /dev/zero > zeros; true"))
    with corral.going("flow", "run", flow, "--repo", corral.repo().folder, "--agent", "doer", "--json") as engine:
        error = alone_without_room(corral, engine)
    assert "the machine `box1` is full" in error["message"]
    assert "No space left" in error["message"]


def foreign(repo: Repo, folder: Path) -> Path:
    """Make a bundle that names a commit of the repository which no agent was given."""
    base = repo.head
    repo.git("checkout", "--quiet", "-b", "private")
    private = repo.commit({"private.txt": "not for agents\n"})
    repo.git("checkout", "--quiet", "main")
    repo.git("checkout", "--quiet", "--detach")
    own = repo.commit({"own.txt": "x\n"})
    repo.git("bundle", "create", "-q", str(folder / "b"), "HEAD", f"^{base}")
    repo.git("checkout", "--quiet", "main")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--prune=now", "--quiet")
    file = folder / "b"
    file.write_bytes(file.read_bytes().replace(own.encode() + b" HEAD", private.encode() + b" HEAD"))
    return file


def bomb(_: Repo, folder: Path) -> Path:
    file = folder / "b"
    file.write_bytes(swelling_bundle())
    return file


@pytest.mark.parametrize(
    ("make", "words"), [(foreign, "was not given"), (bomb, "the work is too much")], ids=["foreign", "bomb"]
)
def test_a_bundle_that_is_not_its_work_is_not_taken(
    corral: Corral, tmp_path: Path, make: Callable[[Repo, Path], Path], words: str
) -> None:
    repo = corral.repo()
    file = make(repo, tmp_path)
    before = refs_of(repo)
    outcome = attempt_there(corral, repo, f"bundle:{file}")
    told = failed_alone(corral, repo, outcome, before)
    assert words in told
    assert outcome.attempt["error"]["class"] == "crash"
    assert "private.txt" not in json.dumps(outcome.json)


@pytest.mark.parametrize("trick", ["forged", "fewer"])
def test_results_of_other_checks_than_those_asked_for_do_not_count(corral: Corral, trick: str) -> None:
    repo = corral.repo()
    outcome = attempt_there(corral, repo, trick, "--check", "false")
    assert outcome.json["status"] == "failed", outcome
    assert "answered for other checks than it was asked for" in outcome.attempt["error"]["message"]
    assert outcome.attempt["evidence"] is None


def test_logs_of_checks_that_climb_are_neither_written_nor_read(corral: Corral, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not for agents")
    outcome = attempt_there(corral, corral.repo(), f"climbing:{secret}", "--check", "test -f x.txt")
    assert outcome.json["status"] == "done", outcome
    assert secret.read_text() == "not for agents"
    logs = corral.home / "logs" / outcome.attempt["id"]
    assert not (logs / "secret").exists()
    assert (logs / "stdout.log").read_text() != "x"
    assert str(secret) not in json.dumps(outcome.json) + corral("evidence", "@last", "--json").out


def test_files_of_a_conversation_that_climb_are_not_kept(corral: Corral) -> None:
    with ScriptedModel([Turn(text="Done.", sh="echo x > x.txt")]) as model:
        url = f'settings = {{ ANTHROPIC_BASE_URL = "{model.url}" }}'
        corral.config(f'[agents.claude]\nprogram = "{claude_program()}"\n{url}\n')
        corral.env["ANTHROPIC_API_KEY"] = "sk-real-0123456789abcdef"
        add_hostile(corral, "home")
        words = ("--agent", "claude", "--machine", "box1", "--retries", "0")
        outcome = corral.run(corral.repo(), "t", *words)
    assert outcome.json["status"] == "failed", outcome
    assert "sent files that lie elsewhere" in outcome.attempt["error"]["message"]
    assert not (corral.home / "logs" / outcome.attempt["id"] / "conversation.json").exists()
    assert not list(corral.root.rglob("climbed"))
