"""As an ordinary user, and as root on what belongs to others."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.levels import BOXED
from tests.rig.person import UID, Person, own, owners
from tests.rig.processes import gone
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`

OTHER = 23456


def test_the_main_journey_of_an_ordinary_user(person: Person) -> None:
    repo = person.repo()
    person.agent("mine", 'echo x > x; echo "$1"; id -u')
    before = {**repo.fingerprint()}
    outcome = person.run(repo, "make x", "--agent", "mine", "--check", "grep -q x x", "--retries", "0")

    assert outcome.code == 0, outcome
    assert outcome.attempt["sandbox"]["level"] in BOXED
    assert outcome.attempt["files_changed"] == ["x"]
    assert outcome.attempt["output"] == f"make x\n{UID}"
    assert repo.receipt(outcome.attempt["commit"])["status"] == "done"
    assert {key: value for key, value in repo.fingerprint().items() if key[:4] == ".git"} == {
        key: value for key, value in before.items() if key[:4] == ".git"
    }
    assert person.leavings() == []
    for arguments in (["ls", "--json"], ["show", "@last"], ["logs", "@last"], ["diff", "@last"], ["export"]):
        assert person(*arguments).code == 0
    assert owners(person.root) == {UID}
    (repo.folder / ".git" / "objects").chmod(0o555)  # work could not be kept: nothing is paid for first
    refused = person.run(repo, "make x", "--agent", "mine")
    assert (refused.code, "cannot be written to" in refused.err) == (2, True), refused


def test_the_checks_of_an_ordinary_user_report(person: Person) -> None:
    repo = person.repo()
    person.agent("mine", "echo x > x")
    channel = 'test -p "$CORRAL_REPORT" && echo > "$CORRAL_REPORT" && ! rm -f "$CORRAL_REPORT"'
    loaded = "python3 -c \"import sys; assert '_corral_script' in sys.modules\""
    outcome = person.run(repo, "make x", "--agent", "mine", "--check", channel, "--check", loaded, "--retries", "0")
    assert outcome.code == 0, outcome


def test_an_ordinary_user_has_the_strict_box(person: Person) -> None:
    person.agent("mine", "true")
    report = person("doctor", "--json")
    assert report.code == 0, report
    sandbox = next(part for part in report.json["parts"] if part["name"] == "sandbox")
    assert sandbox["found"].startswith(BOXED)
    # Where no control group counts memory, it says so.
    assert ("memory of a box is counted" in sandbox["found"]) == sandbox["found"].startswith("strict")


@pytest.mark.parametrize(
    "script",
    [
        "cat {repo}/a.txt",
        "cat {home}/corral.db",
        "echo evil > {repo}/a.txt; false",
        "echo evil > .git/hooks/post-commit",
        "touch {repo}/.git/objects/evil",
        "unshare -Ur true",
    ],
)
def test_the_box_of_an_ordinary_user_holds(person: Person, script: str) -> None:
    repo = person.repo()
    words = script.format(repo=repo.folder, home=person.home)
    person.agent("mine", f"if {words} 2>/dev/null; then echo broken out; fi; echo x > x")
    outcome = person.run(repo, "t", "--agent", "mine")
    assert outcome.code == 0, outcome
    assert "broken out" not in outcome.attempt["output"]
    assert (repo.folder / "a.txt").read_text() == "one\n"


def test_an_ordinary_user_stops_and_all_is_gone(person: Person) -> None:
    sign = f"31536000.{os.getpid()}77"
    person.agent("slow", f"echo half > half.txt; echo ready; sleep {sign} & while :; do sleep {sign}; done")
    repo = person.repo()
    person.settle()
    with person.going("run", "t", "--repo", repo.folder, "--agent", "slow", "--json") as run:
        until(lambda: any(event.get("text") == "ready" for event in Corral.events(person)), "it is ready")
        run.signal(signal.SIGTERM)
        ended = run.end()
    assert ended.code == 130, ended
    gone(sign)
    assert repo.read(ended.attempt["commit"], "half.txt") == "half"


def test_an_unwritable_state_folder(person: Person) -> None:
    person.agent("mine", "echo x > x")
    repo = person.repo()
    for name, mode in (("locked", 0o500), ("closed", 0o000)):
        folder = person.root.parent / name
        folder.mkdir()
        folder.chmod(mode)
        for inside in ("", "/deeper"):
            outcome = person.run(repo, "t", "--agent", "mine", env={"CORRAL_HOME": f"{folder}{inside}"})
            assert outcome.code in (1, 2), outcome
            assert outcome.err.startswith("error: "), outcome
            assert "hint: " in outcome.err
            assert "corral itself failed" not in outcome.err
    assert repo.refs("refs/corral") == []


def test_a_repository_that_may_only_be_read(person: Person) -> None:
    person.agent("mine", "echo x > x")
    theirs = Corral(person.root.parent / "theirs").repo()
    outcome = person.run(theirs, "t", "--agent", "mine")
    assert outcome.code == 2, outcome
    assert "another user" in outcome.err
    assert "hint: " in outcome.err


def test_settings_that_may_not_be_read(person: Person) -> None:
    person.agent("mine", "echo x > x")
    person.settle()
    person.config_file.chmod(0o000)
    outcome = person.run(person.repo(), "t", "--agent", "mine")
    assert outcome.code == 2
    assert "config.toml" in outcome.err


@pytest.fixture
def theirs(corral: Corral, open_folder: Path) -> Corral:
    """Root's corral, and repositories in a folder that every user may enter."""
    corral.agent("mine", "echo x > x; id -u; cat a.txt")
    corral.root = open_folder / "work"
    corral.root.mkdir()
    return corral


