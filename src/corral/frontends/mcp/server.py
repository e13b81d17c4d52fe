"""The server itself, whoever drives its runs."""

from __future__ import annotations

from collections.abc import Callable
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
    InputRequiredResult,
    ListToolsResult,
    ReadResourceRequestParams,
    TextContent,
)

from corral.frontends.mcp import prompts, resources, tool_registry
from corral.frontends.mcp.arguments import Arguments
from corral.frontends.mcp.calls import ToolCall
from corral.frontends.mcp.elicitation import InputNeeded
from corral.frontends.mcp.permissions import Visitor
from corral.frontends.mcp.stdio_runs import ClientRuns
from corral.model.errors import BadRequest, CorralError, refusal_of
from corral.version import __version__

ANSWER_SECONDS = 86_400.0  #: how long a person may think about a question before the client must call anew
INSTRUCTIONS = (
    "Corral has coding agents do tasks in private copies of a repository, in sandboxes, and proves it by checks. "
    "Delegate with engine_execute (give `checks`); look with engine_diff; ask the user, then engine_merge. Long work: "
    "background true, then engine_result with wait. What waits for the user is in engine_status."
)


def build(active: ClientRuns, visitor_of: Callable[[ServerRequestContext], Visitor]) -> Server[Any]:
    """Return the server for the runs of one process; `visitor_of` says who makes a call."""
    engine = active.engine

    async def call_tool(
        context: ServerRequestContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await _call_tool(ToolCall(active, visitor_of(context), context, params), params)
        except InputNeeded as needed:
            return needed.result
        except (CorralError, OSError, ValueError, OverflowError, RecursionError) as error:
            return _error_result(error)

    async def list_tools(_: ServerRequestContext, __: object) -> ListToolsResult:
        return ListToolsResult(tools=tool_registry.list_tools())

    async def list_resources(_: ServerRequestContext, __: object) -> resources.ListResourcesResult:
        return resources.list_resources(engine)

    async def list_templates(_: ServerRequestContext, __: object) -> resources.ListResourceTemplatesResult:
        return resources.templates()

    async def read_resource(_: ServerRequestContext, params: ReadResourceRequestParams) -> resources.ReadResourceResult:
        return await resources.read(engine, str(params.uri))

    async def list_prompts(_: ServerRequestContext, __: object) -> prompts.ListPromptsResult:
        return prompts.list_prompts()

    async def get_prompt(_: ServerRequestContext, params: GetPromptRequestParams) -> prompts.GetPromptResult:
        return prompts.fill_prompt(params.name, params.arguments or {})

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


async def _call_tool(call: ToolCall, params: CallToolRequestParams) -> CallToolResult:
    entry = tool_registry.TABLE.get(params.name)
    if entry is None:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: `{params.name[:80]}`; known: {', '.join(tool_registry.TABLE)}")
    asked = _decode_arguments(entry.takes, params.arguments or {})
    call.visitor.needs(asked.scope)
    told = await entry.does(call, asked)
    text = msgspec.json.encode(told.data).decode()
    blocks = [TextContent(text=words) for words in (told.words, text) if words]
    return CallToolResult(content=[*blocks], structured_content=msgspec.json.decode(text), is_error=told.failed)


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
