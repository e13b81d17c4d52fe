"""What `make quick` leaves out before it is imported: collecting costs each of its processes seconds."""

from collections.abc import Container
from pathlib import Path

import pytest


def is_left_out(path: Path, config: pytest.Config, kept: Container[str] = ()) -> bool:
    """Return whether a file holds slow tests alone and only others are asked for; `kept` names modules that hold some."""
    return config.getoption("markexpr") == "not slow" and path.name.startswith("test_") and path.stem not in kept
