"""How a browser becomes known: by the link that is printed at the start, once, or by a token typed into a form."""

from __future__ import annotations

import hmac
import re
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import COOKIE, Reader, form, set_cookie
from corral.frontends.web.pages.frame import templates
from corral.model.server import Token

router = APIRouter(include_in_schema=False)


@router.get("/login")
async def ask(request: Request, site: CurrentSite, token: str = "", then: str = "/") -> Response:
    """Show the form; or, with the code of the printed link, let this browser in. The code counts once."""
    if not token:
        return _page("Show a token of this server.", then)
    owner = _admin(site)
    if owner is None or not site.login_code or not hmac.compare_digest(token.encode(), site.login_code.encode()):
        site.limiter.count_wrong_secret(_address(request))
        return _page("That link was used already, or is of an earlier start. Show a token instead.", then, 401)
    site.login_code = ""
    return _let_in(site, owner)


@router.post("/login")
async def check(request: Request, site: CurrentSite) -> Response:
    given = await form(request)
    secret, then = given.get("token", "").strip(), given.get("then", "/")
    found = site.engine.access.check(secret)
    if found is None:
        site.limiter.count_wrong_secret(_address(request))
        return _page("That token is not known, or was revoked.", then, 401)
    return _let_in(site, found, then)


@router.post("/logout")
async def leave(site: CurrentSite, caller: Reader) -> Response:
    if caller.cookie:
        site.engine.access.log_out(caller.cookie)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


def _let_in(site: Site, token: Token, then: str = "/") -> Response:
    answer = RedirectResponse(_own(then), 303)
    set_cookie(answer, site.engine.access.log_in(token), site)
    return answer


def _own(then: str) -> str:
    """Return a path of ours: a link to the login must not lead to somebody else's site."""
    return quote(then, safe="/?=&%-_.~") if re.fullmatch(r"/(?![/\\])[^\s\\]*", then) else "/"


def _page(words: str, then: str, status: int = 200) -> Response:
    return HTMLResponse(templates().get_template("login.html").render(words=words, then=_own(then)), status)


def _address(request: Request) -> str:
    return request.client.host if request.client else "-"


def _admin(site: Site) -> Token | None:
    found = [token for token in site.engine.access.tokens() if "admin" in token.scopes and token.revoked is None]
    return found[-1] if found else None
