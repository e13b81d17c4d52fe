"""What a tool gives back."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class LoopToolResult(Struct, frozen=True, kw_only=True):
    """Whether it worked, what the model reads, and which files changed."""

    ok: bool = True
    content: dict[str, Any]
    changed: tuple[str, ...] = ()
    image: tuple[bytes, str] | None = None  #: shown to the model beside the content, with its media type

    @classmethod
    def bad(cls, words: str) -> LoopToolResult:
        return cls(ok=False, content={"error": words})
