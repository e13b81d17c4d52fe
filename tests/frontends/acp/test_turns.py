"""A prompt is a run: how it is followed, what it is told, and what becomes of its work."""

from tests.rig.command import Corral
from tests.rig.editor import Editor, choosing, editor, runs_of, statuses
from tests.rig.repository import Repo


def test_a_prompt_is_a_run_that_ends_in_a_merge(client: Editor, repo: Repo) -> None:
    client.reply = choosing("merge")
    session = client.new_session(repo)
    assert client.prompt(session, "write said.txt") == "end_turn"
    attempt, merge = client.updates("tool_call")
    assert attempt["kind"] == "other"
    assert attempt["title"] == "mine: main"
    assert "locations" not in attempt, "no editor may believe that files of the checkout changed"
    assert merge["kind"] == "edit"
    assert merge["content"] == [
        {"type": "diff", "path": str(repo.folder / "said.txt"), "oldText": None, "newText": "write said.txt\n"}
    ]
    assert statuses(client, merge) == ["in_progress", "completed"]
    assert statuses(client, attempt)[-1] == "completed"
    assert [each["entries"][0]["status"] for each in client.updates("plan")][-1] == "completed"
    assert (repo.folder / "said.txt").read_text() == "write said.txt\n"
    assert "Merged into main" in client.said
    assert [option["kind"] for option in client.calls[0]["params"]["options"]] == [
        "allow_once", "reject_once", "reject_once",
    ]  # fmt: skip
    assert client.updates("session_info_update")[0]["title"] == "write said.txt"


