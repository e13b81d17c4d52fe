"""The installed `corral mcp` as a client of the official SDK uses it: a process of its own, the real protocol."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from tests.rig.command import PROGRAM, Corral
from tests.rig.preloaded import PRELOADED

MODES = ("auto", "legacy")  #: the newer era of the protocol, and the handshake that older clients know


def parameters(corral: Corral, folder: Path | None = None) -> StdioServerParameters:
    command, *words = PRELOADED.stand_in(PROGRAM)
    return StdioServerParameters(command=command, args=[*words, "mcp"], env=corral.env, cwd=folder or corral.root)


@asynccontextmanager
async def connected(corral: Corral, mode: str = "auto", person: "Person | None" = None) -> AsyncGenerator[Client]:
    """Connect; with a person at the client, it can ask them."""
    asked = person.asked if person else None
    async with Client(parameters(corral), mode=mode, elicitation_callback=asked) as client:
        yield client


class Person:
    """Who sits at the client: says what a test lets them, and remembers what they were asked."""

    def __init__(self, *answers: str | None) -> None:
        self._answers = list(answers)
        self.questions: list[str] = []

    async def asked(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        assert context
        self.questions.append(params.message)
        answer = self._answers.pop(0)
        if answer is None:
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept", content={"answer": answer})


def told(result: CallToolResult) -> str:
    """Return all words of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
