"""Claude Code: `claude -p` with stream-json both ways, so that messages reach it while it works."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from corral.agents.formats import call_hook, mcp_config
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
from corral.model.events import AgentEvent, Ended, SteerTaken
from corral.model.flow import TaskImage

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
SETTINGS = ".corral/claude.json"  #: below HOME; the same with a hook: what is named counts more than a repository's
INTERRUPT = '{"type":"control_request","request_id":"pause","request":{"subtype":"interrupt"}}'
KEY_END = 20  #: characters by which it remembers a key that its user approved
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
        rules="hook",
        images=True,
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile

    def start(self, task: AgentTask) -> Command:
        arguments = ["-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"]
        arguments += ["--input-format", "stream-json", "--replay-user-messages"]  # said back once it is taken in
        arguments += ["--settings", _settings(task)]
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
            stdin=_message(task.prompt, () if task.session else task.images).encode() + b"\n",
            files={**mcp_config.file(task.mcp, mcp_config.ServerFormat(kind="stdio")), **_hook_files(task)},
            talks=True,
        )

    def interact(self, task: AgentTask) -> Command:
        arguments = ["--strict-mcp-config", "--settings", _settings(task)]
        if task.mcp:
            arguments += ["--mcp-config", f"{task.home}/{mcp_config.FILE}"]
        if task.boxed:
            arguments += ["--dangerously-skip-permissions"]
        if model := task.model or self._profile.model:
            arguments += ["--model", model]
        if task.session:
            arguments += ["--resume", task.session]
        return Command(
            argv=(self._profile.program or "claude", *arguments),
            env={**QUIET, "CLAUDE_CONFIG_DIR": f"{task.home}/.claude"},
            files={
                **mcp_config.file(task.mcp, mcp_config.ServerFormat(kind="stdio")),
                **_hook_files(task),
                ".claude/.claude.json": msgspec.json.encode(_first_answers(task)),
            },
        )

    def converse(self, _: AgentTask) -> ClaudeConversation:
        return ClaudeConversation()


class ClaudeConversation(StreamJson):
    """Reads what Claude Code prints, and tells it more while it works."""

    def __init__(self) -> None:
        super().__init__(DIALECT)
        self._opened = False  # the task itself has been said back
        self._untaken = 0  # messages sent to it that it has not echoed yet

    def _turn(self, events: list[AgentEvent]) -> list[AgentEvent | Line | HangUp]:
        """Count the messages that it was sent and has taken in."""
        *before, last = events
        if isinstance(last, SteerTaken):
            if not self._opened:
                self._opened = True
                return []
            self._untaken -= 1
            return [*events]
        if isinstance(last, Ended) and last.ok and self._untaken > 0:
            return [*before]  # it takes the next message now, and ends once more
        return [*events, HangUp()]

    def tell(self, order: Telling) -> list[Line]:
        if isinstance(order, Pause):
            return [Line(INTERRUPT)]
        if not isinstance(order, Steer):
            return []
        self._untaken += 1
        return [Line(_message(order.text))]


def _settings(task: AgentTask) -> str:
    return f"{task.home}/{SETTINGS}" if task.hook else INNER_SANDBOX_OFF


def _hook_files(task: AgentTask) -> dict[str, bytes]:
    """Return the settings that start our hook before each call, for itself and for its adapter to ACP."""
    if not task.hook:
        return {}
    settings = {"sandbox": {"enabled": False}, "disableAllHooks": False, "hooks": call_hook.table(task, "PreToolUse")}
    written = msgspec.json.encode(settings)
    return {**call_hook.files(task), SETTINGS: written, ".claude/settings.json": written}


def _first_answers(task: AgentTask) -> dict[str, object]:
    """Return what it would ask a user first, answered: the box holds it, and the key in it is no real one."""
    folder = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    return {
        "customApiKeyResponses": {"approved": [task.placeholder[-KEY_END:]] if task.placeholder else []},
        "hasCompletedOnboarding": True,
        "bypassPermissionsModeAccepted": task.boxed,
        "projects": {task.workspace: folder},
    }


def reader() -> StreamJson:
    """Return a reader of Claude Code's lines from a program that takes no messages."""
    return StreamJson(DIALECT)


def _message(text: str, images: Sequence[TaskImage] = ()) -> str:
    content: list[dict[str, object]] = [{"type": "text", "text": text}]
    for image in images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.data}
        content.append({"type": "image", "source": source})
    return msgspec.json.encode({"type": "user", "message": {"role": "user", "content": content}}).decode()


AGENTS = {"claude": Claude}  #: by the names they are asked for
OUTPUTS = {"claude": reader}  #: by the names of output in the settings
