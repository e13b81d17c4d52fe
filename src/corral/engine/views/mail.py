"""The letters of a run as a person looks at them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from corral.model import moment
from corral.rules.context.mail import MOST_DELIVERIES, NAMES, Priority
from corral.store.interface import Store
from corral.store.records import Letter


class Posted(Struct, frozen=True, kw_only=True):
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


def of_run(store: Store, run: str) -> list[Posted]:
    return [_posted(letter) for letter in store.mail(MOST_DELIVERIES).of_run(run)]


def _posted(letter: Letter) -> Posted:
    return Posted(
        id=letter.id,
        run=letter.run,
        sender=letter.sender,
        to=letter.box,
        thread=letter.thread,
        priority=NAMES[letter.priority],
        state=_state(letter),
        deliveries=letter.deliveries,
        at=moment(letter.at),
        read=moment(letter.read_at) if letter.read_at else None,
        text=letter.text,
    )


def _state(letter: Letter) -> Literal["waiting", "taken", "read", "dead"]:
    if letter.read_at is not None:
        return "read"
    if letter.deliveries >= MOST_DELIVERIES:
        return "dead"
    return "taken" if letter.holder else "waiting"
