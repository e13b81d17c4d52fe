"""More than a hundred attempts to get out of a box, judged from outside: exactly these succeed, at each level, for root and for a person."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.rig.escapes import harness, hostile
from tests.rig.person import UID, own

pytestmark = pytest.mark.slow  # left out of `make quick`

#: Without a root of its own: no hole can be cut into a workspace, and what is not a file's content is not judged.
LANDLOCK = {
    "g_own_config", "g_own_hook", "g_own_hook_swapped", "g_own_replaced", "n_unix_path", "r_hidden",
    "r_hidden_renamed", "r_list_processes", "r_stat_hidden", "w_readonly", "w_readonly_swapped",
}  # fmt: skip
#: What a person without rights cannot do on any machine, or our launcher ends. All else works with no box around it:
#: so each of the others is known to be a real attempt.
REFUSED_ANYWAY = {
    "b_memory_devices", "n_bluetooth_or_crypto", "n_packet", "n_raw", "n_route", "p_daemon", "r_any_cmdline", "r_disks",
    "r_env_leak", "r_kernel_log", "r_kernel_memory", "r_shadow", "w_device", "w_open_by_handle",
    "w_proc_1_root", "x_become_root", "x_bpf", "x_capabilities", "x_chroot", "x_control_group",
    "x_core_pattern", "x_module", "x_mount", "x_new_mount_calls", "x_perf", "x_remount", "x_schedule",
    "x_setns", "x_sysctl", "x_sysrq", "x_unmount_guard",
}  # fmt: skip
ALL = {name for name in (*hostile.ATTEMPTS, *(bomb.__name__ for bomb in hostile.BOMBS)) if not name.startswith("ok_")}
EXPECTED: dict[tuple[str, str], set[str]] = {
    ("root", "full"): set(),
    ("root", "strict"): set(),
    ("root", "landlock"): LANDLOCK,
    ("person", "strict"): set(),
    ("person", "landlock"): LANDLOCK | {"p_limit_victim", "p_nice_victim", "w_chmod", "w_utime", "w_xattr"},
    ("person", "none"): ALL - REFUSED_ANYWAY,
}


def escaped(installed: Path, folder: Path, level: str, who: str, kind: str = "clone") -> dict[str, list[str]]:
    """Let the prisoner loose at a level; return what got through and what did not work."""
    shutil.copytree(Path(harness.__file__).parent, folder / "escapes")
    (folder / "trial").mkdir()
    become: list[str] = []
    if who == "person":
        own(folder)
        become = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
    argv = [*become, str(installed.with_name("python")), "-m", "escapes.harness", level, str(folder / "trial"), kind]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


#: The levels that most users have, and the proof that the attempts are real. The others are tried by night.
BY_DAY = {("root", "full"), ("person", "strict"), ("person", "none")}


def _parameters(who: str, level: str) -> object:
    marks = [] if (who, level) in BY_DAY else [pytest.mark.night("the same attempts at a level that few users have")]
    return pytest.param(who, level, id=f"{who}-{level}", marks=marks)


@pytest.mark.parametrize(("who", "level"), [_parameters(who, level) for who, level in EXPECTED])
def test_exactly_these_get_through(installed: Path, open_folder: Path, who: str, level: str) -> None:
    told = escaped(installed, open_folder, level, who)
    assert set(told["through"]) == EXPECTED[who, level]
    assert told["failed"] == []


@pytest.mark.night("the same attempts in the other kind of workspace")
@pytest.mark.parametrize("level", ["full", "strict", "landlock"])
def test_exactly_these_get_through_from_an_overlay(installed: Path, open_folder: Path, level: str) -> None:
    told = escaped(installed, open_folder, level, "root", "overlay")
    assert set(told["through"]) == EXPECTED["root", level]
    assert told["failed"] == []
