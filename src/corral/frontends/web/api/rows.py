"""What the API shows besides the run document."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class EventPage(Struct, frozen=True, kw_only=True):
    run: str
    events: list[msgspec.Raw]
    next: int  #: give it as `after` to get what is newer


class ActionReply(Struct, frozen=True, kw_only=True):
    run: str
    answer: str
