"""The event lines on stdout: one event a line, at once."""

from __future__ import annotations

import sys

import msgspec

from corral.model import Tokens
from corral.model.events import Event, Spent

MOST_SHOWN = 2000
_ENCODE = msgspec.json.Encoder()


def tell(event: Event) -> None:
    """Print one event."""
    sys.stdout.buffer.write(_ENCODE.encode(event) + b"\n")
    sys.stdout.buffer.flush()


def clean(text: str) -> str:
    """Take out what JSON cannot carry: halves of characters, as models sometimes make them."""
    return text.encode("utf-8", "replace").decode()


class UsageTotal:
    """Sums up what was used; `usd` is 0 where models cost nothing, else left to those who know prices."""

    def __init__(self, *, free: bool) -> None:
        self._usd = 0.0 if free else None
        self._tokens = Tokens()

    def add(self, tokens: Tokens) -> None:
        self._tokens += tokens
        tell(Spent(self._tokens, self._usd))
