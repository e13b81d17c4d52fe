"""Sessions: listed, loaded, resumed, closed, deleted; and runs that continue when their editor is gone."""

from corral.engine.engine import Engine
from tests.rig.command import Corral
from tests.rig.editor import Editor, choosing, editor, runs_of
from tests.rig.repository import Repo


def at_work(client: Editor, session: str) -> int:
    """Begin a prompt whose agent waits; return the id of the request."""
    client.choose(session, agent="slow")
    number = client.begin_prompt(session, "wait for it")
    client.until_update("tool_call_update", lambda each: "I wait" in str(each))
    return number


def test_sessions_are_listed_by_folder_with_title_and_time(client: Editor, user: Corral, repo: Repo) -> None:
    other = user.repo("another-folder")
    _, first, second, elsewhere = (client.new_session(folder) for folder in (repo, repo, repo, other))
    for session in (first, second, elsewhere):
        client.prompt(session, "write\nsaid.txt")
    listed = client.request("session/list", cwd=str(repo.folder))["sessions"]
    assert [each["sessionId"] for each in listed] == [second, first], "newest first; none without a prompt"
    assert {each["title"] for each in listed} == {"write said.txt"}
    assert all(each["updatedAt"].endswith("Z") and each["cwd"] == str(repo.folder) for each in listed)
    every = client.request("session/list")["sessions"]
    assert {first, second, elsewhere} <= {each["sessionId"] for each in every}


def test_a_long_list_comes_in_pages(user: Corral, client: Editor, repo: Repo) -> None:
    engine = Engine(user.home)
    folder = str(repo.folder)
    made = [engine.chats.add_run(engine.chats.open(folder, {}).id, "none", f"number {n}").id for n in range(70)]
    engine.close()
    first = client.request("session/list", cwd=folder)
    second = client.request("session/list", cwd=folder, cursor=first["nextCursor"])
    got = [each["sessionId"] for each in (*first["sessions"], *second["sessions"])]
    assert got == made[::-1]
    assert "nextCursor" not in second
    assert "cursor" in client.refused("session/list", cwd=folder, cursor="nonsense")["message"]


def test_a_run_continues_without_its_editor_and_is_followed_after_a_load(user: Corral, repo: Repo) -> None:
    with editor(user) as first:
        first.initialize()
        session = first.new_session(repo)
        at_work(first, session)
        assert first.hang_up() == 0
    (run,) = runs_of(user, session)
    assert run["status"] == "running"
    with editor(user) as second:
        second.initialize()
        loaded = second.request("session/load", sessionId=session, cwd=str(repo.folder), mcpServers=[])
        assert {each["id"]: each["currentValue"] for each in loaded["configOptions"]}["agent"] == "slow"
        assert loaded["modes"]["currentModeId"] == "single"
        order = [each["update"]["sessionUpdate"] for each in (m["params"] for m in second.got if "method" in m)]
        assert order[:3] == ["user_message_chunk", "plan", "tool_call"], "the conversation comes before the answer"
        assert second.refused("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "more"}])
        second.notify("session/cancel", sessionId=session)
        second.until(lambda: "**stopped**" in second.said, "the end of the run that is followed")
        assert second.prompt(session, "/status") == "end_turn"


def test_a_prompt_after_a_load_goes_on_from_the_last_run(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    client.prompt(session, "write the first")
    with editor(user) as other:
        other.initialize()
        other.request("session/load", sessionId=session, cwd=str(repo.folder), mcpServers=[])
        other.reply = choosing("merge")
        other.prompt(session, "write the second")
        assert other.updates("tool_call")[-1]["content"][0]["oldText"] == "write the first\n"
    assert "write the first" in (repo.folder / "said.txt").read_text(), "its agent knows what was asked before"
    first, second = runs_of(user, session)
    assert second["base"] == first["nodes"][0]["attempts"][0]["commit"]


def test_resume_does_not_replay_and_gives_the_options_again(client: Editor, repo: Repo) -> None:
    session = client.new_session(repo)
    client.choose(session, budget="5", strategy="multi")
    client.prompt(session, "/status")
    client.got.clear()
    resumed = client.request("session/resume", sessionId=session, cwd=str(repo.folder))
    values = {each["id"]: each["currentValue"] for each in resumed["configOptions"]}
    assert values == {"strategy": "multi", "agent": "mine", "checks": "settings", "merge": "ask", "budget": "5"}
    assert resumed["modes"]["currentModeId"] == "multi"
    client.until_update("available_commands_update")
    assert not client.updates("user_message_chunk")


def test_close_leaves_the_run_alone(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    number = at_work(client, session)
    client.request("session/close", sessionId=session)
    assert client.result(number)["stopReason"] == "cancelled"
    (run,) = runs_of(user, session)
    assert run["status"] == "running"
    assert user("stop", run["run"]).code == 0


def test_a_deleted_session_is_gone_and_its_runs_stay(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    client.prompt(session, "write said.txt")
    client.request("session/delete", sessionId=session)
    assert client.request("session/list", cwd=str(repo.folder))["sessions"] == []
    gone = client.refused("session/load", sessionId=session, cwd=str(repo.folder), mcpServers=[])
    assert gone["code"] == -32002
    assert [run["status"] for run in runs_of(user, session)] == ["done"]


def test_two_processes_serve_one_session(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    client.prompt(session, "write said.txt")
    with editor(user) as other:
        other.initialize()
        other.request("session/resume", sessionId=session, cwd=str(repo.folder))
        other.choose(session, budget="2")
        other.prompt(session, "/merge")
        assert "Merged into main" in other.said
    client.got.clear()
    client.prompt(session, "/status")
    assert "merge: merged" in client.said
    assert (
        client.request("session/resume", sessionId=session, cwd=str(repo.folder))["configOptions"][-1]["currentValue"]
        == "2"
    )


def test_the_end_of_an_agent_is_not_the_end_of_the_server(client: Editor, user: Corral, repo: Repo) -> None:
    user.agent("dies", "kill -9 $$")
    session = client.new_session(repo)
    client.choose(session, agent="dies")
    assert client.prompt(session, "die") == "end_turn"
    assert "**failed**" in client.said
    client.choose(session, agent="mine")
    client.got.clear()
    assert client.prompt(session, "write said.txt") == "end_turn"
    assert "**done**" in client.said


def test_a_load_tells_how_runs_ended(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    client.prompt(session, "write said.txt")
    client.prompt(session, "/merge")
    with editor(user) as other:
        other.initialize()
        other.request("session/load", sessionId=session, cwd=str(repo.folder), mcpServers=[])
        assert other.updates("user_message_chunk")[0]["content"]["text"] == "write said.txt"
        assert "**done**" in other.said
        assert other.updates("tool_call")[-1]["title"] == "merged: main"
        assert other.updates("tool_call_update")[-1]["status"] == "completed"
