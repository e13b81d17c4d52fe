"""What starts runs by itself: schedules, and triggers that other programs call."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter
from msgspec import Meta, Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.linear_delegations import is_delegation
from corral.engine.queue.rows import ScheduleRow, TriggerRow, schedule_row, trigger_row
from corral.engine.queue.triggers import TooManyStarts, occasion
from corral.frontends.web import auth
from corral.frontends.web.api.bodies import Submission, Word, request_of
from corral.frontends.web.app_state import CurrentSite, Site
from corral.frontends.web.auth import Admin, Caller, Reader
from corral.frontends.web.bodies import OPEN, answer, body, gives, takes
from corral.frontends.web.problems import RefusedRequest
from corral.model import Request as RunRequest
from corral.model import Run
from corral.model.forge import ForgeKind
from corral.model.server import ScheduleRecord, TriggerRecord

#: Headers that name a call: the same name twice is the same call.
DELIVERIES = (
    "webhook-id", "x-github-delivery", "x-forgejo-delivery", "x-gitea-delivery", "x-gitlab-event-uuid",
    "linear-delivery",
)  # fmt: skip
#: Headers that say what kind of call it is.
EVENTS = ("x-github-event", "x-forgejo-event", "x-gitea-event", "x-gitlab-event", "linear-event")
router = APIRouter(tags=["automation"])
Name = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9._-]{0,63}$")]
Few = Annotated[int, Meta(ge=1, le=10_000)]


class ScheduleBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request that is made again and again, by the clock."""

    cron: Word
    zone: Word = "UTC"
    request: Submission
    most_open: Few = 1
    per_day: Few = 24
    enabled: bool = True


class TriggerBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request that is made when it is called, or when a branch moves; {{payload.…}} in its task is filled."""

    request: Submission
    when: Word = ""  #: a condition over `payload` and `event`; empty: always
    approve: Word = ""  #: ask a user for so long before it starts, as `60m`; no answer is a no
    approve_unless: Word = ""  #: a condition as `when`: where it holds, nobody is asked
    forge: ForgeKind | None = None  #: it calls, about issues and pull requests of the repository
    on: tuple[Word, ...] = ()  #: of a forge: label:NAME, comment:WORD; none: label:corral and comment:/corral
    who: tuple[Word, ...] = ()  #: of a forge: who may start it: users, @write, association:NAME; none: @write
    branch: Word = ""  #: of the request's repository: new commits on it are an occasion too
    secret: Annotated[str, Meta(min_length=16, max_length=200)] | None = None  #: else one is made
    most_open: Few = 4
    per_hour: Few = 30
    enabled: bool = True


class NotStarted(Struct, frozen=True, kw_only=True):
    """A call that was understood, and started nothing."""

    trigger: str
    reason: str
    run: None = None


@router.get("/schedules", responses=gives(list[ScheduleRow]))
async def schedules(site: CurrentSite, _: Reader) -> Response:
    """List schedules."""
    return answer([schedule_row(record, at) for record, at in site.engine.automation.all()])


@router.put("/schedules/{name}", responses=gives(ScheduleRow), openapi_extra=takes(ScheduleBody))
async def put_schedule(name: str, request: Request, site: CurrentSite, caller: Admin) -> Response:
    """Create or change a schedule."""
    wanted = await body(request, ScheduleBody)
    fields: dict[str, Any] = {**structs.asdict(wanted), "request": _check_request(site, caller, wanted.request)}
    record = ScheduleRecord(name=name, by=caller.by, **fields)
    return answer(schedule_row(record, await site.engine.automation.put(record)))


@router.delete("/schedules/{name}", status_code=204)
async def drop_schedule(name: str, site: CurrentSite, _: Admin) -> Response:
    """Remove a schedule."""
    site.engine.automation.drop(name)
    return Response(status_code=204)


@router.get("/triggers", responses=gives(list[TriggerRow]))
async def triggers(site: CurrentSite, _: Reader) -> Response:
    """List triggers."""
    return answer([trigger_row(record) for record in site.engine.triggers.all()])


@router.put("/triggers/{name}", responses=gives(TriggerRow), openapi_extra=takes(TriggerBody))
async def put_trigger(name: str, request: Request, site: CurrentSite, caller: Admin) -> Response:
    """Create or change a trigger. Only this answer shows the secret that signs calls."""
    wanted = await body(request, TriggerBody)
    vetted = _check_request(site, caller, wanted.request)
    fields: dict[str, Any] = {**structs.asdict(wanted), "request": vetted, "secret": wanted.secret or ""}
    auth.vet_branch(wanted.branch or None)
    record = TriggerRecord(name=name, by=caller.by, **fields)
    return answer(trigger_row(await site.engine.triggers.put(record), secret=True))


@router.delete("/triggers/{name}", status_code=204)
async def drop_trigger(name: str, site: CurrentSite, _: Admin) -> Response:
    """Remove a trigger."""
    site.engine.triggers.drop(name)
    return Response(status_code=204)


@router.post(
    "/triggers/{name}", status_code=202, openapi_extra={**takes(dict[str, Any], required=False), **OPEN},
    responses={**gives(Run, 202, "Queued."), **gives(NotStarted, 200, "Its condition does not hold: nothing starts.")},
)  # fmt: skip
async def call(name: str, request: Request, site: CurrentSite) -> Response:
    """Start a trigger's run. It needs no token, but a signature: Standard Webhooks, GitHub, GitLab, Forgejo, Linear."""
    raw, sent = await request.body(), request.headers
    record = site.engine.triggers.signed_trigger(name, sent, raw)
    if record is None:
        site.limiter.count_wrong_secret(request.client.host if request.client else "-")
        raise RefusedRequest(401, "signature", "there is no such trigger, or the signature is wrong or old")
    site.limiter.count_request(f"trigger {name}")
    once = next((sent[name] for name in DELIVERIES if sent.get(name)), None) or secrets.token_hex(8)
    called = occasion(once[:200], _event(sent), raw)
    if "linear-signature" in sent and is_delegation(called.payload):
        taken = site.engine.delegations.take(record, called.payload, once[:200])
        return answer(NotStarted(trigger=name, reason="taken" if taken else "known already"))
    try:
        if record.forge:
            return answer(NotStarted(trigger=name, reason=site.engine.forge_calls.take(record, called, raw)))
        fired = await site.engine.triggers.fire(record, called, site.vet)
    except TooManyStarts as error:
        raise RefusedRequest(429, "too_many", str(error), hint=error.hint, retry_seconds=error.retry_seconds) from error
    if fired.run is None:
        return answer(NotStarted(trigger=name, reason=fired.reason))
    return answer(site.engine.show(fired.run), 202, {"Location": f"/api/v1/runs/{fired.run}"})


def _event(sent: Mapping[str, str]) -> str:
    """Return what kind of call it is, where the forge says so beside the body."""
    return next((sent[name][:200] for name in EVENTS if name in sent), "")


def _check_request(site: Site, caller: Caller, wanted: Submission) -> RunRequest:
    roots = site.settings.roots
    return auth.vet_request(request_of(wanted, auth.vet_repository(wanted.repo, roots)), caller, roots)
