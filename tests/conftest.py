"""What all tests may ask for."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.rig.command import Corral

settings.register_profile("corral", deadline=None)  # no test asserts a time
settings.load_profile("corral")


@pytest.fixture
def corral(tmp_path: Path) -> Corral:
    """The installed command, with a state folder, settings and a home of its own."""
    return Corral(tmp_path)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="corral-open-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
