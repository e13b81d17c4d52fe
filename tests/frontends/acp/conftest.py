"""One user and one process of `corral acp` for all tests of this folder: each works in a repository of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.editor import Editor, choosing, editor
from tests.rig.repository import Repo


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def user(tmp_path_factory: pytest.TempPathFactory) -> Corral:
    """Someone with two agents: one writes what it is told, one waits until it is ended or `go` is in its folder."""
    corral = Corral(tmp_path_factory.mktemp("acp"))
    corral.agent("mine", 'echo "I write it"; echo "$1" > said.txt', "cost_usd = 0.25")
    corral.agent("slow", "echo begun > begun.txt; echo I wait; sleep 9876.5")
    corral.config('[defaults]\nagent = "mine"\n')
    return corral


@pytest.fixture(scope="session")
def opened(user: Corral) -> Iterator[Editor]:
    with editor(user) as client:
        client.initialize()
        yield client


@pytest.fixture
def client(opened: Editor) -> Editor:
    """The one process, with nothing of earlier tests."""
    opened.got.clear()
    opened.calls.clear()
    opened.reply = choosing("later")
    return opened


@pytest.fixture
def repo(user: Corral, request: pytest.FixtureRequest) -> Repo:
    return user.repo(f"{request.module.__name__}-{request.node.name}")
