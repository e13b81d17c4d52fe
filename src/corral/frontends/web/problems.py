"""Errors as problem+json (RFC 9457), with a hint; every error of the API has this one form."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match, Mount

from corral.model.errors import (
    BadFlow,
    BadRequest,
    ChecksFailed,
    Conflicting,
    CorralError,
    NotFound,
    Stopped,
    StoreTrouble,
    Untrusted,
    refusal_of,
)

log = logging.getLogger("corral.web")

#: The first that fits counts.
STATUSES: tuple[tuple[type[CorralError], int, str], ...] = (
    (NotFound, 404, "not_found"),
    (Conflicting, 409, "conflict"),
    (Untrusted, 403, "untrusted"),
    (BadFlow, 422, "bad_flow"),
    (BadRequest, 400, "bad_request"),
    (ChecksFailed, 412, "checks_failed"),
    (Stopped, 409, "stopped"),
    (StoreTrouble, 503, "store"),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TITLES = {
    400: "Bad request", 401: "Who are you?", 403: "Not allowed", 404: "Not found", 405: "Method not allowed",
    408: "Too slow", 409: "Conflict", 412: "Checks fail", 413: "Too large", 415: "Wrong kind of content",
    421: "Misdirected request", 422: "Not understood", 429: "Too many requests", 431: "Too large",
    500: "Our fault", 503: "Not available",
}  # fmt: skip


class Problem(Struct, frozen=True, kw_only=True):
    """What went wrong, for people and for programs."""

    status: int
    title: str
    detail: str
    code: str
    hint: str = ""
    type: str = "about:blank"


class Refused(CorralError):
    """A request that the front end itself refuses."""

    def __init__(self, status: int, code: str, detail: str, *, hint: str = "", retry_seconds: int = 0) -> None:
        super().__init__(detail, hint=hint)
        self.status, self.code, self.retry_seconds = status, code, retry_seconds


def problem(status: int, code: str, detail: str, hint: str = "", headers: dict[str, str] | None = None) -> Response:
    """Return an error as every client of the API gets it."""
    body = Problem(status=status, title=TITLES.get(status, "Error"), detail=detail, code=code, hint=hint)
    return Response(msgspec.json.encode(body), status, headers, "application/problem+json")


def of_error(error: CorralError) -> Response:
    if isinstance(error, Refused):
        headers = {"Retry-After": str(error.retry_seconds)} if error.retry_seconds else {}
        if error.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="corral"'
        return problem(error.status, error.code, str(error), error.hint, headers)
    for kind, status, code in STATUSES:
        if isinstance(error, kind):
            return problem(status, code, str(error), error.hint)
    return problem(500, "trouble", str(error), error.hint)


def as_page(request: Request, answer: Response) -> Response:
    """Return an error as a person reads it, if a browser asked for a screen; who is not known is asked for a token."""
    wants_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
    if not wants_page or "hx-request" in request.headers:
        return answer
    if answer.status_code == 401:
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?then={quote(target)}" if request.method == "GET" else "/login", 303)
    from corral.frontends.web.pages.frame import templates  # noqa: PLC0415 -- the API alone needs no templates

    told = msgspec.json.decode(answer.body, type=Problem)
    hint = "" if told.code == "not_found" and "openapi" in told.hint else told.hint
    page = templates().get_template("trouble.html").render(title=told.title, detail=told.detail, hint=hint)
    return HTMLResponse(page, answer.status_code)


def _allowed(request: Request) -> list[str]:
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
            headers["Allow"] = ", ".join(_allowed(request))
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

    async def gone(_: Request, __: Exception) -> Response:
        return Response(status_code=400)  # nobody reads it

    app.add_exception_handler(CorralError, ours)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(RequestValidationError, invalid)
    for kind in (OSError, ValueError, OverflowError, RecursionError, Exception):
        app.add_exception_handler(kind, unknown)
