"""Schedules and triggers as every way in shows them."""

from __future__ import annotations

from msgspec import Struct

from corral.engine.views.run_document import moment
from corral.model import Request as RunRequest
from corral.model.server import ScheduleRecord, TriggerRecord


class ScheduleShown(Struct, frozen=True, kw_only=True):
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


class TriggerShown(Struct, frozen=True, kw_only=True):
    name: str
    request: RunRequest
    when: str
    approve: str
    approve_unless: str
    branch: str
    most_open: int
    per_hour: int
    enabled: bool
    seen: str = ""  #: the commit at which the watched branch was seen last
    last: str = ""  #: the run that the watched branch started last, or why it did not
    last_at: str | None = None
    secret: str | None = None  #: only in the answer that made it


def schedule_shown(record: ScheduleRecord, at: float | None) -> ScheduleShown:
    """Show a schedule, and when it comes next."""
    return ScheduleShown(
        name=record.name,
        cron=record.cron,
        zone=record.zone,
        request=record.request,
        most_open=record.most_open,
        per_day=record.per_day,
        enabled=record.enabled,
        next=None if at is None else moment(at),
        last=record.last,
        last_at=None if record.last_at is None else moment(record.last_at),
    )


def trigger_shown(record: TriggerRecord, *, secret: bool = False) -> TriggerShown:
    """Show a trigger; its secret only to whom has just made it."""
    return TriggerShown(
        name=record.name,
        request=record.request,
        when=record.when,
        approve=record.approve,
        approve_unless=record.approve_unless,
        branch=record.branch,
        most_open=record.most_open,
        per_hour=record.per_hour,
        enabled=record.enabled,
        seen=record.seen,
        last=record.last,
        last_at=None if record.last_at is None else moment(record.last_at),
        secret=record.secret if secret else None,
    )
