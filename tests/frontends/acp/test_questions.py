"""What a run asks its user: in a form, as a permission, or in words; whoever answers first counts."""

from collections.abc import Iterator

import pytest

from tests.rig.command import Corral
from tests.rig.editor import Editor, Message, choosing, editor, runs_of
from tests.rig.repository import Repo
from tests.rig.waiting import until

FLOW = """
name: gated
nodes:
  ok: {gate: "Write it?", default: "no", deadline: 1h}
  write: {task: write said.txt, needs: [ok]}
"""
FORMS = {"elicitation": {"form": {}}, "session": {"notices": {}}}


@pytest.fixture
def gated(user: Corral, request: pytest.FixtureRequest) -> Repo:
    return user.repo(request.node.name, {"a.txt": "a\n", ".corral/gated.yaml": FLOW})


@pytest.fixture
def impatient(user: Corral) -> Iterator[Editor]:
    """An editor that is given half a second for its answers."""
    with editor(user, "--ask-seconds", "0.5") as client:
        client.initialize()
        yield client


def test_a_gate_is_a_permission(client: Editor, gated: Repo) -> None:
    client.reply = choosing("yes", "later")
    session = client.new_session(gated)
    client.prompt(session, "/flow gated")
    asked = client.calls[0]["params"]
    assert asked["sessionId"] == session
    assert [(each["optionId"], each["kind"]) for each in asked["options"]] == [
        ("yes", "allow_once"), ("no", "reject_once"),
    ]  # fmt: skip
    shown = client.updates("tool_call")[0]
    assert shown["title"] == "Write it?"
    assert "Without an answer by" in shown["content"][0]["content"]["text"]
    assert {**shown, "sessionUpdate": None} == {**asked["toolCall"], "sessionUpdate": None}, "the question, whole"
    assert "**done**" in client.said


def test_a_gate_is_a_form_where_the_client_has_forms(user: Corral, gated: Repo) -> None:
    def fill_in(call: Message) -> Message | None:
        if call["method"] == "elicitation/create":
            return {"action": "accept", "content": {"answer": "yes"}}
        return choosing("later")(call)

    with editor(user) as client:
        client.initialize(FORMS)
        client.reply = fill_in
        client.prompt(client.new_session(gated), "/flow gated")
        asked = client.calls[0]
        assert asked["method"] == "elicitation/create"
        assert asked["params"]["requestedSchema"]["properties"]["answer"]["enum"] == ["yes", "no"]
        assert "**done**" in client.said


def test_a_plan_runs_once_it_is_approved(client: Editor, user: Corral, repo: Repo) -> None:
    client.reply = choosing("yes", "later")
    session = client.new_session(repo)
    client.choose(session, agent="planner")
    assert client.prompt(session, "/plan Say {{it}} twice") == "end_turn"
    asked = client.calls[0]["params"]
    shown = next(each for each in client.updates("tool_call") if each["toolCallId"] == asked["toolCall"]["toolCallId"])
    assert "2 nodes: say -> again" in shown["title"]
    (run,) = runs_of(user, session)
    names = {"plan/plan", "plan/approve", "plan/say", "plan/again", "plan"}
    assert {node["id"]: node["status"] for node in run["nodes"]} == dict.fromkeys(names, "done")
    steps = [each["content"] for each in client.updates("plan")[-1]["entries"]]
    assert any(step.startswith("plan/say") for step in steps)
    refused = client.error(client.begin_prompt(session, "/plan"))
    assert "takes a task" in refused["message"]


def test_a_client_that_goes_quiet_has_said_no_to_nothing(impatient: Editor, user: Corral, gated: Repo) -> None:
    session = impatient.new_session(gated)
    assert impatient.prompt(session, "/flow gated") == "end_turn"
    (run,) = runs_of(user, session)
    assert run["status"] == "waiting"
    (entry,) = [each for each in user("inbox", "--json").json if each["run"] == run["run"]]
    assert f"/answer {entry['id']} yes|no" in impatient.said
    number = impatient.calls[0]["id"]
    withdrawn = [each["params"]["requestId"] for each in impatient.got if each.get("method") == "$/cancel_request"]
    assert withdrawn == [number]
    impatient.send(id=number, result={"outcome": {"outcome": "selected", "optionId": "no"}})  # too late
    impatient.reply = choosing("later")
    impatient.got.clear()
    assert impatient.prompt(session, f"/answer {entry['id']} yes") == "end_turn"
    assert "**done**" in impatient.said


