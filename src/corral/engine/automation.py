"""What starts runs by itself: schedules by the clock, triggers by calls of other programs, each within its limits."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import structs

from corral.errors import BadRequest, Conflicting, CorralError, NotFound
from corral.model import Request, RunPlan
from corral.rules import cron, signing
from corral.rules.flows.expressions import Wrong
from corral.rules.flows.filling import fill
from corral.serving import ScheduleRecord, Ticket, TriggerRecord
from corral.world.store import automation

if TYPE_CHECKING:
    from corral.engine.engine import Engine

    Vet = Callable[[RunPlan], None]

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
HOUR, DAY = 3600.0, 86_400.0
log = logging.getLogger("corral.foreman")


class TooMany(CorralError):
    """A trigger has started as much as it may."""

    def __init__(self, message: str, *, retry_seconds: int) -> None:
        super().__init__(message, hint="its limits say so")
        self.retry_seconds = retry_seconds


class Automation:
    """Schedules and triggers of one store."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._store = engine, engine.store

    # --- schedules

    def schedules(self) -> list[tuple[ScheduleRecord, float | None]]:
        """Return each schedule, and when it comes next."""
        return automation.schedules(self._store)

    def put_schedule(self, record: ScheduleRecord) -> float | None:
        """Store a schedule; return when it comes next."""
        _check_name(record.name)
        at = _next(record, time.time()) if record.enabled else None
        automation.put_schedule(self._store, record, at)
        return at

    def drop_schedule(self, name: str) -> None:
        if not automation.drop_schedule(self._store, name):
            raise NotFound(f"no schedule is called `{name}`")

    async def start_due(self, vet: Vet) -> None:
        """Start what the clock says; what was missed while nobody looked is started once."""
        now = time.time()
        for record in automation.due_schedules(self._store, now):
            what = f"schedule {record.name}"
            today, still = automation.starts(self._store, what, now - DAY)
            if still >= record.most_open:
                last = f"not started: {still} of its runs are not over"
            elif today >= record.per_day:
                last = f"not started: it has started {today} runs within a day"
            else:
                last = await self._start(record.request, what, vet)
            log.info("%s", last, extra={"schedule": record.name})
            done = structs.replace(record, last=last, last_at=now)
            automation.put_schedule(self._store, done, _next(record, max(now, time.time())))

    async def _start(self, request: Request, what: str, vet: Vet) -> str:
        try:
            run = await self._engine.requests.enqueue(request, Ticket(by=what), vet=vet)
        except CorralError as error:
            return f"not started: {error}"
        automation.note_start(self._store, run, what, time.time())
        return run

    # --- triggers

    def triggers(self) -> list[TriggerRecord]:
        return automation.triggers(self._store)

    def put_trigger(self, record: TriggerRecord) -> TriggerRecord:
        """Store a trigger; one without a secret is given one."""
        _check_name(record.name)
        if not record.secret:
            record = structs.replace(record, secret=signing.secret_of(os.urandom(32)))
        automation.put_trigger(self._store, record)
        return record

    def drop_trigger(self, name: str) -> None:
        if not automation.drop_trigger(self._store, name):
            raise NotFound(f"no trigger is called `{name}`")

    def called(self, name: str, headers: Mapping[str, str], body: bytes) -> TriggerRecord | None:
        """Return the trigger that this call is signed for; None whether it does not exist or the signature is wrong."""
        record = automation.trigger(self._store, name)
        if record is None or not record.enabled or not signing.holds(record.secret, headers, body, time.time()):
            return None
        return record

    async def fire(self, record: TriggerRecord, name: str, body: bytes, vet: Vet) -> str:
        """Start the run of a trigger; the same call twice starts one."""
        request = _filled(record.request, _payload(body))
        ticket = Ticket(by=f"trigger {record.name}", key=f"trigger {record.name}/{name}" if name else None)
        if before := self._engine.requests.before(request, ticket):
            return before
        what, now = f"trigger {record.name}", time.time()
        lately, still = automation.starts(self._store, what, now - HOUR)
        if still >= record.most_open:
            raise TooMany(f"{still} runs of this trigger are not over", retry_seconds=60)
        if lately >= record.per_hour:
            raise TooMany(f"this trigger has started {lately} runs within an hour", retry_seconds=600)
        run = await self._engine.requests.enqueue(request, ticket, vet=vet)
        automation.note_start(self._store, run, what, now)
        return run


def _next(record: ScheduleRecord, now: float) -> float:
    try:
        zone = ZoneInfo(record.zone) if record.zone != "UTC" else UTC
    except (OSError, ValueError, KeyError) as error:
        raise BadRequest(f"`{record.zone}` is no time zone", hint="as Europe/Berlin") from error
    return cron.parse(record.cron).next(datetime.fromtimestamp(now, zone)).timestamp()


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadRequest(f"`{name}` is no name", hint="small letters, digits, dots and dashes")


def _payload(body: bytes) -> Any:  # noqa: ANN401 -- whatever was sent
    try:
        return msgspec.json.decode(body) if body else {}
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error


def _filled(request: Request, payload: Any) -> Request:  # noqa: ANN401
    """Fill what was sent into the texts that agents read; never into what says where and how they work."""
    known = {"payload": payload}
    try:
        prompt, tasks = fill(request.prompt, known), tuple(fill(task, known) for task in request.tasks)
    except Wrong as wrong:
        raise Conflicting(f"the call does not have what the trigger's task asks for: {wrong}") from wrong
    return structs.replace(request, prompt=prompt, tasks=tasks)
