"""Compile the programs of the package when a C compiler is there; the launchers have twins in Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("sandbox/launcher", "sandbox/inner", "workspace/mount_overlay")


class LauncherHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._note_commit(version, build_data)
        folder = Path(self.root, "src", "corral", "world")
        compiler = shutil.which("cc") or shutil.which("gcc")
        if self.target_name != "wheel" or not (folder / f"{PROGRAMS[0]}.c").exists() or compiler is None:
            return
        for name in PROGRAMS:
            # Put in its place whole: somebody may run the one that is there at this very moment.
            fresh = (folder / name).with_name(f".{Path(name).name}-{os.getpid()}")
            built = subprocess.run(
                [compiler, "-O2", "-static", "-s", "-Wall", "-Werror", "-o", str(fresh), f"{folder / name}.c"],
                check=False,
                capture_output=True,
                text=True,
            )
            if built.returncode != 0:
                print(f"corral: no {name} built, the Python twins will be used: {built.stderr.strip()[:400]}")
                return
            fresh.replace(folder / name)
        build_data["artifacts"] += [f"src/corral/world/{name}" for name in PROGRAMS]
        build_data["pure_python"] = False
        place = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{place}"  # programs of their own, for any Python

    def _note_commit(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the commit that is built into the package, for `corral --version`."""
        git = shutil.which("git")
        if version == "editable" or git is None or not Path(self.root, ".git").exists():
            return
        words = [git, "-C", self.root, "rev-parse", "--short=12", "HEAD"]
        found = subprocess.run(words, check=False, capture_output=True, text=True)
        if found.returncode == 0:
            with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
                file.write(found.stdout)
            place = "corral/build.txt" if self.target_name == "wheel" else "src/corral/build.txt"
            build_data["force_include"][file.name] = place
