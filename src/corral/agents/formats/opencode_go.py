"""The archived Go program that was called opencode too: `-p PROMPT -f json -q`. No sessions, no model, no tokens."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from corral.agents.formats import error_words
from corral.agents.formats.printed_json import UNREADABLE
from corral.model.agent_api import AgentTask, Command, End
from corral.model.errors import BadRequest
from corral.model.events import AgentEvent, Ended, Said

MOST_ARGUMENT = 100_000  #: the kernel refuses single arguments over 128 KiB
MOST_KEPT = 1 << 20  #: of what it printed


def start(program: str, task: AgentTask) -> Command:
    if len(task.prompt.encode()) > MOST_ARGUMENT:
        raise BadRequest("the task is too long for an argument of the old `opencode`", hint="use the current one")
    return Command(argv=(program, "-p", task.prompt, "-f", "json", "-q", "-c", task.workspace))


class _Response(Struct):
    response: str


class GoConversation:
    """One JSON object, printed at the end over several lines; anything else, such as its help, is no result."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0

    def read(self, line: str) -> list[AgentEvent]:
        self._size += len(line)
        if self._size <= MOST_KEPT:
            self._lines.append(line)
        return []

    def exited(self, end: End) -> list[AgentEvent]:
        text = "\n".join(self._lines)
        try:
            said = msgspec.json.decode(text, type=_Response).response
        except UNREADABLE:
            return error_words.no_result("opencode", end.code, end.stderr or text)
        if end.code != 0 or not said.strip():
            return error_words.no_result("opencode", end.code, end.stderr or said, text=said)
        return [Said(said), Ended(ok=True, text=said)]