def test_an_answer_from_elsewhere_withdraws_the_question(client: Editor, user: Corral, gated: Repo) -> None:
    client.reply = lambda _: None
    session = client.new_session(gated)
    number = client.begin_prompt(session, "/flow gated")
    client.until(lambda: client.calls, "a question")
    (run,) = runs_of(user, session)
    (entry,) = [each for each in user("inbox", "--json").json if each["run"] == run["run"]]
    assert user("answer", entry["id"], "yes", "--resume").code == 0
    client.until(
        lambda: [each for each in client.got if each.get("method") == "$/cancel_request"], "the question is withdrawn"
    )
    client.reply = choosing("later")
    assert client.result(number)["stopReason"] == "end_turn"
    assert "**done**" in client.said


def test_cancel_while_a_question_is_open(client: Editor, user: Corral, gated: Repo) -> None:
    client.reply = lambda _: None
    session = client.new_session(gated)
    number = client.begin_prompt(session, "/flow gated")
    client.until(lambda: client.calls, "a question")
    client.notify("session/cancel", sessionId=session)
    client.send(id=client.calls[0]["id"], result={"outcome": {"outcome": "cancelled"}})
    assert client.result(number) == {"stopReason": "cancelled"}
    until(lambda: runs_of(user, session)[0]["status"] == "stopped", "the run is stopped")


def test_cancel_while_a_merge_is_asked(client: Editor, repo: Repo) -> None:
    client.reply = lambda _: None
    session = client.new_session(repo)
    number = client.begin_prompt(session, "write said.txt")
    client.until(lambda: client.calls, "the question whether to merge")
    call = client.calls[0]["params"]["toolCall"]
    assert (call["title"], call["kind"], call["status"]) == ("Merge 1 file into main", "edit", "pending")
    assert [each["path"] for each in call["content"]] == [str(repo.folder / "said.txt")], "a client that shows diffs"
    client.notify("session/cancel", sessionId=session)
    assert client.result(number) == {"stopReason": "cancelled"}
    assert not (repo.folder / "said.txt").exists()


def test_nobody_answers_whether_to_merge(impatient: Editor, user: Corral, repo: Repo) -> None:
    session = impatient.new_session(repo)
    assert impatient.prompt(session, "write said.txt") == "end_turn"
    assert "Nobody answered; the question stays in the inbox" in impatient.said
    (entry,) = open_results(user, session)
    assert entry["choices"] == ["merge", "later", "reject"]
    assert runs_of(user, session)[0]["status"] == "done"
    impatient.prompt(session, "/merge")
    assert "Merged into main" in impatient.said
    assert open_results(user, session) == [], "a merge by another way answers it"


def open_results(user: Corral, session: str) -> list[Message]:
    """Return the questions of a session's runs that wait in the inbox, whether a result is merged."""
    runs = {each["run"] for each in runs_of(user, session)}
    return [each for each in user("inbox", "--json").json if each["run"] in runs and each["about"] == "result"]


def test_the_inbox_answers_whether_to_merge(client: Editor, user: Corral, repo: Repo) -> None:
    client.reply = lambda _: None
    session = client.new_session(repo)
    number = client.begin_prompt(session, "write said.txt")
    client.until(lambda: client.calls, "the question whether to merge")
    (entry,) = open_results(user, session)
    assert user("answer", entry["id"], "merge").code == 0
    assert client.result(number) == {"stopReason": "end_turn"}
    assert "Answered elsewhere" in client.said
    assert "merged into main" in client.said
    assert (repo.folder / "said.txt").exists()
    withdrawn = [each for each in client.got if each.get("method") == "$/cancel_request"]
    assert [each["params"]["requestId"] for each in withdrawn] == [client.calls[0]["id"]]


def test_an_answer_in_the_editor_closes_the_question(client: Editor, user: Corral, repo: Repo) -> None:
    client.reply = choosing("reject")
    session = client.new_session(repo)
    client.prompt(session, "write said.txt")
    assert open_results(user, session) == []
    (run,) = runs_of(user, session)
    (closed,) = [each for each in user("inbox", "--all", "--json").json if each["run"] == run["run"]]
    assert closed["answer"] == "reject"