def test_cancel_stops_the_run_and_keeps_its_work(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    client.choose(session, agent="slow")
    number = client.begin_prompt(session, "wait")
    client.until_update("tool_call_update", lambda each: "I wait" in str(each))
    client.notify("session/cancel", sessionId=session)
    assert client.result(number) == {"stopReason": "cancelled"}
    (document,) = runs_of(user, session)
    assert document["status"] == "stopped"
    assert document["nodes"][0]["attempts"][0]["commit"]
    assert not client.calls, "what was cancelled is not offered for a merge"


def test_work_that_was_stopped_is_continued_by_a_revision(client: Editor, user: Corral, repo: Repo) -> None:
    user.agent(
        "second", "if [ -e b.txt ]; then echo more >> b.txt; else echo one > b.txt; echo I wait; sleep 9876.5; fi"
    )
    session = client.new_session(repo)
    client.choose(session, agent="second")
    number = client.begin_prompt(session, "wait")
    client.until_update("tool_call_update", lambda each: "I wait" in str(each))
    client.notify("session/cancel", sessionId=session)
    client.result(number)
    assert "`/revise TEXT` continues its work" in client.said
    client.reply = choosing("merge")
    assert client.prompt(session, "/revise without waiting") == "end_turn"
    assert (repo.folder / "b.txt").read_text() == "one\nmore\n"


def test_the_next_prompt_starts_from_work_that_is_not_merged_and_knows_what_was_asked(
    client: Editor, repo: Repo
) -> None:
    session = client.new_session(repo)
    client.prompt(session, "write the first")
    client.reply = choosing("merge")
    client.prompt(session, "write the second")
    told = (repo.folder / "said.txt").read_text()
    assert "write the first" in told
    assert told.endswith("write the second\n")
    diff = client.updates("tool_call")[-1]["content"][0]
    assert diff["oldText"] == "write the first\n", "an edit shows what this prompt changed"


def test_rejected_work_is_not_built_upon(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    client.reply = choosing("reject", "later")
    client.prompt(session, "write one")
    assert "Rejected" in client.said
    client.prompt(session, "write two")
    base = runs_of(user, session)[-1]["base"]
    assert base == repo.head


def test_a_race_is_compared_before_it_is_merged(client: Editor, repo: Repo) -> None:
    client.reply = choosing("compare", "merge")
    session = client.new_session(repo)
    client.choose(session, strategy="race")
    client.prompt(session, "write it twice")
    attempts = [each for each in client.updates("tool_call") if each["kind"] == "other"]
    assert len(attempts) == 2
    assert "(winner)" in client.said
    first, second = ([option["optionId"] for option in call["params"]["options"]] for call in client.calls)
    assert first == ["merge", "compare", "later", "reject"]
    assert second == ["merge", "later", "reject"]
    assert "Merged into main" in client.said


def test_every_attempt_is_visible_while_it_works_and_after_a_load(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    client.choose(session, agent="slow*3")
    number = client.begin_prompt(session, "wait")

    def speakers() -> set[str]:
        lines = client.updates("tool_call_update")
        return {each["toolCallId"] for each in lines if "I wait" in str(each.get("content"))}

    client.until(lambda: len(speakers()) == 3, "all three speak")
    begun = {each["toolCallId"]: each["title"] for each in client.updates("tool_call")}
    assert speakers() == set(begun), "a call for each attempt, with its own lines"
    assert len(set(begun.values())) == 1
    assert {each["status"] for each in client.updates("tool_call_update")} == {"in_progress"}, "all at once"
    client.notify("session/cancel", sessionId=session)
    assert client.result(number)["stopReason"] == "cancelled"
    ended = {each["toolCallId"] for each in client.updates("tool_call_update") if each["status"] == "failed"}
    assert ended == set(begun)
    (run,) = runs_of(user, session)
    assert {each["id"] for each in run["nodes"][0]["attempts"]} == set(begun)
    client.got.clear()
    client.request("session/load", sessionId=session, cwd=str(repo.folder), mcpServers=[])
    assert {each["toolCallId"] for each in client.updates("tool_call") if each["kind"] == "other"} == set(begun)


def test_merge_never_shows_the_change_and_asks_nothing(client: Editor, repo: Repo) -> None:
    session = client.new_session(repo)
    client.choose(session, merge="never")
    client.prompt(session, "write said.txt")
    assert not client.calls
    shown = client.updates("tool_call")[-1]
    assert shown["status"] == "completed"
    assert "not merged" in shown["title"]
    assert not (repo.folder / "said.txt").exists()


def test_checks_are_executions_and_can_be_left_out(client: Editor, repo: Repo) -> None:
    (repo.folder / "corral.toml").write_text('[defaults]\nchecks = ["test -e said.txt", "echo broken; false"]\n')
    repo.git("add", "-A")
    repo.git("commit", "-qm", "checks")
    session = client.new_session(repo)
    client.prompt(session, "write said.txt")
    checks = [each for each in client.updates("tool_call") if each["kind"] == "execute"]
    assert {(each["title"], each["status"]) for each in checks} == {
        ("test -e said.txt", "completed"), ("echo broken; false", "failed"),
    }  # fmt: skip
    assert "broken" in str(checks)
    client.got.clear()
    client.choose(session, checks="none")
    client.prompt(session, "write said.txt")
    assert not [each for each in client.updates("tool_call") if each["kind"] == "execute"]
    assert "**done**" in client.said


def test_files_and_selections_of_the_editor_reach_the_agent(client: Editor, user: Corral, repo: Repo) -> None:
    uri = f"file://{repo.folder}/a.txt"
    link = {"type": "resource_link", "uri": uri, "name": "a.txt"}
    selected = {
        "type": "resource",
        "resource": {"uri": f"file://{repo.folder}/src/b.txt#L1:2", "text": "two, as in the buffer"},
    }
    session = client.new_session(repo)
    client.prompt(session, "compare ", link, {"type": "text", "text": " with "}, selected)
    (run,) = runs_of(user, session)
    prompt = user("logs", run["run"], "--prompt").out
    assert "compare `a.txt` with `src/b.txt#L1:2`" in prompt
    assert "two, as in the buffer" in prompt


def test_what_a_client_steers_reaches_the_agent_at_work(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    text = [{"type": "text", "text": "also the docs"}]
    idle = client.request("_session/steering", sessionId=session, prompt=text)
    assert idle["outcome"] == "promptRequired"
    client.choose(session, agent="slow")
    number = client.begin_prompt(session, "wait")
    client.until_update("tool_call_update", lambda each: "I wait" in str(each))
    assert client.request("_session/steering", sessionId=session, prompt=text) == {"outcome": "injected"}
    orders = [each for each in user.events(runs_of(user, session)[0]["run"]) if "also the docs" in str(each)]
    assert orders
    client.notify("$/cancel_request", requestId=number)
    assert client.result(number) == {"stopReason": "cancelled"}


def test_commands_look_and_act(newcomer: Corral) -> None:
    repo = newcomer.repo()
    with editor(newcomer) as client:
        client.initialize()
        client.reply = choosing("later")
        session = client.new_session(repo)
        client.prompt(session, "/status")
        assert "No run in this session yet" in client.said
        client.prompt(session, "write said.txt")
        for command, words in (
            ("/status", "merge: ready"), ("/compare", "(winner)"), ("/merge", "Merged into main"),
            ("/undo", "Taken back"), ("/inbox", "Nothing waits for you"), ("/budget 2", "Budget of the next run: 2"),
        ):  # fmt: skip
            client.got.clear()
            assert client.prompt(session, command) == "end_turn"
            assert words in client.said, command
        assert "2" in str(client.updates("config_option_update")[-1]["configOptions"])
        client.got.clear()
        client.prompt(session, "/diff")
        assert client.updates("tool_call")[0]["content"][0]["newText"] == "write said.txt\n"
        assert len(runs_of(newcomer, session)) == 1, "commands are no runs"


def test_a_flow_of_the_repository_is_a_command(client: Editor, repo: Repo) -> None:
    repo.commit({".corral/two.yaml": "name: two\nnodes:\n  a: {task: write a}\n  b: {needs: [a], task: write b}\n"})
    session = client.new_session(repo)
    client.prompt(session, "/flow two")
    assert [each["content"] for each in client.updates("plan")[-1]["entries"]] == ["a", "b"]
    assert "**done**" in client.said


def test_what_failed_is_done_again(client: Editor, user: Corral, repo: Repo) -> None:
    user.agent("flaky", 'test -e "$HOME/../tried" || exit 3; echo x > x.txt')
    session = client.new_session(repo)
    client.choose(session, agent="flaky")
    client.prompt(session, "write x.txt")
    assert "**failed**" in client.said
    client.got.clear()
    assert client.prompt(session, "/retry") == "end_turn"
    assert [each for each in client.updates("tool_call") if each["kind"] == "other"], "a new attempt is shown"


def test_comments_are_sent_to_the_agent(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    offered = client.until_update("available_commands_update")["availableCommands"]
    assert "revise" in [each["name"] for each in offered]
    client.prompt(session, "write said.txt")
    (run,) = runs_of(user, session)
    assert user("comment", run["run"], "said.txt:1", "much too short").code == 0
    client.got.clear()
    assert client.prompt(session, "/revise and mind the end") == "end_turn"
    assert [each for each in client.updates("tool_call") if each["kind"] == "other"], "a new attempt is shown"
    assert "**done**" in client.said
    (run,) = runs_of(user, session)
    first, second = run["nodes"][0]["attempts"]
    assert (second["revises"], run["nodes"][0]["winner"]) == (first["id"], second["id"])
    sent = user("diff", run["run"]).out
    assert "much too short" in sent
    assert "mind the end" in sent


def test_a_revision_without_comments_is_refused(client: Editor, repo: Repo) -> None:
    session = client.new_session(repo)
    client.prompt(session, "write said.txt")
    refused = client.error(client.begin_prompt(session, "/revise"))
    assert "no open comment" in refused["message"]
