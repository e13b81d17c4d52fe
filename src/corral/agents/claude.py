"""Claude Code: `claude -p --output-format stream-json`, the prompt on stdin."""

from __future__ import annotations

from corral.agents.stream_json import Dialect, StreamJson
from corral.model import AgentFacts, AgentProfile, AgentTask, Command

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_RETRIES": "3",  # its own default keeps trying for minutes, even when the key is wrong
}
WRITERS = ("Write", "Edit", "NotebookEdit", "MultiEdit")
#: A repository may switch the agent's inner sandbox on; inside ours every command would then fail unseen.
INNER_SANDBOX_OFF = '{"sandbox":{"enabled":false}}'
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
        login=(".claude/.credentials.json",),
        resumes=True,
        reports_cost=True,
        install="npm install -g @anthropic-ai/claude-code",
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile

    def start(self, task: AgentTask) -> Command:
        arguments = ["-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"]
        arguments += ["--settings", INNER_SANDBOX_OFF]
        if task.boxed:
            arguments += ["--dangerously-skip-permissions"]
        else:
            arguments += ["--permission-mode", "acceptEdits", "--allowedTools", "Write,Edit,Read,Bash,Glob,Grep"]
        if task.read_only:
            arguments += ["--disallowedTools", ",".join(WRITERS)]
        if model := task.model or self._profile.model:
            arguments += ["--model", model]
        if task.budget_usd is not None:
            arguments += ["--max-budget-usd", f"{task.budget_usd:.4f}"]
        if task.session:
            arguments += ["--resume", task.session]
        return Command(
            argv=(self._profile.program or "claude", *arguments),
            env={**QUIET, "CLAUDE_CONFIG_DIR": f"{task.home}/.claude"},
            stdin=task.prompt.encode(),
        )

    def converse(self) -> ClaudeConversation:
        return ClaudeConversation()


class ClaudeConversation(StreamJson):
    """Reads what Claude Code prints."""

    def __init__(self) -> None:
        super().__init__(DIALECT)
