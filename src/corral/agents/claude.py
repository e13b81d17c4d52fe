"""Claude Code: `claude -p` with stream-json both ways, so that it can be told something while it works."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from corral.agents.formats import mcp_config
from corral.agents.formats.stream_json import Dialect, StreamJson
from corral.model.agent_api import (
    AgentFacts,
    AgentProfile,
    AgentTask,
    Command,
    HangUp,
    Line,
    Pause,
    Provider,
    Steer,
    Telling,
)
from corral.model.events import AgentEvent, Ended, Heeded

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_RETRIES": "3",  # its own default keeps trying for minutes, even when the key is wrong
}
TOOLS = ("Write", "Edit", "Read", "Bash", "Glob", "Grep")
WRITERS = ("Write", "Edit", "NotebookEdit", "MultiEdit")
#: A repository may switch the agent's inner sandbox on; inside ours every command would then fail unseen.
INNER_SANDBOX_OFF = '{"sandbox":{"enabled":false}}'
INTERRUPT = '{"type":"control_request","request_id":"pause","request":{"subtype":"interrupt"}}'
TURNING = (Heeded, Ended)  #: events on which it depends whether there is more to come
DIALECT = Dialect(
    program="claude",
    writers=WRITERS,
    hints={
        "auth": "log in with `claude`, or set ANTHROPIC_API_KEY",
        "not_found": "is the model's name right? --agent claude:MODEL",
        "context_too_long": "give it a smaller task or fewer files",
    },
)


class Claude:
    facts = AgentFacts(
        name="claude",
        family="mcp",
        programs=("claude",),
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        address=("ANTHROPIC_BASE_URL",),
        provider=Provider(
            address="ANTHROPIC_BASE_URL",
            standard="https://api.anthropic.com",
            keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        ),
        hosts=("api.anthropic.com", "platform.claude.com"),  # the second renews a login
        login=(".claude/.credentials.json",),
        resumes=True,
        conversation=(".claude/projects",),
        reports_cost=True,
        models="sonnet, opus, ...",
        mcp=True,
        mcp_url=True,
        acp="claude-agent-acp",
        reads=("CLAUDE.md",),
        install="npm install -g @anthropic-ai/claude-code",
        oldest="2.1.197",
        schema="table",
        steers="live",
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile

    def start(self, task: AgentTask) -> Command:
        arguments = ["-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"]
        arguments += ["--input-format", "stream-json", "--replay-user-messages"]  # said back once it is taken in
        arguments += ["--settings", INNER_SANDBOX_OFF]
        if task.mcp:
            arguments += ["--mcp-config", f"{task.home}/{mcp_config.FILE}"]
        if task.boxed:
            arguments += ["--dangerously-skip-permissions"]
        else:
            arguments += [
                "--permission-mode",
                "acceptEdits",
                "--allowedTools",
                ",".join([*TOOLS, *(f"mcp__{server.name}" for server in task.mcp)]),
            ]
        if task.read_only:
            arguments += ["--disallowedTools", ",".join(WRITERS)]
        if model := task.model or self._profile.model:
            arguments += ["--model", model]
        if task.budget_usd is not None:
            arguments += ["--max-budget-usd", f"{task.budget_usd:.4f}"]
        if task.schema is not None:
            arguments += ["--json-schema", msgspec.json.encode(task.schema).decode()]
        if task.session:
            arguments += ["--resume", task.session]
        return Command(
            argv=(self._profile.program or "claude", *arguments),
            env={**QUIET, "CLAUDE_CONFIG_DIR": f"{task.home}/.claude"},
            stdin=_message(task.prompt).encode() + b"\n",
            files=mcp_config.file(task.mcp, mcp_config.ServerFormat(kind="stdio")),
            talks=True,
        )

    def converse(self, _: AgentTask) -> ClaudeConversation:
        return ClaudeConversation()


class ClaudeConversation(StreamJson):
    """Reads what Claude Code prints, and tells it more while it works."""

    def __init__(self) -> None:
        super().__init__(DIALECT)
        self._opened = False  # the task itself has been said back
        self._untaken = 0  # messages it was told since, and has not said back

    def read(self, line: str) -> Sequence[AgentEvent | Line | HangUp]:
        events = super().read(line)
        for event in events:
            if type(event) in TURNING:
                return self._turn(events)
        return events

    def _turn(self, events: Sequence[AgentEvent | Line | HangUp]) -> list[AgentEvent | Line | HangUp]:
        """Keep count of what it was told and has taken in."""
        heard: list[AgentEvent | Line | HangUp] = []
        for event in events:
            match event:
                case Heeded() if self._opened:
                    self._untaken -= 1
                    heard.append(event)
                case Heeded():
                    self._opened = True
                case Ended(ok=True) if self._untaken > 0:
                    pass  # it takes the next message now, and ends once more
                case Ended():
                    heard += [event, HangUp()]
                case _:
                    heard.append(event)
        return heard

    def tell(self, order: Telling) -> list[Line]:
        if isinstance(order, Pause):
            return [Line(INTERRUPT)]
        if not isinstance(order, Steer):
            return []
        self._untaken += 1
        return [Line(_message(order.text))]


def reader() -> StreamJson:
    """Return what reads Claude Code's lines from a program that cannot be told anything."""
    return StreamJson(DIALECT)


def _message(text: str) -> str:
    content = [{"type": "text", "text": text}]
    return msgspec.json.encode({"type": "user", "message": {"role": "user", "content": content}}).decode()


AGENTS = {"claude": Claude}  #: by the names they are asked for
