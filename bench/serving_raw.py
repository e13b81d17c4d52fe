"""What the server is measured against: a bare FastAPI endpoint that writes one row, and a raw asyncio SSE server."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.requests import Request


def bare(port_file: Path) -> None:
    """Serve one endpoint that reads a JSON body and writes one row, as durably as corral does."""
    db = sqlite3.connect(port_file.with_suffix(".db"), isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT)")
    app = FastAPI()

    @app.post("/rows")
    async def add(request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        body = await request.json()
        row = db.execute("INSERT INTO rows (body) VALUES (?) RETURNING id", (str(body),)).fetchone()
        return {"id": row[0], **body}

    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind(("127.0.0.1", 0))
    port_file.write_text(str(bound.getsockname()[1]))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, loop="asyncio", http="h11"))
    asyncio.run(server.serve(sockets=[bound]))


async def raw(port_file: Path, agent: list[str]) -> None:
    """Start a program once a line is asked for, and write each of its lines to every viewer."""
    viewers: set[asyncio.StreamWriter] = set()
    started = asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"POST"):
            started.set()
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            viewers.add(writer)
        await writer.drain()

    server = await asyncio.start_server(watch, "127.0.0.1", 0, backlog=500)
    port_file.write_text(str(server.sockets[0].getsockname()[1]))
    await started.wait()
    process = await asyncio.create_subprocess_exec(*agent, stdout=asyncio.subprocess.PIPE)
    assert process.stdout
    number = 0
    async for line in process.stdout:
        number += 1
        chunk = b'id: %d\ndata: {"seq":%d,"type":"said","text":"%b"}\n\n' % (number, number, line.strip())
        for viewer in viewers:
            viewer.write(chunk)
        await asyncio.gather(*(viewer.drain() for viewer in viewers))
    for viewer in viewers:
        viewer.close()
    await process.wait()


if __name__ == "__main__":
    if sys.argv[1] == "bare":
        bare(Path(sys.argv[2]))
    else:
        asyncio.run(raw(Path(sys.argv[2]), sys.argv[3:]))
