"""One client on stdio: served until it is gone, and answered first what it had asked."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from typing import Any, cast

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse
from msgspec import Raw, Struct

from corral.engine.engine import Engine
from corral.frontends.mcp.permissions import LocalUser
from corral.frontends.mcp.server import build
from corral.frontends.mcp.stdio_runs import StdioRuns

PATIENCE = 10.0  #: seconds for what a client asked before it closed its side
LOOK_SECONDS = 0.02
NONE = Raw(b"")


async def serve_stdio(engine: Engine) -> int:
    """Serve one client until it is gone; runs that it waited for are stopped, their work is kept."""
    active, owner = StdioRuns(engine), LocalUser()
    loop = asyncio.get_running_loop()
    serving = loop.create_task(_serve(build(active, lambda _: owner), active))
    why = "the MCP client is gone"

    def end(name: str) -> None:
        nonlocal why
        why = f"stopped by {name}"
        serving.cancel()

    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(sent, end, sent.name)
    await asyncio.wait([serving])
    await active.close(why)
    engine.close()
    sys.stderr.flush()
    os._exit(0)  # a thread of the SDK still reads stdin: Python would wait for it


class _Wire:
    """The lines of a client: those that are no messages are answered here and go no further."""

    def __init__(self, refusing: MemoryObjectSendStream[SessionMessage]) -> None:
        self.refusing = refusing
        self._last = CheckedMessage()

    async def lines(self) -> AsyncGenerator[str]:
        async for line in _stdin():
            self._last = vet(line)
            if self._last.refusal is None:
                yield line
            elif line.strip():
                await self.refusing.send(SessionMessage(self._last.refusal))

    async def refuse_last(self) -> None:
        """Answer a message that the SDK, which is stricter than we, did not take."""
        await self.refusing.send(SessionMessage(refusal(self._last.id, INVALID_REQUEST, "Invalid request")))


def _stdin() -> anyio.AsyncFile[str]:
    """Take stdin over: nothing that is started from here may read what the client writes."""
    private, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return anyio.wrap_file(os.fdopen(private, encoding="utf-8", errors="replace", closefd=False))


async def _serve(server: Server[Any], active: StdioRuns) -> None:
    """Pass messages on both ways: the SDK drops what is not answered yet when the client's side ends."""
    unanswered: set[int | str] = set()
    asked, asks = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, answered = anyio.create_memory_object_stream[SessionMessage](0)

    wire = _Wire(answers.clone())

    async def take() -> None:
        async with asked, wire.refusing:
            async for message in incoming:
                if isinstance(message, Exception):
                    await wire.refuse_last()
                    continue
                if isinstance(message.message, JSONRPCRequest):
                    unanswered.add(message.message.id)
                await asked.send(message)
            with anyio.move_on_after(PATIENCE):
                # A run that is waited for has nobody left who waits: it is stopped.
                while unanswered and not active.busy():  # noqa: ASYNC110 -- two things are looked at
                    await anyio.sleep(LOOK_SECONDS)

    async def give() -> None:
        async with outgoing:
            async for message in answered:
                await outgoing.send(message)
                if isinstance(message.message, JSONRPCResponse | JSONRPCError) and message.message.id is not None:
                    unanswered.discard(message.message.id)

    async with (
        stdio_server(cast("anyio.AsyncFile[str]", wire.lines())) as (incoming, outgoing),
        anyio.create_task_group() as passing,
    ):
        passing.start_soon(take)
        passing.start_soon(give)
        await server.run(asks, answers, server.create_initialization_options())


class _MessageHead(Struct, frozen=True):
    jsonrpc: Raw = NONE
    id: Raw = NONE
    method: Raw = NONE
    params: Raw = NONE
    result: Raw = NONE
    error: Raw = NONE


class CheckedMessage(Struct, frozen=True):
    """What is known of a message: its id, and the answer if it is not to be passed on."""

    id: int | str | None = None
    refusal: JSONRPCError | None = None


def vet(text: bytes | str) -> CheckedMessage:
    """Look whether a text is a message of JSON-RPC 2.0 as MCP uses it."""
    try:
        head = msgspec.json.decode(text, type=_MessageHead)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return CheckedMessage(refusal=_no_object(text))
    number = _of(head.id, int | str)
    if head.method == NONE and (head.result != NONE or head.error != NONE):
        return CheckedMessage(id=number)  # an answer to a request of ours
    wrong = _wrong(head, number)
    return CheckedMessage(id=number, refusal=refusal(number, INVALID_REQUEST, wrong) if wrong else None)


def refusal(number: int | str | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=message))


def _wrong(head: _MessageHead, number: int | str | None) -> str:
    if _of(head.jsonrpc, str) != "2.0":
        return 'Invalid request: `jsonrpc` is "2.0"'
    if head.id != NONE and number is None:
        return "Invalid request: `id` is a text or a whole number"
    if _of(head.method, str) is None:
        return "Invalid request: `method` is a text"
    if head.params != NONE and bytes(head.params).lstrip()[:1] not in (b"{", b"n"):
        return "Invalid request: `params` is an object"
    return ""


def _no_object(text: bytes | str) -> JSONRPCError:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return refusal(None, PARSE_ERROR, "Parse error: no JSON, or nested too deeply")
    return refusal(None, INVALID_REQUEST, "Invalid request: a message is one JSON object")


def _of(raw: Raw, kind: Any) -> Any:  # noqa: ANN401 -- what the kind says
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
