"""Where the strict box does not hold: refused with the reason and the remedy, or, if the person says so, told."""

import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.test_bad_requests import refused
from tests.rig.command import Corral
from tests.rig.levels import BOXED
from tests.rig.mounts import in_private_mounts
from tests.rig.person import Person
from tests.rig.processes import gone, running
from tests.rig.waiting import until

pytestmark = pytest.mark.slow  # left out of `make quick`


def with_bubblewrap(corral: Corral, *script: str) -> Corral:
    """Give the same person a machine where bubblewrap is this script, or is not there."""
    fake = corral.root / "bwrap"
    fake.write_text("\n".join(script))
    fake.chmod(0o755 if script else 0o644)
    with in_private_mounts(f"mount --bind {fake} /usr/bin/bwrap", corral.program) as program:
        corral.program = program
    return corral


@pytest.fixture
def bare(corral: Corral) -> Corral:
    return with_bubblewrap(corral)


def test_without_bubblewrap_nothing_starts(bare: Corral) -> None:
    bare.agent("mine", "echo x > x")
    outcome = bare.run(bare.repo(), "t", "--agent", "mine")
    refused(outcome, "strict", "bubblewrap is not installed", hint="apt-get install bubblewrap")
    assert "--allow-unsandboxed" in outcome.err
    assert bare("ls", "--json").json == []
    report = bare("doctor", "--json")
    assert report.code == 1
    assert [part["name"] for part in report.json["parts"] if not part["ok"]] == ["sandbox"]


def test_a_kernel_that_refuses_is_told_with_the_remedy(corral: Corral) -> None:
    words = "bwrap: No permissions to create new namespace, likely because the kernel does not allow it"
    with_bubblewrap(corral, "#!/bin/sh", f"echo '{words}' >&2; exit 1")
    corral.agent("mine", "echo x > x")
    outcome = corral.run(corral.repo(), "t", "--agent", "mine")
    refused(outcome, "No permissions", hint="sysctl")


@pytest.mark.parametrize("option", [["--allow-unsandboxed"], ["--require-sandbox", "none"]])
def test_without_a_box_if_the_person_says_so_and_the_result_tells(bare: Corral, option: list[str]) -> None:
    bare.agent("mine", 'echo x > x; echo "$HOME"')
    repo = bare.repo()
    outcome = bare.run(repo, "t", "--agent", "mine", "--check", "test -f x", "--retries", "0", *option)
    assert outcome.code == 0, outcome
    assert outcome.attempt["sandbox"]["level"] == "none"
    assert repo.receipt(outcome.attempt["commit"])["sandbox"]["level"] == "none"
    assert outcome.attempt["output"] != str(bare.user_home)
    assert "sandbox none" in bare("show", "@last").out
    assert bare.leavings() == []


def test_the_box_is_used_where_it_holds_even_if_it_is_not_demanded(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", "--allow-unsandboxed")
    assert outcome.attempt["sandbox"]["level"] in BOXED


@pytest.mark.parametrize("ending", ["normal", "timeout", "stop", "kill"])
def test_without_a_box_too_nobody_is_left_behind(bare: Corral, ending: str) -> None:
    sign = f"31536000.{os.getpid()}{len(ending)}"
    wait = "exit 0" if ending == "normal" else f"while :; do sleep {sign}; done"
    bare.agent("mine", f"echo half > half.txt; setsid sleep {sign} & sleep {sign} & echo ready; {wait}")
    repo = bare.repo()
    arguments = ["run", "t", "--repo", str(repo.folder), "--agent", "mine", "--allow-unsandboxed", "--retries", "0"]
    arguments += ["--timeout", "2s"] if ending == "timeout" else []
    with bare.going(*arguments) as run:
        if ending in ("stop", "kill"):
            bare.until_said("ready")
            until(lambda: running(sign), "its processes run")
        if ending == "kill":
            run.signal(signal.SIGKILL)
            run.end()
        if ending in ("stop", "kill"):
            assert bare("stop", "@last").code == 0
        assert ending == "kill" or run.end().code == {"normal": 0, "timeout": 1, "stop": 130}[ending]
    gone(sign)
    attempt = bare("show", "@last", "--json").json["nodes"][0]["attempts"][0]
    assert repo.read(attempt["commit"], "half.txt") == "half"


def test_the_launcher_without_a_compiler(corral: Corral) -> None:
    corral.agent("mine", "echo x > x; id -u")
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", env={"CORRAL_PYTHON_LAUNCHER": "1"})
    assert outcome.code == 0, outcome
    assert outcome.attempt["sandbox"]["level"] in BOXED
    assert outcome.attempt["output"] != "0"


def test_the_launcher_without_a_compiler_for_an_ordinary_user(person: Person) -> None:
    person.agent("mine", "echo x > x")
    outcome = person.run(person.repo(), "t", "--agent", "mine", env={"CORRAL_PYTHON_LAUNCHER": "1"})
    assert outcome.code == 0, outcome
    assert outcome.attempt["sandbox"]["level"] in BOXED


def test_a_login_of_the_person_is_not_readable_by_other_agents(corral: Corral) -> None:
    login = Path(corral.user_home) / ".claude" / ".credentials.json"
    login.parent.mkdir()
    login.write_text("secret login")
    corral.agent("mine", f"cat {login} $HOME/.claude/.credentials.json; echo x > x")
    outcome = corral.run(corral.repo(), "t", "--agent", "mine")
    assert "secret" not in outcome.attempt["output"]
