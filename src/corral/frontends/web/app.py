"""The application: routes, logins of browsers, and the answers to requests that failed, over one site."""

from __future__ import annotations

import hmac
import importlib
import importlib.util
import logging
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Match, Mount, Route
from starlette.staticfiles import StaticFiles

from corral.frontends.web import bodies
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import COOKIE, Reader, form, set_cookie
from corral.frontends.web.guard import RequestGuard
from corral.frontends.web.mcp import PATH, McpMount
from corral.frontends.web.pages.frame import SCREENS, templates
from corral.frontends.web.problems import Problem, of_error, problem
from corral.frontends.web.route_files import routers
from corral.model.errors import CorralError, refusal_of
from corral.model.server import Token
from corral.version import __version__

STATIC = Path(__file__).parent / "static"
API = "corral.frontends.web.api"  #: each file has a `router`, and an `open_router` for what needs no token
PAGES = "corral.frontends.web.pages"  #: has a `router`: the page that users look at
log = logging.getLogger("corral.web")
ALL_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
login_router = APIRouter(include_in_schema=False)


def create(site: Site, mcp: McpMount) -> FastAPI:
    """Return the application of one running server."""
    app = FastAPI(
        title="corral", version=__version__, openapi_url=None, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.site = site
    install_error_responses(app)
    app.include_router(api())
    for part in routers(API, "open_router"):
        app.include_router(part)
    app.include_router(login_router)
    app.include_router(_pages())
    app.router.routes.append(Route(PATH, endpoint=mcp, include_in_schema=False))
    if STATIC.is_dir():
        app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/api/v1/openapi.json", include_in_schema=False)
    async def openapi() -> Response:  # pyright: ignore[reportUnusedFunction] -- FastAPI calls it
        return bodies.answer(bodies.describe(app))

    app.add_middleware(RequestGuard, settings=site.settings)
    return app


def api() -> APIRouter:
    """Return the routes of the API."""
    whole = APIRouter(prefix="/api/v1", responses=bodies.PROBLEMS)
    for part in routers(API):
        whole.include_router(part)
    return whole


def _pages() -> APIRouter:
    """Return the page's routes; a build without them says where the API is."""
    if importlib.util.find_spec(PAGES):
        return importlib.import_module(PAGES).router
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def front() -> Response:  # pyright: ignore[reportUnusedFunction] -- FastAPI calls it
        return PlainTextResponse("corral: the API is at /api/v1, described by /api/v1/openapi.json\n")

    return router


def as_page(request: Request, answer: Response) -> Response:
    """Return an error as a user reads it, if a browser asked for a screen; who is not known is asked for a token."""
    wants_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
    if not wants_page or "hx-request" in request.headers:
        return answer
    if answer.status_code == 401:
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?then={quote(target)}" if request.method == "GET" else "/login", 303)
    error = msgspec.json.decode(answer.body, type=Problem)
    hint = "" if error.code == "not_found" and "openapi" in error.hint else error.hint
    detail = f"There is no page {request.url.path}." if error.detail == "Not Found" else error.detail
    page = templates().get_template("trouble.html").render(title=error.title, detail=detail, hint=hint, menu=SCREENS)
    return HTMLResponse(page, answer.status_code)


def _allowed_methods(request: Request) -> list[str]:
    """Return every method that something answers at the path of a request (RFC 9110, 15.5.6)."""
    routes = [route for route in request.app.router.routes if not isinstance(route, Mount)]
    found = [
        method
        for method in ALL_METHODS
        if any(route.matches({**request.scope, "method": method})[0] == Match.FULL for route in routes)
    ]
    return found or ["GET", "HEAD"]  # a file


def install_error_responses(app: FastAPI) -> None:
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

    async def answer_nobody(_: Request, __: Exception) -> Response:
        return Response(status_code=400)  # nobody reads it

    app.add_exception_handler(CorralError, ours)
    app.add_exception_handler(ClientDisconnect, answer_nobody)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(RequestValidationError, invalid)
    for kind in (OSError, ValueError, OverflowError, RecursionError, Exception):
        app.add_exception_handler(kind, unknown)


@login_router.get("/login")
async def ask_login(request: Request, site: CurrentSite, token: str = "", then: str = "/") -> Response:
    """Show the form; or, with the code of the printed link, let this browser in. The code counts once."""
    if not token:
        return _login_page("Show a token of this server.", then)
    if not site.login_code or not hmac.compare_digest(token.encode(), site.login_code.encode()):
        site.limiter.count_wrong_secret(_address(request))
        return _login_page("That link was used already, or is of an earlier start. Show a token instead.", then, 401)
    site.login_code = ""
    return _let_in(site, site.engine.access.local_user())


@login_router.post("/login")
async def check_login(request: Request, site: CurrentSite) -> Response:
    given = await form(request)
    secret, then = given.get("token", "").strip(), given.get("then", "/")
    found = site.engine.access.check(secret)
    if found is None:
        site.limiter.count_wrong_secret(_address(request))
        return _login_page("That token is not known, or was revoked.", then, 401)
    return _let_in(site, found, then)


@login_router.post("/logout")
async def log_out(site: CurrentSite, caller: Reader) -> Response:
    if caller.cookie:
        site.engine.access.log_out(caller.cookie)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


def _let_in(site: Site, token: Token, then: str = "/") -> Response:
    answer = RedirectResponse(_own_address(then), 303)
    set_cookie(answer, site.engine.access.log_in(token), site)
    return answer


def _own_address(then: str) -> str:
    """Return a path of ours: a link to the login must not lead to someone else's site."""
    return quote(then, safe="/?=&%-_.~") if re.fullmatch(r"/(?![/\\])[^\s\\]*", then) else "/"


def _login_page(words: str, then: str, status: int = 200) -> Response:
    return HTMLResponse(templates().get_template("login.html").render(words=words, then=_own_address(then)), status)


def _address(request: Request) -> str:
    return request.client.host if request.client else "-"
