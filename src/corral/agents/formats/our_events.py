"""The output of our own programs: our events, one JSON object a line."""

from __future__ import annotations

from corral.agents.formats.printed_json import UNREADABLE, decode, is_deep
from corral.agents.formats.usage import within_limits
from corral.model import Failure
from corral.model.agent_api import End
from corral.model.events import AGENT_DECODER, AgentEvent, ContextUsed, Ended, Spent, Unparsed, with_present_tag
from corral.model.missing_programs import telling_line
from corral.model.values import token_count


class OurEvents:
    """One attempt's output; `what` names the program in words."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._ended = False

    def read(self, line: str) -> list[AgentEvent]:
        try:
            event = with_present_tag(decode(AGENT_DECODER, line))
        except UNREADABLE:
            return [Unparsed(line)]
        self._ended = self._ended or isinstance(event, Ended)
        match event:
            case Spent():
                return [within_limits(event)]
            case ContextUsed(tokens=tokens, window=window):
                return [ContextUsed(token_count(tokens), None if window is None else token_count(window))]
            case Ended(output=output) if is_deep(output):
                return [Ended(ok=False, error=Failure("bad_output", "its output is nested too deeply"))]
            case _:
                return [event]

    def exited(self, end: End) -> list[AgentEvent]:
        if self._ended:
            return []
        said = telling_line(end.stderr)
        reason = f": {said}" if said else ""
        return [Ended(ok=False, error=Failure("crash", f"{self._what} ended with {end.code} and no result{reason}"))]
