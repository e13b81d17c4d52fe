"""The events of an attempt: bounded, stored, passed on to watchers, and acted on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager

from msgspec import structs

from corral.attempt.budget import AttemptBudget
from corral.attempt.budget_figures import account_windows
from corral.attempt.user_questions import RunQuestions
from corral.model import ENCODER, AttemptRecord, Cost, Entry, Phase, Tokens
from corral.model.events import (
    VITAL,
    Condensed,
    ContextUsed,
    Ended,
    Event,
    Limited,
    Listener,
    Noted,
    QuotaReported,
    Rejected,
    RunEvent,
    Spent,
    Started,
    SteerTaken,
    tell,
)
from corral.model.flow import Task
from corral.model.money import QuotaWindow, dollars
from corral.model.values import usd_or_none
from corral.rules.context.usage import Gauge
from corral.rules.money import quota
from corral.rules.text.redact import Redactor
from corral.store.interface import Store
from corral.world.clock import zone

MOST_EVENTS, MOST_VITAL = 50_000, 5_000  #: of an attempt, in the store; the raw log has more
MOST_TEXT = 64 << 10  #: of one event
MOST_BYTES = 64 << 20
MOST_REASON = 500
FAR = 400 * 86400.0  #: what lies further off is no answer


class AttemptEvents:
    """Takes down one attempt."""

    def __init__(self, record: AttemptRecord, store: Store, listen: Listener, task: Task) -> None:
        self.record, self.attempt = record, record.attempt
        self._store, self._listen = store, listen
        self.budget = AttemptBudget(record, store, task, lambda words: self.emit(Noted(words)))
        self._events = self._vital = self._bytes = 0
        self._tokens_before, self._usd_before = Tokens(), 0.0  #: of earlier turns of this attempt
        self.redactor = Redactor({})
        self._metered_before = Tokens()
        self._shown_usd: float | None = 0.0  #: of what was metered; None: its agent itself says what it uses
        self.gauge: Gauge | None = None  #: of its present turn
        self.back_at: Callable[[], float | None] = lambda: None  #: when its account may be asked, by its provider
        self._full: dict[str, float] = {}  #: windows of its account that are used up, and until when
        self.has_account = False  #: its quota is one for all runs of its agent
        self.ended: Ended | None = None  #: its last word so far

    def step(self, phase: Phase) -> None:
        """Store that the attempt has come this far."""
        self.record.phase = phase
        clean = self.redactor.value
        record = structs.replace(self.record, attempt=clean(self.attempt), saved=clean(self.record.saved))
        self._store.save_attempt(record)

    def new_turn(self) -> None:
        """The agent is started once more in this attempt: what it spends from here on comes on top."""
        self.settle_tokens()
        self.budget.reported_whole &= self.ended is not None
        self._tokens_before, self._usd_before = self.attempt.tokens, self.attempt.cost.usd or 0.0
        self._metered_before = self.budget.metered_tokens
        self.ended = None

    def run_questions(self) -> RunQuestions:
        """Return where its run asks a user."""
        return RunQuestions(self.record.run, self._store, self._listen)

    @contextmanager
    def waiting_for_answer(self, entry: Entry) -> Generator[None]:
        """Remember, where every process sees it, that its agent waits for an answer; for as long as it does."""
        self.record.held_by = (*self.record.held_by, entry.id)
        self.step(self.record.phase)
        try:
            yield
        finally:
            self.record.held_by = tuple(each for each in self.record.held_by if each != entry.id)
            self.step(self.record.phase)

    @property
    def store(self) -> Store:
        return self._store

    def count_other_agent(self, tokens: Tokens, usd: float | None) -> None:
        """Count what another agent used up for this attempt."""
        self.attempt.tokens += tokens
        self._tokens_before += tokens
        if usd := usd_or_none(usd):
            self._usd_before += usd
            self.budget.count_other_agent(usd)
            self.attempt.cost = Cost(dollars((self.attempt.cost.usd or 0.0) + usd), "reported")
            self.budget.count_reported(self.attempt.cost.usd or 0.0, self.attempt.tokens)

    def transaction(self) -> AbstractContextManager[None]:
        """Take several things down at once, or none."""
        return self._store.transaction()

    def emit(self, event: Event) -> None:
        """Take one event down; what is too much is left to the raw log."""
        vital = isinstance(event, VITAL)
        if isinstance(event, Limited) and event.until is None:
            # Many agents swallow what their provider says of it; what passes by us is heard there.
            event = Limited(event.message, quota.until(event.message, time.time(), zone) or self._back_at())
        body = ENCODER.encode(event)
        if self.redactor.may_hold(body):  # most hold none: then nothing in them is looked at one by one
            event = self.redactor.value(event)
            body = ENCODER.encode(event)
        if vital:
            self._act_on(event)
            if isinstance(event, Spent):
                self._shown_usd = None
            if isinstance(event, Spent) and event.usd is None and (usd := self.budget.known_usd) is not None:
                event = structs.replace(event, computed_usd=dollars(usd))
                body = ENCODER.encode(event)
        elif isinstance(event, ContextUsed) and self.gauge is not None:
            self.gauge.note_reported(event.tokens, event.window)
        elif isinstance(event, QuotaReported):
            self._note_quota(event)
        self._write(event, body, vital=vital)

    def note_metered(self) -> None:
        """Take down what was metered so far, for an agent that says nothing of it while it works."""
        usd = self.budget.known_usd
        if self._shown_usd is None or usd is None or usd <= self._shown_usd:
            return
        self._shown_usd = usd
        event = Spent(self._metered_tokens(), computed_usd=dollars(usd))
        self._write(event, ENCODER.encode(event), vital=True)

    def _write(self, event: Event, body: bytes, *, vital: bool) -> None:
        if len(body) > MOST_TEXT:
            event = _cut(event)
            body = ENCODER.encode(event)
        self._bytes += len(body)
        if not self._has_room(vital=vital):
            return
        if self._events == MOST_EVENTS:
            event = Noted("it says too much: the rest is in its raw log only")
            body = ENCODER.encode(event)
        run, node = self.record.run, self.record.node
        self._store.note_encoded(run, body, at=time.time(), node=node, attempt=self.attempt.id)
        tell(self._listen, RunEvent(run, node, self.attempt.id, event))

    def _back_at(self) -> float | None:
        """Return when its account may be asked again: as its provider said, or as a window that is used up says."""
        return self.back_at() or max(self._full.values(), default=None)

    def _note_quota(self, event: QuotaReported) -> None:
        """Remember the state of a window of its account."""
        now = time.time()
        used = None if event.used is None else min(1.0, max(0.0, event.used))
        resets = event.resets if event.resets and now < event.resets < now + FAR else None
        window = QuotaWindow(agent=self.attempt.known_as, name=event.window, used=used, resets=resets, at=now)
        self._full.pop(event.window, None)
        if used == 1.0 and resets:
            self._full[event.window] = resets
        if self.has_account and used is not None:
            self._store.accounts.see([window])

    def windows(self) -> list[QuotaWindow]:
        """Return the state of the windows of its account, as its provider or its agent reported last."""
        return account_windows(self._store, (self.attempt.known_as,))

    def settle_tokens(self) -> None:
        """Use the metered tokens for a turn whose usage the agent did not report, or not in full."""
        metered = self._metered_tokens()
        complete = self.ended is not None and self.ended.ok
        if self.attempt.tokens == self._tokens_before or (not complete and metered.total > self.attempt.tokens.total):
            self.attempt.tokens = metered

    def _metered_tokens(self) -> Tokens:
        return self._tokens_before + self.budget.metered_tokens.less(self._metered_before).within_limits

    def cooldown(self) -> tuple[float, str] | None:
        """Return until when its agent's quota is used up, as any run found out; None if it is not."""
        return self._store.cooldown(self.attempt.known_as, time.time()) if self.has_account else None

    def read_back(self) -> bool:
        """Hear once more what was stored of it; return whether it had said its last word."""
        for event in self.story():
            self._act_on(event)
        return self.ended is not None

    def skip_known(self, hear: Callable[[Event], None]) -> Callable[[Event], None]:
        """Return what passes on events that are not stored yet: an agent is read again from its first line."""
        known = Counter(self._mark(event) for event in self.story())

        def pass_on(event: Event) -> None:
            mark = self._mark(event)
            if known[mark] > 0:
                known[mark] -= 1
            else:
                hear(event)

        return pass_on

    def _mark(self, event: Event) -> bytes:
        """Return what an event has in common with what is stored of it."""
        if isinstance(event, Spent):
            event = structs.replace(event, computed_usd=None)
        elif isinstance(event, Limited):
            event = structs.replace(event, until=None)
        body = ENCODER.encode(self.redactor.value(event))
        return body if len(body) <= MOST_TEXT else ENCODER.encode(_cut(event))

    def story(self) -> Iterator[Event]:
        """Yield what is stored of this attempt, oldest first, and before it of those whose work it continues."""
        self._store.flush()
        befores = {each.attempt.id: each.continues for each in self._store.attempts(self.record.run)}
        chain, at = {self.attempt.id}, self.record.continues
        while at is not None and at not in chain:
            chain.add(at)
            at = befores.get(at)
        after = 0
        while batch := self._store.events(self.record.run, after):
            after = batch[-1].seq
            yield from (stored.event() for stored in batch if stored.attempt in chain)

    def _has_room(self, *, vital: bool) -> bool:
        if vital:
            self._vital += 1
            return self._vital <= MOST_VITAL
        self._events += 1
        return self._events <= MOST_EVENTS and self._bytes < MOST_BYTES

    def _act_on(self, event: Event) -> None:
        match event:
            case Started():
                self._begin(event)
            case Spent():
                self._spend(event)
            case SteerTaken(text=text) if text in self.record.steers:
                left = list(self.record.steers)
                left.remove(text)
                self.record.steers = tuple(left)
                self.step(self.record.phase)
            case Limited(until=until, message=message):
                self.record.until = until
                self._store.accounts.learn_quota(
                    self.attempt.known_as, self.attempt.model, until, message[:MOST_REASON], time.time()
                )
                if self.has_account and until is not None and until > time.time():
                    self._store.cool_down(self.attempt.known_as, until, message[:MOST_REASON])
            case Ended():
                self.ended = event
            case Rejected():
                self.new_turn()
            case Condensed(summary=summary):
                self.new_turn()
                self.record.summary, self.attempt.session = summary, None
                self.step(self.record.phase)
            case _:
                pass  # the others change nothing of the record

    def _begin(self, started: Started) -> None:
        known = (self.attempt.session, self.attempt.model)
        self.attempt.session = started.session or self.attempt.session
        self.attempt.model = self.attempt.model or started.model
        if self.gauge is not None:
            self.gauge.model = self.gauge.model or self.attempt.model
        if known != (self.attempt.session, self.attempt.model):
            self.step(self.record.phase)  # by its session the agent can continue after a crash

    def _spend(self, spent: Spent) -> None:
        """Count what it says it spent; money neither comes back nor is minted."""
        self.attempt.tokens = self._tokens_before + spent.tokens.within_limits
        own = usd_or_none(spent.usd)
        usd = None if own is None else usd_or_none(self._usd_before + own)
        if usd is None or usd < (self.attempt.cost.usd or 0.0):
            self.budget.count_reported_tokens(self.attempt.tokens)
            return
        self.attempt.cost = Cost(dollars(usd), "reported")
        self.budget.count_reported(usd, self.attempt.tokens)


def _cut(event: Event) -> Event:
    """Shorten the long texts of an event."""
    long = {
        name: value[:MOST_TEXT] + " [cut]"
        for name in event.__struct_fields__
        if isinstance(value := getattr(event, name), str) and len(value) > MOST_TEXT
    }
    return structs.replace(event, **long)