def test_root_on_a_repository_of_another_user(theirs: Corral) -> None:
    repo = theirs.repo()
    own(repo.folder, OTHER)
    before = repo.fingerprint()
    outcome = theirs.run(repo, "t", "--agent", "mine", "--check", "test -f x", "--retries", "0")

    assert outcome.code == 0, outcome
    assert outcome.attempt["files_changed"] == ["x"]
    assert repo.receipt(outcome.attempt["commit"])["status"] == "done"
    assert owners(repo.folder) == {OTHER}
    assert owners(theirs.home) == {0}
    assert repo.fingerprint() == before
    assert theirs("diff", "@last").bytes.startswith(b"diff --git")
    user = int(outcome.attempt["output"].split()[0])
    assert user not in (0, OTHER)  # the agent is neither root nor the owner


def test_root_on_a_private_repository_of_another_user(theirs: Corral) -> None:
    repo = theirs.repo()
    own(repo.folder, OTHER)
    repo.folder.chmod(0o700)
    (repo.folder / ".git" / "objects").chmod(0o700)
    outcome = theirs.run(repo, "t", "--agent", "mine", "--check", "test -f x", "--retries", "0")
    assert outcome.code == 0, outcome
    assert "one" in outcome.attempt["output"]
    assert owners(repo.folder) == {OTHER}


def test_root_retries_with_the_bases_tests_in_a_repository_of_another_user(theirs: Corral) -> None:
    theirs.agent("cheat", "echo true > tests/test.sh")
    repo = theirs.repo(files={"tests/test.sh": "grep -q good a.txt\n", "a.txt": "bad\n"})
    own(repo.folder, OTHER)
    outcome = theirs.run(repo, "t", "--agent", "cheat", "--check", "sh tests/test.sh", "--retries", "0")
    assert outcome.attempt["error"]["class"] == "check_failed"
    assert "tests/test.sh" in outcome.attempt["error"]["message"]
    assert owners(repo.folder) == {OTHER}


def test_the_owner_can_work_on_with_what_root_left(theirs: Corral) -> None:
    repo = theirs.repo()
    own(repo.folder, OTHER)
    outcome = theirs.run(repo, "t", "--agent", "mine")
    become = ["setpriv", "--reuid", str(OTHER), "--regid", str(OTHER), "--clear-groups"]
    for words in (
        ["merge", "-q", outcome.attempt["branch"]],
        ["branch", "-D", outcome.attempt["branch"]],
        ["gc", "-q"],
    ):
        done = subprocess.run(
            [*become, "git", *words], cwd=repo.folder, env=theirs.env, capture_output=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
    assert (repo.folder / "x").read_text() == "x\n"


def test_root_on_a_repository_of_another_user_in_roots_own_folder(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    repo = corral.repo()
    own(repo.folder, OTHER)
    before = repo.fingerprint()
    outcome = corral.run(repo, "t", "--agent", "mine", "--retries", "0")
    if outcome.code == 0:
        assert repo.read(outcome.attempt["commit"], "x") == "x"
    else:
        assert outcome.code == 2, outcome
        assert outcome.err.startswith("error: ")
        assert "hint: " in outcome.err
    assert owners(repo.folder) == {OTHER}
    assert repo.fingerprint() == before


def test_root_on_a_plain_folder_of_another_user(theirs: Corral) -> None:
    folder = theirs.root / "plain"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    own(folder, OTHER)
    outcome = theirs.run(folder, "t", "--agent", "mine")
    assert outcome.code == 0, outcome
    assert owners(folder) == {OTHER}
    assert [path.name for path in folder.iterdir()] == ["a.txt"]


def test_a_file_that_only_the_owner_may_read_is_seen_by_the_agent(theirs: Corral) -> None:
    repo = theirs.repo()
    (repo.folder / "a.txt").chmod(0o600)
    own(repo.folder, OTHER)
    outcome = theirs.run(repo, "t", "--agent", "mine")
    assert "one" in outcome.attempt["output"]
