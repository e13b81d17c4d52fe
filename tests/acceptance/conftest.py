"""What acceptance tests may ask for besides the command itself."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.person import Person, install

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def installed() -> Iterator[Path]:
    """The command, installed where every user of this machine may read it."""
    folder = Path(tempfile.mkdtemp(prefix="corral-installed-"))
    folder.chmod(0o755)
    yield install(folder)
    shutil.rmtree(folder)


@pytest.fixture
def sleep() -> str:
    """How long an agent sleeps: so long that it must be ended, and so odd that its process is found by it."""
    return f"9{os.getpid()}.{next(NUMBERS)}25"


@pytest.fixture
def person(installed: Path, open_folder: Path) -> Person:
    """An ordinary user with the command installed."""
    return Person(open_folder / "person", installed)
