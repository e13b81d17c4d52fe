"""Text that can be handed to a program as a word: what agents and commands print is not always so."""

from __future__ import annotations

REPLACED = "\N{REPLACEMENT CHARACTER}"


def as_plain_text(text: str) -> str:
    """Return a text without NUL bytes and halves of surrogate pairs: no system starts a program with these."""
    return text.encode(errors="replace").decode().replace("\0", REPLACED)
