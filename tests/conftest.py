"""What all tests may ask for."""

from pathlib import Path

import pytest

from tests.rig.command import Corral


@pytest.fixture
def corral(tmp_path: Path) -> Corral:
    """The installed command, with a state folder, settings and a home of its own."""
    return Corral(tmp_path)
