"""Calls of a program: each granted, counted, bounded and logged on this side."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from corral.model import ENCODER
from corral.model.errors import BadRequest, CorralError, NotFound
from corral.model.program import CallError, CallErrorClass, ProgramLimits, ToolCall
from corral.rules.context.program_tools import logged_arguments

MOST_AT_ONCE = 16
MOST_LOGGED = 2000  #: characters of the arguments and of the value of one call
MOST_RECORDED = 64 << 10  #: the same of a call that can be replayed
MOST_LOG = 256 << 10  #: characters of all calls of a program that are kept whole


class CallFailed(CorralError):
    """A call that failed; its program gets the class and the words."""

    def __init__(self, kind: CallErrorClass, message: str) -> None:
        super().__init__(message)
        self.error = CallError(kind, message)


class ProgramTool(Struct, frozen=True):
    """A tool as programs call it: what its arguments are, and what answers."""

    arguments: type[Any]
    answer: Callable[[Any], Awaitable[Any]]


class AnswersCalls(Protocol):
    """What a program's calls go to."""

    count: int

    async def answer(self, name: str, given: object) -> bytes: ...


class RecordedCalls:
    """Answers calls as they were answered before; nothing is done. Equal calls are answered in their order."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._left = list(calls)
        self.new: list[str] = []  #: calls that were not made before
        self.count = 0

    @property
    def left(self) -> list[str]:
        """Return the calls that were not made again."""
        return [f"{each.tool} {each.arguments}" for each in self._left]

    async def answer(self, name: str, given: object) -> bytes:
        self.count += 1
        asked = ENCODER.encode(logged_arguments(name, given)).decode()[:MOST_RECORDED]
        found = next((each for each in self._left if each.tool == name and each.arguments == asked), None)
        if found is None:
            self.new.append(f"{name[:80]} {asked}")
            raise CallFailed("refused", f"{name}: there was no such call when this was recorded")
        self._left.remove(found)
        if not found.whole or len(str(found.value)) == MOST_LOGGED:  # older records do not say that they were cut
            raise CallFailed("limit", f"{name}: its answer was too long to be kept whole")
        if found.error:
            raise CallFailed(found.error.kind, found.error.message)
        return str(found.value).encode()


class ToolCalls:
    """Answers the calls of one program. The program's own word about what it may do counts for nothing."""

    def __init__(
        self,
        tools: Mapping[str, ProgramTool],
        granted: Collection[str],
        limits: ProgramLimits,
        log: Callable[[ToolCall], None],
        *,
        check: Callable[[str, object], Awaitable[None]] | None = None,
    ) -> None:
        self._room = MOST_LOG
        self._tools, self._granted, self._limits, self._log = tools, frozenset(granted), limits, log
        self._check = check  #: the user's rules; CallFailed where they refuse
        self._at_once = asyncio.Semaphore(MOST_AT_ONCE)
        self._bytes = 0
        self.count = 0

    async def answer(self, name: str, given: object) -> bytes:
        """Return the value of a call as JSON; CallFailed where it is refused or fails."""
        self.count += 1
        number, started = self.count, time.monotonic()
        try:
            value = await self._answer(number, name, given)
        except CallFailed as failed:
            self._note(number, name, given, None, failed.error, started)
            raise
        self._note(number, name, given, value, None, started)
        return value

    async def _answer(self, number: int, name: str, given: object) -> bytes:
        if name not in self._granted:
            raise CallFailed("refused", f"the tool `{name[:80]}` is not granted to this program")
        tool = self._tools.get(name)
        if tool is None:
            raise CallFailed("refused", f"there is no tool `{name[:80]}`")
        if number > self._limits.calls:
            raise CallFailed("limit", f"{self._limits.calls} calls are the most")
        self._spend(len(ENCODER.encode(given)))
        try:
            arguments = msgspec.convert(given, type=tool.arguments)
        except (msgspec.ValidationError, RecursionError) as error:
            raise CallFailed("bad_arguments", f"{name}: {str(error).splitlines()[0]}") from error
        if self._check:
            await self._check(name, given)
        async with self._at_once:
            value = ENCODER.encode(await self._call(tool, arguments))
        self._spend(len(value))
        return value

    async def _call(self, tool: ProgramTool, arguments: object) -> object:
        try:
            return await tool.answer(arguments)
        except CallFailed:
            raise
        except NotFound as error:
            raise CallFailed("not_found", str(error)) from error
        except BadRequest as error:
            raise CallFailed("bad_arguments", _words(error)) from error
        except CorralError as error:
            raise CallFailed("failed", _words(error)) from error

    def _spend(self, count: int) -> None:
        self._bytes += count
        if self._bytes > self._limits.call_bytes:
            raise CallFailed("limit", f"calls have passed {self._limits.call_bytes} bytes, and that is the most")

    def _note(
        self, number: int, name: str, given: object, value: bytes | None, error: CallError | None, started: float
    ) -> None:
        seconds = round(time.monotonic() - started, 4)
        shown = value.decode() if value is not None else None
        asked = ENCODER.encode(logged_arguments(name, given)).decode()
        size = max(len(asked), len(shown or ""))
        whole = size <= MOST_LOGGED or (size <= MOST_RECORDED and size <= self._room)
        if whole:
            self._room -= size
        else:
            asked, shown = asked[:MOST_LOGGED], shown and shown[:MOST_LOGGED]
        self._log(
            ToolCall(
                number=number, tool=name[:80], arguments=asked, value=shown, error=error, seconds=seconds, whole=whole
            )
        )


def _words(error: CorralError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)
