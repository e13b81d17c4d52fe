"""Tools of an agent at work: what each takes and gives, and the Model Context Protocol by which they are called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from corral.model.errors import BadRequest
from corral.model.program import MOST_SOURCE_BYTES, Language
from corral.rules.context.mail import LEASE_SECONDS, LONGEST_LEASE_SECONDS, MOST_TAKEN, Priority
from corral.rules.context.memory import MOST_FILES, MOST_TEXT

LONGEST_WAIT_SECONDS = 45.0  #: most programs give a tool a minute; for a longer wait the agent calls again
MOST_PROGRESS = 1000  #: characters of a report
MOST_QUESTION = 4000
MOST_TASK = 100_000
MOST_RESULT_BYTES = 256 << 10
LONGEST_COMMAND_SECONDS = 600.0
PathText = Annotated[str, Meta(max_length=4096)]
Wait = Annotated[
    float,
    Meta(ge=0, le=LONGEST_WAIT_SECONDS, description="Seconds to wait for it if it is not there yet; then ask again."),
]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Optional = Annotated[str, Meta(max_length=200)]
#: For models it is a text: not every provider takes a schema that leaves the type open.
Result = Annotated[Any, Meta(description="Text, or JSON.", extra_json_schema={"type": "string"})]
MODERN = "2026-07-28"  #: no handshake: each request says which revision it speaks
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSION_FIELD = "io.modelcontextprotocol/protocolVersion"
MOST_BATCH = 16
PARSE, INVALID, NO_METHOD, BAD_PARAMETERS, UNSUPPORTED = -32700, -32600, -32601, -32602, -32022
Id = str | int
T = TypeVar("T")


class ReportProgress(Struct, frozen=True, forbid_unknown_fields=True):
    """Tell the user what you are doing now, in one line, shown live. Use it at every larger step."""

    text: Annotated[str, Meta(min_length=1, max_length=MOST_PROGRESS)]
    percent: Annotated[float, Meta(ge=0, le=100, description="Percentage that is done.")] = 0.0


class AskUser(Struct, frozen=True, forbid_unknown_fields=True):
    """Ask the user who started this run something that you cannot find out yourself.

    Give the default that you will use without an answer before the deadline. If there is no answer yet, continue
    with other work and call read_answer later.
    """

    question: Annotated[str, Meta(min_length=1, max_length=MOST_QUESTION)]
    default: Annotated[str, Meta(max_length=MOST_QUESTION, description="The answer if the user gives none.")]
    deadline_minutes: Annotated[float, Meta(ge=0.1, le=1440)] = 10.0
    wait_seconds: Wait = LONGEST_WAIT_SECONDS


class ReadAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """Check whether the user has answered your question, by the `ask` that ask_user returned."""

    ask: Name
    wait_seconds: Wait = 0.0


class ListNodes(Struct, frozen=True, forbid_unknown_fields=True):
    """List the nodes of this run, the names to write to, and which of them have ended."""


class SendMail(Struct, frozen=True, forbid_unknown_fields=True):
    """Write to another agent of this run, to `all` of them, to the `parent` that spawned you, or to a child.

    To answer a message, send to its `from` with its `thread`.
    """

    to: Name
    text: Annotated[str, Meta(min_length=1, description="At most 10 KB; JSON is welcome.")]
    priority: Priority = "normal"
    thread: Optional = ""


class ReadMail(Struct, frozen=True, forbid_unknown_fields=True):
    """Take the messages that wait for you, the most urgent first.

    Acknowledge each with ack_mail once you have handled it; otherwise it is delivered again later.
    """

    most: Annotated[int, Meta(ge=1, le=MOST_TAKEN)] = MOST_TAKEN
    wait_seconds: Wait = 0.0
    lease_seconds: Annotated[float, Meta(ge=1, le=LONGEST_LEASE_SECONDS)] = LEASE_SECONDS


class AckMail(Struct, frozen=True, forbid_unknown_fields=True):
    """Acknowledge messages by their ids, so that they are not delivered again."""

    ids: Annotated[tuple[int, ...], Meta(min_length=1, max_length=100)]


class ReadThread(Struct, frozen=True, forbid_unknown_fields=True):
    """Read all messages of one thread again."""

    thread: Name


class ReadOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """Read the result of an ended node of this run, or of your child."""

    node: Name
    offset: Annotated[int, Meta(ge=0, description="Where to continue in a long result.")] = 0


class ListFiles(Struct, frozen=True, forbid_unknown_fields=True):
    """List the files that an ended node, or your child, has changed."""

    node: Name


class ReadFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Read a file as an ended node, or your child, has left it."""

    node: Name
    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    offset: Annotated[int, Meta(ge=0)] = 0


