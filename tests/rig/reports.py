"""Small projects whose checks run beside our reporters, without a box; and what the reporters said."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from corral.machines import checks
from corral.model import Report, TestOrder
from corral.world.workspace.checkout import Workspace

PATH = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])

#: pytest without the plug-ins that happen to be installed beside our own tests: they take most of its time.
PLAIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


class Ran(NamedTuple):
    """A check that was run."""

    code: int
    output: str
    report: Report | None

    @property
    def seen(self) -> Report:
        assert self.report is not None, self.output
        return self.report


def lay(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def observed(
    folder: Path,
    files: Mapping[str, str],
    command: str,
    env: Mapping[str, str] | None = None,
    order: TestOrder | None = None,
) -> Ran:
    """Run a command in a project of these files and return what our reporters saw."""
    tree = lay(folder / "work", files)
    (folder / "home").mkdir(exist_ok=True)
    base = {
        "PATH": PATH,
        "HOME": str(folder / "home"),
        "LANG": "C.UTF-8",
        "TMPDIR": str(folder),
        **PLAIN,
        **(env or {}),
    }

    async def run() -> Ran:
        async with checks.open_reporter(Workspace(tree), folder, None, command, order) as reporter:
            made = {**base, **reporter.env(base)}
            going = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", reporter.command(command), cwd=tree, env=made,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            out, _ = await going.communicate()
            assert going.returncode is not None
            text = out.decode(errors="replace")
            return Ran(going.returncode, text, await reporter.report(going.returncode, text))

    return asyncio.run(run())
