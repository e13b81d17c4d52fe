"""The MCP server: its tools, its prompts, and runs as resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)
from msgspec import Struct

from corral.engine.engine import Engine
from corral.engine.programs import shown_record
from corral.frontends.mcp import responses, tool_registry
from corral.frontends.mcp.arguments import Arguments
from corral.frontends.mcp.calls import ClientCall
from corral.frontends.mcp.elicitation import InputNeeded
from corral.frontends.mcp.look_tools import summaries
from corral.frontends.mcp.permissions import LocalUser, Visitor
from corral.frontends.mcp.stdio_runs import ClientRuns
from corral.frontends.run_text import event_words
from corral.frontends.text import one_line
from corral.model import Run, document, moment
from corral.model.errors import BadRequest, CorralError, refusal_of
from corral.model.server import RunFilter
from corral.version import __version__

ANSWER_SECONDS = 86_400.0  #: how long a user may think about a question before the client must call anew
INSTRUCTIONS = (
    "Corral runs coding agents on tasks in private copies of a repository, in sandboxes, and checks the results. "
    "Delegate with engine_execute (give `checks`); look with engine_diff; ask the user, then engine_merge. Long work: "
    "background true, then engine_result with wait. engine_status lists what waits for the user."
)
RUNS_ADDRESS = "corral://runs"
MOST_LISTED = 50
MOST_LINES = 2000
MOST_DIFF = 1 << 20
JSON_TYPE, TEXT_TYPE, PATCH_TYPE = "application/json", "text/plain", "text/x-diff"


def build(active: ClientRuns, visitor_of: Callable[[ServerRequestContext], Visitor]) -> Server[Any]:
    """Return the server for the runs of one process; `visitor_of` says who makes a call."""
    engine = active.engine

    async def call_tool(
        context: ServerRequestContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await _call_tool(ClientCall(active, visitor_of(context), context, params), params)
        except InputNeeded as needed:
            return needed.result
        except (CorralError, OSError, ValueError, OverflowError, RecursionError) as error:
            return _error_result(error)

    async def list_tools(context: ServerRequestContext, __: object) -> ListToolsResult:
        kept = await tool_registry.list_kept(engine) if isinstance(visitor_of(context), LocalUser) else []
        return ListToolsResult(tools=[*tool_registry.list_tools(), *kept])

    async def list_resources(_: ServerRequestContext, __: object) -> ListResourcesResult:
        return resource_listing(engine)

    async def list_templates(_: ServerRequestContext, __: object) -> ListResourceTemplatesResult:
        return resource_templates()

    async def read_resource(_: ServerRequestContext, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await resource_content(engine, str(params.uri))

    async def list_prompts(_: ServerRequestContext, __: object) -> ListPromptsResult:
        return prompt_listing()

    async def get_prompt(_: ServerRequestContext, params: GetPromptRequestParams) -> GetPromptResult:
        return filled_prompt(params.name, params.arguments or {})

    server: Server[Any] = Server(
        "corral",
        version=__version__,
        title="Corral",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )
    security = RequestStateSecurity.ephemeral(ttl=ANSWER_SECONDS)
    server.middleware.append(RequestStateBoundary(security, default_audience="corral"))
    return server


def _error_result(caught: Exception) -> CallToolResult:
    """Return a tool's error; what is no fault of the request is raised once more."""
    error = caught if isinstance(caught, CorralError) else refusal_of(caught)
    if error is None:
        raise caught
    hint = f"\nhint: {error.hint}" if error.hint else ""
    return CallToolResult(content=[TextContent(text=f"error: {error}{hint}")], is_error=True)


async def _call_tool(call: ClientCall, params: CallToolRequestParams) -> CallToolResult:
    entry = tool_registry.TABLE.get(params.name)
    if entry is None and params.name.startswith(tool_registry.KEPT) and isinstance(call.visitor, LocalUser):
        return await _call_kept(call.engine, params.name.removeprefix(tool_registry.KEPT), params.arguments or {})
    if entry is None:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: `{params.name[:80]}`; known: {', '.join(tool_registry.TABLE)}")
    asked = _decode_arguments(entry.takes, params.arguments or {})
    call.visitor.needs(asked.scope)
    response = await entry.does(call, asked)
    text = msgspec.json.encode(response.data).decode()
    run = response.data.run if isinstance(response.data, Run) else ""
    waits = bool(run) and any(entry.run == run for entry in call.engine.inbox.entries())
    words = responses.readable(response.data, response.words.splitlines(), waits=waits)
    blocks = [TextContent(text=part) for part in (words, text) if part]
    return CallToolResult(content=[*blocks], structured_content=msgspec.json.decode(text), is_error=response.failed)


async def _call_kept(engine: Engine, name: str, given: dict[str, Any]) -> CallToolResult:
    """Run a tool that the user keeps here; it was approved, or it is refused."""
    record = await engine.tools.run(Path.cwd(), name.replace("_", "-"), given, lambda _: None)
    data = shown_record(record)
    text = msgspec.json.encode(data).decode()
    return CallToolResult(
        content=[TextContent(text=text)],
        structured_content=msgspec.json.decode(text),
        is_error=data["status"] != "done",
    )


def _decode_arguments(takes: type[Arguments], given: dict[str, Any]) -> Arguments:
    """Decode arguments as models send them: null for what is not given, a number as text, an older name."""
    known = {name: value for name, value in given.items() if value is not None}
    if "execution_id" in known and "run" not in known:
        known["run"] = known.pop("execution_id")
    if isinstance(seconds := known.get("timeout"), int | float):
        known["timeout"] = f"{seconds:g}s"
    try:
        return msgspec.convert(known, takes, strict=False)
    except msgspec.ValidationError as error:
        names = ", ".join(takes.__struct_fields__)
        raise BadRequest(f"the arguments do not fit: {error}", hint=f"it takes: {names}") from None


