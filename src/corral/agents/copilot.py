"""GitHub Copilot CLI: `copilot --output-format json`, the prompt on stdin."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

from corral.agents.formats import error_words, mcp_config
from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.agents.formats.tool_arguments import main_argument
from corral.model import ErrorClass
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command, End, Provider
from corral.model.events import AgentEvent, CalledTool, Changed, Said, Started, ToolReturned, Unparsed

MOST_TOOL_OUTPUT = 2000
HINTS: dict[ErrorClass, str] = {
    "auth": "log in with `copilot login`, or set COPILOT_GITHUB_TOKEN or COPILOT_PROVIDER_API_KEY",
    "not_found": "is the model's name right? --agent copilot:MODEL",
    "context_too_long": "give it a smaller task or fewer files",
}


class Copilot:
    facts = AgentFacts(
        name="copilot",
        family="copilot",
        programs=("copilot",),
        keys=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"),
        address=("OPENAI_BASE_URL",),
        provider=Provider(address="OPENAI_BASE_URL", keys=("COPILOT_PROVIDER_API_KEY",)),
        hosts=("api.githubcopilot.com", "api.github.com", "github.com"),
        login=(".copilot/config.json",),
        reports_tokens=False,
        resumes=True,  # by the id that it tells with its last line only
        models="gpt-5, ...",
        mcp=True,
        mcp_url=True,
        acp="copilot --acp",
        reads=("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md"),
        install="npm install -g @github/copilot",
        oldest="1.0.102",
    )

    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile

    def start(self, task: AgentTask) -> Command:
        arguments = ["--output-format", "json", "--no-auto-update", "--no-ask-user", "--disable-builtin-mcps"]
        arguments += ["--allow-all-tools"]  # without it, it does not start unattended; paths stay checked
        if task.boxed:
            arguments += ["--allow-all-paths"]
        if task.read_only:
            arguments += ["--deny-tool=write"]
        if model := task.model or self._profile.model:
            arguments += ["--model", model]
        if task.mcp:
            arguments += ["--additional-mcp-config", f"@{task.home}/{mcp_config.FILE}"]
        if task.session:
            arguments += [f"--resume={task.session}"]
        return Command(
            argv=(self._profile.program or "copilot", *arguments),
            env={"COPILOT_AUTO_UPDATE": "false", **self._provider()},
            stdin=task.prompt.encode(),
            files=mcp_config.file(task.mcp, mcp_config.ServerFormat(kind="local", more={"tools": ["*"]})),
        )

    def _provider(self) -> dict[str, str]:
        """Speak to another provider than GitHub, and then to nobody else."""
        url = self._profile.settings.get("OPENAI_BASE_URL")
        if not url:
            return {}
        return {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_BASE_URL": url, "COPILOT_OFFLINE": "true"}

    def converse(self, _: AgentTask) -> CopilotConversation:
        return CopilotConversation()


class _Edit(Struct):
    path: str = ""


class _CopilotResult(Struct):
    content: str = ""


class _Shell(Struct):
    exitCode: object = None  # noqa: N815 -- as it is called


class _Data(Struct):
    content: str = ""
    toolCallId: str = ""  # noqa: N815
    toolName: str = ""  # noqa: N815
    arguments: Raw = Raw(b"")
    success: bool = False
    result: _CopilotResult | None = None
    shellExecution: _Shell | None = None  # noqa: N815
    error: Raw = Raw(b"")
    fileEdits: list[_Edit] = field(default_factory=list[_Edit])  # noqa: N815
    message: str = ""
    statusCode: object = None  # noqa: N815


class _CopilotLine(Struct):
    type: str
    data: Raw = Raw(b"{}")
    sessionId: str | None = None  # noqa: N815
    exitCode: object = None  # noqa: N815


class _CopilotProblem(Struct):
    message: str = ""
    code: str = ""


_DECODE = msgspec.json.Decoder(_CopilotLine)
_DECODE_DATA = msgspec.json.Decoder(_Data)
_DECODE_PROBLEM = msgspec.json.Decoder(_CopilotProblem)
READ = ("assistant.message", "tool.execution_start", "tool.execution_complete", "session.error")


class CopilotConversation:
    def __init__(self) -> None:
        self._tools: dict[str, str] = {}
        self._denied: dict[str, None] = {}
        self._said = ""
        self._trouble: _Data | None = None
        self._ended = False

    def read(self, line: str) -> list[AgentEvent]:
        try:
            message = decode(_DECODE, line)
            if message.type == "result":
                return self._result(message)
            if message.type not in READ:
                return []
            data = decode(_DECODE_DATA, message.data)
        except UNREADABLE:
            return [Unparsed(line)]
        return self._read(message.type, data)

    def exited(self, end: End) -> list[AgentEvent]:
        if self._ended:
            return []
        if self._trouble:
            return self._failure_events(self._trouble)
        return error_words.no_result("copilot", end.code, end.stderr, text=self._said, hints=HINTS)

    def _read(self, kind: str, data: _Data) -> list[AgentEvent]:
        match kind:
            case "assistant.message":
                self._said, self._trouble = data.content or self._said, None
                return [Said(data.content)] if data.content else []
            case "tool.execution_start":
                self._tools[data.toolCallId] = data.toolName
                return [CalledTool(data.toolName, main_argument(data.arguments)[0], data.toolCallId)]
            case "tool.execution_complete":
                return self._tool_result_events(data)
            case _:
                self._trouble = data
                return []

    def _tool_result_events(self, data: _Data) -> list[AgentEvent]:
        problem = _problem(data.error)
        if problem.code in ("denied", "rejected"):
            self._denied[self._tools.get(data.toolCallId, data.toolCallId)] = None
        output = (data.result.content if data.result else "") or problem.message
        ok = data.success and not (data.shellExecution and data.shellExecution.exitCode)
        returned = ToolReturned(data.toolCallId, ok, output[:MOST_TOOL_OUTPUT])
        changed = [Changed(edit.path) for edit in data.fileEdits if edit.path] if ok else []
        return [returned, *changed]

    def _result(self, message: _CopilotLine) -> list[AgentEvent]:
        self._ended = True
        started = Started(message.sessionId)
        if self._trouble:
            return [started, *self._failure_events(self._trouble)]
        if message.exitCode == 0:
            return [started, error_words.ended_well(self._said, used_tools=bool(self._tools), denied=self._denied)]
        code = message.exitCode if isinstance(message.exitCode, int) else 1
        return [started, *error_words.no_result("copilot", code or 1, "", text=self._said, hints=HINTS)]

    def _failure_events(self, data: _Data) -> list[AgentEvent]:
        message = data.message or "copilot reported an error"
        status = data.statusCode if isinstance(data.statusCode, int) else None
        return error_words.failed(status, message, text=self._said, hints=HINTS)


def _problem(error: Raw) -> _CopilotProblem:
    try:
        return _DECODE_PROBLEM.decode(error) if bytes(error) else _CopilotProblem()
    except UNREADABLE:
        return _CopilotProblem(bytes(error).decode(errors="replace"))


AGENTS = {"copilot": Copilot}  #: by the names they are asked for
