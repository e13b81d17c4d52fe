"""A small web server that guards `asgi(engine)` by a token, as `corral serve` does: prints its address, then serves."""

import socket
import sys

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from corral.engine.engine import Engine
from corral.frontends.mcp.server import asgi


def guarded(app: ASGIApp, token: str) -> ASGIApp:
    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"").decode()
        if scope["type"] == "http" and given != f"Bearer {token}":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return guard


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)  # noqa: T201 -- its address
    settings = uvicorn.Config(guarded(asgi(Engine()), sys.argv[1]), log_level="warning", timeout_graceful_shutdown=3)
    uvicorn.Server(settings).run(sockets=[listener])


if __name__ == "__main__":
    main()