class SpawnTask(Struct, frozen=True, forbid_unknown_fields=True):
    """Start a child: another agent works on a task for you, in its own workspace that starts where yours did.

    It knows only the task you give. It is checked and paid like your own work, from your budget, and stops when you
    end: wait for it with child_result. Take over its commit with git cherry-pick.
    """

    task: Annotated[str, Meta(min_length=1, max_length=MOST_TASK)]
    role: Optional = ""
    agent: Annotated[str, Meta(max_length=200, description="NAME or NAME:MODEL.  [default: the same as you]")] = ""
    reason: Annotated[str, Meta(max_length=500)] = ""
    budget_usd: Annotated[
        float, Meta(ge=0, le=1e6, description="Budget.  [default: it shares your remaining budget]")
    ] = 0.0
    read_only: bool = False


class ChildResult(Struct, frozen=True, forbid_unknown_fields=True):
    """Show the status of your child, and its result once it has ended."""

    child: Name
    wait_seconds: Wait = LONGEST_WAIT_SECONDS


class StopChild(Struct, frozen=True, forbid_unknown_fields=True):
    """Stop your child; its work so far is kept."""

    child: Name


class Finish(Struct, frozen=True, forbid_unknown_fields=True):
    """End your work now with this result, text or JSON. Nothing after it counts."""

    result: Result = ""
    text: Annotated[str, Meta(max_length=MOST_TASK, description="Closing message for the user.")] = ""


class Remember(Struct, frozen=True, forbid_unknown_fields=True):
    """Propose a fact about this repository for agents of later runs: what you had to find out and they would need too.

    One plain sentence, such as "the tests need `make db` first". The user approves it before any agent reads it.
    """

    text: Annotated[str, Meta(min_length=1, max_length=MOST_TEXT)]
    files: Annotated[
        tuple[str, ...], Meta(max_length=MOST_FILES, description="Files or patterns that the fact is about.")
    ] = ()


class SearchMemory(Struct, frozen=True, forbid_unknown_fields=True):
    """Search the facts about this repository by words."""

    words: Annotated[str, Meta(min_length=1, max_length=MOST_QUESTION)]


class RunProgram(Struct, frozen=True, forbid_unknown_fields=True):
    """Run a program that calls tools, instead of many calls one by one; only its result comes back.

    TypeScript or JavaScript: `export default async function main(input, tools) {...}` with
    `await tools.read_file({path: "a"})`. Python: `async def main(input): ...` with `await read_file(path="a")`. It has
    no file, network or process but these tools: list_files, read_file, write_file, search, run_command, run_tests,
    git, packages, spawn_task, wait, read_output, send_mail, read_mail, ack_mail, ask_user, read_answer, report,
    remember, search_memory, run_tool, http (to hosts that the scope names).
    """

    source: Annotated[str, Meta(min_length=1, max_length=MOST_SOURCE_BYTES)]
    language: Language = "typescript"
    input: Result = None
    tools: Annotated[tuple[str, ...], Meta(max_length=50, description="Tools to grant.  [default: all]")] = ()
    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = LONGEST_WAIT_SECONDS


class RunTool(Struct, frozen=True, forbid_unknown_fields=True):
    """Run a tool that the user keeps and approved, by its name; its result comes back."""

    name: Name
    input: Result = None


class RunTests(Struct, frozen=True, forbid_unknown_fields=True):
    """Run tests as a check runs, and count them; without a command, the first check of the settings."""

    command: Annotated[str, Meta(max_length=100_000)] = ""
    timeout_seconds: Annotated[float, Meta(gt=0, le=LONGEST_COMMAND_SECONDS)] = 300.0


