"""One session from its prompt to its end, with tools or without."""

from __future__ import annotations

from pathlib import Path

from pydantic_ai import exceptions as raised
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from corral.boxed.loop import provider_errors, text_mode, tool_mode
from corral.boxed.loop.conversation import ModelConversation
from corral.boxed.loop.event_lines import tell
from corral.boxed.loop.memory import Memory
from corral.boxed.loop.models import model
from corral.boxed.loop.settings import LoopSettings
from corral.boxed.loop.tools import LoopToolbox
from corral.boxed.loop.workspace import LoopWorkspace
from corral.model.events import Ended, Said, Started
from corral.version import __version__


async def run(settings: LoopSettings, prompt: str, folder: Path, home: Path) -> Ended:
    """Do what the prompt says, or go on with the session it continues; tell everything but the last word."""
    place = LoopWorkspace(folder)
    memory = Memory(home, settings.session)
    is_text = settings.mode == "text" or (settings.mode == "auto" and _was_text(memory.messages))
    goes_on = bool(memory.messages)
    said = text_mode.opening(place, prompt, settings.most_output) if is_text and not goes_on else prompt
    memory.begin(said, text_mode.INSTRUCTIONS if is_text else tool_mode.INSTRUCTIONS)
    tell(Started(memory.session, settings.model, __version__))
    talk = ModelConversation(model(settings), memory, settings)
    try:
        if not is_text:
            toolbox = LoopToolbox(place, most_output=settings.most_output, read_only=settings.read_only)
            try:
                return await tool_mode.work(talk, toolbox, settings)
            except raised.ModelHTTPError as error:
                if settings.mode == "tools" or not provider_errors.has_no_tools(error):
                    raise
            tell(Said("This model cannot call tools: it is shown files and answers with changes instead."))
            asked = _prompts(memory.messages)
            memory.messages.clear()
            memory.begin(text_mode.opening(place, asked, settings.most_output), text_mode.INSTRUCTIONS)
        return await text_mode.work(talk, place, settings)
    except (raised.AgentRunError, raised.UserError, OSError) as error:
        failure = provider_errors.failure(error, settings)
        if failure.kind == "rate_limit":
            tell(provider_errors.limited_event(error))
        return Ended(ok=False, text=failure.message, error=failure)


def _prompts(messages: list[ModelMessage]) -> str:
    """Return what was asked so far: a session that was interrupted holds the task before the prompt to go on."""
    parts = [part for each in messages if isinstance(each, ModelRequest) for part in each.parts]
    return "\n\n".join(
        part.content for part in parts if isinstance(part, UserPromptPart) and isinstance(part.content, str)
    )


def _was_text(messages: list[ModelMessage]) -> bool:
    """Tell whether the session went on without tools before it was interrupted."""
    return any(isinstance(each, ModelRequest) and each.instructions == text_mode.INSTRUCTIONS for each in messages)
