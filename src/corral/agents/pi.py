"""pi: `pi -p --mode json`, the prompt on stdin."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

from corral.agents.formats import error_words
from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.agents.formats.tool_arguments import main_argument
from corral.agents.formats.usage import reported_tokens, total_usd
from corral.model import ErrorClass, Failure, Tokens
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command, End, Provider
from corral.model.errors import BadRequest
from corral.model.events import AgentEvent, CalledTool, Changed, Ended, Said, Spent, Started, ToolReturned, Unparsed

MOST_TOOL_OUTPUT = 2000
WRITERS = ("write", "edit")
QUIET = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
CUSTOM = "custom"  #: what a provider is called whose model was named without one
HINTS: dict[ErrorClass, str] = {
    "auth": "log in with `pi` (/login), or set the provider's key",
    "not_found": "is the model's name right? --agent pi:PROVIDER/MODEL",
    "context_too_long": "give it a smaller task or fewer files",
}


class Pi:
    facts = AgentFacts(
        name="pi",
        family="pi",
        programs=("pi",),
        keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
        address=("OPENAI_BASE_URL",),
        provider=Provider(address="OPENAI_BASE_URL", keys=("OPENAI_API_KEY",)),
        hosts=("api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com", "openrouter.ai"),
        login=(".pi/agent/auth.json",),
        resumes=True,
        conversation=(".pi/agent/sessions",),
        reports_cost=True,
        models="PROVIDER/MODEL",
        reads=("AGENTS.md", "CLAUDE.md"),
        install="npm install -g @mariozechner/pi-coding-agent",
        oldest="0.73.1",
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile
        self._url = profile.settings.get("OPENAI_BASE_URL")

    def start(self, task: AgentTask) -> Command:
        provider, model = self._model(task)
        arguments = ["-p", "--mode", "json"]
        if provider:
            arguments += ["--provider", provider]
        if model:
            arguments += ["--model", model]
        if task.read_only:
            arguments += ["--tools", "read,grep,find,ls"]
        if task.session:
            arguments += ["--session", task.session]
        return Command(
            argv=(self._profile.program or "pi", *arguments),
            env={**QUIET, "PI_CODING_AGENT_DIR": f"{task.home}/.pi/agent"},
            stdin=task.prompt.encode(),
            files={".pi/agent/models.json": _models(provider, model, self._url)} if self._url else {},
        )

    def _model(self, task: AgentTask) -> tuple[str, str]:
        named = task.model or self._profile.model or ""
        provider, slash, model = named.partition("/")
        if slash:
            return provider, model
        if self._url and not named:
            raise BadRequest("pi cannot tell which model to ask for at OPENAI_BASE_URL", hint="--agent pi:MODEL")
        return (CUSTOM if self._url else ""), named

    def converse(self, _: AgentTask) -> PiConversation:
        return PiConversation()


def _models(provider: str, model: str, url: str) -> bytes:
    made = {
        "baseUrl": url,
        "apiKey": "OPENAI_API_KEY",  # the variable's name
        "api": "openai-completions",
        "models": [{"id": model}],
    }
    return msgspec.json.encode({"providers": {provider: made}})


class _Cost(Struct):
    total: object = 0.0


class _PiUsage(Struct):
    input: object = 0
    output: object = 0
    cacheRead: object = 0  # noqa: N815 -- as it is called
    cacheWrite: object = 0  # noqa: N815
    cost: _Cost = field(default_factory=_Cost)


class _PiBlock(Struct):
    type: str = ""
    text: str = ""


class _PiMessage(Struct):
    role: str = ""
    content: str | list[_PiBlock] = ""
    usage: _PiUsage | None = None
    stopReason: str = ""  # noqa: N815
    errorMessage: str | None = None  # noqa: N815


class _PiResult(Struct):
    content: list[_PiBlock] = field(default_factory=list[_PiBlock])


class _PiLine(Struct):
    type: str
    id: str | None = None
    message: _PiMessage | None = None
    toolCallId: str = ""  # noqa: N815
    toolName: str = ""  # noqa: N815
    args: Raw = Raw(b"")
    result: _PiResult | None = None
    isError: bool = False  # noqa: N815


class _Kind(Struct):
    type: str


_DECODE_KIND = msgspec.json.Decoder(_Kind)
_DECODE = msgspec.json.Decoder(_PiLine)
#: The rest repeats the whole message with every piece of it.
READ = ("session", "message_end", "tool_execution_start", "tool_execution_end", "agent_end")


class PiConversation:
    """It ends with 0 whatever happened: only why the last message ended tells."""

    def __init__(self) -> None:
        self._writing: dict[str, str] = {}  # call -> path, until the tool says it worked
        self._tokens = Tokens()
        self._usd: float | None = 0.0
        self._said = ""
        self._last: _PiMessage | None = None
        self._used_tools = False
        self._over = False

    def read(self, line: str) -> list[AgentEvent]:
        try:
            if decode(_DECODE_KIND, line).type not in READ:
                return []
            message = decode(_DECODE, line)
        except UNREADABLE:
            return [Unparsed(line)]
        match message.type:
            case "session":
                return [Started(message.id)]
            case "tool_execution_start":
                self._used_tools = True
                words, path = main_argument(message.args)
                if path and message.toolName in WRITERS:
                    self._writing[message.toolCallId] = path
                return [CalledTool(message.toolName, words, message.toolCallId)]
            case "tool_execution_end":
                return self._tool_result_events(message)
            case "agent_end":
                self._over = True
                return []
            case _:
                return self._on_message_end(message.message or _PiMessage())

    def exited(self, end: End) -> list[AgentEvent]:
        last = self._last or _PiMessage()
        if last.stopReason in ("error", "aborted"):
            words = last.errorMessage or f"pi reported: {last.stopReason}"
            return error_words.failed(None, words, text=self._said, hints=HINTS)
        if end.code == 0 and self._over and last.stopReason == "stop":
            return [error_words.ended_well(self._said, used_tools=self._used_tools)]
        if last.stopReason == "length":
            return [Ended(ok=False, text=self._said, error=Failure("bad_output", "its answer was cut off"))]
        return error_words.no_result("pi", end.code, end.stderr, text=self._said, hints=HINTS)

    def _tool_result_events(self, message: _PiLine) -> list[AgentEvent]:
        output = _text(message.result.content) if message.result else ""
        returned = ToolReturned(message.toolCallId, not message.isError, output[:MOST_TOOL_OUTPUT])
        path = self._writing.pop(message.toolCallId, None)
        return [returned, Changed(path)] if path and not message.isError else [returned]

    def _on_message_end(self, message: _PiMessage) -> list[AgentEvent]:
        if message.role != "assistant":
            return []
        self._last = message
        text = message.content if isinstance(message.content, str) else _text(message.content)
        self._said = text or self._said
        used = message.usage or _PiUsage()
        self._tokens += reported_tokens(used.input, used.output, used.cacheRead, used.cacheWrite)
        self._usd = total_usd(self._usd, used.cost.total)
        said: list[AgentEvent] = [Said(text)] if text else []
        return [*said, Spent(self._tokens, self._usd or None)]  # nothing: it does not know the model's price


def _text(blocks: list[_PiBlock]) -> str:
    return "\n".join(block.text for block in blocks if block.type == "text" and block.text)


AGENTS = {"pi": Pi}  #: by the names they are asked for
