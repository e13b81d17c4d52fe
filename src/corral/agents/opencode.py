"""OpenCode: `opencode run --format json`, the prompt on stdin."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field, structs

from corral.agents.formats import call_hook, error_words
from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.agents.formats.tool_arguments import main_argument
from corral.agents.formats.usage import reported_tokens, total_usd
from corral.model import ErrorClass, Failure, Tokens
from corral.model.agent_api import (
    AgentFacts,
    AgentProfile,
    AgentTask,
    Command,
    End,
    McpServer,
    ProgramVariant,
    Provider,
    image_path,
)
from corral.model.errors import BadRequest
from corral.model.events import (
    AgentEvent,
    CalledTool,
    Changed,
    ContextUsed,
    Ended,
    Said,
    Spent,
    Started,
    ToolReturned,
    Unparsed,
)
from corral.model.values import token_count

MOST_TOOL_OUTPUT = 2000
WRITERS = ("write", "edit", "multiedit", "patch", "apply_patch")
QUIET = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    "OPENCODE_DISABLE_TERMINAL_TITLE": "1",
}
OVERFLOW = "ContextOverflowError"  #: reported, then repaired by opencode itself; it still exits with 1
MODALITIES = {"input": ["text", "image"], "output": ["text"]}  #: of a model that only its address is known of
CUSTOM = "custom"  #: what a provider is called whose model was named without one
HINTS: dict[ErrorClass, str] = {
    "auth": "log in with `opencode auth login`, or set the provider's key",
    "not_found": "is the model's name right? --agent opencode:PROVIDER/MODEL",
    "context_too_long": "give it a smaller task or fewer files",
}
#: Of an MCP server; without it, a server that does not answer within 5 s is left out silently.
PATIENT = {"enabled": True, "timeout": 60_000}
MOST_ARGUMENT = 100_000  #: the kernel refuses single arguments over 128 KiB
MOST_KEPT = 1 << 20  #: of what it printed


class OpenCode:
    facts = AgentFacts(
        name="opencode",
        family="mcp",
        programs=("opencode",),
        keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_API_KEY"),
        address=("OPENAI_BASE_URL",),
        form=ProgramVariant(ask=("run", "--help"), sign="--format", otherwise=("OPENCODE_LEGACY", "1")),
        provider=Provider(address="OPENAI_BASE_URL", keys=("OPENAI_API_KEY",)),
        hosts=(
            "api.anthropic.com",
            "api.openai.com",
            "generativelanguage.googleapis.com",
            "openrouter.ai",
            "opencode.ai",
        ),
        needless_hosts=("models.dev",),
        login=(".local/share/opencode/auth.json",),
        resumes=True,
        reports_cost=True,
        models="PROVIDER/MODEL",
        mcp=True,
        mcp_url=True,
        acp="opencode acp",
        reads=("AGENTS.md", "CLAUDE.md"),
        install="npm install -g opencode-ai",
        rules="hook",
        images=True,
        oldest="1.18.33",
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile
        self._legacy = profile.settings.get("OPENCODE_LEGACY", "") not in ("", "0")
        self._url = profile.settings.get("OPENAI_BASE_URL")
        if self._legacy:
            self.facts = structs.replace(self.facts, rules="no")

    def start(self, task: AgentTask) -> Command:
        program = self._profile.program or "opencode"
        if self._legacy:
            return start_go(program, task)
        model = task.model or self._profile.model
        if self._url and not model:
            raise BadRequest(
                "opencode cannot tell which model to ask for at OPENAI_BASE_URL", hint="--agent opencode:MODEL"
            )
        if model and self._url and "/" not in model:
            model = f"{CUSTOM}/{model}"
        arguments = ["run", "--format", "json", "--dir", task.workspace]
        if model:
            arguments += ["--model", model]
        if task.session:
            arguments += ["--session", task.session]
        arguments += [f"--file={image_path(task, image)}" for image in task.images if not task.session]
        # What is in the environment counts more than a file of the repository's.
        config = msgspec.json.encode(self._config(task, model)).decode()
        return Command(
            argv=(program, *arguments),
            env={**QUIET, "OPENCODE_CONFIG_CONTENT": config},
            stdin=task.prompt.encode(),
            files=call_hook.plugin(task),
        )

    def interact(self, task: AgentTask) -> Command | None:
        if self._legacy:
            return None
        started = self.start(task)
        named = started.argv.index("--dir") + 2  # the model and the session come after it
        return structs.replace(started, argv=(started.argv[0], task.workspace, *started.argv[named:]), stdin=b"")

    def _config(self, task: AgentTask, model: str | None) -> dict[str, object]:
        # Without a user at hand "ask" is a refusal.
        outside = "allow" if task.boxed else "deny"
        permission = {
            "edit": "deny" if task.read_only else "allow",
            "bash": "allow",
            "webfetch": outside,
            "external_directory": outside,
            "doom_loop": "deny",
        }
        config: dict[str, object] = {"autoupdate": False, "share": "disabled", "permission": permission}
        if model:
            config["model"] = model
        if task.hook:
            config["plugin"] = [f"file://{task.home}/{call_hook.PLUGIN}"]
        if task.mcp:
            config["mcp"] = {server.name: _server(server) for server in task.mcp}
        if not (self._url and model):
            return config
        provider, _, name = model.partition("/")
        made = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": self._url, "apiKey": "{env:OPENAI_API_KEY}"},
            "models": {name: {"tool_call": True, "attachment": True, "modalities": MODALITIES}},
        }
        return {**config, "small_model": model, "enabled_providers": [provider], "provider": {provider: made}}

    def converse(self, _: AgentTask) -> OpenCodeConversation | GoConversation:
        return GoConversation() if self._legacy else OpenCodeConversation()


def _server(server: McpServer) -> dict[str, object]:
    if server.url:
        return {"type": "remote", "url": server.url, "headers": dict(server.headers), "oauth": False, **PATIENT}
    command = [server.command, *server.args]
    return {"type": "local", "command": command, "environment": dict(server.env), **PATIENT}


def _filled_events(used: _Tokens | None) -> list[AgentEvent]:
    tokens = (
        token_count(reported_tokens(used.input, used.output, used.cache.read, used.cache.write).total) if used else 0
    )
    return [ContextUsed(tokens)] if tokens else []


class _Cache(Struct):
    read: object = 0
    write: object = 0


class _Tokens(Struct):
    input: object = 0
    output: object = 0
    reasoning: object = 0
    cache: _Cache = field(default_factory=_Cache)


class _State(Struct):
    status: str = ""
    input: Raw = Raw(b"")
    output: str = ""
    error: str = ""


class _OpenCodePart(Struct):
    text: str = ""
    tool: str = ""
    callID: str = ""  # noqa: N815 -- as it is called
    state: _State | None = None
    reason: str = ""
    tokens: _Tokens | None = None
    cost: object = 0.0


class _ErrorData(Struct):
    message: str = ""
    statusCode: object = None  # noqa: N815


class _Error(Struct):
    name: str = ""
    data: _ErrorData = field(default_factory=_ErrorData)


class _OpenCodeLine(Struct):
    type: str
    sessionID: str | None = None  # noqa: N815
    part: _OpenCodePart | None = None
    error: _Error | None = None


_DECODE = msgspec.json.Decoder(_OpenCodeLine)


class OpenCodeConversation:
    """It neither says that it starts nor that it ends: the last step's reason and its exit code must agree."""

    def __init__(self) -> None:
        self._session: str | None = None
        self._said = ""
        self._reason = ""
        self._error: _Error | None = None
        self._tokens = Tokens()
        self._usd: float | None = 0.0
        self._denied: dict[str, None] = {}
        self._used_tools = False
        self._shortened = False  # its context overflowed, it shortened it by itself, and continued

    def read(self, line: str) -> list[AgentEvent]:
        try:
            message = decode(_DECODE, line)
        except UNREADABLE:
            return [Unparsed(line)]
        started: list[AgentEvent] = []
        if message.sessionID and self._session is None:
            self._session = message.sessionID
            started = [Started(message.sessionID)]
        return [*started, *self._read(message)]

    def _read(self, message: _OpenCodeLine) -> list[AgentEvent]:
        part = message.part or _OpenCodePart()
        match message.type:
            case "text":
                self._said = part.text or self._said
                return [Said(part.text)] if part.text else []
            case "tool_use":
                return self._tool_use_events(part, part.state or _State())
            case "step_start":
                self._reason = ""
                return []
            case "step_finish":
                self._shortened = self._shortened or (self._error is not None and self._error.name == OVERFLOW)
                self._reason, self._error = part.reason, None
                return [self._spent_event(part), *_filled_events(part.tokens)]
            case "error":
                self._error = message.error or _Error("error")
                return []
            case _:
                return []

    def exited(self, end: End) -> list[AgentEvent]:
        if self._error:
            data = self._error.data
            status = data.statusCode if isinstance(data.statusCode, int) else None
            return error_words.failed(status, data.message or self._error.name, text=self._said, hints=HINTS)
        if self._reason == "stop" and end.code == (1 if self._shortened else 0):
            return [error_words.ended_well(self._said, used_tools=self._used_tools, denied=self._denied)]
        if self._reason == "content-filter":
            return [Ended(ok=False, text=self._said, error=Failure("refused", "the provider refused to answer"))]
        if self._reason == "length":
            return [Ended(ok=False, text=self._said, error=Failure("bad_output", "its answer was cut off"))]
        return error_words.no_result("opencode", end.code, end.stderr, text=self._said, hints=HINTS)

    def _tool_use_events(self, part: _OpenCodePart, state: _State) -> list[AgentEvent]:
        self._used_tools = True
        words, path = main_argument(state.input)
        ok = state.status == "completed"
        if "rejected permission" in state.error or "prevents you from using" in state.error:
            self._denied[part.tool] = None
        events: list[AgentEvent] = [
            CalledTool(part.tool, words, part.callID),
            ToolReturned(part.callID, ok, (state.output or state.error)[:MOST_TOOL_OUTPUT]),
        ]
        return [*events, Changed(path)] if ok and path and part.tool in WRITERS else events

    def _spent_event(self, part: _OpenCodePart) -> Spent:
        used = part.tokens or _Tokens()
        self._tokens += reported_tokens(used.input, used.output, used.cache.read, used.cache.write)
        self._tokens += reported_tokens(0, used.reasoning)
        self._usd = total_usd(self._usd, part.cost)
        return Spent(self._tokens, self._usd or None)  # nothing: it does not know the model's price


AGENTS = {"opencode": OpenCode}  #: by the names they are asked for


def start_go(program: str, task: AgentTask) -> Command:
    if len(task.prompt.encode()) > MOST_ARGUMENT:
        raise BadRequest("the task is too long for an argument of the old `opencode`", hint="use the current one")
    return Command(argv=(program, "-p", task.prompt, "-f", "json", "-q", "-c", task.workspace))


class _Response(Struct):
    response: str


class GoConversation:
    """One JSON object, printed at the end over several lines; anything else, such as its help, is no result."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0

    def read(self, line: str) -> list[AgentEvent]:
        self._size += len(line)
        if self._size <= MOST_KEPT:
            self._lines.append(line)
        return []

    def exited(self, end: End) -> list[AgentEvent]:
        text = "\n".join(self._lines)
        try:
            said = msgspec.json.decode(text, type=_Response).response
        except UNREADABLE:
            return error_words.no_result("opencode", end.code, end.stderr or text)
        if end.code != 0 or not said.strip():
            return error_words.no_result("opencode", end.code, end.stderr or said, text=said)
        return [Said(said), Ended(ok=True, text=said)]
