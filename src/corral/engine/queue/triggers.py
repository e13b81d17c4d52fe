"""Triggers: requests that are made when another program calls, or when a branch moves, if a condition holds."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from corral.config.times import duration
from corral.engine.context import Context, Vet
from corral.engine.planning.git_state_cache import sign
from corral.engine.planning.requests import Requests
from corral.engine.queue.schedules import check_name
from corral.model import Request
from corral.model.errors import BadRequest, Conflicting, CorralError, NotFound
from corral.model.server import Ticket, TriggerRecord
from corral.rules.flows.expressions import Expression, ExpressionError
from corral.rules.flows.fill_text import fill
from corral.rules.text import signing
from corral.rules.text.forge_calls import check_forge_trigger, is_from_fork
from corral.store.interface import Store
from corral.world.git.discovery import discover
from corral.world.git.repository import Repository

MOST_FILES = 1000  #: that are named of one move


class Move(Struct, frozen=True, kw_only=True):
    """Where a branch went; what a trigger's texts and conditions know as `payload`."""

    branch: str
    before: str
    commit: str
    subject: str
    author: str
    files: tuple[str, ...]


class Branches:
    """The branches that one process watches for its triggers."""

    def __init__(self) -> None:
        self._repositories: dict[str, Repository] = {}
        self._signs: dict[str, tuple[str, object]] = {}

    async def tip(self, repo: str, branch: str) -> str:
        """Return where a branch is now; refuse one that is not there."""
        found = await (await self._repository(repo)).commit_of(f"refs/heads/{branch}")
        if found is None:
            raise BadRequest(f"{repo} has no branch `{branch}`", hint="name one that is there: git branch")
        return found

    async def find_move(self, record: TriggerRecord) -> Move | None:
        """Return where a trigger's branch went since it was last seen there; None if nowhere."""
        repository = await self._repository(record.request.repo)
        seen = f"{record.branch} {record.seen}"
        signs = _signs(repository.git_dir, record.branch)
        if self._signs.get(record.name) == (seen, signs):
            return None
        tip = await repository.commit_of(f"refs/heads/{record.branch}")
        if tip is None or tip == record.seen:
            self._signs[record.name] = (seen, signs)  # taken before the look: what comes meanwhile changes them
            return None
        about = await repository.text("log", "-1", "--format=%s%x00%an", tip)
        subject, _, author = about.partition("\0")
        known = await repository.commit_of(record.seen)
        files = await repository.names_changed(record.seen, tip) if known else ()
        return Move(
            branch=record.branch,
            before=record.seen,
            commit=tip,
            subject=subject,
            author=author,
            files=files[:MOST_FILES],
        )

    async def _repository(self, repo: str) -> Repository:
        if repo not in self._repositories:
            found = await discover(Path(repo)) if Path(repo).is_dir() else None
            if found is None:
                raise BadRequest(f"{repo} is no git repository", hint="only branches of a repository can be watched")
            self._repositories[repo] = found.repository
        return self._repositories[repo]


def _signs(git_dir: Path, branch: str) -> tuple[object, ...]:
    """Return what changes whenever a branch does, however git stores its branches."""
    places = (git_dir / "refs" / "heads" / branch, git_dir / "packed-refs", git_dir / "reftable" / "tables.list")
    return tuple(sign(place) for place in places)


HOUR = 3600.0
KNOWN = frozenset({"payload", "event"})  #: what conditions and texts can start from
log = logging.getLogger("corral.supervisor")


class TooManyStarts(CorralError):
    """A trigger has started as much as it may."""

    def __init__(self, message: str, *, retry_seconds: int) -> None:
        super().__init__(message, hint="its limits say so")
        self.retry_seconds = retry_seconds


class Occasion(Struct, frozen=True, kw_only=True):
    """What calls a trigger."""

    name: str  #: the same name twice is the same occasion
    event: str = ""  #: what kind it is, as the caller says
    payload: Any = None


class TriggerResult(Struct, frozen=True):
    """What came of an occasion: a run, or the reason why there is none."""

    run: str | None
    reason: str = ""


