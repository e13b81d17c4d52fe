"""Codex: `codex exec --json`, the prompt on stdin."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from corral.agents.formats import call_hook, error_words
from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.agents.formats.usage import reported_tokens
from corral.model import ErrorClass
from corral.model.agent_api import AgentFacts, AgentProfile, AgentTask, Command, End, McpServer, Provider, image_path
from corral.model.events import AgentEvent, CalledTool, Changed, Said, Spent, Started, ToolReturned, Unparsed

MOST_TOOL_OUTPUT = 2000
SCHEMA = ".codex/output.json"  #: below HOME
MOST_WAITS = 2  #: so often it may say that it waits for the network; from then on nobody is taken to be there
#: Of its own accord it asks nobody, updates nothing, tells nobody.
CONFIG = """\
approval_policy = "never"
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[otel]
exporter = "none"
"""
PROVIDER = """\
[model_providers.custom]
name = "custom"
base_url = {url}
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = {retries}
stream_max_retries = {retries}
"""
HOOK = """\
[features]
hooks = true
[[hooks.PreToolUse]]
matcher = "*"
[[hooks.PreToolUse.hooks]]
type = "command"
command = {command}
timeout = {seconds}
"""
HOOK_FLAG = "--dangerously-bypass-hook-trust"  #: else it leaves out a hook that no user has looked at on a terminal
HINTS: dict[ErrorClass, str] = {
    "auth": "log in with `codex login`, or set CODEX_API_KEY",
    "not_found": "is the model's name right? --agent codex:MODEL",
    "network": "is the provider's address right, and can this machine reach it?",
    "context_too_long": "give it a smaller task or fewer files",
}


class Codex:
    def __init__(self, profile: AgentProfile) -> None:
        self._profile = profile
        # Its own provider does not look at OPENAI_API_KEY; the one that we write down for a URL does.
        self._url = profile.settings.get("OPENAI_BASE_URL")
        self.facts = AgentFacts(
            name="codex",
            family="codex",
            programs=("codex",),
            keys=("OPENAI_API_KEY",) if self._url else ("CODEX_API_KEY",),
            address=("OPENAI_BASE_URL",),
            provider=Provider(
                address="OPENAI_BASE_URL",
                standard="https://api.openai.com/v1",
                keys=("OPENAI_API_KEY",) if self._url else ("CODEX_API_KEY",),
                sends="OPENAI_API_KEY",
            ),
            hosts=("api.openai.com",) if self._url else ("api.openai.com", "chatgpt.com", "auth.openai.com"),
            needless_hosts=("github.com", "api.github.com", "chatgpt.com"),
            login=(".codex/auth.json",),
            resumes=True,
            conversation=(".codex/sessions",),
            models="gpt-5",
            mcp=True,
            mcp_url=True,
            acp="codex-acp",
            reads=("AGENTS.md",),
            install="npm install -g @openai/codex",
            oldest="0.166.0",
            schema="strict",
            rules="hook",
            images=True,
        )

    def start(self, task: AgentTask) -> Command:
        sandbox = _sandbox(task)
        argv = [self._profile.program or "codex", "exec"]
        argv += ["resume"] if task.session else ["-C", task.workspace]
        argv += ["--json", "--skip-git-repo-check", "-c", f'sandbox_mode="{sandbox}"']
        argv += [HOOK_FLAG] if task.hook else []
        model = task.model or self._profile.model
        if model:
            argv += ["-m", model]
        if task.schema is not None:
            argv += ["--output-schema", f"{task.home}/{SCHEMA}"]
        argv += [f"--image={image_path(task, image)}" for image in task.images if not task.session]
        argv += [task.session, "-"] if task.session else ["-"]
        wanted = {SCHEMA: msgspec.json.encode(task.schema)} if task.schema is not None else {}
        return Command(
            argv=tuple(argv),
            env={"CODEX_HOME": f"{task.home}/.codex"},
            stdin=task.prompt.encode(),
            files={".codex/config.toml": self._config(task, model).encode(), **wanted, **call_hook.files(task)},
        )

    def interact(self, task: AgentTask) -> Command:
        argv = [self._profile.program or "codex", *(["resume"] if task.session else [])]
        argv += ["-C", task.workspace, "-c", f'sandbox_mode="{_sandbox(task)}"']
        argv += [HOOK_FLAG] if task.hook else []
        argv += ["-c", 'approval_policy="never"'] if task.boxed else []
        model = task.model or self._profile.model
        argv += ["-m", model] if model else []
        trusted = f'[projects.{json.dumps(task.workspace)}]\ntrust_level = "trusted"\n'
        return Command(
            argv=(*argv, *([task.session] if task.session else [])),
            env={"CODEX_HOME": f"{task.home}/.codex"},
            files={".codex/config.toml": (self._config(task, model) + trusted).encode(), **call_hook.files(task)},
        )

    def _config(self, task: AgentTask, model: str | None) -> str:
        config = (f"model = {json.dumps(model)}\n" if model else "") + CONFIG
        if self._url:
            retries = error_words.own_retries(self._profile.settings)
            provider = PROVIDER.format(url=json.dumps(self._url), retries=retries)
            config = 'model_provider = "custom"\n' + config + provider
        hook = HOOK.format(command=json.dumps(call_hook.command(task)), seconds=call_hook.SECONDS) if task.hook else ""
        return config + hook + "".join(_server(server) for server in task.mcp)

    def converse(self, _: AgentTask) -> CodexConversation:
        return CodexConversation()


def _server(server: McpServer) -> str:
    if server.url:
        lines = [f"url = {json.dumps(server.url)}", f"http_headers = {_inline(server.headers)}"]
    else:
        lines = [f"command = {json.dumps(server.command)}", f"args = {json.dumps(list(server.args))}"]
        lines += [f"env = {_inline(server.env)}"]
    return f"[mcp_servers.{server.name}]\n" + "\n".join(lines) + "\n"


def _inline(table: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in table.items()) + " }"


def _sandbox(task: AgentTask) -> str:
    # Inside our box its own cannot be made: every command would fail, and it would still end with 0.
    if task.boxed:
        return "danger-full-access"
    return "read-only" if task.read_only else "workspace-write"


class _Change(Struct):
    path: str = ""


class _CodexProblem(Struct):
    message: str = ""


class _Item(Struct):
    type: str = ""
    id: str = ""
    text: str = ""
    status: str = ""
    command: str = ""
    aggregated_output: str = ""
    exit_code: object = None
    changes: list[_Change] = field(default_factory=list[_Change])
    server: str = ""
    tool: str = ""
    query: str = ""
    error: _CodexProblem | None = None


class _CodexUsage(Struct):
    input_tokens: object = 0
    cached_input_tokens: object = 0
    cache_write_input_tokens: object = 0
    output_tokens: object = 0


class _CodexLine(Struct):
    type: str
    thread_id: str | None = None
    item: _Item | None = None
    usage: _CodexUsage | None = None
    error: _CodexProblem | None = None
    message: str = ""


_DECODE = msgspec.json.Decoder(_CodexLine)


class CodexConversation:
    def __init__(self) -> None:
        self._text = ""
        self._trouble = ""
        self._waits = 0
        self._denied: dict[str, None] = {}
        self._used_tools = False
        self._ended = False

    def read(self, line: str) -> list[AgentEvent]:
        try:
            message = decode(_DECODE, line)
        except UNREADABLE:
            return [Unparsed(line)]
        match message.type:
            case "thread.started":
                return [Started(message.thread_id)]
            case "item.started" if message.item:
                return _tool_call_events(message.item)
            case "item.completed" if message.item:
                return self._on_completed(message.item)
            case "turn.completed":
                return self._on_turn_completed(message.usage or _CodexUsage())
            case "turn.failed":
                self._ended = True
                reason = message.error.message if message.error else ""
                return error_words.failed(
                    None, reason or self._trouble or "the turn failed", text=self._text, hints=HINTS
                )
            case "error":
                return self._in_trouble(message.message)
            case _:
                return []

    def exited(self, end: End) -> list[AgentEvent]:
        if self._ended:
            return []
        return error_words.no_result("codex", end.code, end.stderr + "\n" + self._trouble, text=self._text, hints=HINTS)

    def _in_trouble(self, words: str) -> list[AgentEvent]:
        """Remember what it complains of; where nobody answers, it would wait for the network for ever."""
        self._trouble = words
        self._waits += "waiting for network" in words.lower()
        if self._waits != MOST_WAITS:
            return []
        self._ended = True
        return error_words.failed(None, words, text=self._text, hints=HINTS)

    def _on_turn_completed(self, usage: _CodexUsage) -> list[AgentEvent]:
        self._ended = True
        read, written = usage.cached_input_tokens, usage.cache_write_input_tokens
        tokens = reported_tokens(usage.input_tokens, usage.output_tokens, read, written, counts_cached=True)
        return [Spent(tokens), error_words.ended_well(self._text, used_tools=self._used_tools, denied=self._denied)]

    def _on_completed(self, item: _Item) -> list[AgentEvent]:
        match item.type:
            case "agent_message":
                self._text = item.text
                return [Said(item.text)] if item.text else []
            case "command_execution" | "mcp_tool_call" | "file_change":
                self._used_tools = True
                ok = item.status == "completed" and not item.exit_code
                if item.status == "declined":
                    self._denied[item.tool or item.type] = None
                output = item.aggregated_output or (item.error.message if item.error else "")
                changed: list[AgentEvent] = [Changed(change.path) for change in item.changes] if ok else []
                return [ToolReturned(item.id, ok, output[:MOST_TOOL_OUTPUT]), *changed]
            case "web_search":
                return [CalledTool("web_search", item.query[:500], item.id)]
            case _:
                return []


def _tool_call_events(item: _Item) -> list[AgentEvent]:
    match item.type:
        case "command_execution":
            return [CalledTool("shell", item.command[:500], item.id)]
        case "file_change":
            return [CalledTool("apply_patch", ", ".join(change.path for change in item.changes)[:500], item.id)]
        case "mcp_tool_call":
            return [CalledTool(f"{item.server}.{item.tool}", "", item.id)]
        case _:
            return []


AGENTS = {"codex": Codex}  #: by the names they are asked for
