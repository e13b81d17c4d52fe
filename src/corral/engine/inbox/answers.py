"""Take a person's answer: understood, counted once, and said what follows from it."""

from __future__ import annotations

import time

from corral.engine.budget.money import Money
from corral.engine.planning import redo
from corral.engine.views import run_document, run_status
from corral.model import OPEN, Entry
from corral.model.errors import BadRequest
from corral.model.server import ServerRecord
from corral.rules.merge import merge
from corral.rules.money import limits
from corral.rules.text.questions import match_answer
from corral.store.interface import Store
from corral.world import process_identity

GO_ON = "go on with corral resume"


def take(store: Store, number: str, text: str, by: str) -> Entry:
    """Store an answer; return the entry as it is now."""
    now = time.time()
    store.inbox.answer_due(now)
    entry = store.inbox.find(number)
    if entry is None:
        raise BadRequest(f"nothing in the inbox is called `{number}`", hint="see `corral inbox`")
    said = _attempt(store, entry, text) if entry.about == "choice" else text
    meant = match_answer(entry.choices, said)
    more = entry.about == "budget" and limits.offers_more(entry)
    if more:  # besides its choices: yes, no, any amount
        meant = text.strip() if limits.amount(text, 1.0) is not None else None
    if entry.is_open and meant is None:
        ways = (*entry.choices, "an amount in USD") if more else entry.choices
        hint = f"say one of: {', '.join(ways)}"
        if entry.about == "budget" and not more:
            hint += f"; to go on: {limits.hint(entry)}"
        raise BadRequest(f"`{text}` is no answer to: {entry.text}", hint=hint)
    if meant is None or not store.inbox.answer(number, meant, by, now):
        taken = store.inbox.find(number) or entry
        words = f"{taken.answer} ({taken.answered_by})" if taken.answer else taken.outcome
        raise BadRequest(f"{number} is answered already: {words}", hint="an answer counts once")
    return store.inbox.find(number) or entry


def _attempt(store: Store, entry: Entry, text: str) -> str:
    """Return the attempt that an answer names: by its id, its number, or its agent where only one is of that."""
    if match_answer(entry.choices, text) or any(each.lower() == text.strip().lower() for each in entry.choices):
        return text
    return merge.attempt_named(run_document.build(store, entry.run), text, entry.choices) or text


def note_consequence(store: Store, money: Money, entry: Entry) -> Entry:
    """Say what follows from an answer where nobody is there to hear it; whoever hears it says it itself."""
    status, driven = _state(store, entry.run)
    if entry.about == "budget" and (words := money.allow(entry)):
        store.inbox.note_outcome(entry.id, words)
        return store.inbox.find(entry.id) or entry
    if not driven and (status in OPEN or status in ("limited", "over_budget")):
        store.inbox.note_outcome(entry.id, _by_itself(store, entry) or f"{GO_ON} {entry.run}")
    return store.inbox.find(entry.id) or entry


def hand_to_server(store: Store, entry: Entry) -> Entry:
    """Leave a run that may spend more to the server of its store, if there is one."""
    server = _server(store)
    if not entry.outcome.startswith(GO_ON) or server is None:
        return entry
    with store.transaction():
        redo.wake_up(store, entry.run)
        store.queue.put_back(entry.run, store.run(entry.run).plan.priority, entry.answered_by or "", time.time())
        store.inbox.note_outcome(entry.id, _server_words(server))
    return store.inbox.find(entry.id) or entry


def _by_itself(store: Store, entry: Entry) -> str | None:
    """Say that the server goes on, as it does with a run all of whose gates are answered."""
    server = _server(store)
    if entry.about not in ("gate", "choice") or server is None or not server.resumes:
        return None
    return None if any(each.is_open for each in store.inbox.of_run(entry.run)) else _server_words(server)


def _server(store: Store) -> ServerRecord | None:
    server = store.queue.serving()
    return server if server and process_identity.is_alive(server.owner) is not False else None


def _server_words(server: ServerRecord) -> str:
    return f"the server at {server.address} goes on with it"


def _state(store: Store, run: str) -> tuple[str, bool]:
    record = store.run(run)
    return record.status, not run_status.is_orphaned(record.owner)
