"""One session from its prompt to its end, with tools or without."""

from __future__ import annotations

from pathlib import Path

from pydantic_ai import exceptions as raised
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from corral import __version__
from corral.events import Ended, Said, Started
from corral.loop import textual, trouble, turns
from corral.loop.memory import Memory
from corral.loop.models import model
from corral.loop.place import Place
from corral.loop.settings import Settings
from corral.loop.talk import Talk
from corral.loop.telling import tell
from corral.loop.tools import Toolbox


async def run(settings: Settings, prompt: str, folder: Path, home: Path) -> Ended:
    """Do what the prompt says, or go on with the session it continues; tell everything but the last word."""
    place = Place(folder)
    memory = Memory(home, settings.session)
    is_text = settings.mode == "text" or (settings.mode == "auto" and _was_text(memory.messages))
    goes_on = bool(memory.messages)
    said = textual.opening(place, prompt, settings.most_output) if is_text and not goes_on else prompt
    memory.begin(said, textual.INSTRUCTIONS if is_text else turns.INSTRUCTIONS)
    tell(Started(memory.session, settings.model, __version__))
    talk = Talk(model(settings), memory, settings)
    try:
        if not is_text:
            toolbox = Toolbox(place, most_output=settings.most_output, read_only=settings.read_only)
            try:
                return await turns.work(talk, toolbox, settings)
            except raised.ModelHTTPError as error:
                if settings.mode == "tools" or not trouble.has_no_tools(error):
                    raise
            tell(Said("This model cannot call tools: it is shown files and answers with changes instead."))
            asked = _prompts(memory.messages)
            memory.messages.clear()
            memory.begin(textual.opening(place, asked, settings.most_output), textual.INSTRUCTIONS)
        return await textual.work(talk, place, settings)
    except (raised.AgentRunError, raised.UserError, OSError) as error:
        failure = trouble.failure(error, settings)
        if failure.kind == "rate_limit":
            tell(trouble.limited(error))
        return Ended(ok=False, text=failure.message, error=failure)


def _prompts(messages: list[ModelMessage]) -> str:
    """Return what was asked so far: a session that was interrupted holds the task before the prompt to go on."""
    parts = [part for each in messages if isinstance(each, ModelRequest) for part in each.parts]
    return "\n\n".join(
        part.content for part in parts if isinstance(part, UserPromptPart) and isinstance(part.content, str)
    )


def _was_text(messages: list[ModelMessage]) -> bool:
    """Tell whether the session went on without tools before it was interrupted."""
    return any(isinstance(each, ModelRequest) and each.instructions == textual.INSTRUCTIONS for each in messages)
