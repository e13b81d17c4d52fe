"""Clients that others made, and clients with the habits of editors, each against the installed `corral acp`."""

import asyncio
import json
import subprocess
from typing import Any

import pytest
from acp import RequestError, spawn_agent_process
from acp.client import ClientSideConnection
from acp.schema import (
    ClientCapabilities,
    RequestPermissionResponse,
    TextContentBlock,
)

from corral.agents.acp import of_command
from corral.model.agent_api import AgentProfile, AgentTask, HangUp, Line
from corral.model.events import Asked, Ended, Planned
from tests.rig.acp_schema import packages
from tests.rig.agents import programs
from tests.rig.command import PROGRAM, TIMEOUT_SECONDS, Corral
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
    assert told.agent_capabilities
    assert told.agent_capabilities.auth
    assert told.agent_capabilities.auth.logout
    await connection.logout()
    with pytest.raises(RequestError, match="logged out"):
        await connection.new_session(cwd=str(repo.folder), mcp_servers=[])
    await connection.authenticate(method_id="corral")
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


def acpx(user: Corral, repo: Repo, *words: str, code: int = 0) -> list[Message]:
    """Have acpx drive `corral acp` in a repository; return the lines that it printed."""
    served = " ".join([*PRELOADED.stand_in(PROGRAM), "acp"])
    command = [str(programs() / "node"), str(packages() / "acpx" / "dist" / "cli.js"), "--agent", served]
    command += ["--cwd", str(repo.folder), "--format", "json", *words]
    env = {**user.env, "PATH": f"{programs()}:{user.env['PATH']}"}
    done = subprocess.run(command, env=env, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    assert done.returncode == code, done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]


def test_acpx_approves(user: Corral, repo: Repo) -> None:
    lines = acpx(user, repo, "--approve-all", "exec", "write said.txt")
    assert "end_turn" in json.dumps(lines)
    assert (repo.folder / "said.txt").read_text() == "write said.txt\n", "all was approved, the merge too"


def test_acpx_denies(user: Corral, repo: Repo) -> None:
    acpx(user, repo, "--deny-all", "exec", "write said.txt", code=5)  # as acpx says that it denied something
    assert not (repo.folder / "said.txt").exists()
    (run,) = user("ls", "--repo", repo.folder, "--json").json
    assert run["status"] == "done"


def test_our_own_client_drives_it(user: Corral, repo: Repo) -> None:
    """Corral in corral: the conversation of `acp:` agents with `corral acp`, both ends as they are."""
    agent = of_command("inner", AgentProfile(command=(str(PROGRAM), "acp"), output="acp"))
    task = AgentTask(prompt="write said.txt", workspace=str(repo.folder), home=str(user.root))
    talk, events = agent.converse(task), list[Any]()
    with editor(user) as served:
        served.write(agent.start(task).stdin)
        while not any(isinstance(each, HangUp) for each in events):
            for heard in talk.read(served.next_line().decode().rstrip("\n")):
                events.append(heard)
                if isinstance(heard, Line):
                    served.write(heard.text.encode() + b"\n")
    (ended,) = [each for each in events if isinstance(each, Ended)]
    assert ended.ok
    assert [each for each in events if isinstance(each, Planned)]
    assert [each for each in events if isinstance(each, Asked)]
    assert "Merged into main" in ended.text, "it allows what it is asked, for its own box holds it"
    assert (repo.folder / "said.txt").exists()


def test_corral_in_corral_ends_at_a_depth(user: Corral, repo: Repo) -> None:
    user.agent("deep", 'echo "$CORRAL_DEPTH" > depth.txt')
    run = user("run", "x", "--agent", "deep", "--merge", "auto", "--json", cwd=repo.folder).json
    assert run["merge"]["status"] == "merged"
    assert (repo.folder / "depth.txt").read_text() == "1\n"
    inner = user("run", "x", "--agent", "deep", "--json", cwd=repo.folder, env={"CORRAL_DEPTH": "1"})
    assert inner.json["status"] == "done", "an agent may use corral"
    refused = user("run", "x", "--agent", "deep", cwd=repo.folder, env={"CORRAL_DEPTH": "2"})
    assert refused.code == 2
    assert "2 deep: it may start no further runs" in refused.err


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
