"""MCP at /mcp: for those who show a token; each tool needs the scope that its like in the API needs."""

from __future__ import annotations

import asyncio
import importlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from corral.engine.engine import Engine
from corral.engine.queue.supervisor import RunSupervisor
from corral.frontends.web import auth
from corral.frontends.web.app_state import site_of
from corral.frontends.web.auth import HINT, Caller, identify
from corral.frontends.web.problems import RefusedRequest
from corral.model import Request, Run, RunPlan
from corral.model.errors import BadRequest
from corral.model.server import AccessScope, Ticket

if TYPE_CHECKING:
    from corral.frontends.mcp.permissions import Visitor

PATH = "/mcp"
MOST_AT_ONCE = 16  #: runs that clients wait for; more are refused, or queued by `background`
PROTOCOL = "corral.frontends.mcp.over_http"


class Guest:
    """Who shows a token: may what its scopes say, in the repositories of this server."""

    def __init__(self, caller: Caller, roots: tuple[Path, ...]) -> None:
        self._caller, self._roots = caller, roots
        self.by = caller.by

    def needs(self, scope: AccessScope) -> None:
        self._caller.needs(scope)

    def place(self, path: str) -> str:
        return auth.vet_repository(path, self._roots)

    def request(self, request: Request) -> Request:
        return auth.vet_request(request, self._caller, self._roots)

    def plan(self, plan: RunPlan) -> None:
        auth.vet_plan(plan, self._caller, self._roots)

    def branch(self, name: str) -> str:
        return auth.vet_branch(name) or ""


class ServerRuns:
    """Runs that clients ask the server for: what one waits for is driven at once, the rest is queued."""

    def __init__(self, engine: Engine, supervisor: RunSupervisor) -> None:
        self.engine, self._supervisor = engine, supervisor
        self._stopping: set[asyncio.Task[Run]] = set()
        self.ending = False  #: the server goes; its runs are left to the next one

    async def submit(self, request: Request, visitor: Visitor) -> str:
        if len(self._supervisor.active) >= MOST_AT_ONCE:
            raise BadRequest(f"{MOST_AT_ONCE} runs are at work here already", hint="queue it: background true")
        run = await self.submit_apart(request, visitor)
        await self.resume(run)
        return run

    async def submit_apart(self, request: Request, visitor: Visitor) -> str:
        return await self.engine.requests.enqueue(request, Ticket(by=visitor.by), vet=visitor.plan)

    async def resume(self, run: str) -> None:
        try:
            await self._supervisor.begin(run, partial(self.engine.resume, run))
        except BadRequest:
            if not self.engine.is_active(run):
                raise  # else it was taken up already: by the queue, or because its question is answered

    async def resume_apart(self, run: str) -> None:
        await self.resume(run)

    def task(self, run: str) -> asyncio.Task[Any] | None:
        return self._supervisor.task(run)

    def stop(self, run: str, by: str) -> None:
        if not self.ending:
            task = asyncio.get_running_loop().create_task(self.engine.stop(run, by))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)


class McpMount:
    """Asks who it is, then hands over to the protocol, which is loaded when someone first asks for it."""

    def __init__(self, engine: Engine, supervisor: RunSupervisor) -> None:
        self.served = ServerRuns(engine, supervisor)
        self._wanted, self._app = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def keep(self) -> None:
        """Serve it until cancelled."""
        await self._wanted.wait()
        protocol = await asyncio.to_thread(importlib.import_module, PROTOCOL)
        app = protocol.asgi(self.served, PATH)
        async with app.router.lifespan_context(app):
            self._app.set_result(app)
            await asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        caller = identify(connection)
        if caller.cookie is not None:  # a browser sends it for any page
            raise RefusedRequest(401, "no_token", "MCP needs a token, not a login", hint=HINT)
        scope["corral.visitor"] = Guest(caller, site_of(connection).settings.roots)
        scope["corral.identity"] = caller.token.id
        self._wanted.set()
        app: ASGIApp = await asyncio.shield(self._app)
        await app(scope, receive, send)
