"""Claude Code: `claude -p --output-format stream-json`, the prompt on stdin."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

from corral.events import CalledTool, Changed, Ended, Event, Limited, Said, Spent, Started, ToolReturned, Unparsed
from corral.model import AgentFacts, AgentProfile, AgentTask, Command, ErrorClass, Failure, Tokens

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


class _Usage(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class _Block(Struct):
    type: str
    text: str = ""
    name: str = ""
    id: str = ""
    input: Raw = Raw(b"")
    tool_use_id: str = ""
    is_error: bool | None = None
    content: Raw = Raw(b"")


class _Message(Struct):
    content: str | list[_Block] = ""


class _Denial(Struct):
    tool_name: str = ""


class _Line(Struct):
    type: str
    subtype: str = ""
    session_id: str | None = None
    model: str | None = None
    claude_code_version: str | None = None
    message: _Message | None = None
    is_error: bool = False
    result: str | None = None
    total_cost_usd: float | None = None
    usage: _Usage | None = None
    permission_denials: list[_Denial] = field(default_factory=list[_Denial])
    api_error_status: int | None = None
    structured_output: Raw = Raw(b"")


class _ToolInput(Struct):
    """The arguments that a person wants to see of a call."""

    file_path: str | None = None
    notebook_path: str | None = None
    command: str | None = None
    pattern: str | None = None
    url: str | None = None
    query: str | None = None
    description: str | None = None
    prompt: str | None = None


_DECODE = msgspec.json.Decoder(_Line)
_DECODE_INPUT = msgspec.json.Decoder(_ToolInput)
MOST_TOOL_OUTPUT = 2000


class ClaudeConversation:
    def __init__(self) -> None:
        self._writing: dict[str, str] = {}  # call -> path, until the tool says it worked
        self._ended = False

    def read(self, line: str) -> list[Event]:
        try:
            message = _DECODE.decode(line)
        except (msgspec.DecodeError, UnicodeError):
            return [Unparsed(line)]
        match message.type:
            case "assistant" | "user":
                return self._blocks(message.message)
            case "result":
                self._ended = True
                return self._result(message)
            case "system" if message.subtype == "init":
                return [Started(message.session_id, message.model, message.claude_code_version)]
            case _:
                return []

    def exited(self, code: int, stderr: str) -> list[Event]:
        if self._ended:
            return []
        words = stderr.strip().splitlines()
        reason = f": {words[-1]}" if words else ""
        return [Ended(ok=False, error=Failure("crash", f"claude ended with {code} and no result{reason}"))]

    def _blocks(self, message: _Message | None) -> list[Event]:
        if message is None or isinstance(message.content, str):
            return []
        return [event for block in message.content for event in self._block(block)]

    def _block(self, block: _Block) -> list[Event]:
        match block.type:
            case "text":
                return [Said(block.text)] if block.text else []
            case "tool_use":
                shown, path = _shown(block.input)
                if path and block.name in WRITERS:
                    self._writing[block.id] = path
                return [CalledTool(block.name, shown, block.id)]
            case "tool_result":
                ok = not block.is_error
                returned = ToolReturned(block.tool_use_id, ok, _text(block.content))
                path = self._writing.pop(block.tool_use_id, None)
                return [returned, Changed(path)] if path and ok else [returned]
            case _:
                return []

    def _result(self, message: _Line) -> list[Event]:
        usage = message.usage or _Usage()
        tokens = Tokens(
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
        )
        return [Spent(tokens, message.total_cost_usd), *_ending(message)]


def _ending(message: _Line) -> list[Event]:
    text = message.result or ""
    if message.subtype == "error_max_budget_usd":
        return [Ended(ok=False, text=text, status="over_budget")]
    if message.subtype == "error_max_turns":
        return [Ended(ok=False, text=text, error=Failure("bad_output", "it used up its turns before it was done"))]
    if message.is_error or message.subtype != "success":
        kind = _error_class(message.api_error_status, text)
        failure = Failure(kind, text or message.subtype or "claude reported an error", HINTS.get(kind, ""))
        limited: list[Event] = [Limited(text)] if kind == "rate_limit" else []
        return [*limited, Ended(ok=False, text=text, error=failure)]
    output = msgspec.json.decode(message.structured_output) if bytes(message.structured_output) else None
    denied = tuple(dict.fromkeys(denial.tool_name for denial in message.permission_denials))
    return [Ended(ok=True, text=text, output=output, denied=denied)]


HINTS: dict[ErrorClass, str] = {
    "auth": "log in with `claude`, or set ANTHROPIC_API_KEY",
    "not_found": "is the model's name right? --agent claude:MODEL",
    "context_too_long": "give it a smaller task or fewer files",
}


def _error_class(status: int | None, text: str) -> ErrorClass:
    words = text.lower()
    match status:
        case 401 | 403:
            return "auth"
        case 404:
            return "not_found"
        case 429:
            return "rate_limit"
        case 500 | 502 | 503 | 504 | 529:
            return "overloaded"
        case _:
            pass
    if "prompt is too long" in words or "context window" in words:
        return "context_too_long"
    if "invalid api key" in words or "/login" in words or "authentication" in words:
        return "auth"
    if "usage limit" in words or "rate limit" in words:
        return "rate_limit"
    if "certificate" in words or "ssl" in words:
        return "tls"
    if "connection" in words or "econn" in words or "fetch failed" in words or "timed out" in words:
        return "network"
    return "crash"


def _shown(arguments: Raw) -> tuple[str, str | None]:
    """Return the argument worth showing, and the path the tool works on."""
    try:
        known = _DECODE_INPUT.decode(arguments)
    except msgspec.DecodeError:
        return bytes(arguments).decode(errors="replace")[:200], None
    path = known.file_path or known.notebook_path
    shown = path or known.command or known.pattern or known.url or known.query or known.description or known.prompt
    return (shown if shown is not None else bytes(arguments).decode(errors="replace"))[:500], path


def _text(content: Raw) -> str:
    """Return a tool's answer as text: it comes as a string or as a list of blocks."""
    raw = bytes(content)
    if not raw:
        return ""
    try:
        if raw.startswith(b'"'):
            return msgspec.json.decode(raw, type=str)[:MOST_TOOL_OUTPUT]
        blocks = msgspec.json.decode(raw, type=list[_Block])
        return "\n".join(block.text for block in blocks if block.text)[:MOST_TOOL_OUTPUT]
    except msgspec.DecodeError:
        return raw[:MOST_TOOL_OUTPUT].decode(errors="replace")
