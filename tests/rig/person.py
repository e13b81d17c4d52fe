"""An ordinary user of this machine, for tests that root starts: their own folders, their own installation of corral."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.rig.command import Corral, Outcome

PROJECT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"
UID = 12345


def command(folder: Path) -> Path:
    """Return the command of what is installed in a folder."""
    return folder / "venv" / "bin" / "corral"


def install(folder: Path) -> None:
    """Install this project, as a person would, where every user may read it."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv, "uv is needed: `tools/bootstrap dev` installs it"
    steps = (
        [uv, "venv", "--quiet", "--python", PYTHON, str(folder / "venv")],
        [
            uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(folder / "venv/bin/python"),
            "--refresh-package", "corral", "--reinstall-package", "corral", str(PROJECT),
        ],
    )  # fmt: skip
    for step in steps:
        done = subprocess.run(step, capture_output=True, check=False, timeout=240)
        assert done.returncode == 0, done.stderr.decode()


def own(folder: Path, uid: int = UID) -> None:
    """Give a folder and all in it to a user."""
    os.chown(folder, uid, uid)
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.lchown(Path(root, name), uid, uid)


def owners(folder: Path) -> set[int]:
    """Return to whom anything in a folder belongs."""
    found = {folder.lstat().st_uid}
    for root, folders, files in os.walk(folder):
        found |= {Path(root, name).lstat().st_uid for name in (*folders, *files)}
    return found


class Person(Corral):
    """Types commands as user `UID`; whatever a test puts into their folder is theirs."""

    def __init__(self, root: Path, program: Path) -> None:
        become = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--no-new-privs"]
        super().__init__(root, [*become, str(program)])

    def __call__(self, *arguments: str | Path, **more: Any) -> Outcome:
        self.settle()
        return super().__call__(*arguments, **more)

    def settle(self) -> None:
        """Make all that root wrote for them theirs."""
        own(self.root)
