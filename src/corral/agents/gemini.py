"""Gemini CLI: `gemini --output-format stream-json`, the prompt on stdin."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, structs

from corral.agents.formats import call_hook, error_words, mcp_config
from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.agents.formats.tool_arguments import main_argument
from corral.agents.formats.usage import reported_tokens
from corral.model import ErrorClass
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command, End, Provider
from corral.model.events import AgentEvent, CalledTool, Changed, Said, Spent, Started, ToolReturned, Unparsed

MOST_TOOL_OUTPUT = 2000
WRITERS = ("write_file", "replace", "edit")
#: Kinds of tool errors that say it was not allowed, not that it went wrong.
DENIED = ("policy_violation", "tool_not_registered")
#: It ends with the provider's HTTP status modulo 256.
STATUSES = (400, 401, 403, 404, 429, 500, 502, 503, 504, 529)
HINTS: dict[ErrorClass, str] = {
    "auth": 'set GEMINI_API_KEY, or log in with `gemini` and set GOOGLE_GENAI_USE_GCA = "true"',
    "not_found": "is the model's name right? --agent gemini:MODEL",
    "network": "is the address right? It says the same of a certificate it does not know (NODE_EXTRA_CA_CERTS)",
    "context_too_long": "give it a smaller task or fewer files",
}
#: Left to itself it offers no server's tools where it may only plan.
POLICY = '[[rule]]\ntoolName = "*"\nmcpName = {name}\ndecision = "allow"\npriority = 100\nmodes = ["plan"]\n'


class Gemini:
    facts = AgentFacts(
        name="gemini",
        family="gemini",
        programs=("gemini",),
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        address=("GOOGLE_GEMINI_BASE_URL",),
        provider=Provider(
            address="GOOGLE_GEMINI_BASE_URL",
            standard="https://generativelanguage.googleapis.com",
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ),
        hosts=("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com"),
        needless_hosts=("play.googleapis.com",),
        login=(".gemini/oauth_creds.json", ".gemini/google_accounts.json"),
        resumes=True,
        conversation=(".gemini/tmp",),
        models="gemini-2.5-pro",
        mcp=True,
        mcp_url=True,
        acp="gemini --acp",
        reads=("GEMINI.md",),
        install="npm install -g @google/gemini-cli",
        rules="hook",
        oldest="0.61.0",
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile

    def start(self, task: AgentTask) -> Command:
        mode = "plan" if task.read_only else "yolo" if task.boxed else "auto_edit"
        arguments = ["--output-format", "stream-json", "--approval-mode", mode, "--skip-trust"]
        if model := task.model or self._profile.model:
            arguments += ["-m", model]
        if task.session:
            arguments += ["--resume", task.session]
        return Command(
            argv=(self._profile.program or "gemini", *arguments),
            env={"GEMINI_TELEMETRY_ENABLED": "false", "GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_SANDBOX": "false"},
            stdin=task.prompt.encode(),
            files={
                ".gemini/settings.json": msgspec.json.encode(self._settings(task)),
                **_policy(task),
                **call_hook.files(task),
            },
        )

    def interact(self, task: AgentTask) -> Command:
        mode = "plan" if task.read_only else "yolo" if task.boxed else "auto_edit"
        arguments = ["--approval-mode", mode, "--skip-trust"]
        if model := task.model or self._profile.model:
            arguments += ["-m", model]
        if task.session:
            arguments += ["--resume", task.session]
        return structs.replace(self.start(task), argv=(self._profile.program or "gemini", *arguments), stdin=b"")

    def _settings(self, task: AgentTask) -> dict[str, object]:
        settings = self._profile.settings
        if settings.get("GOOGLE_GENAI_USE_GCA") == "true":
            kind = "oauth-personal"
        elif settings.get("GOOGLE_GENAI_USE_VERTEXAI") == "true":
            kind = "vertex-ai"
        else:
            kind = "gemini-api-key"
        return {
            "security": {"auth": {"selectedType": kind}},
            "telemetry": {"enabled": False},
            "privacy": {"usageStatisticsEnabled": False},
            # Its own default keeps trying for minutes; the engine tries again itself.
            "general": {
                "enableAutoUpdate": False,
                "enableAutoUpdateNotification": False,
                "maxAttempts": 1 + error_words.own_retries(settings),
            },
            **(_hooks(task) if task.hook else {}),
            "mcpServers": mcp_config.table(task.mcp, mcp_config.ServerFormat(key="httpUrl", more={"trust": True})),
        }

    def converse(self, _: AgentTask) -> GeminiConversation:
        return GeminiConversation()


def _hooks(task: AgentTask) -> dict[str, object]:
    """Return the settings that start our hook before each call; it counts time in milliseconds."""
    return {"hooksConfig": {"enabled": True}, "hooks": call_hook.table(task, "BeforeTool", 1000)}


def _policy(task: AgentTask) -> dict[str, bytes]:
    """Return the rule that leaves it its toolbox where it may only plan: else it offers no server's tools there."""
    lines = (POLICY.format(name=msgspec.json.encode(server.name).decode()) for server in task.mcp if server.url)
    return {".gemini/policies/corral.toml": "".join(lines).encode()} if task.read_only and task.mcp else {}


