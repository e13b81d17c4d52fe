"""What every wire format has in common: what was asked, what is answered, and how chunks are framed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from corral.testing.model.reading import Json
from corral.testing.model.script import Usage
from corral.testing.model.tools import OfferedTool, Offers, ToolUse


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """What a request asks for, whatever its wire format."""

    model: str = ""
    history: int = 0  # turns of the model that it already holds
    offers: Offers = field(default_factory=dict[str, OfferedTool])
    stream: bool = False
    side_text: str | None = None  # what this format needs for an answer to a side request


@dataclass(frozen=True, kw_only=True)
class ModelAnswer:
    """What goes back, before it is put into a wire format."""

    id: str
    created: int  # seconds since the epoch
    model: str
    text: str
    thinking: str
    uses: tuple[ToolUse, ...]
    usage: Usage

    @property
    def speaks(self) -> bool:
        """An answer without calls has a text part, be it empty."""
        return bool(self.text) or not self.uses

    def call_id(self, index: int) -> str:
        return f"call_{self.id}_{index}"


@dataclass(frozen=True, kw_only=True)
class WireFormat:
    """One wire format."""

    read: Callable[[Json], ModelRequest]
    whole: Callable[[ModelAnswer], Json]
    chunks: Callable[[ModelAnswer], Iterator[str]]
    error: Callable[[int, str], Json]
    stream_type: str = "text/event-stream"


def event(data: Json, name: str = "") -> str:
    """One server-sent event."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


def pieces(text: str) -> list[str]:
    """A text as a stream brings it: in pieces, at most some fifty of them."""
    size = max(12, len(text) // 50)
    return [text[start : start + size] for start in range(0, len(text), size)]
