"""The launcher and its twin: same arguments, same steps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import corral.world.sandbox
from tests.rig.tagged import tagged
from tests.rig.waiting import until

FOLDER = Path(corral.world.sandbox.__file__).parent
LAUNCHERS = {"compiled": [str(FOLDER / "launcher")], "twin": [sys.executable, "-IS", str(FOLDER / "launcher.py")]}


@pytest.fixture(params=list(LAUNCHERS))
def launcher(request: pytest.FixtureRequest) -> list[str]:
    found = LAUNCHERS[request.param]
    assert Path(found[0]).exists(), "the launcher was not compiled: is a C compiler installed?"
    return found


def launch(launcher: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*launcher, *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_it_becomes_the_program(launcher: list[str]) -> None:
    done = launch(launcher, "-p", str(os.getpid()), "--", "sh", "-c", "echo hi; exit 5")
    assert (done.returncode, done.stdout) == (5, "hi\n")


def test_it_drops_the_user_and_shows_what_only_root_may_reach(launcher: list[str], tmp_path: Path) -> None:
    secret = tmp_path / "closed"
    (secret / "shown").mkdir(parents=True)
    (secret / "shown" / "file").write_text("inside")
    (secret / "alone").write_text("alone")
    secret.chmod(0o700)
    show = "id -u; id -G; cat /run/box/0/file /run/box/1; ls " + str(secret)
    done = launch(
        launcher, "-u", "54321", "-g", "54321", "-b", f"{secret}/shown", "-b", f"{secret}/alone", "--", "sh", "-c", show
    )
    assert done.stdout == "54321\n54321\ninsidealone"
    assert "Permission denied" in done.stderr
    assert not Path("/run/box/0").exists()  # nobody else sees it


def test_it_dies_with_its_parent(launcher: list[str]) -> None:
    sign = f"launched-{os.getpid()}-{len(launcher)}"
    script = f"""
import os, subprocess, sys
subprocess.Popen([*{launcher!r}, "-p", str(os.getpid()), "--", "sleep", "987"], env={{"SIGN": "{sign}", "PATH": "/usr/bin:/bin"}})
print("up", flush=True)
sys.stdin.readline()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        parent.stdout.readline()
        until(lambda: tagged(f"SIGN={sign}"), "it runs")
        parent.kill()
    until(lambda: not tagged(f"SIGN={sign}"), "it died with its parent")


def test_an_orphan_starts_nothing(launcher: list[str]) -> None:
    done = launch(launcher, "-p", "1", "--", "echo", "started")
    assert (done.returncode, done.stdout) == (97, "")


@pytest.mark.parametrize(
    "arguments", [["-x"], ["--"], ["-b", "/no/such/place", "--", "true"], ["--", "/no/such/program"]]
)
def test_a_step_that_fails_starts_nothing(launcher: list[str], arguments: list[str]) -> None:
    done = launch(launcher, *arguments)
    assert done.returncode == 97
    assert done.stderr
