"""How a browser becomes known: by the link that is printed at the start, once, or by a token typed into a form."""

from __future__ import annotations

import hmac
from html import escape

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from corral.frontends.web.auth import COOKIE, Reader, form, set_cookie
from corral.frontends.web.site import Here, Site
from corral.serving import Token

router = APIRouter(include_in_schema=False)

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>corral: log in</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style nonce="{nonce}">body{{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem}}
input,button{{font:inherit;padding:.5rem;width:100%;box-sizing:border-box;margin:.25rem 0}}</style></head><body><main>
<h1>corral</h1><p>{words}</p><form method="post" action="/login"><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Log in</button></form><p>No token at hand? <code>corral token new</code> makes one.</p></main></body></html>"""


@router.get("/login")
async def ask(request: Request, site: Here, token: str = "") -> Response:
    """Show the form; or, with the code of the printed link, let this browser in. The code counts once."""
    if not token:
        return _page(request, "Show a token of this server.")
    site.limiter.before_check(_address(request))
    owner = _admin(site)
    if owner is None or not site.login_code or not hmac.compare_digest(token.encode(), site.login_code.encode()):
        site.limiter.was_wrong(_address(request))
        return _page(request, "That link was used already, or is of an earlier start. Show a token instead.", 401)
    site.login_code = ""
    return _let_in(site, owner)


@router.post("/login")
async def check(request: Request, site: Here) -> Response:
    site.limiter.before_check(_address(request))
    secret = (await form(request)).get("token", "").strip()
    found = site.engine.access.check(secret)
    if found is None:
        site.limiter.was_wrong(_address(request))
        return _page(request, "That token is not known, or was revoked.", 401)
    return _let_in(site, found)


@router.post("/logout")
async def leave(site: Here, caller: Reader) -> Response:
    if caller.cookie:
        site.engine.access.log_out(caller.cookie)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


def _let_in(site: Site, token: Token) -> Response:
    answer = RedirectResponse("/", 303)
    set_cookie(answer, site.engine.access.log_in(token), site)
    return answer


def _page(request: Request, words: str, status: int = 200) -> Response:
    return HTMLResponse(PAGE.format(words=escape(words), nonce=request.state.nonce), status)


def _address(request: Request) -> str:
    return request.client.host if request.client else "-"


def _admin(site: Site) -> Token | None:
    found = [token for token in site.engine.access.tokens() if "admin" in token.scopes and token.revoked is None]
    return found[-1] if found else None
