"""Other machines as tests have them: `corral host` with a home of its own, started as ssh would."""

import os
import signal
from pathlib import Path

from corral.testing.command import PROGRAM
from tests.rig.command import Corral


def far_home(corral: Corral, name: str = "box1") -> Path:
    return corral.root / f"far-{name}"


def add_machine(corral: Corral, name: str = "box1", settings: str = "", command: str = "") -> str:
    """Let there be a machine; its host knows neither our state nor our settings."""
    far = far_home(corral, name)
    (far / "home").mkdir(parents=True, exist_ok=True)
    words = ["env", f"CORRAL_HOME={far}", f"HOME={far}/home", f"XDG_CONFIG_HOME={far}/config", str(PROGRAM), "host"]
    listed = command or "[" + ", ".join(f'"{word}"' for word in words) + "]"
    corral.config(f"[machines.{name}]\ncommand = {listed}\n{settings}\n")
    return name


def host_pids(corral: Corral, name: str = "box1") -> list[int]:
    """Return the processes of a machine's host, by the state folder in their environment."""
    wanted = f"CORRAL_HOME={far_home(corral, name)}".encode()
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (place / "environ").read_bytes().split(b"\0") and b"host" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def end_hosts(corral: Corral, name: str = "box1", number: int = signal.SIGKILL) -> list[int]:
    found = host_pids(corral, name)
    for pid in found:
        os.kill(pid, number)
    return found
