"""Version, build and extras of this package."""

from __future__ import annotations

import os
import sys

__version__ = "0.1.0"
EXTRAS = {"api": "pydantic_ai", "otel": "opentelemetry.sdk"}  #: and a module by which each is known


def describe() -> str:
    """Say which Corral this is: its version and build, and the extras that are installed."""
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 -- pathlib is slow to import
    commit = _read(f"{folder}/build.txt") or _checkout_commit(f"{folder}/../../.git")
    compiled = os.path.exists(f"{folder}/world/sandbox/launcher")  # noqa: PTH110
    machine = os.uname()
    facts = [f"commit {commit}"] if commit else []
    facts += [f"Python {sys.version.split()[0]}", f"{machine.sysname} {machine.machine}"]
    facts += ["compiled launcher" if compiled else "Python launcher"]
    extras = [name for name, module in EXTRAS.items() if _is_installed(module)]
    return f"corral {__version__} ({', '.join(facts)})\nextras: {', '.join(extras) or 'none'}\n"


def _checkout_commit(git: str) -> str:
    """Return the commit of the checkout that this runs from; empty where it is none."""
    head = _read(f"{git}/HEAD")
    return (_read(f"{git}/{head.removeprefix('ref: ')}") if head.startswith("ref: ") else head)[:12]


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as stream:  # noqa: PTH123
            return stream.read().strip()
    except OSError:
        return ""


def _is_installed(module: str) -> bool:
    from importlib.util import find_spec  # noqa: PLC0415

    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False
