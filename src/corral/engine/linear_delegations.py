"""Issues that users of Linear delegate to Corral: each becomes a run that reports and asks there."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

from corral.config import loader
from corral.engine.context import Context, Driver, Vet
from corral.engine.inbox.inbox import Inbox
from corral.engine.queue.triggers import Occasion, Triggers
from corral.engine.views import run_document
from corral.model import OPEN, Run, winner
from corral.model.errors import BadRequest, CorralError
from corral.model.server import TriggerRecord
from corral.rules.text.questions import ways
from corral.store.interface import Store
from corral.world.forge.finding import ask_linear

EVENT = "AgentSessionEvent"
STORED_AS = "linear_delegations"
BY = "linear"  #: who answers and stops
LOOK_SECONDS = 1.0
TROUBLE_SECONDS = 5.0
MOST_KEPT = 200  #: of those that are over, whose deliveries are known
MOST_BODY = 4000
SAY = "mutation Say($input: AgentActivityCreateInput!) { agentActivityCreate(input: $input) { success } }"
UPDATE = (
    "mutation Update($id: String!, $input: AgentSessionUpdateInput!) "
    "{ agentSessionUpdate(id: $id, input: $input) { success } }"
)
#: How a node's status is called in a plan of Linear; all others are pending.
STEPS = {"running": "inProgress", "waiting": "inProgress", "done": "completed", "failed": "canceled",
         "stopped": "canceled", "skipped": "canceled"}  # fmt: skip
log = logging.getLogger("corral.linear")


class LinearIssue(Struct, frozen=True):
    url: str = ""


class LinearThread(Struct, frozen=True):
    """What Linear calls an agent session."""

    id: str
    issue: LinearIssue | None = None


class LinearWords(Struct, frozen=True):
    body: str = ""


class LinearActivity(Struct, frozen=True):
    signal: str | None = None
    body: str = ""
    content: LinearWords = LinearWords()


class LinearCall(Struct, frozen=True):
    """A webhook of Linear about an issue that is delegated."""

    action: str
    agentSession: LinearThread  # noqa: N815 -- its name there
    agentActivity: LinearActivity | None = None  # noqa: N815


class Delegation(Struct, frozen=True, kw_only=True):
    """One issue of Linear, and what was said about it there; stored whenever it changes."""

    id: str
    issue: str  #: its address
    trigger: str
    deliveries: tuple[str, ...] = ()  #: calls that were taken
    greeted: bool = False
    run: str = ""
    plan: tuple[tuple[str, str], ...] = ()
    asked: tuple[str, ...] = ()  #: entries of the inbox that were put there
    closed: tuple[str, ...] = ()  #: of these: answered, and said so
    orders: tuple[str, ...] = ()  #: words of the user that were not carried out yet
    stop: bool = False
    over: bool = False


class Delegations:
    """The delegated issues of one store."""

    def __init__(self, context: Context, triggers: Triggers, inbox: Inbox, driver: Driver) -> None:
        self._context, self._triggers, self._inbox, self._driver = context, triggers, inbox, driver
        self._steps: dict[str, asyncio.Task[None]] = {}
        self._later: dict[str, float] = {}  #: when each is tried again that Linear did not take

    @property
    def _store(self) -> Store:
        return self._context.store

    def take(self, record: TriggerRecord, payload: object, delivery: str) -> bool:
        """Store a call of Linear; return False if it is known already. What follows from it happens by `keep`."""
        try:
            call = msgspec.convert(payload, LinearCall)
        except msgspec.ValidationError as error:
            raise BadRequest(f"that is no {EVENT} of Linear: {error}", hint="its fields are documented") from error
        with self._store.transaction():
            known = self._all()
            before = known.get(call.agentSession.id)
            if before is None and call.action == "created" and call.agentSession.issue:
                address = call.agentSession.issue.url
                fresh = Delegation(id=call.agentSession.id, issue=address, trigger=record.name, deliveries=(delivery,))
                self._put(fresh)
                return True
            if before is None or delivery in before.deliveries or call.action != "prompted":
                return False
            said = call.agentActivity or LinearActivity()
            after = structs.replace(before, deliveries=(*before.deliveries[-49:], delivery))
            if said.signal == "stop":
                after = structs.replace(after, stop=True, over=False)
            else:
                words = (said.body or said.content.body).strip()[:MOST_BODY]
                after = structs.replace(after, orders=(*after.orders, words), over=False)
            self._put(after)
        return True

    async def keep(self, vet: Vet) -> None:
        """Carry out what users of Linear ask for, and tell them what happens, until cancelled."""
        bell = self._store.watch()
        try:
            while True:
                self._steps = {name: task for name, task in self._steps.items() if not task.done()}
                for name in [each.id for each in self._all().values() if not each.over and self._is_due(each.id)]:
                    self._steps[name] = asyncio.create_task(self._step(name, vet))
                await bell.listen(LOOK_SECONDS)
        finally:
            bell.close()
            for task in self._steps.values():
                task.cancel()
            await asyncio.gather(*self._steps.values(), return_exceptions=True)

    def _is_due(self, name: str) -> bool:
        return name not in self._steps and self._later.get(name, 0.0) <= time.monotonic()

    async def _step(self, name: str, vet: Vet) -> None:
        """Do what is next for one issue; what Linear does not take now is tried again."""
        try:
            for part in (self._greet, self._obey_stop, self._take_orders, self._show_plan, self._ask, self._end):
                await part(name)
                if part == self._greet and not await self._start(name, vet):
                    return
        except CorralError as error:
            self._later[name] = time.monotonic() + TROUBLE_SECONDS
            log.warning("linear: %s", error)

    async def _greet(self, name: str) -> None:
        """Say at once that Corral works on it: without a word within ten seconds it is shown as unresponsive."""
        if self._one(name).greeted:
            return
        await self._say(name, "thought", "Corral reads the issue.")
        self._change(name, greeted=True)

    async def _start(self, name: str, vet: Vet) -> bool:
        """Start the run, once; return whether there is one."""
        found = self._one(name)
        if found.run:
            return True
        if found.stop:
            await self._say(name, "response", "Stopped before a run began.")
            self._change(name, over=True)
            return False
        try:
            record = self._triggers.find(found.trigger)
            record = structs.replace(record, request=structs.replace(record.request, issue=found.issue))
            payload = {"issue": found.issue, "session": found.id}
            result = await self._triggers.fire(record, Occasion(name=found.id, event=EVENT, payload=payload), vet)
        except CorralError as error:
            await self._say(name, "error", f"No run was started: {error}")
            self._change(name, over=True)
            return False
        if result.run is None:
            await self._say(name, "response", f"No run was started: {result.reason}")
            self._change(name, over=True)
            return False
        self._change(name, run=result.run)
        await self._say(name, "thought", f"Run `{result.run}` has begun.")
        if link := _link(result.run):
            await self._update(name, {"externalUrls": [{"label": "Corral", "url": link}]})
        return True

    async def _obey_stop(self, name: str) -> None:
        found = self._one(name)
        if found.stop and self._store.run(found.run).status in OPEN:
            await self._driver.stop(found.run, BY)

    async def _take_orders(self, name: str) -> None:
        """Answer what was asked last with what the user said."""
        for words in self._one(name).orders:
            found = self._one(name)
            waiting = [each for each in self._store.inbox.of_run(found.run) if each.is_open and each.id in found.asked]
            said = "Nothing waits for an answer now. `corral comment` and `corral revise` take further wishes."
            if waiting:
                try:
                    entry = await self._inbox.answer(waiting[-1].id, words, BY)
                    said = f"{entry.answer}: {entry.outcome}" if entry.outcome else f"Answered: {entry.answer}"
                except CorralError as error:
                    said = f"{error}" + (f" ({error.hint})" if error.hint else "")
            self._change(name, orders=found.orders[1:])
            await self._say(name, "thought", said)

    async def _show_plan(self, name: str) -> None:
        found, run = self._one(name), self._document(name)
        plan = tuple((node.id, STEPS.get(node.status, "pending")) for node in run.nodes)
        if plan != found.plan:
            await self._update(name, {"plan": [{"content": step, "status": status} for step, status in plan]})
            self._change(name, plan=plan)

    async def _ask(self, name: str) -> None:
        """Put the run's open questions to the user there; say which of them were answered elsewhere."""
        found = self._one(name)
        for entry in self._store.inbox.of_run(found.run):
            if not entry.is_open and entry.id in found.asked and entry.id not in found.closed:
                if entry.answered_by != BY:
                    words = f"`{entry.answer}` ({entry.answered_by})" if entry.answer else entry.outcome
                    await self._say(name, "thought", f"No answer is needed any more: {words}")
                self._change(name, closed=(*self._one(name).closed, entry.id))
            if not entry.is_open or entry.id in found.asked:
                continue
            body = "\n\n".join(filter(None, (entry.text, entry.context, f"Answer with: {ways(entry)}")))
            options = [{"label": choice, "value": choice} for choice in entry.choices]
            more = {"signal": "select", "signalMetadata": {"options": options}} if options else {}
            await self._say(name, "elicitation", body, more)
            self._change(name, asked=(*self._one(name).asked, entry.id))

    async def _end(self, name: str) -> None:
        """Say what came of it, with where it is."""
        run = self._document(name)
        if run.status in (*OPEN, "limited"):
            return
        await self._say(name, "response" if run.status in ("done", "stopped") else "error", _result(run))
        links = [{"label": "Corral", "url": _link(run.run)}] if _link(run.run) else []
        if run.pull_request and run.pull_request.url:
            links.append({"label": "Pull request", "url": run.pull_request.url})
        if links:
            await self._update(name, {"externalUrls": links})
        if not self._one(name).orders:
            self._change(name, over=True, stop=False)

    # --- Linear

    async def _say(self, name: str, kind: str, body: str, more: dict[str, Any] | None = None) -> None:
        content = {"type": kind, "body": body[:MOST_BODY]}
        await ask_linear(SAY, {"input": {"agentSessionId": name, "content": content, **(more or {})}})

    async def _update(self, name: str, values: dict[str, Any]) -> None:
        await ask_linear(UPDATE, {"id": name, "input": values})

    # --- the store

    def _document(self, name: str) -> Run:
        return run_document.build(self._store, self._one(name).run)

    def _all(self) -> dict[str, Delegation]:
        text = self._store.queue.value(STORED_AS)
        return msgspec.json.decode(text, type=dict[str, Delegation]) if text else {}

    def _one(self, name: str) -> Delegation:
        return self._all()[name]

    def _change(self, name: str, **fields: Any) -> None:  # noqa: ANN401 -- of the struct
        with self._store.transaction():
            self._put(structs.replace(self._one(name), **fields))

    def _put(self, changed: Delegation) -> None:
        known = self._all()
        known.pop(changed.id, None)
        over = [each for each in known if known[each].over]
        kept = {each: known[each] for each in known if each not in over[: len(over) - MOST_KEPT]}
        text = msgspec.json.encode({**kept, changed.id: changed}).decode()
        self._store.queue.set_value(STORED_AS, text)


def is_delegation(payload: object) -> bool:
    """Tell whether a call of Linear is about an issue that is delegated."""
    return isinstance(payload, dict) and cast("dict[str, object]", payload).get("type") == EVENT


def _link(run: str) -> str:
    """Return the address of a run's page, where the settings say how others reach this server."""
    address = loader.notify().answer_url
    return f"{address.rstrip('/')}/runs/{run}" if address else ""


def _result(run: Run) -> str:
    """Return what came of a run, in a few lines."""
    won = winner(run.nodes)
    words = f"Run `{run.run}` is {run.status}" + (f": {run.reason}" if run.reason else "") + "."
    if won and won.files_changed:
        words += f" {len(won.files_changed)} files changed, on branch `{won.branch}`."
    elif run.status == "done":
        words += " Nothing changed."
    if run.pull_request and run.pull_request.url:
        words += f" Pull request: {run.pull_request.url}"
    return words + (f"\n\n{_link(run.run)}" if _link(run.run) else "")
