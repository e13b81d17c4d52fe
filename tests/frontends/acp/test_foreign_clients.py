"""Clients that others made, and clients with the habits of editors, each against the installed `corral acp`."""

import asyncio
from typing import Any

import pytest
from acp import RequestError, spawn_agent_process
from acp.client import ClientSideConnection
from acp.schema import (
    ClientCapabilities,
    RequestPermissionResponse,
    TextContentBlock,
)

from tests.rig.command import PROGRAM, Corral
from tests.rig.editor import Editor, Message, choosing, editor, runs_of
from tests.rig.preloaded import PRELOADED
from tests.rig.repository import Repo


class SdkClient:
    """A client of the official Python SDK that merges whatever it is asked about."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.said = ""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        assert session_id
        self.kinds.append(update.session_update)
        if update.session_update == "agent_message_chunk":
            self.said += update.content.text

    async def request_permission(self, **asked: Any) -> RequestPermissionResponse:
        assert {"merge", "later", "reject"} <= {option.option_id for option in asked["options"]}
        return RequestPermissionResponse.model_validate({"outcome": {"outcome": "selected", "optionId": "merge"}})


async def drive(connection: ClientSideConnection, client: SdkClient, repo: Repo) -> None:
    told = await connection.initialize(protocol_version=1, client_capabilities=ClientCapabilities())
    assert told.agent_info
    assert told.agent_info.name == "corral"
    opened = await connection.new_session(cwd=str(repo.folder), mcp_servers=[])
    session = opened.session_id
    assert opened.config_options
    await connection.set_config_option(config_id="merge", session_id=session, value="ask")
    await connection.set_session_mode(session_id=session, mode_id="single")
    answer = await connection.prompt(session_id=session, prompt=[TextContentBlock(type="text", text="write said.txt")])
    assert answer.stop_reason == "end_turn"
    assert {"plan", "tool_call", "tool_call_update", "agent_message_chunk"} <= set(client.kinds)
    assert "Merged into main" in client.said
    listed = await connection.list_sessions(cwd=str(repo.folder))
    assert [each.session_id for each in listed.sessions] == [session]
    await connection.load_session(cwd=str(repo.folder), session_id=session, mcp_servers=[])
    await connection.resume_session(session_id=session, cwd=str(repo.folder))
    await connection.close_session(session_id=session)
    await connection.delete_session(session_id=session)
    await connection.logout()
    with pytest.raises(RequestError, match="there is no session"):
        await connection.load_session(cwd=str(repo.folder), session_id=session, mcp_servers=[])


def test_the_official_python_sdk(user: Corral, repo: Repo) -> None:
    async def work() -> None:
        client = SdkClient()
        command, *words = PRELOADED.stand_in(PROGRAM)
        async with spawn_agent_process(client, command, *words, "acp", env=user.env, cwd=user.root) as (connection, _):  # pyright: ignore[reportArgumentType]
            await drive(connection, client, repo)

    asyncio.run(work())
    assert (repo.folder / "said.txt").exists()


def test_a_client_with_the_habits_of_codecompanion(user: Corral, repo: Repo) -> None:
    """Files only, the first login method if any, a limit of 20 s, foreign sessions dropped, permissions in a turn."""
    with editor(user) as client:
        told = client.initialize({"fs": {"readTextFile": True, "writeTextFile": True}})
        client.request("authenticate", methodId=told["authMethods"][0]["id"])
        session = client.new_session(repo)
        working = False

        def reply(call: Message) -> Message | None:
            assert working, "never answered outside a turn"
            assert call["params"]["sessionId"] == session
            return choosing("merge")(call)

        client.reply = reply
        working = True
        assert client.prompt(session, "write said.txt") == "end_turn"
        working = False
        assert {each["params"]["sessionId"] for each in client.got if "method" in each} == {session}
        listed = client.request("session/list", cwd=str(repo.folder))["sessions"]
        client.request("session/load", sessionId=listed[0]["sessionId"], cwd=str(repo.folder), mcpServers=[])
        assert (repo.folder / "said.txt").exists()


def test_a_client_with_the_habits_of_jetbrains(user: Corral) -> None:
    """One process for each project, set_model early, unknown _meta, the end of stdin without a cancel."""
    sessions: list[tuple[Editor, str]] = []
    projects = [user.repo("project-one"), user.repo("project-two")]
    with editor(user) as one, editor(user) as two:
        for client, project in zip((one, two), projects, strict=True):
            client.request(
                "initialize",
                protocolVersion=1,
                clientCapabilities={"_meta": {"jetbrains.air.any": {"x": 1}}},
                _meta={"jetbrains": True},
            )
            new = client.request("session/new", cwd=str(project.folder), mcpServers=[], _meta={"jetbrains": [1]})
            client.request("session/set_model", sessionId=new["sessionId"], modelId="slow")
            assert "result" in client.got[1], "commands come only after the answer"
            client.begin_prompt(new["sessionId"], "wait")
            client.until_update("tool_call_update", lambda each: "I wait" in str(each))
            sessions.append((client, new["sessionId"]))
        for client, _ in sessions:
            assert client.hang_up() == 0
    for _, session in sessions:
        (run,) = runs_of(user, session)
        assert run["status"] == "running", "an IDE that is closed stops nothing"
        assert user("stop", run["run"]).code == 0
