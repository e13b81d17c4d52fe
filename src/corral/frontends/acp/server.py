"""One client of `corral acp`: its requests read, answered in order, and refused in words a user understands."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import UNSET, Raw

from corral.agents.formats.acp import wire
from corral.agents.formats.acp.client_requests import read_opening
from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.engine.doctor import explain_machine_error
from corral.frontends.acp import initialize, methods
from corral.frontends.acp.client import EditorClient
from corral.frontends.acp.connection import MOST_LINE, EditorConnection, LongLine
from corral.frontends.acp.failures import INTERNAL, INVALID, PARSE, Refused, refused_by
from corral.frontends.acp.streams import Streams
from corral.model.errors import CorralError, refusal_of

ASK_SECONDS = 600.0  #: how long a client may take to answer a question of ours; then it stays in the inbox
CLOSE_SECONDS = 20.0  #: for runs that are about to be handed to a process of their own

After = Callable[[], None]


def serve_streams(streams: Streams, ask_seconds: float | None) -> int:
    """Serve the client behind these streams until it is gone."""
    gc.enable()
    asyncio.run(_serve(streams, ask_seconds or ASK_SECONDS))
    sys.stderr.flush()
    os._exit(0)  # a thread still reads what the client writes: Python would wait for it


async def _serve(streams: Streams, ask_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    server = Server(EditorConnection(streams), ask_seconds)
    if streams.opening is not None:
        server.client.opening = read_opening(streams.opening)
    serving = loop.create_task(server.serve())
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(sent, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    await server.close()


class Server:
    """One client and its sessions; nothing it sends ends the process."""

    def __init__(self, connection: EditorConnection, ask_seconds: float) -> None:
        self.connection = connection
        self.client = EditorClient(connection, ask_seconds)
        self.sessions = methods.Sessions(self.client)
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        self.connection.open()
        while (line := await self.connection.next_line()) is not None:
            self._take(line)

    async def close(self) -> None:
        """Leave runs to themselves: each has a process of its own, or is about to have one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.sessions.close()
        self.connection.close()
        self.client.engine.close()

    # --- messages

    def _take(self, line: bytes | LongLine) -> None:
        if isinstance(line, LongLine):
            self._refuse(Raw(line.request), INVALID, f"a message of more than {MOST_LINE >> 20} MB is not read")
            return
        try:
            message = decode(wire.MESSAGE, line.decode())
        except UNREADABLE:
            self._refuse(*_what_is_wrong(line))
            return
        if isinstance(message.method, str):
            self._take_call(message, message.method)
        elif message.id is not UNSET:
            self.connection.take_answer(message)  # one that comes late or twice changes nothing
        else:
            self._refuse(Raw(b"null"), INVALID, "a message has a method, or the id of a request")

    def _take_call(self, message: wire.Message, method: str) -> None:
        number = None if message.id is UNSET else message.id
        if number is not None and bytes(number)[:1] in (b"{", b"[", b"t", b"f"):
            self._refuse(Raw(b"null"), INVALID, "the id of a request is a number or a text")
        elif method == "initialize" and number is not None:
            self._initialize(number, message.params)
        elif number is None:
            with contextlib.suppress(Exception):  # nobody waits for an answer
                methods.take_notification(self.sessions, method, message.params)
        else:
            self._answer_call(number, method, message.params)

    def _initialize(self, number: Raw, parameters: Raw) -> None:
        asked = json.loads(bytes(parameters))
        reply = initialize.reply(json.loads(bytes(number)), asked)
        if "result" in reply:
            self.client.opening = read_opening(asked)
        self.connection.send(wire.Line(json.dumps(reply, separators=(",", ":"))))

    def _answer_call(self, number: Raw, method: str, parameters: Raw) -> None:
        """Answer at once what can be; what waits for a run is answered by a task of its own."""
        if self.client.opening is None:
            self._refuse(number, INVALID, f"{method[:80]} before initialize: the first request is initialize")
            return
        try:
            result, after = methods.call(self.sessions, number, method, parameters)
        except Exception as error:  # noqa: BLE001 -- whatever goes wrong is this request's
            self._refuse_error(number, method, error)
            return
        if isinstance(result, dict):
            self._reply(number, result, after)
            return
        task = asyncio.get_running_loop().create_task(self._answer_later(number, method, result, after))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_later(
        self, number: Raw, method: str, work: Coroutine[Any, Any, dict[str, object]], after: After | None
    ) -> None:
        try:
            result = await work
        except Exception as error:  # noqa: BLE001
            self._refuse_error(number, method, error)
        else:
            self._reply(number, result, after)

    def _reply(self, number: Raw, result: dict[str, object], after: After | None) -> None:
        self.connection.send(wire.answer(number, result))
        if after is not None:
            after()

    def _refuse(self, number: Raw, code: int, words: str) -> None:
        self.connection.send(wire.refusal(number, code, words))

    def _refuse_error(self, number: Raw, method: str, error: Exception) -> None:
        known = error if isinstance(error, CorralError | Refused) else refusal_of(error) or explain_machine_error(error)
        if known is None:
            sys.stderr.write(f"corral acp: {method[:80]}: {type(error).__name__}: {error}\n")
            known = Refused(INTERNAL, f"corral itself failed: {type(error).__name__}: {error}")
        self.connection.send(refused_by(number, known))


def _what_is_wrong(line: bytes) -> tuple[Raw, int, str]:
    """Return the id of the request that a line was meant to be, null if it has none, and what is wrong with it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return Raw(b"null"), PARSE, "this line is not JSON"
    number = found.get("id") if isinstance(found, dict) and "method" in found else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    name = json.dumps(number) if isinstance(number, str | int) and not isinstance(number, bool) else "null"
    words = "this line is not a message of JSON-RPC 2.0"
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        words = "this message is nested too deeply"
    except UnicodeEncodeError:
        words = "this message has half a character: one of two surrogates that belong together"
    return Raw(name.encode()), INVALID, words
