"""A clock that is set while a run is driven: durations stay what they were."""

import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.rig.command import Corral

pytestmark = pytest.mark.slow  # left out of `make quick`

DAY = 86_400
SHIM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t which, struct timespec *now) {
  char text[32] = {0};
  int result = syscall(SYS_clock_gettime, which, now);
  int file = which == CLOCK_REALTIME ? open(getenv("SHIFT_FILE"), O_RDONLY) : -1;
  if (file >= 0) {
    if (read(file, text, sizeof text - 1) > 0) now->tv_sec += atol(text);
    close(file);
  }
  return result;
}
"""


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """Build a library that moves the wall clock of a program by as many seconds as a file says."""
    source, built = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source], check=True, timeout=60)
    return built


@pytest.mark.parametrize("jump", [-DAY, DAY])
def test_durations_do_not_follow_a_clock_that_jumps(corral: Corral, shim: Path, jump: int) -> None:
    repo, shift = corral.repo(), corral.root / "shift"
    shift.write_text("0")
    corral.env |= {"LD_PRELOAD": str(shim), "SHIFT_FILE": str(shift)}
    agent = corral.script(
        '[[step]]\nsay = "ready"\n[[step]]\nrun = "until test -e go; do sleep 0.05; done; echo x > x"\n'
    )
    with corral.going("run", "t", "--repo", repo.folder, "--agent", agent, "--json") as going:
        corral.until_said("ready")
        shift.write_text(str(jump))
        next((corral.home / "workspaces").glob("*/work")).joinpath("go").touch()
        outcome = going.end()
    assert (outcome.code, outcome.json["status"]) == (0, "done"), outcome
    listed = corral("ls", "--json").json[0]
    for seconds in (outcome.json["seconds"], outcome.attempt["seconds"], listed["seconds"]):
        assert 0 < seconds < 600
    shown = corral("show", "@last", "--json").json
    assert (shown["seconds"], shown["started"]) == (outcome.json["seconds"], outcome.json["started"])


def noon_on_the_tenth() -> int:
    """Return the seconds until noon on the tenth of the next month: neither a day nor a month ends soon then."""
    now = datetime.now().astimezone()
    following = now.replace(day=1) + timedelta(days=32)
    return int((following.replace(day=10, hour=12, minute=0) - now).total_seconds())


@pytest.mark.parametrize(("limit", "within", "over"), [("--per-day", DAY // 4, DAY), ("--per-month", DAY, 32 * DAY)])
def test_what_is_reserved_for_unknown_cost_ends_with_its_window(
    corral: Corral, shim: Path, limit: str, within: int, over: int
) -> None:
    repo, shift, start = corral.repo(), corral.root / "shift", noon_on_the_tenth()
    shift.write_text(str(start))
    corral.env |= {"LD_PRELOAD": str(shim), "SHIFT_FILE": str(shift)}
    corral.config("[budget]\nunknown_cost_usd = 0.6\n")
    assert corral("budget", "set", limit, "1.0").code == 0
    agent = corral.agent(
        "mute", "echo x > x.txt; echo '{}'", 'output = "jsonl"\ncost = "usd"'
    )  # it does not say what it cost
    assert corral.run(repo, "t", "--agent", agent).code == 0
    window = limit.removeprefix("--per-")
    assert corral("budget", "--json").json[window] == {"spent": 0.0, "reserved": 0.6}
    shift.write_text(str(start + within))
    assert corral("budget", "--json").json[window] == {"spent": 0.0, "reserved": 0.6}
    refused = corral.run(repo, "t", "--agent", agent)
    assert refused.code == 4, refused
    shift.write_text(str(start + over))
    assert corral("budget", "--json").json[window] == {"spent": 0.0, "reserved": 0.0}
    assert corral.run(repo, "t", "--agent", agent).code == 0