class Triggers:
    """The triggers of one store."""

    def __init__(self, context: Context, requests: Requests) -> None:
        self._context, self._requests, self._branches = context, requests, Branches()

    @property
    def _store(self) -> Store:
        return self._context.store

    def all(self) -> list[TriggerRecord]:
        return self._store.automation.triggers()

    async def put(self, record: TriggerRecord) -> TriggerRecord:
        """Store a trigger; one without a secret is given one, and a branch is watched from where it is now."""
        check_name(record.name)
        _check_condition(record.when, "when")
        _check_condition(record.approve_unless, "approve_unless")
        if record.approve:
            duration(record.approve, "approve")
        record = check_forge_trigger(record)
        if not record.secret:
            record = structs.replace(record, secret=signing.secret_of(os.urandom(32)))
        if record.branch:
            seen = await self._branches.tip(record.request.repo, record.branch)
            record = structs.replace(record, seen=seen)
        self._store.automation.put_trigger(record)
        return record

    def find(self, name: str) -> TriggerRecord:
        """Return the trigger of this name."""
        found = self._store.automation.trigger(name)
        if found is None:
            raise _no_trigger(name)
        return found

    async def enable(self, name: str, *, enabled: bool) -> None:
        """Let a trigger rest, or continue; what its branch did meanwhile does not count."""
        record = structs.replace(self.find(name), enabled=enabled)
        if enabled:
            await self.put(record)
        else:
            self._store.automation.put_trigger(record)

    def drop(self, name: str) -> None:
        if not self._store.automation.drop_trigger(name):
            raise _no_trigger(name)

    def signed_trigger(self, name: str, headers: Mapping[str, str], body: bytes) -> TriggerRecord | None:
        """Return the trigger that this call is signed for; None whether it does not exist or the signature is wrong."""
        record = self._store.automation.trigger(name)
        if record is None or not record.enabled:
            return None
        now = time.time()
        if record.forge:
            good = signing.forge_holds(record.forge, record.secret, headers, body, now)
        else:
            good = signing.holds(record.secret, headers, body, now)
        return record if good else None

    async def fire(self, record: TriggerRecord, occasion: Occasion, vet: Vet) -> TriggerResult:
        """Start the run of a trigger if its condition holds and its limits allow it; the same call twice starts one."""
        known = {"payload": occasion.payload, "event": occasion.event}
        if against := _against(record.when, known):
            return TriggerResult(None, against)
        what, now = f"trigger {record.name}", time.time()
        request, ticket = _fill_request(record.request, known), Ticket(by=what, key=f"{what}/{occasion.name}")
        foreign = is_from_fork(occasion.payload)
        if foreign and not record.approve:
            return TriggerResult(None, "it is about a pull request from a fork, and the trigger asks no user first")
        if foreign:
            request = structs.replace(request, merge="never")
        if record.approve and (foreign or not record.approve_unless or _against(record.approve_unless, known)):
            request = structs.replace(request, approve=record.approve)
        if before := self._requests.before(request, ticket):
            return TriggerResult(before)
        lately, still = self._store.automation.starts(what, now - HOUR)
        if still >= record.most_open:
            raise TooManyStarts(f"{still} runs of this trigger are not over", retry_seconds=60)
        if lately >= record.per_hour:
            raise TooManyStarts(f"this trigger has started {lately} runs within an hour", retry_seconds=600)
        run = await self._requests.enqueue(request, ticket, vet=vet)
        self._store.automation.note_start(run, what, now)
        return TriggerResult(run)

    async def start_moved(self, vet: Vet) -> None:
        """Start what branches that moved bring. Many moves while a trigger may not start are one, the newest."""
        for record in self.all():
            if record.enabled and record.branch:
                try:
                    await self._look(record, vet)
                except CorralError as error:
                    self._note(record, f"not started: {error}")

    async def _look(self, record: TriggerRecord, vet: Vet) -> None:
        move = await self._branches.find_move(record)
        if move is None:
            return
        merged_by = self._store.automation.run_that_merged(f"trigger {record.name}", move.commit)
        if merged_by:  # else it would start itself again and again
            fired = TriggerResult(None, f"its own run {merged_by} moved the branch")
        else:
            try:
                fired = await self.fire(record, _of_move(move), vet)
            except TooManyStarts as error:
                self._note(record, f"waits: {error}")
                return
        last = fired.run or f"not started: {fired.reason}"
        self._note(structs.replace(record, seen=move.commit), last)

    def _note(self, record: TriggerRecord, last: str) -> None:
        """Remember what came of a look, unless the trigger was changed meanwhile."""
        now = self._store.automation.trigger(record.name)
        if now is None or now.branch != record.branch or (now.last, now.seen) == (last, record.seen):
            return
        log.info("%s", last, extra={"trigger": record.name})
        self._store.automation.put_trigger(structs.replace(now, seen=record.seen, last=last, last_at=time.time()))


def occasion(name: str, event: str, body: bytes) -> Occasion:
    """Read what a caller sent."""
    try:
        payload: Any = msgspec.json.decode(body) if body else {}
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is no JSON: {error}", hint='send an object, as {"key": "value"}') from error
    return Occasion(name=name, event=event, payload=payload)


def _no_trigger(name: str) -> NotFound:
    return NotFound(f"no trigger is called `{name}`", hint="see `corral trigger ls`")


def _of_move(move: Move) -> Occasion:
    return Occasion(name=f"{move.before}..{move.commit}", event="moved", payload=structs.asdict(move))


def _check_condition(text: str, name: str) -> None:
    if not text:
        return
    try:
        unknown = Expression(text).names() - KNOWN
    except ExpressionError as wrong:
        raise BadRequest(f"{name}: {wrong}", hint='as: event == "issues" and payload.action == "opened"') from wrong
    if unknown:
        raise BadRequest(f"{name}: `{min(unknown)}` is not known here", hint="known: payload, event")


def _against(condition: str, known: Mapping[str, Any]) -> str:
    """Return why a condition does not hold, or nothing. One that asks for what was not sent does not."""
    if not condition:
        return ""
    try:
        return "" if Expression(condition).holds(known) else f"the condition does not hold: {condition}"
    except ExpressionError as wrong:
        return f"the condition does not hold: {wrong}"


def _fill_request(request: Request, known: Mapping[str, Any]) -> Request:
    """Fill what was sent into the texts that agents read; never into what says where and how they work."""
    try:
        prompt, tasks = fill(request.prompt, known), tuple(fill(task, known) for task in request.tasks)
    except ExpressionError as wrong:
        raise Conflicting(
            f"the call does not have what the trigger's task asks for: {wrong}",
            hint="the task of the trigger names its fields as {{payload.FIELD}}",
        ) from wrong
    return structs.replace(request, prompt=prompt, tasks=tasks)