class _GeminiProblem(Struct):
    type: str = ""
    message: str = ""


class _Stats(Struct):
    input_tokens: object = 0
    output_tokens: object = 0
    cached: object = 0


class _GeminiLine(Struct):
    type: str
    session_id: str | None = None
    model: str | None = None
    role: str = ""
    content: str = ""
    tool_name: str = ""
    tool_id: str = ""
    parameters: Raw = Raw(b"")
    status: str = ""
    output: str | None = None
    message: str = ""
    error: _GeminiProblem | None = None
    stats: _Stats | None = None


_DECODE = msgspec.json.Decoder(_GeminiLine)


class GeminiConversation:
    def __init__(self) -> None:
        self._writing: dict[str, str] = {}  # call -> path, until the tool says it worked
        self._tools: dict[str, str] = {}
        self._denied: dict[str, None] = {}
        self._saying = ""  # pieces of what it says now
        self._said = ""  # what it said last
        self._trouble = ""
        self._failed = False
        self._ended = False

    def read(self, line: str) -> list[AgentEvent]:
        try:
            message = decode(_DECODE, line)
        except UNREADABLE:
            return [Unparsed(line)]
        if message.type == "message":
            if message.role == "assistant":
                self._saying += message.content
            return []
        return [*self._pause(), *self._read(message)]

    def exited(self, end: End) -> list[AgentEvent]:
        said = self._pause()
        if self._ended:
            return said
        if self._failed:  # the provider's status is always here
            status = {code % 256: code for code in STATUSES}.get(end.code)
            return [*said, *error_words.failed(status, self._trouble, text=self._said, hints=HINTS)]
        words = end.stderr + "\n" + self._trouble
        return [*said, *error_words.no_result("gemini", end.code, words, text=self._said, hints=HINTS)]

    def _pause(self) -> list[AgentEvent]:
        """Tell what it said in pieces as one."""
        text, self._saying = self._saying, ""
        self._said = text or self._said
        return [Said(text)] if text else []

    def _read(self, message: _GeminiLine) -> list[AgentEvent]:
        match message.type:
            case "init":
                return [Started(message.session_id, message.model)]
            case "tool_use":
                words, path = main_argument(message.parameters)
                self._tools[message.tool_id] = message.tool_name
                if path and message.tool_name in WRITERS:
                    self._writing[message.tool_id] = path
                return [CalledTool(message.tool_name, words, message.tool_id)]
            case "tool_result":
                return self._tool_result_events(message)
            case "error":
                self._trouble = message.message
                return []
            case "result":
                return self._result(message)
            case _:
                return []

    def _tool_result_events(self, message: _GeminiLine) -> list[AgentEvent]:
        ok = message.status == "success"
        output = message.output or (message.error.message if message.error else "")
        if message.error and message.error.type in DENIED:
            self._denied[self._tools.get(message.tool_id, message.tool_id)] = None
        returned = ToolReturned(message.tool_id, ok, output[:MOST_TOOL_OUTPUT])
        path = self._writing.pop(message.tool_id, None)
        return [returned, Changed(path)] if path and ok else [returned]

    def _result(self, message: _GeminiLine) -> list[AgentEvent]:
        stats = message.stats or _Stats()
        spent = Spent(reported_tokens(stats.input_tokens, stats.output_tokens, stats.cached, counts_cached=True))
        if message.status == "success":
            self._ended = True
            return [spent, error_words.ended_well(self._said, used_tools=bool(self._tools), denied=self._denied)]
        self._failed = True
        self._trouble = (message.error.message if message.error else "") or self._trouble or "gemini reported an error"
        return [spent]


AGENTS = {"gemini": Gemini}  #: by the names they are asked for
