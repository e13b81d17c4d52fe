"""Read a program of our own: it prints our events, one JSON object a line."""

from __future__ import annotations

import msgspec

from corral.adapter import End
from corral.events import AGENT_DECODER, AgentEvent, Ended, Unparsed
from corral.model import Failure


class OurEvents:
    """One attempt's output; `what` names the program in words."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._ended = False

    def read(self, line: str) -> list[AgentEvent]:
        try:
            event = AGENT_DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeError):
            return [Unparsed(line)]
        self._ended = self._ended or isinstance(event, Ended)
        return [event]

    def exited(self, end: End) -> list[AgentEvent]:
        if self._ended:
            return []
        words = end.stderr.strip().splitlines()
        reason = f": {words[-1]}" if words else ""
        return [Ended(ok=False, error=Failure("crash", f"{self._what} ended with {end.code} and no result{reason}"))]
