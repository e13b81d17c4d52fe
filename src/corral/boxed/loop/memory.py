"""The conversation with the model, kept in HOME, so that the same session continues after an interruption."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from pathlib import Path

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from corral.boxed.loop.settings import Unready
from corral.model import Failure

INTERRUPTED = "interrupted: it is not known whether this was done; look before you do it again"


class StoredMessages:
    """A session: all messages so far, in a file that is never half written."""

    def __init__(self, home: Path, session: str) -> None:
        self.session = session or uuid.uuid4().hex
        self._file = home / ".corral-loop" / f"{self.session}.json"
        self.messages: list[ModelMessage] = self._load() if session else []

    def begin(self, prompt: str, instructions: str, images: Sequence[str] = ()) -> None:
        """Put a prompt at the end: the task at first, later whatever the user says next."""
        shown = [BinaryContent.from_path(Path(image)) for image in images]
        content = [prompt, *shown] if shown else prompt
        parts: list[ToolReturnPart | UserPromptPart] = [*self._interrupted_results(), UserPromptPart(content=content)]
        self.messages.append(ModelRequest(parts=parts, instructions=instructions))
        self.save()

    def add(self, message: ModelMessage) -> None:
        self.messages.append(message)
        self.save()

    def save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._file.with_suffix(".new")
        fresh.write_bytes(ModelMessagesTypeAdapter.dump_json(self.messages))
        fresh.replace(self._file)

    def _load(self) -> list[ModelMessage]:
        if not re.fullmatch(r"[\w-]{1,100}", self.session):
            raise Unready(Failure("crash", f"{self.session!r} is no session of this loop"))
        try:
            return ModelMessagesTypeAdapter.validate_json(self._file.read_bytes())
        except (OSError, ValueError) as error:
            raise Unready(Failure("crash", f"the session {self.session} cannot be read: {error}")) from error

    def _interrupted_results(self) -> list[ToolReturnPart]:
        """Answer the calls that an interruption left open: providers refuse a history with open calls."""
        last = self.messages[-1] if self.messages else None
        calls = (
            [part for part in last.parts if isinstance(part, ToolCallPart)] if isinstance(last, ModelResponse) else []
        )
        return [
            ToolReturnPart(tool_name=call.tool_name, content=INTERRUPTED, tool_call_id=call.tool_call_id)
            for call in calls
        ]
