"""Our two programs around an agent: the launcher outside the box, and the inner one in it; compiled, or their twins."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from corral.world.sandbox.program_files import needs

FOLDER = Path(__file__).parent
IN_BOX = "/run/box/inner"  #: where the inner one stands in a box


def kind() -> Literal["compiled", "python"]:
    """Tell which of them are used."""
    compiled = all(os.access(FOLDER / name, os.X_OK) for name in ("launcher", "inner"))
    return "compiled" if compiled and not os.environ.get("CORRAL_PYTHON_LAUNCHER") else "python"


def launcher() -> list[str]:
    """Return the launcher: the compiled one, or its twin."""
    if kind() == "compiled":
        return [str(FOLDER / "launcher")]
    return [sys.executable, "-IS", str(FOLDER / "launcher.py")]


def inner(*, boxed: bool) -> tuple[list[Path], list[str]]:
    """Return the files the inner launcher needs, itself first, and the command that starts it."""
    if kind() == "compiled":
        program = FOLDER / "inner"
        return [program], [IN_BOX if boxed else str(program)]
    program = FOLDER / "inner.py"
    python = Path(sys.executable)
    return [program, *needs(python, os.environ)], [str(python), "-IS", IN_BOX if boxed else str(program)]
