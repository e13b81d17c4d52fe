"""Compile the box launcher into the package when a C compiler is there; without one its Python twin is used."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LauncherHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        folder = Path(self.root, "src", "corral", "world", "sandbox")
        source, program = folder / "launcher.c", folder / "launcher"
        compiler = shutil.which("cc") or shutil.which("gcc")
        if self.target_name != "wheel" or not source.exists() or compiler is None:
            return
        built = subprocess.run(
            [compiler, "-O2", "-static", "-s", "-Wall", "-Werror", "-o", str(program), str(source)],
            check=False,
            capture_output=True,
            text=True,
        )
        if built.returncode != 0:
            print(f"corral: no launcher built, its Python twin will be used: {built.stderr.strip()[:400]}")
            return
        build_data["artifacts"].append("src/corral/world/sandbox/launcher")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