class Git(Struct, frozen=True, forbid_unknown_fields=True):
    """Ask git: status, log, diff, show or branches. Nothing is changed."""

    command: Literal["status", "log", "diff", "show", "branches"]
    ref: Annotated[str, Meta(max_length=200)] = ""
    path: PathText = ""
    most: Annotated[int, Meta(ge=1, le=1000)] = 50


class Packages(Struct, frozen=True, forbid_unknown_fields=True):
    """List the package managers of the workspace, what each declares with its version, and how to install and add."""


class CheckCall(Struct, frozen=True):
    """A call that an agent is about to make with a tool of its own; its hook asks, and no agent is offered this."""

    tool: Name
    arguments: Any = None


#: A tool of ours as agents call it: mcp__corral__finish, mcp_corral_finish, corral_finish, corral-finish.
OWN_NAME = re.compile(r"(?:mcp__?)?corral(?:_toolbox)?(?:__|[_.-])(\w+)")


def is_own_tool(name: str) -> bool:
    """Tell whether an agent's name of a tool means one of ours."""
    found = OWN_NAME.fullmatch(name)
    return found is not None and found.group(1) in KINDS


Arguments = (
    ReportProgress | AskUser | ReadAnswer | ListNodes | SendMail | ReadMail | AckMail | ReadThread | ReadOutput
    | ListFiles | ReadFile | SpawnTask | ChildResult | StopChild | Remember | SearchMemory | RunProgram
    | RunTool | Git | RunTests | Packages | Finish
)  # fmt: skip


class Hints(Struct, frozen=True, rename="camel"):
    """What a program may think of a tool: some leave out those that might change something where nothing is to be."""

    read_only_hint: bool = True
    destructive_hint: bool = False
    open_world_hint: bool = False


