"""Schedules and triggers as every front end shows them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from corral.model import Request as RunRequest
from corral.model import moment
from corral.model.server import ScheduleRecord, TriggerRecord


class ScheduleRow(Struct, frozen=True, kw_only=True):
    name: str
    cron: str
    zone: str
    request: RunRequest
    most_open: int
    per_day: int
    enabled: bool
    next: str | None
    last: str  #: the run it started last, or why it did not
    last_at: str | None


class TriggerRow(Struct, frozen=True, kw_only=True):
    name: str
    request: RunRequest
    when: str
    approve: str
    approve_unless: str
    branch: str
    forge: str | None
    on: tuple[str, ...]
    who: tuple[str, ...]
    most_open: int
    per_hour: int
    enabled: bool
    seen: str = ""  #: the commit at which the watched branch was seen last
    last: str = ""  #: the run that the watched branch started last, or why it did not
    last_at: str | None = None
    secret: str | None = None  #: only in the answer that made it


def schedule_row(record: ScheduleRecord, at: float | None) -> ScheduleRow:
    """Return a schedule as a row, with the time it comes next."""
    fields: dict[str, Any] = {**_same(record, ScheduleRow), "next": None if at is None else moment(at)}
    return ScheduleRow(**fields)


def trigger_row(record: TriggerRecord, *, secret: bool = False) -> TriggerRow:
    """Return a trigger as a row; its secret only for the caller that has just made it."""
    fields: dict[str, Any] = {**_same(record, TriggerRow), "secret": record.secret if secret else None}
    return TriggerRow(**fields)


def _same(record: ScheduleRecord | TriggerRecord, row: type[Struct]) -> dict[str, Any]:
    found = {name: getattr(record, name, None) for name in row.__struct_fields__}
    return {**found, "last_at": None if record.last_at is None else moment(record.last_at)}
