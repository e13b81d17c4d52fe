"""One user and one process of `corral acp` for all tests of this folder: each works in a repository of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.command import Corral
from tests.rig.editor import Editor, choosing, editor
from tests.rig.quickness import is_left_out
from tests.rig.repository import Repo

#: What an agent plans: it writes said.txt in two nodes.
NODES = {"say": {"task": "say it", "agent": "mine"}, "again": {"task": "again", "agent": "mine", "needs": ["say"]}}
PLAN = {"flow": {"name": "twice", "nodes": NODES}}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(collection_path, config) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def user(tmp_path_factory: pytest.TempPathFactory) -> Corral:
    return equipped(tmp_path_factory.mktemp("acp"))


def equipped(folder: Path) -> Corral:
    """Return someone with two agents: one writes what its task says, one waits until it is ended."""
    corral = Corral(folder)
    corral.agent("mine", 'echo "I write it"; echo "$1" > said.txt', "cost_usd = 0.25")
    corral.agent("slow", "echo begun > begun.txt; echo I wait; sleep 9876.5")
    corral.agent("planner", f"echo '{json.dumps(PLAN)}'")
    corral.config('[defaults]\nagent = "mine"\n[retry]\ndelay_seconds = 0.01\n')
    return corral


@pytest.fixture(scope="session")
def opened(user: Corral) -> Iterator[Editor]:
    with editor(user) as client:
        client.initialize()
        yield client


@pytest.fixture
def newcomer(tmp_path: Path) -> Corral:
    """Someone for whom nothing of other tests waits."""
    return equipped(tmp_path)


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
