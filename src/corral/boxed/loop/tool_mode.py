"""Work with tools: the model asks for them turn by turn until it has nothing more to do."""

from __future__ import annotations

import json
from typing import Any

from pydantic_ai import exceptions as raised
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from corral.boxed.call_hook import refusal
from corral.boxed.loop.conversation import ModelConversation
from corral.boxed.loop.event_lines import MOST_SHOWN, clean, tell
from corral.boxed.loop.settings import LoopSettings
from corral.boxed.loop.tools import LoopToolbox
from corral.boxed.loop.tools.result import LoopToolResult
from corral.model import Failure
from corral.model.events import CalledTool, Changed, Ended, ToolReturned

INSTRUCTIONS = """\
You are a software engineer at work in a folder, the workspace, which holds a project. Do the task completely, with the
tools you have: look at what is there before you change it, change only what the task needs, and run the project's tests
when there are any. Paths are relative to the workspace; nothing outside it can be reached. Nobody answers questions:
decide yourself, and say so at the end. When all is done, answer in a few sentences, without calling a tool."""
CONTINUE = "You said nothing and called no tool. Continue the task; if it is done, say in a sentence what you did."
Parts = list[ToolReturnPart | UserPromptPart]


async def work(talk: ModelConversation, toolbox: LoopToolbox, settings: LoopSettings) -> Ended:
    """Take turns until the model ends its own, or the turns are used up."""
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema)
        for tool in toolbox.tools.values()
    ]
    was_silent = False
    for _ in range(settings.turns):
        response = await _ask(talk, tools)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        if response.finish_reason in ("length", "content_filter", "error"):
            return unfinished_event(response)
        if calls:
            parts: Parts = [part for call in calls for part in _use(toolbox, call, settings.hook)]
            # Providers ask for the answers to calls before anything else.
            parts.sort(key=lambda part: isinstance(part, UserPromptPart))
            talk.memory.add(ModelRequest(parts=parts, instructions=INSTRUCTIONS))
        elif (response.text or "").strip():
            return Ended(ok=True, text=clean(response.text or "").strip())
        elif was_silent:
            return Ended(ok=False, error=Failure("bad_output", "the model ended without a word"))
        else:
            was_silent = True
            talk.memory.begin(CONTINUE, INSTRUCTIONS)
    return Ended(ok=False, error=Failure("bad_output", f"it used up its {settings.turns} turns before it was done"))


def unfinished_event(response: ModelResponse) -> Ended:
    """Say why an answer that was cut short is no ending."""
    text = clean(response.text or "")
    match response.finish_reason:
        case "length":
            hint = "raise it: settings = { CORRAL_LOOP_MAX_TOKENS = ... }"
            return Ended(ok=False, text=text, error=Failure("bad_output", "its answer hit the limit of output", hint))
        case "content_filter":
            return Ended(ok=False, text=text, error=Failure("refused", text or "the provider's filter stopped it"))
        case _:
            return Ended(ok=False, text=text, error=Failure("bad_output", "the provider broke its answer off"))


async def _ask(talk: ModelConversation, tools: list[ToolDefinition]) -> ModelResponse:
    try:
        return await talk.ask(tools)
    except raised.ModelHTTPError as error:
        if error.status_code not in (400, 415, 422) or not _remove_images(talk):
            raise
    return await talk.ask(tools)


def _remove_images(talk: ModelConversation) -> bool:
    """Take images out of the last message, for models that cannot see; tell whether there were any."""
    last = talk.memory.messages[-1]
    blind = False
    if isinstance(last, ModelRequest):
        for part in last.parts:
            if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
                part.content, blind = "The image cannot be shown to you.", True
    return blind


def _use(toolbox: LoopToolbox, call: ToolCallPart, hook: str) -> Parts:
    try:
        arguments: dict[str, Any] = call.args_as_dict()
    except (ValueError, AssertionError) as error:
        arguments, result = {}, LoopToolResult.bad(f"the arguments are not JSON: {error}")
        tell(CalledTool(call.tool_name, clean(str(call.args))[:500], call.tool_call_id))
    else:
        tell(CalledTool(call.tool_name, clean(toolbox.main_argument(call.tool_name, arguments)), call.tool_call_id))
        refused = refusal(hook, call.tool_name, arguments) if hook else ""
        result = LoopToolResult.bad(refused) if refused else toolbox.use(call.tool_name, arguments)
    content = clean(json.dumps(result.content, ensure_ascii=False))
    tell(ToolReturned(call.tool_call_id, result.ok, content[:MOST_SHOWN]))
    for path in result.changed:
        tell(Changed(clean(path)))
    parts: Parts = [ToolReturnPart(tool_name=call.tool_name, content=content, tool_call_id=call.tool_call_id)]
    if result.image:
        data, kind = result.image
        parts.append(UserPromptPart(content=[BinaryContent(data=data, media_type=kind)]))
    return parts
