"""Outgoing webhooks: whom we tell, and how that went."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from corral.engine.views.run_document import moment
from corral.frontends.web.api.bodies import Words
from corral.frontends.web.app_state import CurrentSite
from corral.frontends.web.auth import Admin
from corral.frontends.web.bodies import answer, body, gives, takes
from corral.model.server import Delivery, DeliveryState, WebhookRecord

router = APIRouter(tags=["webhooks"])


class NewWebhook(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(min_length=8, max_length=2000)]
    types: Words = ()  #: as run.done, run.failed; empty: all
    secret: Annotated[str, Meta(min_length=16, max_length=200)] | None = None  #: else one is made


class WebhookView(Struct, frozen=True, kw_only=True):
    id: str
    url: str
    types: tuple[str, ...]
    enabled: bool
    created: str
    secret: str | None = None  #: only in the answer that made it


class DeliveryView(Struct, frozen=True, kw_only=True):
    id: str
    webhook: str
    type: str
    state: str
    tries: int
    next: str | None
    at: str
    answer: str
    body: str


@router.get("/webhooks", responses=gives(list[WebhookView]))
async def list_webhooks(site: CurrentSite, _: Admin) -> Response:
    """List webhooks."""
    return answer([_webhook_view(record) for record in site.engine.webhooks.all()])


@router.post("/webhooks", status_code=201, responses=gives(WebhookView, 201, "Made."), openapi_extra=takes(NewWebhook))
async def create(request: Request, site: CurrentSite, _: Admin) -> Response:
    """Add an address to notify of events from now on. Only this answer shows its secret."""
    wanted = await body(request, NewWebhook)
    made = site.engine.webhooks.add(wanted.url, wanted.types, wanted.secret or "")
    return answer(_webhook_view(made, secret=made.secret), 201)


@router.delete("/webhooks/{webhook}", status_code=204)
async def drop(webhook: str, site: CurrentSite, _: Admin) -> Response:
    """Remove a webhook."""
    site.engine.webhooks.drop(webhook)
    return Response(status_code=204)


@router.get("/webhooks/{webhook}/deliveries", responses=gives(list[DeliveryView]))
async def deliveries(
    webhook: str,
    site: CurrentSite,
    _: Admin,
    state: DeliveryState | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """List deliveries: sent, waiting for a retry, and dead, newest first."""
    return answer([_delivery(each) for each in site.engine.webhooks.deliveries(webhook, state, limit)])


@router.post("/deliveries/{delivery}/again", status_code=202, responses=gives(DeliveryView, 202, "It is tried now."))
async def again(delivery: str, site: CurrentSite, _: Admin) -> Response:
    """Send a delivery again now, also a dead one."""
    return answer(_delivery(site.engine.webhooks.again(delivery)), 202)


def _webhook_view(record: WebhookRecord, secret: str | None = None) -> WebhookView:
    return WebhookView(
        id=record.id,
        url=record.url,
        types=record.types,
        enabled=record.enabled,
        created=moment(record.created),
        secret=secret,
    )


def _delivery(each: Delivery) -> DeliveryView:
    return DeliveryView(
        id=each.id,
        webhook=each.webhook,
        type=each.type,
        state=each.state,
        tries=each.tries,
        next=moment(each.next_at) if each.state == "waiting" else None,
        at=moment(each.at),
        answer=each.answer,
        body=each.body.decode(),
    )
