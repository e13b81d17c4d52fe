"""The application: routes, guard and error form, put together over one site."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from corral.frontends.web import api as api_files
from corral.frontends.web import bodies, error_responses, login
from corral.frontends.web.api import machine
from corral.frontends.web.app_state import Site
from corral.frontends.web.guard import RequestGuard
from corral.frontends.web.mcp import PATH, McpMount
from corral.frontends.web.route_files import routers
from corral.version import __version__

STATIC = Path(__file__).parent / "static"
PAGES = "corral.frontends.web.pages"  #: has a `router`: the page that people look at


def create(site: Site, mcp: McpMount) -> FastAPI:
    """Return the application of one running server."""
    app = FastAPI(
        title="corral", version=__version__, openapi_url=None, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    app.state.site = site
    error_responses.install(app)
    app.include_router(api())
    app.include_router(machine.open_router)
    app.include_router(login.router)
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
    for part in routers(api_files.__name__, api_files.__path__):
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
