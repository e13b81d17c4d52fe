"""Labels and comments that forges report: issues become runs, comments on pull requests lead to revisions."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from typing import Any

import msgspec
from msgspec import Struct, structs

from corral.engine.context import Context, Vet
from corral.engine.follow import Follows
from corral.engine.issue_watch import IssueWatch
from corral.engine.merge.pull_requests import run_of_pull
from corral.engine.queue.triggers import Occasion, TooManyStarts, Triggers
from corral.model import OPEN
from corral.model.errors import BadRequest, CorralError, NotFound
from corral.model.forge import IssueWork
from corral.model.server import TriggerRecord
from corral.rules.merge import pull_request as wording
from corral.rules.text.forge_calls import WRITERS, ForgeCall, is_named, read_call
from corral.store.interface import Store
from corral.world.forge.client import ForgeRefusal
from corral.world.forge.forge import Forge

STORED_AS = "forge_calls"
LOOK_SECONDS = 1.0
TROUBLE_SECONDS, MOST_TROUBLE_SECONDS = 20.0, 3600.0  #: before another try: twice as long each time
UNAUTHORISED = 401  #: until the token is a good one
MOST_KEPT = 500  #: of those that are over, whose deliveries are known
MOST_WAITING = 1000
EVERY_SECONDS, MOST_REVISIONS = 60.0, 3  #: of a pull request that a comment asks to look after
log = logging.getLogger("corral.forge")


class StoredCall(Struct, frozen=True, kw_only=True):
    """One call of a forge, and what became of it."""

    id: str  #: of what was sent: the same twice is the same call
    trigger: str
    call: ForgeCall
    by: str = ""  #: who is allowed to ask, once that is known
    run: str = ""
    place: str = ""  #: the engine that took it, whose repository and token it is about
    times: int = 0  #: how often the label was set
    over: bool = False
    result: str = ""


class ForgeCalls:
    """The calls of forges to one store."""

    def __init__(self, context: Context, triggers: Triggers, issues: IssueWatch, follows: Follows) -> None:
        self._context, self._triggers, self._issues, self._follows = context, triggers, issues, follows
        self._steps: dict[str, asyncio.Task[None]] = {}
        self._later: dict[str, float] = {}
        self._tries: dict[str, int] = {}

    @property
    def _store(self) -> Store:
        return self._context.store

    def take(self, record: TriggerRecord, occasion: Occasion, body: bytes) -> str:
        """Store what a forge asks for, and return what happens. What follows from it happens by `keep`."""
        call = read_call(record, occasion.event, occasion.payload)
        if isinstance(call, str):
            return call
        if wording.MARK in call.words:
            return "Corral said that itself"
        name = hashlib.sha256(record.name.encode() + b"\0" + body).hexdigest()[:32]  # no signature covers a header
        with self._store.transaction():
            known = self._all()
            if name in known:
                return "known already"
            if sum(not each.over for each in known.values()) >= MOST_WAITING:
                raise TooManyStarts(f"{MOST_WAITING} calls wait already", retry_seconds=60)
            self._put(StoredCall(id=name, trigger=record.name, call=call, place=self._context.place))
        return "taken"

    async def keep(self, vet: Vet) -> None:
        """Carry out what was asked for, until cancelled."""
        bell = self._store.watch()
        try:
            while True:
                self._steps = {name: task for name, task in self._steps.items() if not task.done()}
                known = self._all()
                busy = {_issue(known[name]) for name in self._steps if name in known}
                for each in known.values():
                    if self._is_ours(each) and _issue(each) not in busy and self._is_due(each):
                        busy.add(_issue(each))  # one after another: what is known of an issue decides
                        self._steps[each.id] = asyncio.create_task(self._step(each, vet))
                await bell.listen(LOOK_SECONDS)
        finally:
            bell.close()
            for task in self._steps.values():
                task.cancel()
            await asyncio.gather(*self._steps.values(), return_exceptions=True)

    def _is_ours(self, each: StoredCall) -> bool:
        return not each.over and each.place in ("", self._context.place)

    def _is_due(self, each: StoredCall) -> bool:
        if self._later.get(each.id, 0.0) > time.monotonic():
            return False
        return not each.run or self._store.run(each.run).status not in (*OPEN, "limited")

    async def _step(self, stored: StoredCall, vet: Vet) -> None:
        """Do what is next for one call; what may pass by itself is tried again."""
        tries = self._tries[stored.id] = self._tries.get(stored.id, -1) + 1
        self._later[stored.id] = time.monotonic() + min(MOST_TROUBLE_SECONDS, TROUBLE_SECONDS * 2 ** min(tries, 10))
        try:
            record = self._triggers.find(stored.trigger)
            try:
                forge = await self._issues.forge(record.request)
            except BadRequest as error:  # no repository, no token: a user can change that
                log.warning("%s: %s", stored.trigger, error)
                return
            after = await (self._deliver(stored, forge) if stored.run else self._begin(stored, record, forge, vet))
        except (ForgeRefusal, TooManyStarts) as error:
            log.warning("%s: %s", stored.trigger, error)
            if isinstance(error, TooManyStarts) or error.passes or error.status == UNAUTHORISED:
                return
            after = structs.replace(stored, over=True, result=str(error))
        except (BadRequest, NotFound) as error:
            after = structs.replace(stored, over=True, result=str(error))
        except (CorralError, OSError) as error:
            log.warning("%s: %s", stored.trigger, error)
            return
        if after != stored:
            with self._store.transaction():
                self._put(after)
            log.info("%s", after.result, extra={"trigger": stored.trigger})
            self._note(after)
            self._later.pop(stored.id, None)
            self._tries.pop(stored.id, None)

    # --- what a call asks for

    async def _begin(self, stored: StoredCall, record: TriggerRecord, forge: Forge, vet: Vet) -> StoredCall:
        call = stored.call
        if call.repository.casefold() != forge.place.path.casefold():
            return structs.replace(stored, over=True, result=f"it is about another repository: {call.repository[:100]}")
        work = await self._issue_work(call, forge)
        actor, times = call.actor, 0
        if call.on.startswith("label:"):
            label = await forge.labelled_by(call.number, call.on.partition(":")[2])
            actor, times = label.by or call.actor, label.times
            if work.run and times <= work.times:
                return structs.replace(stored, over=True, result=f"#{call.number}: run {work.run} has this label")
        if not is_named(call, record, actor) and not (WRITERS in record.who and await forge.may_write(actor)):
            words = f"`{call.on}` is from {actor}, who may not start this"
            if call.on.startswith("label:") and not work.run and work.by != actor:
                await self._issues.say(forge, work, f"Corral ignores this issue: {words}.")
                ignored = structs.replace(work, by=actor, times=times, reason=f"ignored: {words}", reported=True)
                self._store.forge.put_issue_work(ignored)
            return structs.replace(stored, over=True, result=f"#{call.number}: ignored: {words}")
        if call.on_pull:
            return await self._revise(stored, forge, actor)
        if work.run and not work.reported:
            await self._issues.say(forge, work, f"Corral works on this already: run `{work.run}`.")
            return structs.replace(stored, over=True, result=f"#{call.number}: run {work.run} is at work")
        return await self._start(structs.replace(stored, by=actor, times=times), record, work, vet)

    async def _issue_work(self, call: ForgeCall, forge: Forge) -> IssueWork:
        """Return what is known of the issue of a call."""
        repository = f"{forge.place.host}/{forge.place.path}"
        listed = self._store.forge.issue_work(repository)
        known = next((each for each in listed if each.number == call.number), None)
        url = f"{forge.place.page}/{'-/' if forge.place.kind == 'gitlab' else ''}issues/{call.number}"
        return known or IssueWork(repository=repository, number=call.number, url=url, label=call.on.partition(":")[2])

    async def _start(self, stored: StoredCall, record: TriggerRecord, work: IssueWork, vet: Vet) -> StoredCall:
        call = stored.call
        prompt = "\n\n".join(filter(None, (record.request.prompt, "{{payload.words}}" if call.words else "")))
        request = structs.replace(record.request, prompt=prompt, issue=work.url)
        payload: dict[str, Any] = {**structs.asdict(call), "actor": stored.by}
        occasion = Occasion(name=stored.id, event=call.on, payload=payload)
        fired = await self._triggers.fire(structs.replace(record, request=request), occasion, vet)
        if fired.run is None:
            return structs.replace(stored, over=True, result=f"#{call.number}: {fired.reason}")
        began = structs.replace(
            work,
            run=fired.run,
            by=stored.by,
            times=stored.times or work.times,
            reason="at work",
            reported=False,
            empty=False,
        )
        self._store.forge.put_issue_work(began)
        return structs.replace(stored, run=fired.run, result=f"#{call.number}, asked by {stored.by}: run {fired.run}")

    async def _revise(self, stored: StoredCall, forge: Forge, actor: str) -> StoredCall:
        """Look after the pull request of a run from now on, if it is one of Corral's own."""
        number = int(stored.call.number)
        run = run_of_pull(self._store, number, forge.place.path, await forge.source(number))
        if run is None:
            return structs.replace(stored, over=True, result=f"#{number} is no pull request of Corral: nothing runs")
        known = self._follows.find(run)
        most = max(MOST_REVISIONS, known[0].revisions + 1 if known else 0)  # who asks gets one more
        self._follows.begin(run, actor, every_seconds=EVERY_SECONDS, most=most)
        return structs.replace(stored, over=True, result=f"#{number}: looked after, as {actor} asks")

    async def _deliver(self, stored: StoredCall, forge: Forge) -> StoredCall:
        """Report a run that is over, in its issue or by a pull request."""
        work = await self._issue_work(stored.call, forge)
        if work.run == stored.run and not work.reported:
            work = await self._issues.deliver(work, forge, log.info)
            if not work.reported:
                return stored
        return structs.replace(stored, over=True, result=f"#{stored.call.number}: {work.reason}")

    # --- the store

    def _note(self, stored: StoredCall) -> None:
        """Show with the trigger what came of its last call."""
        record = self._store.automation.trigger(stored.trigger)
        if record:
            self._store.automation.put_trigger(structs.replace(record, last=stored.result, last_at=time.time()))

    def _all(self) -> dict[str, StoredCall]:
        text = self._store.queue.value(STORED_AS)
        return msgspec.json.decode(text, type=dict[str, StoredCall]) if text else {}

    def _put(self, changed: StoredCall) -> None:
        if changed.over:  # what was said is not needed any more
            changed = structs.replace(changed, call=structs.replace(changed.call, words=""))
        known = self._all()
        known.pop(changed.id, None)
        over = [each for each in known if known[each].over]
        dropped = set(over[: max(0, len(over) - MOST_KEPT)])
        kept = {name: each for name, each in known.items() if name not in dropped}
        self._store.queue.set_value(STORED_AS, msgspec.json.encode({**kept, changed.id: changed}).decode())


def _issue(stored: StoredCall) -> tuple[str, str]:
    return stored.call.repository.casefold(), stored.call.number
