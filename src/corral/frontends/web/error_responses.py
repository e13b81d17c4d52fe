"""What answers a request that failed: problem+json for programs, a page for a browser."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match, Mount

from corral.frontends.web.pages.frame import templates
from corral.frontends.web.problems import Problem, of_error, problem
from corral.model.errors import CorralError, refusal_of

log = logging.getLogger("corral.web")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def as_page(request: Request, answer: Response) -> Response:
    """Return an error as a person reads it, if a browser asked for a screen; who is not known is asked for a token."""
    wants_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
    if not wants_page or "hx-request" in request.headers:
        return answer
    if answer.status_code == 401:
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?then={quote(target)}" if request.method == "GET" else "/login", 303)
    told = msgspec.json.decode(answer.body, type=Problem)
    hint = "" if told.code == "not_found" and "openapi" in told.hint else told.hint
    page = templates().get_template("trouble.html").render(title=told.title, detail=told.detail, hint=hint)
    return HTMLResponse(page, answer.status_code)


def _allowed_methods(request: Request) -> list[str]:
    """Return every method that something answers at the path of a request (RFC 9110, 15.5.6)."""
    routes = [route for route in request.app.router.routes if not isinstance(route, Mount)]
    found = [
        method
        for method in METHODS
        if any(route.matches({**request.scope, "method": method})[0] == Match.FULL for route in routes)
    ]
    return found or ["GET", "HEAD"]  # a file


def install(app: FastAPI) -> None:
    """Give every error this form."""

    async def ours(request: Request, error: Exception) -> Response:
        answer = of_error(error) if isinstance(error, CorralError) else problem(500, "trouble", "", "")
        return as_page(request, answer)

    async def plain(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = str(error.detail) if isinstance(error, HTTPException) else ""
        headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
        if status == 405:
            headers["Allow"] = ", ".join(_allowed_methods(request))
        code = {404: "not_found", 405: "method_not_allowed"}.get(status, "refused")
        return as_page(request, problem(status, code, detail, "see /api/v1/openapi.json", headers))

    async def invalid(_: Request, error: Exception) -> Response:
        found: list[Any] = list(error.errors()) if isinstance(error, RequestValidationError) else []
        words = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in found)
        return problem(422, "invalid", words, "see /api/v1/openapi.json")

    async def unknown(request: Request, error: Exception) -> Response:
        refused = refusal_of(error)
        if refused is not None:
            return as_page(request, of_error(refused))
        log.error("%s %s: %s: %s", request.method, request.url.path, type(error).__name__, error)
        return problem(500, "trouble", "corral itself failed", "the server's log says more; nothing stored is lost")

    async def disconnected(_: Request, __: Exception) -> Response:
        return Response(status_code=400)  # nobody reads it

    app.add_exception_handler(CorralError, ours)
    app.add_exception_handler(ClientDisconnect, disconnected)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(RequestValidationError, invalid)
    for kind in (OSError, ValueError, OverflowError, RecursionError, Exception):
        app.add_exception_handler(kind, unknown)
