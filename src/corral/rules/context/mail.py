"""Mail between agents at work: who may write to whom, how much of it, and under which names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from corral.model.errors import BadRequest

MOST_BYTES = 10_240  #: of one message
MOST_SENT = 200  #: by one attempt; each copy counts
MOST_WAITING = 100  #: unread, in one box
MOST_TAKEN = 20  #: at once
MOST_DELIVERIES = 5  #: a message that was taken so often and never acknowledged is a dead one
LEASE_SECONDS = 120.0  #: how long a message that was taken waits to be acknowledged
LONGEST_LEASE_SECONDS = 3600.0
KEPT_SECONDS = 7 * 24 * 3600.0  #: messages that were read stay so long

Priority = Literal["low", "normal", "high", "urgent"]
RANKS: dict[Priority, int] = {"low": 0, "normal": 1, "high": 2, "urgent": 3}
NAMES: dict[int, Priority] = {rank: name for name, rank in RANKS.items()}

EVERYBODY = "all"
PARENT = "parent"


class MailAddress(Struct, frozen=True):
    """Where messages lie until they are read: by a node's attempts, whichever is at work, or by one attempt alone."""

    run: str
    name: str


class MailNode(Struct, frozen=True, kw_only=True):
    """A node of the run, as one who writes to it must know it."""

    node: str
    over: bool = False
    attempts: tuple[str, ...] = ()  #: at work on it now


class MailRecipients(Struct, frozen=True, kw_only=True):
    """All that one attempt may write to."""

    run: str
    node: str
    attempt: str
    places: Sequence[MailNode]
    parent: MailAddress | None = None  #: the attempt that spawned this run
    children: Sequence[MailAddress] = ()  #: the runs that this attempt spawned


def addresses_of(to: str, circle: MailRecipients) -> list[MailAddress]:
    """Return the boxes that a message goes to; it never leaves the run, its parent and its children."""
    if to == EVERYBODY:
        return _everybody(circle)
    if to == PARENT:
        if circle.parent is None:
            raise BadRequest("nobody spawned this run: there is no parent to write to", hint=_recipients_hint(circle))
        return [circle.parent]
    for child in circle.children:
        if to == child.run:
            return [child]
    for place in circle.places:
        if to in place.attempts or to == place.node:
            return _addresses_at(place, to, circle)
    raise BadRequest(f"there is nobody called `{to[:80]}` in this run", hint=_recipients_hint(circle))


def _everybody(circle: MailRecipients) -> list[MailAddress]:
    found = [box for place in circle.places if not place.over for box in _copies(place, circle)]
    if not found:
        raise BadRequest("nobody else is at work in this run, or will be", hint=_recipients_hint(circle))
    return found


def _addresses_at(place: MailNode, to: str, circle: MailRecipients) -> list[MailAddress]:
    if to == circle.attempt or (to == circle.node and len(place.attempts) < 2):
        raise BadRequest("that is you", hint=_recipients_hint(circle))
    if place.over:
        raise BadRequest(f"`{to}` is over: nobody would read it", hint=_recipients_hint(circle))
    return [MailAddress(circle.run, to)] if to in place.attempts else _copies(place, circle)


def _copies(place: MailNode, circle: MailRecipients) -> list[MailAddress]:
    """Return one box for a node, or one for each of those who race on it; never the writer's own."""
    if len(place.attempts) > 1:
        return [MailAddress(circle.run, attempt) for attempt in place.attempts if attempt != circle.attempt]
    return [MailAddress(circle.run, place.node)] if place.node != circle.node else []


def signature(circle: MailRecipients, box: MailAddress) -> str:
    """Return the name under which the reader can answer."""
    if box.run != circle.run:
        return circle.run if circle.parent == box else PARENT
    here = next((place for place in circle.places if place.node == circle.node), None)
    return circle.attempt if here and len(here.attempts) > 1 else circle.node


def check_length(text: str) -> None:
    size = len(text.encode(errors="replace"))
    if not text.strip():
        raise BadRequest("the message is empty", hint="give it a text")
    if size > MOST_BYTES:
        raise BadRequest(
            f"the message has {size} bytes; {MOST_BYTES} are the most",
            hint="put what is long into a file of your workspace and name it",
        )


def check_capacity(sent: int, copies: int, fullest: int) -> None:
    """Refuse what would flood: by the writer's count, or by what waits in the fullest of the boxes."""
    if sent + copies > MOST_SENT:
        raise BadRequest(
            f"this attempt has sent {sent} messages; {MOST_SENT} are the most", hint="put what is left into your result"
        )
    if fullest >= MOST_WAITING:
        raise BadRequest(f"the box is full: {fullest} messages wait to be read there", hint="wait until they are read")


def others(circle: MailRecipients) -> list[str]:
    """Return who can get mail by name; of those who race with the writer, each for itself."""
    names = [place.node for place in circle.places if not place.over and place.node != circle.node]
    here = [place for place in circle.places if place.node == circle.node]
    names += [attempt for place in here for attempt in place.attempts if attempt != circle.attempt]
    names += [PARENT] if circle.parent else []
    return [*names, *(child.run for child in circle.children)]


def _recipients_hint(circle: MailRecipients) -> str:
    names = others(circle)
    names += [each for place in circle.places if place.node != circle.node and len(place.attempts) > 1
              for each in place.attempts]  # fmt: skip
    shown = ", ".join(names[:20])
    return f"there are: {shown}" if shown else "you are alone in this run"
