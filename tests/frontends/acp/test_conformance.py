"""The core profile of the acpx repository's conformance suite, case by case; written anew from its names and its spec."""

from tests.rig.command import Corral
from tests.rig.editor import Editor, choosing, editor, runs_of, statuses
from tests.rig.repository import Repo


def test_initialize_handshake(client: Editor) -> None:
    told = client.initialize()
    assert told["protocolVersion"] == 1
    assert isinstance(told["agentCapabilities"], dict)


def test_session_new_basic(client: Editor, repo: Repo) -> None:
    assert client.new_session(repo) != client.new_session(repo)


def test_prompt_single_turn_update_and_termination(client: Editor, repo: Repo) -> None:
    """Cases prompt.single_turn and update.termination."""
    session = client.new_session(repo)
    client.got.clear()
    assert client.prompt(session, "write said.txt") == "end_turn"
    assert client.updates(session=session)
    assert len(client.updates()) == len(client.updates(session=session)), "of this session alone"
    assert "result" in client.got[-1], "the answer ends the turn"


def test_cancel_in_flight_and_the_prompt_after_it(client: Editor, repo: Repo) -> None:
    """Cases cancel.in_flight and cancel.followup_prompt."""
    session = client.new_session(repo)
    client.choose(session, agent="slow")
    number = client.begin_prompt(session, "wait")
    client.until_update("tool_call_update", lambda each: "I wait" in str(each))
    client.notify("session/cancel", sessionId=session)
    assert client.result(number) == {"stopReason": "cancelled"}
    client.choose(session, agent="mine")
    assert client.prompt(session, "write said.txt") == "end_turn"


def test_cancel_idle_is_not_answered(client: Editor, repo: Repo) -> None:
    session = client.new_session(repo)
    client.until_update("available_commands_update")
    client.got.clear()
    client.notify("session/cancel", sessionId=session)
    client.request("session/list")
    assert len([each for each in client.got if "method" not in each]) == 1, "the list is answered, nothing else"


def test_prompt_multi_turn_empty_echo_and_unrecognized(client: Editor, user: Corral, repo: Repo) -> None:
    """Cases prompt.multi_turn, prompt.echo_empty and prompt.unrecognized: any text is a task, an unknown command too."""
    session = client.new_session(repo)
    for text in ("write one", "echo ", "/no-such-command at all"):
        assert client.prompt(session, text) == "end_turn"
    assert len(runs_of(user, session)) == 3


def test_errors_of_parameters(client: Editor, repo: Repo) -> None:
    """Cases errors.invalid_params, invalid_prompt_session_type, invalid_params.cwd_null and unknown_session."""
    session = client.new_session(repo)
    text = [{"type": "text", "text": "x"}]
    assert client.refused("session/prompt", sessionId=session)["code"] == -32602
    assert client.refused("session/prompt", sessionId=42, prompt=text)["code"] == -32602
    assert client.refused("session/new", cwd=None, mcpServers=[])["code"] == -32602
    assert client.refused("session/prompt", sessionId="unknown", prompt=text)["code"] == -32002


def test_permission_denied_leaves_the_file_alone(client: Editor, repo: Repo) -> None:
    """Cases errors.permission_denied and permission_denied.write: the refused edit is a failed tool call."""
    client.reply = choosing("reject")
    session = client.new_session(repo)
    assert client.prompt(session, "write said.txt") == "end_turn"
    edit = client.updates("tool_call")[-1]
    assert statuses(client, edit)[-1] == "failed"
    assert not (repo.folder / "said.txt").exists()


def test_permission_approved(client: Editor, repo: Repo) -> None:
    """Cases permissions.read.approved and permissions.write.approved: `compare` only reads, `merge` writes."""
    client.reply = choosing("compare", "merge")
    session = client.new_session(repo)
    client.choose(session, strategy="race")
    client.prompt(session, "write said.txt")
    assert statuses(client, client.updates("tool_call")[-1])[-1] == "completed"
    assert (repo.folder / "said.txt").exists()


def test_prompt_structured_blocks(client: Editor, repo: Repo) -> None:
    session = client.new_session(repo)
    link = {"type": "resource_link", "uri": f"file://{repo.folder}/a.txt", "name": "a.txt"}
    assert client.prompt(session, "look at ", link, {"type": "text", "text": " and write"}) == "end_turn"


def test_prompt_background_completion(user: Corral, repo: Repo) -> None:
    """A run whose client leaves is completed, and its completion is there for the next one."""
    with editor(user) as first:
        first.initialize()
        session = first.new_session(repo)
        first.begin_prompt(session, "write said.txt")
        first.until(lambda: "started" in first.said, "the run has begun")
        first.hang_up()
    with editor(user) as second:
        second.initialize()
        second.request("session/load", sessionId=session, cwd=str(repo.folder), mcpServers=[])
        second.until(lambda: "**done**" in second.said, "how it ended")
