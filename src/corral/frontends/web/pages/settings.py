"""Settings: who may come in, how the queue works, what starts by itself, whom we tell, and a halt of everything."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.tokens import IssuedToken
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Admin, Caller, Reader, form
from corral.frontends.web.pages import frame
from corral.frontends.web.problems import RefusedRequest
from corral.model.server import SCOPES, WebhookRecord

router = APIRouter()
DEAD_MOST = 50


@router.get("/settings")
async def settings(request: Request, site: CurrentSite, caller: Reader) -> Response:
    return _settings_page(request, site, caller)


@router.post("/settings/tokens")
async def new_token(request: Request, site: CurrentSite, caller: Admin) -> Response:
    """Make a token; its secret is shown once, here."""
    given = await form(request)
    name = given.get("name", "").strip()
    if not name or len(name) > 100:
        raise RefusedRequest(422, "invalid", "a token has a name of 1 to 100 characters", hint="as `phone` or `ci`")
    scopes = [scope for scope in SCOPES if given.get(f"scope.{scope}")] or ["read"]
    return _settings_page(request, site, caller, secret=site.engine.access.create(name, scopes))


@router.post("/settings/tokens/{token}/revoke")
async def revoke(token: str, request: Request, site: CurrentSite, caller: Admin) -> Response:
    site.engine.access.revoke(token)
    return _settings_page(request, site, caller)


@router.post("/settings/queue")
async def queue(request: Request, site: CurrentSite, caller: Admin) -> Response:
    """Hold or release the queue; set how many runs are active at once."""
    given = await form(request)
    number = given.get("concurrency", "").strip()
    if not number.isdigit() or not 1 <= int(number) <= 1000:
        raise RefusedRequest(422, "invalid", f"`{number}` is no number of runs", hint="from 1 to 1000")
    site.engine.queue.set_concurrency(int(number))
    site.engine.queue.hold(held="held" in given)
    return _settings_page(request, site, caller)


@router.post("/settings/halt")
async def halt(request: Request, site: CurrentSite, caller: Admin) -> Response:
    """Stop every run now and let none start, or let them start again."""
    if site.engine.money.halted_by():
        site.engine.money.unhalt()
    else:
        site.engine.money.halt(caller.by)
    return _settings_page(request, site, caller)


@router.post("/settings/webhooks")
async def new_webhook(request: Request, site: CurrentSite, caller: Admin) -> Response:
    """Add an address that gets events; its secret is shown once, here."""
    given = await form(request)
    types = tuple(each.strip() for each in given.get("types", "").split(",") if each.strip())
    made = site.engine.webhooks.add(given.get("url", "").strip(), types)
    return _settings_page(request, site, caller, hook=made)


@router.post("/settings/webhooks/{hook}/drop")
async def drop_webhook(hook: str, request: Request, site: CurrentSite, caller: Admin) -> Response:
    site.engine.webhooks.drop(hook)
    return _settings_page(request, site, caller)


@router.post("/settings/deliveries/{delivery}/again")
async def again(delivery: str, request: Request, site: CurrentSite, caller: Admin) -> Response:
    """Try to tell something once more that was given up."""
    site.engine.webhooks.again(delivery)
    return _settings_page(request, site, caller)


@router.post("/settings/schedules/{name}/{act}")
async def change_schedule(name: str, act: str, request: Request, site: CurrentSite, caller: Admin) -> Response:
    """Let a schedule rest or continue, take it away, or start what it starts now."""
    if act == "drop":
        site.engine.automation.drop(name)
    elif act in ("pause", "resume"):
        await site.engine.automation.enable(name, enabled=act == "resume")
    elif act == "run":
        run = await site.engine.automation.start(name, site.vet)
        return frame.go_to(f"/runs/{run}")
    else:
        raise RefusedRequest(404, "not_found", f"a schedule cannot {act}")
    return _settings_page(request, site, caller)


@router.post("/settings/triggers/{name}/{act}")
async def change_trigger(name: str, act: str, request: Request, site: CurrentSite, caller: Admin) -> Response:
    """Let a trigger rest or continue, or take it away."""
    if act == "drop":
        site.engine.triggers.drop(name)
    elif act in ("pause", "resume"):
        await site.engine.triggers.enable(name, enabled=act == "resume")
    else:
        raise RefusedRequest(404, "not_found", f"a trigger cannot {act}")
    return _settings_page(request, site, caller)


def _settings_page(
    request: Request, site: Site, caller: Caller, secret: IssuedToken | None = None, hook: WebhookRecord | None = None
) -> Response:
    admin = caller.token.may("admin")
    hooks = site.engine.webhooks.all() if admin else []
    dead = [each for one in hooks for each in site.engine.webhooks.deliveries(one.id, "dead", DEAD_MOST)]
    part = "hx-request" in request.headers
    return frame.show(
        request, caller, "_settings.html" if part else "settings.html",
        me=caller.token, tokens=site.engine.access.tokens() if admin else [], scopes=SCOPES, secret=secret,
        queue=site.engine.queue.state(), halted=site.engine.money.halted_by(),
        schedules=site.engine.automation.all(), triggers=site.engine.triggers.all(),
        hooks=hooks, dead=dead, hook=hook, home=site.engine.home, roots=site.settings.roots,
    )  # fmt: skip