class ToolListing(Struct, frozen=True):
    """One tool as it is listed; its result is JSON in a text."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(name="inputSchema")
    annotations: Hints = Hints()  #: no file of the workspace is ever touched


def _name(kind: type[Struct]) -> str:
    name = kind.__name__
    return "".join("_" + char.lower() if char.isupper() else char for char in name).lstrip("_")


KINDS: dict[str, type[Arguments]] = {
    _name(kind): kind
    for kind in (
        ReportProgress, AskUser, ReadAnswer, ListNodes, SendMail, ReadMail, AckMail, ReadThread, ReadOutput,
        ListFiles, ReadFile, SpawnTask, ChildResult, StopChild, Remember, SearchMemory, RunProgram, RunTool, Git,
        RunTests, Packages, Finish,
    )
}  # fmt: skip
OLDER_NAMES = {"ask_person": "ask_user"}  #: that agents of resumed sessions may still call


def list_tools() -> tuple[ToolListing, ...]:
    """Return all tools, with schemas that need no references to be followed."""
    (schemas, parts) = msgspec.json.schema_components(tuple(KINDS.values()))
    found: list[ToolListing] = []
    for (name, kind), _ in zip(KINDS.items(), schemas, strict=True):
        part = {key: value for key, value in parts[kind.__name__].items() if key not in ("title", "description")}
        hints = Hints(read_only_hint=kind not in (SpawnTask, Remember, RunProgram, RunTool))
        found.append(ToolListing(name, " ".join((kind.__doc__ or "").split()), part, hints))
    return tuple(found)


def arguments(name: str, given: bytes) -> Arguments:
    """Read what a tool was called with; say in one line what is wrong with it."""
    kind = KINDS.get(OLDER_NAMES.get(name, name))
    if kind is None:
        raise BadRequest(f"there is no tool `{name[:80]}`", hint="there are: " + ", ".join(KINDS))
    return decode_arguments(name, given, kind)


def decode_arguments(name: str, given: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(given or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(
            f"{name}: {str(error).splitlines()[0]}", hint=f"the schema of {name} lists its fields"
        ) from error


class _RpcMessage(Struct, frozen=True):
    jsonrpc: Literal["2.0"]
    method: str | UnsetType = UNSET
    id: Id | UnsetType | None = UNSET
    params: Raw = Raw(b"{}")


class _CallParameters(Struct, frozen=True):
    name: str
    arguments: Raw = Raw(b"{}")


class _Hello(Struct, frozen=True, rename="camel"):
    protocol_version: str = ""


class _Meta(Struct, frozen=True):
    version: str = msgspec.field(default="", name=VERSION_FIELD)


class _Parameters(Struct, frozen=True):
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")


class McpCall(Struct, frozen=True):
    """A tool is to be called; its answer is made with `returned`."""

    id: Id
    name: str
    arguments: bytes
    modern: bool


class McpReply(Struct, frozen=True):
    """What goes back at once."""

    body: dict[str, Any]


class ToolServer(Struct, frozen=True):
    """What a server says of itself."""

    name: str
    version: str
    instructions: str
    offered: Sequence[ToolListing]


def read_message(body: bytes, server: ToolServer) -> tuple[list[McpCall | McpReply], bool]:
    """Return the requests of a body, and whether it was a batch; nothing for what needs no answer."""
    try:
        messages = msgspec.json.decode(body, type=list[Raw]) if body.lstrip()[:1] == b"[" else [Raw(body)]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return [error_reply(None, PARSE, "no JSON")], False
    if not 0 < len(messages) <= MOST_BATCH:
        return [error_reply(None, INVALID, f"a batch of 1 to {MOST_BATCH} messages")], False
    batch = body.lstrip()[:1] == b"["
    return [found for message in messages if (found := _one(message, server)) is not None], batch


def _one(raw: Raw, server: ToolServer) -> McpCall | McpReply | None:
    try:
        message = msgspec.json.decode(raw, type=_RpcMessage)
    except msgspec.ValidationError:
        return error_reply(None, INVALID, "no message of JSON-RPC 2.0")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return error_reply(None, PARSE, "no JSON")
    if message.method is UNSET or message.id is UNSET or message.id is None:
        return None  # a notification, or an answer to something that was never asked
    try:
        return _answer_request(message.id, message.method, message.params, server)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return error_reply(message.id, BAD_PARAMETERS, f"{message.method[:80]}: these are no parameters of it")


def _answer_request(asked: Id, method: str, parameters: Raw, server: ToolServer) -> McpCall | McpReply:
    version = msgspec.json.decode(parameters, type=_Parameters | None) or _Parameters()
    modern = version.meta.version == MODERN
    if version.meta.version and not modern and version.meta.version not in HANDSHAKE:
        data = {"supported": [MODERN, *HANDSHAKE], "requested": version.meta.version}
        return error_reply(asked, UNSUPPORTED, "a revision of the protocol that is not known here", data)
    about = {"name": server.name, "version": server.version}
    said: dict[str, Any] = {"capabilities": {"tools": {}}, "serverInfo": about, "instructions": server.instructions}
    match method:
        case "initialize":
            hello = msgspec.json.decode(parameters, type=_Hello)
            chosen = hello.protocol_version if hello.protocol_version in HANDSHAKE else HANDSHAKE[0]
            return _result(asked, {"protocolVersion": chosen, **said})
        case "server/discover":
            return _result(asked, {"supportedVersions": [MODERN, *HANDSHAKE], **said, **_lasting()}, modern=True)
        case "ping":
            return _result(asked, {}, modern=modern)
        case "tools/list":
            offered = msgspec.to_builtins(server.offered)
            return _result(asked, {"tools": offered, **(_lasting() if modern else {})}, modern=modern)
        case "tools/call":
            call = msgspec.json.decode(parameters, type=_CallParameters)
            return McpCall(asked, call.name, bytes(call.arguments), modern)
        case _:
            return error_reply(asked, NO_METHOD, "no such method")


def _lasting() -> dict[str, Any]:
    """Tell a client how long it may keep a list: it does not change while the attempt lasts."""
    return {"ttlMs": 3_600_000, "cacheScope": "private"}


def call_reply(call: McpCall, text: str, *, failed: bool = False) -> McpReply:
    """Make the answer to a call."""
    content = [{"type": "text", "text": text}]
    return _result(call.id, {"content": content, "isError": failed}, modern=call.modern)


def _result(asked: Id, result: dict[str, Any], *, modern: bool = False) -> McpReply:
    whole = {**result, "resultType": "complete"} if modern else result
    return McpReply({"jsonrpc": "2.0", "id": asked, "result": whole})


def error_reply(asked: Id | None, code: int, words: str, data: object = None) -> McpReply:
    error = {"code": code, "message": words, **({"data": data} if data is not None else {})}
    return McpReply({"jsonrpc": "2.0", "id": asked, "error": error})
