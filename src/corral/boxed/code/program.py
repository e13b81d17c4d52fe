"""Run one Python program in Monty: its calls and its result travel over a connection that only this file holds."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import Callable
from typing import Any

MOST_MESSAGE = 64 << 20
MOST_WORDS = 4000
FAILURES: dict[str, Callable[[str], Exception]] = {
    "refused": PermissionError,
    "not_found": FileNotFoundError,
    "bad_arguments": ValueError,
    "limit": RuntimeError,
    "failed": RuntimeError,
}
CLASSES = {"MemoryError": "memory", "PermissionError": "refused"}
NOT_SUPPORTED = "not supported in this environment"


class ToolConnection:
    """Sends calls and hands each its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0

    async def read(self) -> dict[str, Any]:
        line = await self._reader.readline()
        if not line:
            os._exit(0)
        return json.loads(line)

    async def send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message, allow_nan=False).encode() + b"\n")
        await self._writer.drain()

    async def listen(self) -> None:
        while True:
            reply = await self.read()
            waiting = self._waiting.pop(reply["reply"], None)
            if waiting is None or waiting.done():
                continue
            if "error" in reply:
                waiting.set_exception(FAILURES[reply["error"]["class"]](reply["error"]["message"]))
            else:
                waiting.set_result(reply["value"])

    def tool(self, name: str) -> Callable[..., Any]:
        async def call(*given: object, **named: object) -> object:
            if given:
                raise TypeError(f"{name}() takes named arguments only")
            self._number += 1
            waiting = self._waiting[self._number] = asyncio.get_running_loop().create_future()
            try:
                await self.send({"call": self._number, "tool": name, "arguments": named})
            except (TypeError, ValueError) as error:
                raise TypeError(f"{name}(): arguments are JSON: {error}") from None
            return await waiting

        call.__name__ = name
        return call


async def main(port: int, binary: str) -> None:
    import pydantic_monty  # noqa: PLC0415

    connection = ToolConnection(*await asyncio.open_connection("127.0.0.1", port, limit=MOST_MESSAGE))
    start = await connection.read()
    source = base64.b64decode(start["source"]).decode()
    listening = asyncio.create_task(connection.listen())
    limits = pydantic_monty.ResourceLimits(
        max_memory=start["memory_bytes"],
        max_feed_duration_secs=start["cpu_seconds"],
        max_suspensions=4 * start["calls"] + 1000,
        max_total_sleep_secs=start["timeout_seconds"],
    )
    lookup = {name: connection.tool(name) for name in start["known"]}
    async with (
        pydantic_monty.AsyncMonty(binary_path=binary, min_processes=1, max_processes=1) as pool,
        pool.checkout(script_name="program.py", limits=limits) as session,
    ):
        try:
            result = await session.feed_run(
                f"{source}\nawait main(corral_input)\n",
                inputs={"corral_input": start["input"]},
                external_lookup=lookup,
                print_callback=_print,
            )
            body = json.dumps(result, allow_nan=False)
            if len(body) > start["most"]:
                message = {"failed": {"class": "output", "message": f"{len(body)} characters"}}
            else:
                message = {"result": json.loads(body)}
        except pydantic_monty.MontyCrashedError as error:
            message = {"failed": {"class": "memory", "message": str(error)[:MOST_WORDS]}}
        except (pydantic_monty.MontyError, TypeError, ValueError, RecursionError) as error:
            message = {"failed": {"class": _kind(error), "message": _words(error)}}
        await connection.send(message)
    listening.cancel()


def _print(stream: str, text: str) -> None:
    print(text, end="", file=sys.stderr if stream == "stderr" else sys.stdout, flush=True)


def _kind(error: Exception) -> str:
    inner: Any = getattr(error, "exception", None)
    name = type(inner()).__name__ if inner else type(error).__name__
    text = str(error)
    if name == "TimeoutError" and "time limit exceeded" in text:
        return "cpu"
    if name == "RuntimeError" and NOT_SUPPORTED in text:
        return "refused"
    return CLASSES.get(name, "program")


def _words(error: Exception) -> str:
    display: Any = getattr(error, "display", None)
    return str(display() if display else f"its result is no JSON: {error}")[-MOST_WORDS:]


if __name__ == "__main__":
    sys.path[:0] = sys.argv[3:]
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
