"""Find out which level this machine holds, by running the real profile once; say what a better one lacks."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct

from corral.model import Level
from corral.model.errors import CorralError
from corral.model.missing_programs import telling_line
from corral.world import machine_limits, process
from corral.world.process import ProcessStart
from corral.world.sandbox import other_boxes, profile, program_files
from corral.world.sandbox.confine import agent_owner, confine, home_in_box
from corral.world.sandbox.profile import Box, LauncherKind

#: From the weakest to the strongest; landlock and seatbelt are worth the same.
ORDER: tuple[Level, ...] = get_args(Level)[::-1]  #: the weakest first
TRIAL_SECONDS = 30.0
MOST_WORDS = 300  #: characters of what a program complains of
PORT = 8117  #: any will do: the box's loopback is its own
INSTALL_BUBBLEWRAP = "sudo apt-get install bubblewrap"
DELEGATE = "systemd-run --user --scope -p Delegate=yes corral ..."
LANDLOCK = 'add "landlock" to the kernel\'s lsm= list, on Linux 6.7 or later'
KERNEL_SETTINGS = Path("/proc/sys")


class MissingLevel(Struct, frozen=True):
    """A level that does not hold here: why, and the one command that helps."""

    level: Level
    reason: str
    remedy: str


class ProbeResult(Struct, frozen=True):
    """The level that holds here, and why no better one does."""

    level: Level
    reason: str = ""
    remedy: str = ""
    wanting: tuple[MissingLevel, ...] = ()  #: each better level of this system, the best first
    launcher: LauncherKind = "compiled"

    def lacks(self, level: Level) -> MissingLevel:
        """Say why a level that is asked for does not hold."""
        found = [each for each in self.wanting if each.level == level]
        return found[0] if found else MissingLevel(level, self.reason or f"there is no {level} here", self.remedy)


def default_level() -> Level:
    """Return the level that is asked for where nobody names one."""
    return "seatbelt" if sys.platform == "darwin" else "strict"


def is_at_least(level: Level, required: Level) -> bool:
    """Tell whether a level is as good as the one required."""
    return ORDER.index(level) >= ORDER.index("seatbelt" if required == "landlock" else required)


async def probe(cache: Path) -> ProbeResult:
    """Return the level; a good answer is remembered for this kernel, user, bubblewrap and launcher."""
    key = _key()
    with contextlib.suppress(OSError, msgspec.DecodeError):  # not asked yet, or not readable: ask now
        remembered = msgspec.json.decode(cache.read_bytes(), type=dict[str, ProbeResult])
        if key in remembered:
            return remembered[key]
    held = await _best(cache.parent)
    if is_at_least(held.level, "strict"):
        with contextlib.suppress(OSError):  # it only saves time
            cache.write_bytes(msgspec.json.encode({key: held}))
    return held


def _key() -> str:
    bwrap = shutil.which("bwrap")
    made = Path(bwrap).stat().st_mtime_ns if bwrap else 0
    own = [Path(each).stat().st_mtime_ns for each in (profile.launcher()[-1], profile.inner(boxed=False)[1][-1])]
    groups = zlib.crc32(_own_groups())  # a group that was handed to us decides about the best level
    return f"3 {platform.release()} {os.getuid()} {bwrap} {made} {profile.kind()} {own} {groups}"


def _own_groups() -> bytes:
    try:
        return Path("/proc/self/cgroup").read_bytes()
    except OSError:
        return b""


async def _best(state: Path) -> ProbeResult:
    """Try each level of this system, the best first, until one holds."""
    levels: tuple[Level, ...] = ("full", "strict", "container", "landlock")
    if sys.platform != "linux":
        levels = ("container", "seatbelt") if sys.platform == "darwin" else ()
    wanting: list[MissingLevel] = []
    for level in levels:
        lacking = await _try(level, state)
        if lacking is None:
            return _probe_result(level, wanting)
        wanting.append(lacking)
    return _probe_result("none", wanting)


def _probe_result(level: Level, wanting: list[MissingLevel]) -> ProbeResult:
    """Answer; the reason for the default level comes first."""
    relevant = [each for each in wanting if each.level in ("strict", "seatbelt")] or wanting
    if not relevant and level == "none":
        relevant = [MissingLevel("strict", f"{sys.platform} has no sandbox of ours", "run corral on Linux, or in WSL2")]
    first = relevant[0] if relevant else MissingLevel(level, "", "")
    return ProbeResult(level, first.reason, first.remedy, tuple(wanting), profile.kind())


async def _try(level: Level, state: Path) -> MissingLevel | None:
    """Run the real profile of a level; return what is wanting, or None if it holds."""
    if level in ("full", "strict") and not shutil.which("bwrap"):
        return MissingLevel(level, "bubblewrap is not installed: no bwrap on the PATH", INSTALL_BUBBLEWRAP)
    try:
        if level == "container" and (lacking := await _container()):
            return lacking
        place = state if os.access(state, os.W_OK) else None  # else where temporary files are
        with tempfile.TemporaryDirectory(prefix="probe-", dir=place) as name:
            said = await _run(level, Path(name))
    except (CorralError, OSError) as error:  # whatever is wrong: it does not hold
        if short := machine_limits.of(error):
            raise short from error
        said = str(error)
    if said and (short := machine_limits.in_words(said)):
        raise short  # that says nothing about the sandbox
    return None if said is None else MissingLevel(level, said, remedy(level, said, state))


async def _run(level: Level, folder: Path) -> str | None:
    """Run `true` in a box; return what went wrong."""
    folder.chmod(0o711)
    home, workspace = folder / "home", folder / "workspace"
    owner = agent_owner("probe")
    for made in (home, workspace):
        made.mkdir()
        if owner:
            os.chown(made, owner.uid, owner.gid)
    listeners = (PORT,) if level in ("full", "strict") else ()
    box = Box(folder=folder, workspace=workspace, home=home, network=False, listeners=listeners, memory_mb=4096)
    with confine(["/usr/bin/true"], box, level, tag="probe") as start:
        finished = await process.run(start, timeout=20)
        if finished.code == 0 and start.listeners:
            for handed in await start.listeners():
                handed.close()
    if finished.code == 0:
        return None
    words = finished.err.decode(errors="replace").strip().splitlines()
    return words[-1] if words else f"the sandbox ended with {finished.code}"


async def _container() -> MissingLevel | None:
    """Ask podman or docker whether it works, and make the empty image that docker needs."""
    run = other_boxes.program()
    if run is None:
        return MissingLevel("container", "neither podman nor docker is installed", "sudo apt-get install podman")
    env = {name: os.environ[name] for name in (*other_boxes.OWN, "PATH") if name in os.environ}
    asked = await process.run(ProcessStart(argv=[run, "info"], env=env), timeout=20)
    if asked.code != 0:
        words = (asked.err or asked.out).decode(errors="replace").strip().splitlines()
        reason = words[-1] if words else f"`{Path(run).name} info` ended with {asked.code}"
        return MissingLevel("container", reason, f"start it: `{Path(run).name} info` must succeed")
    if Path(run).name == "docker":
        with tempfile.TemporaryDirectory() as name:
            packed = shutil.make_archive(str(Path(name, "empty")), "tar", other_boxes.root(Path(name)))
            await process.run(ProcessStart(argv=[run, "import", packed, other_boxes.EMPTY], env=env), timeout=60)
    return None


def remedy(level: Level, words: str, state: Path, settings: Path = KERNEL_SETTINGS) -> str:
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
    """Return the setting that is in the way of user namespaces."""
    if _kernel_value(settings / "kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    if _kernel_value(settings / "kernel/unprivileged_userns_clone") == "0":
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if _kernel_value(settings / "user/max_user_namespaces") == "0":
        return "sudo sysctl -w user.max_user_namespaces=15000"
    return "sudo sysctl -w kernel.unprivileged_userns_clone=1 (in docker: --security-opt seccomp=unconfined)"


def _kernel_value(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except OSError:
        return None


# --- one program in the box


async def try_start(program: Path, arguments: Sequence[str], level: Level, state: Path) -> str:
    """Start a program alone in a box, without a network; return what it complains of, or nothing."""
    tag = f"trial-{secrets.token_hex(6)}"
    with tempfile.TemporaryDirectory(prefix="trial-", dir=state, ignore_cleanup_errors=True) as name:
        folder, owner = Path(name), agent_owner(tag)
        folder.chmod(0o711)
        for made in (folder / "home", folder / "work"):
            made.mkdir()
            if owner:
                os.chown(made, owner.uid, owner.gid)
        try:
            argv = [str(program_files.path_to_start(program)), *arguments]
            with confine(argv, _trial_box(program, folder, level), level, tag=tag) as start:
                ended = await process.run(start, timeout=TRIAL_SECONDS)
        except (CorralError, OSError) as error:
            return str(error)
    said = telling_line((ended.err.strip() or ended.out).decode(errors="replace"))
    return "" if ended.code == 0 else f"it ended with {ended.code}" + (f": {said[:MOST_WORDS]}" if said else "")


def _trial_box(program: Path, folder: Path, level: Level) -> Box:
    """Return a box that shows what an agent's box shows of a program."""
    shown, path = program_files.toolchains(os.environ, Path.home())
    found = program_files.interpreter(program.resolve(), os.environ)
    first = [str(found.parent)] if found and not program_files.is_system(found) else []
    bare = Box(folder=folder, workspace=folder / "work", home=folder / "home")
    return Box(
        folder=bare.folder,
        workspace=bare.workspace,
        home=bare.home,
        readable=(*shown, *program_files.needs(program, os.environ)),
        env={
            "PATH": os.pathsep.join([*first, *path, *program_files.SYSTEM_PATH]),
            "HOME": home_in_box(bare, level),
            "NO_COLOR": "1",
        },
        network=False,
    )
