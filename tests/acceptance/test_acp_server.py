"""The installed `corral acp` as an editor uses it: a prompt is a run, followed to its merge."""

from collections.abc import Iterator

import pytest

from tests.rig.command import Corral
from tests.rig.editor import Editor, choosing, editor
from tests.rig.repository import Repo


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Corral:
    corral = Corral(tmp_path_factory.mktemp("acp"))
    corral.agent("mine", 'echo "I write it"; echo "$1" > said.txt', "cost_usd = 0.25")
    corral.config('[defaults]\nagent = "mine"\n')
    return corral


@pytest.fixture(scope="module")
def opened(user: Corral) -> Iterator[Editor]:
    with editor(user) as client:
        client.initialize()
        yield client


@pytest.fixture
def client(opened: Editor) -> Editor:
    """The one process of this module, with nothing of earlier tests."""
    opened.got.clear()
    opened.calls.clear()
    opened.reply = choosing("later")
    return opened


@pytest.fixture
def repo(user: Corral, request: pytest.FixtureRequest) -> Repo:
    return user.repo(request.node.name)


def test_a_prompt_is_a_run_that_ends_in_a_merge(client: Editor, repo: Repo) -> None:
    client.reply = choosing("merge")
    session = client.new_session(repo)
    assert client.prompt(session, "write said.txt") == "end_turn"
    attempt, merge = client.updates("tool_call")
    assert attempt["kind"] == "other"
    assert attempt["title"] == "mine: main"
    assert "locations" not in attempt
    assert merge["kind"] == "edit"
    assert merge["content"] == [
        {"type": "diff", "path": str(repo.folder / "said.txt"), "oldText": None, "newText": "write said.txt\n"}
    ]
    assert [
        each["status"] for each in client.updates("tool_call_update") if each["toolCallId"] == merge["toolCallId"]
    ] == [
        "in_progress",
        "completed",
    ]
    plans = [each["entries"][0]["status"] for each in client.updates("plan")]
    assert plans[-1] == "completed"
    assert (repo.folder / "said.txt").read_text() == "write said.txt\n"
    assert "Merged into main" in client.said


def test_cancel_stops_the_run_and_keeps_its_work(client: Editor, user: Corral, repo: Repo) -> None:
    user.agent("slow", "echo begun > begun.txt; echo I wait; sleep 9876.5")
    session = client.new_session(repo)
    client.choose(session, agent="slow")
    number = client.begin_prompt(session, "wait")
    client.until_update("tool_call_update", lambda each: "I wait" in str(each))
    client.notify("session/cancel", sessionId=session)
    assert client.result(number) == {"stopReason": "cancelled"}
    run = user("show", "@last", "--json").json
    assert run["status"] == "stopped"
    assert run["nodes"][0]["attempts"][0]["commit"]
