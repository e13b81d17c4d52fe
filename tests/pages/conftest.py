"""What tests of the page share: one browser for a module, a server for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.rig.browser import Eyes, looking, started
from tests.rig.command import Corral
from tests.rig.quickness import is_left_out
from tests.rig.repository import Repo
from tests.rig.server import Server, serving


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(collection_path, config) or None


# Not for longer: as long as Playwright is there, nothing else in this process can run an event loop of its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as going:
        yield going


@pytest.fixture
def repo(corral: Corral) -> Repo:
    return corral.repo()


@pytest.fixture
def server(corral: Corral) -> Iterator[Server]:
    with serving(corral, corral.root) as going:
        yield going


@pytest.fixture
def eyes(browser: Browser, server: Server) -> Iterator[Eyes]:
    with looking(browser, server) as going:
        yield going
