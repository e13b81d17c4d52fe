"""The launcher and its twin: same arguments, same steps, nobody left behind."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import corral.world.sandbox
from corral.world.sandbox import cgroup
from tests.rig.boxes import control_groups
from tests.rig.tagged import tagged_processes
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
        until(lambda: tagged_processes(f"SIGN={sign}"), "it runs")
        parent.kill()
    until(lambda: not tagged_processes(f"SIGN={sign}"), "it died with its parent")


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


def own_processes(sign: str) -> list[int]:
    """Return the sleepers that carry a number of ours, whatever they did to their environment."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended while we looked
            if words[0].endswith(b"sleep") and sign.encode() in words:
                found.append(int(folder.name))
    return found


def sign_of(launcher: list[str], place: int) -> str:
    return f"31536000.{os.getpid()}{len(launcher)}{place}"


SHED = "setsid env -i sleep {0} & (env -i setsid -f sleep {0}) & env -i sleep {0} &"  #: no tag, no group, no parent


def test_daemons_that_shed_everything_end_with_the_program_and_are_told(launcher: list[str]) -> None:
    sign = sign_of(launcher, 1)
    told, tells = os.pipe()
    # Only the sleepers themselves are counted: the script stands in the command lines of its shell and its launcher.
    script = f"{SHED.format(sign)} while [ $(pgrep -cxf 'sleep {sign}') -lt 3 ]; do :; done; exit 7"
    done = subprocess.run(
        [*launcher, "-p", str(os.getpid()), "-r", str(tells), "--", "sh", "-c", script], pass_fds=[tells], check=False
    )
    os.close(tells)
    assert done.returncode == 7
    assert own_processes(sign) == []
    with os.fdopen(told) as lines:
        assert [line.split()[1] for line in lines].count("sleep") == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_polite_signal_reaches_the_program(launcher: list[str], number: signal.Signals) -> None:
    script = "trap 'echo heard; exit 3' TERM INT HUP; echo ready; while :; do sleep 0.02; done"
    # What is ignored here is not ignored there: a shell cannot trap what it finds ignored.
    words = ["env", "--ignore-signal=INT,HUP", *launcher, "--", "sh", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.read() == b"heard\n"
    assert process.returncode == 3


def test_no_signal_is_ignored_for_the_program(launcher: list[str]) -> None:
    words = [
        "env",
        "--ignore-signal=INT,HUP,QUIT,TERM,USR2,PIPE",
        *launcher,
        "--",
        "grep",
        "SigIgn",
        "/proc/self/status",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout.split()[1], 16) & 0x7FFFFFFF == 0  # 32 and 33 are the C library's own


def test_the_other_signal_ends_everything_at_once(launcher: list[str]) -> None:
    sign = sign_of(launcher, 2)
    script = f"trap '' TERM INT HUP USR1; {SHED.format(sign)} sleep {sign}"
    with subprocess.Popen([*launcher, "--", "sh", "-c", script]) as process:
        until(lambda: len(own_processes(sign)) == 4, "all run")
        process.send_signal(signal.SIGUSR1)
    assert process.returncode == -signal.SIGKILL
    assert own_processes(sign) == []


def test_it_ends_as_the_program_ended(launcher: list[str]) -> None:
    assert launch(launcher, "--", "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM
    assert launch(launcher, "--", "sh", "-c", "kill -KILL $$").returncode == -signal.SIGKILL


def test_killed_itself_it_takes_the_program_along(launcher: list[str]) -> None:
    sign = sign_of(launcher, 3)
    with subprocess.Popen([*launcher, "--", "sleep", sign]) as process:
        until(lambda: own_processes(sign), "it runs")
        process.kill()
    until(lambda: not own_processes(sign), "it died with the launcher")


def test_it_keeps_nothing_open_that_is_the_programs(launcher: list[str]) -> None:
    ours, theirs = os.pipe()
    with subprocess.Popen(
        [*launcher, "--", "sh", "-c", f"exec {theirs}>&-; echo open; sleep 987"],
        stdout=subprocess.PIPE,
        pass_fds=[theirs],
    ) as process:
        os.close(theirs)
        assert process.stdout
        process.stdout.readline()
        with os.fdopen(ours, "rb") as reading:
            assert reading.read() == b""  # nobody holds its other end any more
        process.send_signal(signal.SIGUSR1)


def test_a_line_is_run_when_all_is_over(launcher: list[str], tmp_path: Path) -> None:
    for number, wanted in (("0", 0), ("1", -9)):
        file = tmp_path / number
        end = "exit 0" if wanted == 0 else "kill -9 $$"
        assert launch(launcher, "-a", f"echo over > {file}", "--", "sh", "-c", end).returncode == wanted
        assert file.read_text() == "over\n"


@pytest.mark.slow
@pytest.mark.parametrize("level", ["full", "strict", "landlock", "none"])
def test_kill_9_at_any_moment_leaves_nobody(launcher: list[str], open_folder: Path, level: str) -> None:
    """The first hundred milliseconds of a box, cut off anywhere: no process of it lives on."""
    program = """
import asyncio, sys
from pathlib import Path
from corral.world import process
from corral.world.process import ProcessLimits
from corral.world.sandbox.confine import confine
from tests.rig.boxes import box_in
folder, level, tag, script = sys.argv[1:]
listeners = (8118,) if level in ("full", "strict") else ()
async def main():
    print("now", flush=True)
    with confine(["sh", "-c", script], box_in(Path(folder), listeners=listeners), level, tag=tag) as start:
        await process.follow(start, ProcessLimits(), lambda *_: None, lambda *_: None, asyncio.Event())
asyncio.run(main())
"""
    env = {**os.environ, "PYTHONPATH": "."}
    if len(launcher) > 1:
        env["CORRAL_PYTHON_LAUNCHER"] = "1"
    chosen = random.Random(level)
    for place in range(12):
        sign, tag = sign_of(launcher, 100 + place), f"storm-{os.getpid()}-{level}-{len(launcher)}-{place}"
        script = f"{SHED.format(sign)} sleep {sign}"
        argv = [sys.executable, "-c", program, str(open_folder), level, tag, script]
        with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as engine:
            assert engine.stdout
            engine.stdout.readline()
            time.sleep(chosen.uniform(0.0, 0.1))  # the moment is what is tried, not waited for
            engine.kill()
        until(
            lambda sign=sign, tag=tag: not own_processes(sign) and not tagged_processes(f"CORRAL_ATTEMPT={tag}"),
            "all gone",
        )
    if level == "full":  # what the last one left is removed when the next is made
        cgroup.make("storm-after", memory_mb=None, processes=None).remove()
    assert control_groups(f"storm-{os.getpid()}-") == []


def test_it_limits_data_and_processor_time(launcher: list[str]) -> None:
    words = "ulimit -d; ulimit -t; ulimit -H -d; ulimit -H -t"
    limited = launch(launcher, "-d", "409600", "-t", "77", "--", "sh", "-c", words)
    assert limited.stdout.split() == ["409600", "77"] * 2
    stricter = launch(launcher, "-t", "50", "--", *launcher, "-t", "40", "--", "sh", "-c", words)
    assert stricter.stdout.split()[1] == "40"
