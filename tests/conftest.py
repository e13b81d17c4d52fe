"""What all tests may ask for."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.rig.command import Corral
from tests.rig.dealing import deal
from tests.rig.postgres import Server, server
from tests.rig.spending import Spending
from tests.rig.tries import BY_NIGHT, tries

settings.register_profile("corral", deadline=None, derandomize=not BY_NIGHT, max_examples=tries(100))
settings.load_profile("corral")  # and no test asserts a time


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="where commands keep their runs; `postgres` runs the tests marked `both_stores` alone",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Spending())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked `night` out by day, then deal the others out to the processes."""
    left_out = set[pytest.Item]() if BY_NIGHT else {item for item in items if item.get_closest_marker("night")}
    if config.getoption("store") == "postgres":
        left_out |= {item for item in items if not item.get_closest_marker("both_stores")}
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
    if processes := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
        items[:] = deal(items, processes)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server, started when a test first asks for it."""
    with server() as started:
        yield started


@pytest.fixture
def corral(tmp_path: Path, request: pytest.FixtureRequest) -> Corral:
    """The installed command, with a state folder, settings and a home of its own; and with a database, by `--store`."""
    made = Corral(tmp_path)
    if request.config.getoption("store") == "postgres":
        made.env["CORRAL_STORE"] = request.getfixturevalue("postgres").database()
    return made


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="corral-open-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
