"""For each reason why a level does not hold, the one command that helps."""

from __future__ import annotations

from pathlib import Path

from corral.model import Level

INSTALL_BUBBLEWRAP = "sudo apt-get install bubblewrap"
DELEGATE = "systemd-run --user --scope -p Delegate=yes corral ..."
LANDLOCK = 'add "landlock" to the kernel\'s lsm= list, on Linux 6.7 or later'
SETTINGS = Path("/proc/sys")


def remedy(level: Level, words: str, state: Path, settings: Path = SETTINGS) -> str:
    """Return the command for what a level's failure said."""
    text = words.lower()
    if "control group" in text or "cgroup" in text:
        return DELEGATE
    if "landlock" in text:
        return LANDLOCK
    if "disable-userns" in text or "unknown option" in text:
        return "bubblewrap 0.8 or later is needed"
    if any(sign in text for sign in ("uid map", "rtm_newaddr", "user namespace", "new namespace", "setting up uid")):
        return _user_namespaces(settings)
    if level == "landlock" and ("permission denied" in text or "97" in text):
        return f"keep the state folder where other users may enter it: CORRAL_HOME is {state}"
    return "in a container: allow user namespaces and mounts (for docker: --security-opt seccomp=unconfined)"


def _user_namespaces(settings: Path) -> str:
    """Return the setting that stands in the way of user namespaces."""
    if _value(settings / "kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    if _value(settings / "kernel/unprivileged_userns_clone") == "0":
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if _value(settings / "user/max_user_namespaces") == "0":
        return "sudo sysctl -w user.max_user_namespaces=15000"
    return "sudo sysctl -w kernel.unprivileged_userns_clone=1 (in docker: --security-opt seccomp=unconfined)"


def _value(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except OSError:
        return None
