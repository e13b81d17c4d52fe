"""What starts runs by itself: schedules by the clock, within limits; triggers are in a room of their own."""

from __future__ import annotations

import logging
import re
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from msgspec import structs

from corral.config import times
from corral.engine.context import Say, Vet
from corral.engine.planning.requests import Requests
from corral.model import Request
from corral.model.errors import BadRequest, CorralError, NotFound
from corral.model.server import ScheduleRecord, Ticket
from corral.store.interface import Store

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
DAY = 86_400.0
STARTING_SECONDS = 60.0  #: for so long no other engine starts what one has begun to start
log = logging.getLogger("corral.supervisor")


class Schedules:
    """What starts by itself in one store."""

    def __init__(self, store: Store, requests: Requests) -> None:
        self._store, self._requests = store, requests

    def all(self) -> list[tuple[ScheduleRecord, float | None]]:
        """Return each schedule, and when it comes next."""
        return self._store.automation.schedules()

    async def put(self, record: ScheduleRecord) -> float | None:
        """Store a schedule; return when it comes next."""
        check_name(record.name)
        at = _next(record, time.time()) if record.enabled else None
        self._store.automation.put_schedule(record, at)
        return at

    def find(self, name: str) -> ScheduleRecord:
        """Return the schedule of this name."""
        found = next((record for record, _ in self.all() if record.name == name), None)
        if found is None:
            raise _no_schedule(name)
        return found

    async def enable(self, name: str, *, enabled: bool) -> None:
        """Pause a schedule, or resume it from now on."""
        await self.put(structs.replace(self.find(name), enabled=enabled))

    async def start(self, name: str, vet: Vet, say: Say = lambda _: None) -> str:
        """Start what a schedule starts, now, because a user asks for it; its limits count it but do not hold it up."""
        record, what = self.find(name), f"schedule {name}"
        run = await self._requests.enqueue(record.request, Ticket(by=what), say, vet)
        self._store.automation.note_start(run, what, time.time())
        return run

    def drop(self, name: str) -> None:
        if not self._store.automation.drop_schedule(name):
            raise _no_schedule(name)

    async def start_due(self, vet: Vet) -> None:
        """Start what the clock says; what was missed while nobody looked is started once."""
        now = time.time()
        for record in self._store.automation.due_schedules(now):
            if not self._store.automation.begin_schedule(record.name, now, now + STARTING_SECONDS):
                continue  # another engine of this store was quicker
            what = f"schedule {record.name}"
            today, still = self._store.automation.starts(what, now - DAY)
            if still >= record.most_open:
                last = f"not started: {still} of its runs are not over"
            elif today >= record.per_day:
                last = f"not started: it has started {today} runs within a day"
            else:
                last = await self._start(record.request, what, vet)
            log.info("%s", last, extra={"schedule": record.name})
            done = structs.replace(record, last=last, last_at=now)
            self._store.automation.put_schedule(done, _next(record, max(now, time.time())))

    async def _start(self, request: Request, what: str, vet: Vet) -> str:
        try:
            run = await self._requests.enqueue(request, Ticket(by=what), vet=vet)
        except CorralError as error:
            return f"not started: {error}"
        self._store.automation.note_start(run, what, time.time())
        return run


def _no_schedule(name: str) -> NotFound:
    return NotFound(f"no schedule is called `{name}`", hint="see `corral schedule ls`")


def _next(record: ScheduleRecord, now: float) -> float:
    try:
        zone = ZoneInfo(record.zone) if record.zone != "UTC" else UTC
    except (OSError, ValueError, KeyError) as error:
        raise BadRequest(f"`{record.zone}` is no time zone", hint="as Europe/Berlin") from error
    return times.parse(record.cron).next(datetime.fromtimestamp(now, zone)).timestamp()


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadRequest(f"`{name}` is no name", hint="small letters, digits, dots and dashes")
