"""What a client does wrong: each gets an error in words, the process stays, nothing is lost."""

import json
import os
import subprocess
from typing import Any

import pytest

from tests.rig.command import Corral
from tests.rig.editor import Editor, editor, runs_of
from tests.rig.repository import Repo


def raw(client: Editor, line: str | bytes, number: Any = None) -> dict[str, Any]:
    """Send a line as it is; return the error that comes back."""
    client.write(line if isinstance(line, bytes) else line.encode() + b"\n")
    return client.error(number)


def test_requests_before_initialize_are_refused(user: Corral, repo: Repo) -> None:
    with editor(user) as client:
        early = client.refused("session/new", cwd=str(repo.folder), mcpServers=[])
        assert "initialize" in early["message"]
        assert client.initialize()["protocolVersion"] == 1
        assert client.new_session(repo)


@pytest.mark.parametrize("version", [0, 1, 2, 99])
def test_any_version_is_answered_with_ours(client: Editor, version: int) -> None:
    told = client.request("initialize", protocolVersion=version, clientCapabilities={})
    assert told["protocolVersion"] == 1
    assert [each["id"] for each in told["authMethods"]] == ["corral"]


@pytest.mark.parametrize("version", ["one", None, True, -1, [1]])
def test_a_version_that_is_no_number_is_refused(client: Editor, version: Any) -> None:
    assert client.refused("initialize", protocolVersion=version)["code"] == -32602


def test_a_login_by_terminal_is_offered_where_the_client_has_one(client: Editor) -> None:
    told = client.request("initialize", protocolVersion=1, clientCapabilities={"auth": {"terminal": True}})
    assert told["authMethods"][1]["type"] == "terminal"
    assert told["authMethods"][1]["args"] == ["--setup"]
    assert client.initialize()["authMethods"][1:] == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("this is no JSON", -32700),
        ('{"jsonrpc": "2.0", "id": 1, "method": ', -32700),
        ("[1, 2, 3]", -32600),
        ("42", -32600),
        ('{"jsonrpc": "2.0"}', -32600),
        ('{"jsonrpc": "2.0", "id": {"a": 1}, "method": "session/list", "params": {}}', -32600),
        ("[" * 100_000, -32700),
    ],
)
def test_lines_that_are_no_messages_are_refused(client: Editor, line: str, code: int) -> None:
    assert raw(client, line)["code"] == code
    assert client.request("session/list")


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("session/new", {"cwd": None, "mcpServers": []}, "cwd"),
        ("session/new", {"mcpServers": []}, "cwd"),
        ("session/new", {"cwd": "relative", "mcpServers": []}, "not an absolute path"),
        ("session/new", {"cwd": "/no/such/folder", "mcpServers": []}, "no such folder"),
        ("session/prompt", {"sessionId": 7, "prompt": []}, "sessionId"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": "text"}, "prompt"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": []}, "empty"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "text", "text": " \n"}]}, "empty"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "text", "text": "a\0b"}]}, "NUL"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]}, "audio"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "text", "text": "x" * 11_000_000}]}, "10 MB"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "resource_link", "uri": "file:///etc/passwd", "name": "passwd"}]}, "not a file of"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "resource_link", "uri": "file:REPO/../../x", "name": "x"}]}, "not a file of"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "resource", "resource": {"uri": "file:///x.png", "blob": "AAAA"}}]}, "not text"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "text", "text": "/answer"}]}, "/answer takes"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "text", "text": "/merge"}]}, "no run yet"),
        ("session/prompt", {"sessionId": "SESSION", "prompt": [{"type": "text", "text": "/flow ../../etc/passwd"}]}, "there is no flow"),
        ("session/set_mode", {"sessionId": "SESSION", "modeId": "yolo"}, "no value of strategy"),
        ("session/set_config_option", {"sessionId": "SESSION", "configId": "colour", "value": "red"}, "no option"),
        ("session/set_config_option", {"sessionId": "SESSION", "configId": "merge", "value": "always"}, "no value of merge"),
        ("session/set_config_option", {"sessionId": "SESSION", "configId": "budget", "value": "-1"}, "no value of budget"),
        ("session/set_config_option", {"sessionId": "SESSION", "configId": "merge", "type": "boolean", "value": True}, "merge"),
        ("session/load", {"sessionId": "SESSION", "cwd": "/", "mcpServers": []}, "is about"),
        ("authenticate", {"methodId": "nothing"}, "no login method"),
        ("session/list", {"cursor": "x/y"}, "cursor"),
    ],
)  # fmt: skip
def test_parameters_that_are_wrong_are_named(
    client: Editor, repo: Repo, method: str, params: dict[str, Any], words: str
) -> None:
    text = json.dumps(params).replace("SESSION", client.new_session(repo)).replace("REPO", str(repo.folder))
    error = client.refused(method, **json.loads(text))
    assert error["code"] == -32602
    assert words in error["message"]


