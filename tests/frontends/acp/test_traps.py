"""What has gone wrong between editors and other agents, one test each."""

from pathlib import Path

from tests.rig.command import Corral
from tests.rig.editor import Editor, choosing, editor, runs_of
from tests.rig.repository import Repo


def kinds(client: Editor) -> list[str]:
    """Return what came, in order: the kinds of updates, requests by their method, and `answer`."""
    return [
        each["params"].get("update", {}).get("sessionUpdate", each["method"]) if "method" in each else "answer"
        for each in client.got
    ]


def test_nothing_but_the_protocol_reaches_stdout(client: Editor) -> None:
    streams = Path(f"/proc/{client.process.pid}/fd")
    assert (streams / "1").readlink() == (streams / "2").readlink(), "what prints, prints to stderr"
    assert (streams / "0").readlink() == Path("/dev/null"), "no program of ours reads what the client writes"


def test_commands_come_after_the_answer_to_a_new_session(client: Editor, repo: Repo) -> None:
    client.new_session(repo)
    client.until_update("available_commands_update")
    assert kinds(client) == ["answer", "available_commands_update"]
    names = {each["name"] for each in client.updates("available_commands_update")[0]["availableCommands"]}
    assert {"status", "diff", "compare", "merge", "undo", "inbox", "answer", "budget", "retry", "flow"} <= names


def test_set_model_is_the_option_agent(client: Editor, repo: Repo) -> None:
    session = client.new_session(repo)
    client.request("session/set_model", sessionId=session, modelId="slow")
    told = client.until_update("config_option_update")["configOptions"]
    assert {each["id"]: each["currentValue"] for each in told}["agent"] == "slow"


def test_options_come_again_on_load_and_resume(client: Editor, repo: Repo) -> None:
    session = client.new_session(repo)
    for method in ("session/load", "session/resume"):
        again = client.request(method, sessionId=session, cwd=str(repo.folder), mcpServers=[])
        assert [each["id"] for each in again["configOptions"]] == ["strategy", "agent", "checks", "merge", "budget"]
        assert [each["id"] for each in again["modes"]["availableModes"]] == ["single", "multi", "race", "auto"]


def test_a_prompt_is_open_until_its_run_is_over(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    client.got.clear()
    client.prompt(session, "write said.txt")
    assert kinds(client).count("answer") == 1
    assert kinds(client)[-1] == "answer", "nothing of a run comes after its turn"
    assert runs_of(user, session)[0]["status"] == "done"


def test_permissions_are_asked_on_the_session_within_a_turn(client: Editor, repo: Repo) -> None:
    client.reply = choosing("later")
    session = client.new_session(repo)
    number = client.begin_prompt(session, "write said.txt")
    client.result(number)
    (asked,) = client.calls
    assert asked["params"]["sessionId"] == session
    assert client.got.index(asked) < client.got.index(next(each for each in client.got if each.get("id") == number))


def test_a_silent_agent_is_heard_of(client: Editor, repo: Repo) -> None:
    session = client.new_session(repo)
    client.choose(session, agent="slow")
    number = client.begin_prompt(session, "wait")
    client.until_update("tool_call_update", lambda each: " s)" in str(each))  # it counts the seconds
    client.notify("session/cancel", sessionId=session)
    client.result(number)


def test_a_session_opens_without_starting_an_agent(user: Corral, repo: Repo) -> None:
    programs = user.root / "programs"
    programs.mkdir()
    started = user.root / "started"
    for name in ("claude", "codex", "gemini"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} >> {started}\n")
        (programs / name).chmod(0o755)
    path = user.env["PATH"]
    user.env["PATH"] = f"{programs}:{path}"
    try:
        with editor(user) as client:
            client.initialize()
            state = client.request("session/new", cwd=str(repo.folder), mcpServers=[])
    finally:
        user.env["PATH"] = path
    (agents,) = [each for each in state["configOptions"] if each["id"] == "agent"]
    assert {"mine", "slow", "claude", "codex", "gemini"} <= {each["value"] for each in agents["options"]}
    assert not started.exists()


def test_runs_of_other_front_ends_are_no_sessions(client: Editor, user: Corral, repo: Repo) -> None:
    assert user.run(repo, "write said.txt").code == 0
    session = client.new_session(repo)
    client.prompt(session, "write said.txt")
    listed = client.request("session/list", cwd=str(repo.folder))["sessions"]
    assert [each["sessionId"] for each in listed] == [session]


def test_long_lines_are_read(client: Editor, user: Corral, repo: Repo) -> None:
    user.agent("reader", "wc -c > size.txt", 'prompt = "stdin"')
    session = client.new_session(repo)
    client.choose(session, agent="reader", merge="never")
    long = {"type": "resource", "resource": {"uri": "zed:///buffer", "text": "x" * 3_000_000}}
    client.prompt(session, "count this: ", long)
    diff = client.updates("tool_call")[-1]["content"][0]
    assert int(diff["newText"]) > 3_000_000


def test_several_processes_work_on_one_store(user: Corral, repo: Repo) -> None:
    with editor(user) as one, editor(user) as two:
        numbers = []
        for client in (one, two):
            client.initialize()
            client.reply = choosing("later")
            numbers.append((client, client.begin_prompt(client.new_session(repo), "write said.txt")))
        for client, number in numbers:
            assert client.result(number)["stopReason"] == "end_turn"
            assert "**done**" in client.said


def test_errors_do_not_end_the_process(client: Editor, repo: Repo) -> None:
    session = client.new_session(repo)
    client.choose(session, agent="nobody-knows")
    refused = client.error(client.begin_prompt(session, "write said.txt"))
    assert "no agent is called `nobody-knows`" in refused["message"]
    client.choose(session, agent="mine")
    assert client.prompt(session, "/status") == "end_turn"
