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
#: Of the many that run the installed command, `make quick` tries these alone: one task from its start to its merge.
QUICK = ("test_run", "test_checks", "test_merge")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem not in QUICK:
            item.add_marker(pytest.mark.slow)


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
