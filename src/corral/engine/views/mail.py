"""The letters of a run as a person looks at them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from corral.model import moment
from corral.rules.context.mail import MOST_DELIVERIES, NAMES, Priority
from corral.store.interface import Store
from corral.store.records import MailMessage


class MailView(Struct, frozen=True, kw_only=True):
    """A letter, and what became of it."""

    id: int
    run: str
    sender: str = field(name="from")
    to: str
    thread: str
    priority: Priority
    state: Literal["waiting", "taken", "read", "dead"]  #: dead: taken again and again, and never acknowledged
    deliveries: int
    at: str
    read: str | None
    text: str


def of_run(store: Store, run: str) -> list[MailView]:
    return [_mail_view(message) for message in store.mail(MOST_DELIVERIES).of_run(run)]


def _mail_view(message: MailMessage) -> MailView:
    return MailView(
        id=message.id,
        run=message.run,
        sender=message.sender,
        to=message.box,
        thread=message.thread,
        priority=NAMES[message.priority],
        state=_state(message),
        deliveries=message.deliveries,
        at=moment(message.at),
        read=moment(message.read_at) if message.read_at else None,
        text=message.text,
    )


def _state(message: MailMessage) -> Literal["waiting", "taken", "read", "dead"]:
    if message.read_at is not None:
        return "read"
    if message.deliveries >= MOST_DELIVERIES:
        return "dead"
    return "taken" if message.holder else "waiting"