class PromptTemplate(Struct, frozen=True):
    """A job in words; `{name}` is filled with what the user gives."""

    about: str
    takes: Mapping[str, str]
    text: str


PROMPTS: dict[str, PromptTemplate] = {
    "delegate": PromptTemplate(
        "Have an agent do a task, look at its work, and merge it when you agree",
        {"task": "What is to be done"},
        "Use engine_execute with this repository as `path` to have an agent do this task:\n\n{task}\n\n"
        "Give as `checks` the commands by which this repository is tested. When it is done, show me a short summary "
        "of engine_diff, and ask me before you call engine_merge. If it failed, tell me why and what you suggest.",
    ),
    "race": PromptTemplate(
        "Have several agents do the same task, and compare what they made",
        {"task": "What is to be done", "agents": "Who races, e.g. claude, codex"},
        "Use engine_execute with this repository as `path`, agents {agents}, and this repository's test commands as "
        "`checks`, for this task:\n\n{task}\n\nThen compare the attempts with engine_select, tell me which you would "
        "take and why, and ask me before you choose another winner or call engine_merge.",
    ),
    "review": PromptTemplate(
        "Have another agent review changes, without changing anything",
        {"what": "What is to be reviewed, e.g. the last commit", "agent": "Who reviews, e.g. codex"},
        "Use engine_execute with this repository as `path`, agents [{agent}], force_agent reviewer and read_only true, "
        "to review: {what}. Give me its findings, the weightiest first, and say of each whether you agree.",
    ),
    "catch-up": PromptTemplate(
        "What runs, what waits for me, what it cost",
        {},
        "Call engine_status. Tell me in a few lines what runs, what waits for my answer (with the choices), and what "
        "was spent today. Pass on my answers with engine_answer.",
    ),
}


def prompt_listing() -> ListPromptsResult:
    return ListPromptsResult(
        prompts=[
            Prompt(
                name=name,
                title=job.about,
                description=job.about,
                arguments=[
                    PromptArgument(name=each, description=about, required=True) for each, about in job.takes.items()
                ],
            )
            for name, job in PROMPTS.items()
        ]
    )


def filled_prompt(name: str, given: Mapping[str, str]) -> GetPromptResult:
    job = PROMPTS.get(name)
    if job is None:
        raise MCPError(INVALID_PARAMS, f"there is no prompt `{name[:80]}`; known: {', '.join(PROMPTS)}")
    absent = [each for each in job.takes if not given.get(each, "").strip()]
    if absent:
        raise MCPError(INVALID_PARAMS, f"the prompt `{name}` needs: {', '.join(absent)}")
    text = job.text
    for each in job.takes:
        text = text.replace(f"{{{each}}}", given[each])
    return GetPromptResult(description=job.about, messages=[PromptMessage(role="user", content=TextContent(text=text))])


def resource_listing(engine: Engine) -> ListResourcesResult:
    found = [Resource(uri=RUNS_ADDRESS, name="runs", title="All runs", mime_type=JSON_TYPE)]
    for line in summaries(engine, RunFilter(most=MOST_LISTED)):
        title = f"{line.status}: {one_line(line.title, 60)}"
        found.append(Resource(uri=f"{RUNS_ADDRESS}/{line.run}", name=line.run, title=title, mime_type=JSON_TYPE))
    return ListResourcesResult(resources=found)


def resource_templates() -> ListResourceTemplatesResult:
    kinds = (
        ("", "run", "The run document", JSON_TYPE),
        ("/log", "log", "What its agents said and did, in words", TEXT_TYPE),
        ("/diff", "diff", "The change it made", PATCH_TYPE),
    )
    return ListResourceTemplatesResult(
        resource_templates=[
            ResourceTemplate(uri_template=f"{RUNS_ADDRESS}/{{run}}{tail}", name=name, description=about, mime_type=kind)
            for tail, name, about, kind in kinds
        ]
    )


async def resource_content(engine: Engine, uri: str) -> ReadResourceResult:
    """Return what is at an address; only runs are."""
    run, _, part = uri.removeprefix(RUNS_ADDRESS).removeprefix("/").partition("/")
    try:
        text, kind = await _content(engine, uri, run, part)
    except CorralError as error:
        raise MCPError(INVALID_PARAMS, str(error), {"uri": uri}) from error
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=kind, text=text)])


async def _content(engine: Engine, uri: str, run: str, part: str) -> tuple[str, str]:
    if uri == RUNS_ADDRESS:
        return msgspec.json.encode(
            responses.RunsReply(runs=tuple(summaries(engine, RunFilter(most=1000))))
        ).decode(), JSON_TYPE
    if not uri.startswith(f"{RUNS_ADDRESS}/") or not run or part not in ("", "log", "diff"):
        raise CorralError(f"there is nothing at {uri[:200]}")
    found = engine.show(run)
    if part == "log":
        return _log_text(engine, found.run), TEXT_TYPE
    if part == "diff":
        kept = bytearray()
        await engine.work.diff(found.run, None, lambda chunk: kept.extend(chunk[: MOST_DIFF - len(kept)]))
        return kept.decode(errors="replace"), PATCH_TYPE
    return document(found).decode(), JSON_TYPE


def _log_text(engine: Engine, run: str) -> str:
    """Return the end of what happened, a moment and a place for each."""
    lines: list[str] = []
    for stored in engine.history.events(run):
        if words := event_words(stored.event()):
            lines.append(f"{moment(stored.at)} {stored.node or run}  {words}")
            del lines[:-MOST_LINES]
    return "\n".join(lines)