@pytest.mark.parametrize(
    "method", ["session/prompt", "session/load", "session/resume", "session/close", "session/delete"]
)
def test_unknown_sessions_are_refused(client: Editor, repo: Repo, method: str) -> None:
    more = {"cwd": str(repo.folder), "mcpServers": [], "prompt": [{"type": "text", "text": "x"}]}
    error = client.refused(method, sessionId="never-made", **more)
    assert error["code"] == -32002
    assert "never-made" in error["message"]


def test_unknown_methods_are_refused_and_unknown_notices_ignored(client: Editor) -> None:
    assert client.refused("session/fly")["code"] == -32601
    client.notify("session/fly")
    client.notify("session/cancel", sessionId="never-made")
    client.notify("session/cancel", nothing=1)
    client.notify("$/cancel_request", requestId="never-sent")
    client.notify("$/anything")


def test_who_logs_out_logs_in_before_the_next_session(user: Corral, repo: Repo) -> None:
    with editor(user) as client:
        assert client.initialize()["agentCapabilities"]["auth"] == {"logout": {}}
        session = client.new_session(repo)
        assert client.request("logout") == {}
        for method, named in (("new", {}), ("load", {"sessionId": session}), ("resume", {"sessionId": session})):
            refused = client.refused(f"session/{method}", cwd=str(repo.folder), mcpServers=[], **named)
            assert (refused["code"], refused["data"]["hint"]) == (-32000, "authenticate with the method corral")
        assert client.prompt(session, "/status") == "end_turn", "what is open stays open"
        client.request("authenticate", methodId="corral")
        assert client.new_session(repo)


def test_a_prompt_while_a_run_works_is_refused_and_the_run_untouched(client: Editor, user: Corral, repo: Repo) -> None:
    session = client.new_session(repo)
    client.choose(session, agent="slow")
    number = client.begin_prompt(session, "wait")
    client.until_update("tool_call_update", lambda each: "I wait" in str(each))
    refused = client.error(client.begin_prompt(session, "and this"))
    assert "being worked on" in refused["message"]
    assert [run["status"] for run in runs_of(user, session)] == ["running"]
    client.notify("session/cancel", sessionId=session)
    assert client.result(number)["stopReason"] == "cancelled"


def test_half_a_character_is_refused_by_the_id_of_its_request(client: Editor) -> None:
    """Clients in JavaScript write one where they cut a text in the middle of a pair of surrogates."""
    line = '{"jsonrpc": "2.0", "id": "cut", "method": "session/prompt", "params": {"prompt": "\\ud83d"}}'
    error = raw(client, line, "cut")
    assert error["code"] == -32600
    assert "half a character" in error["message"]
    assert client.request("session/list")


LONG = "x" * (64 << 20)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (f'{{"jsonrpc": "2.0", "id": "far", "method": "session/prompt", "params": {{"prompt": "{LONG}"}}}}', "far"),
        (f'{{"params": {{"prompt": "{LONG}", "id": 5}}, "method": "session/prompt", "id": 4711}}', 4711),
        (f'{{"method": "session/prompt", "params": {{"prompt": "{LONG}", "id": 5}}}}', None),
        (f'{{"id": 4711, "result": {{"outcome": "{LONG}"}}}}', None),
    ],
    ids=["first", "last", "none", "answer"],
)
def test_a_request_that_is_too_long_is_refused_by_its_id(client: Editor, line: str, number: Any) -> None:
    error = raw(client, line, number)
    assert (error["code"], error["message"]) == (-32600, "a message of more than 64 MB is not read")
    assert client.request("session/list")


def test_answers_that_nobody_waits_for_change_nothing(client: Editor) -> None:
    client.send(id=12345, result={"outcome": {"outcome": "selected", "optionId": "merge"}})
    client.send(id="text", result={})
    client.send(id=None, result=None)
    client.send(id=9, error={"code": -1, "message": "no"})
    assert "sessions" in client.request("session/list")


def test_a_client_that_closes_in_the_middle_of_a_line(user: Corral) -> None:
    with editor(user) as client:
        client.initialize()
        client.write(b'{"jsonrpc": "2.0", "id": 7, "method": "session/n')
        assert client.hang_up() == 0


def test_a_client_that_is_gone_before_it_says_a_word(user: Corral) -> None:
    with editor(user) as client:
        assert client.hang_up() == 0


def test_nobody_reads_from_the_beginning(user: Corral) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with user.start("acp", stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.DEVNULL) as process:
        os.close(writer)
        assert process.stdin
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n')
        process.stdin.flush()
        assert process.wait(60) == 0
