"""Merges that are in conflict and wait for the user: what was chosen for which path, and those given up."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import structs

from corral.engine.views.run_status import ABORT, given_up
from corral.model import OPEN, Entry
from corral.model.errors import BadRequest
from corral.model.events import Noted
from corral.model.inbox import BY_DEADLINE
from corral.model.merge import Choice, Conflict, MergeRecord, MergeRequest, Side
from corral.rules.merge import merge as rules
from corral.store.interface import Store
from corral.store.records import merges_in_conflict
from corral.world.git import blobs, resolve_conflicts
from corral.world.git.merge_commits import MergeResult
from corral.world.git.repository import Repository

SIDES: dict[str, Side] = {"ours": "ours", "theirs": "theirs", "base": "base"}


class OpenConflicts:
    """The merges of one run that are in conflict: one for each branch at most."""

    def __init__(self, store: Store, run: str) -> None:
        self.store, self.run = store, run

    def of(self, ref: str) -> MergeRecord | None:
        """Return the merge into a branch that waits for its conflicts to be settled."""
        return next((record for record in self.all() if record.ref == ref), None)

    def all(self) -> list[MergeRecord]:
        found, now = self.store.merges.of_run(self.run), time.time()
        if self.store.status(self.run) not in OPEN:  # a run that is not over ends what was given up itself
            found = [each for each in found if not given_up(self.store, each, now)]
        return merges_in_conflict(found)

    def last(self) -> MergeRecord | None:
        found = self.all()
        return found[-1] if found else None

    def keep(self, record: MergeRecord) -> MergeRecord:
        """Store what is in conflict, and put it before a user."""
        before = self.of(record.ref)
        record = self.store.merges.add(record) if before is None else structs.replace(record, id=before.id)
        self.store.merges.save(record)
        question = rules.question(record, time.time())
        with self.store.transaction():
            if (entry := self.store.inbox.of_key(question.key)) and not entry.is_open:
                self.store.inbox.free(question.key)  # that answer did not settle it: a user is asked once more
            self.store.inbox.ask(question, time.time())
        return record

    def over(self, ref: str, words: str, by: str) -> None:
        """Forget what waits for a branch that was moved since by a merge of the run, or back: it is not so any more."""
        for record in self.store.merges.of_run(self.run):
            if record.ref == ref and record.state == "conflict":
                self.drop(record, words, by)

    def drop(self, record: MergeRecord, words: str, by: str = "corral merge") -> None:
        """Forget a merge that is settled or given up; its question needs no answer any more."""
        self.store.merges.drop(record)
        key = rules.question(record, 0.0).key
        for entry in self.store.inbox.of_run(self.run):
            if entry.key == key and entry.is_open:
                self.store.inbox.answer(entry.id, words, by, time.time())
        self.store.inbox.free(key)  # the next merge in conflict may have the same number

    def answer(self, record: MergeRecord) -> Side | None:
        """Return what a user has answered to a conflict: a side for all of it."""
        key = rules.question(record, 0.0).key
        return next(
            (SIDES[entry.answer] for entry in self.store.inbox.of_run(self.run)
             if entry.key == key and entry.answer in ("ours", "theirs")), None,
        )  # fmt: skip


class ConflictChoices:
    """What was chosen for paths in conflict, now or before; a choice counts for the very versions it was made for."""

    def __init__(self, repository: Repository, request: MergeRequest, waiting: MergeRecord | None) -> None:
        self._repository = repository
        self._asked = {**dict(request.resolve), **{path: None for path, _ in request.texts}}
        self._texts = dict(request.texts)
        self._before = waiting.choices if waiting else ()
        self._new: list[tuple[str, Choice]] = []
        self.answer: Side | None = None  #: for all that nothing else was chosen for
        self.settled: dict[str, tuple[Conflict, Choice]] = {}

    @property
    def all(self) -> tuple[tuple[str, Choice], ...]:
        """What is to be kept with a merge that still waits."""
        return (*self._before, *self._new)

    @property
    def new(self) -> bool:
        return bool(self._new)

    async def settle(self, merged: MergeResult) -> MergeResult:
        """Put what was chosen in its place; the rest stays in conflict."""
        chosen: dict[str, Choice] = {}
        for conflict in merged.conflicts:
            if choice := await self._choice(conflict):
                chosen[conflict.path] = choice
                self.settled[conflict.path] = conflict, choice
        return await resolve_conflicts.settle(self._repository, merged, chosen) if chosen else merged

    def check(self, left: tuple[Conflict, ...]) -> None:
        """Refuse a choice for a path that is in no conflict."""
        known = {path for path, _ in self._before} | set(self.settled)
        for path in self._asked:
            if path not in known:
                names = ", ".join(conflict.path for conflict in left) or "nothing"
                raise BadRequest(f"--resolve {path}: that is not in conflict", hint=f"in conflict: {names}")

    async def _choice(self, conflict: Conflict) -> Choice | None:
        if conflict.path in self._asked:
            choice = structs.replace(await self._make_choice(conflict), of=conflict.blobs)
            self._new.append((conflict.path, choice))
            return choice
        for path, choice in reversed(self._before):
            if path == conflict.path and choice.of in (None, conflict.blobs):
                return choice
        return Choice(side=self.answer) if self.answer else None

    async def _make_choice(self, conflict: Conflict) -> Choice:
        if conflict.path in self._texts:
            if resolve_conflicts.is_submodule(conflict):
                raise BadRequest(f"{conflict.path} is a submodule: it has no text", hint="choose ours or theirs")
            content = await self._like(self._texts[conflict.path], conflict)
            return Choice(blob=await resolve_conflicts.keep_file(self._repository, content))
        text = self._asked[conflict.path] or ""
        if text in SIDES:
            return Choice(side=SIDES[text])
        file = Path(text).expanduser()
        if not file.is_file():
            raise BadRequest(
                f"--resolve: there is no file {text}", hint="say ours, theirs, base, or a file that has the answer"
            )
        return Choice(blob=await resolve_conflicts.keep_file(self._repository, file.read_bytes()))

    async def _like(self, text: str, conflict: Conflict) -> bytes:
        """Return a text with the line endings that both sides have: what comes from a form has its own."""
        found = await blobs.contents(self._repository, [blob for blob in conflict.blobs[1:] if blob])
        content = text.encode(errors="surrogateescape")
        sides = [side for side in found.values() if b"\n" in side]
        plain = content.replace(b"\r\n", b"\n")
        if sides and all(side.count(b"\r\n") == side.count(b"\n") for side in sides):
            return plain.replace(b"\n", b"\r\n")
        return content if any(b"\r\n" in side for side in sides) else plain


def end_expired(store: Store, run: str | None = None, *, running: bool = False) -> list[str]:
    """Forget the merges that were given up, of a run or of all; note in its log why. Return that, in words.

    A run that is not over ends its own merges itself, as one of its nodes; then `running` is true.
    """
    now = time.time()
    if not any(given_up(store, record, now) for record in store.merges.list_conflicting(run)) or not store.writable:
        return []
    ended: list[str] = []
    with store.transaction():
        store.inbox.answer_due(now)
        for record in store.merges.list_conflicting(run):
            entry = given_up(store, record, now)
            if entry is None or (store.run(record.run).status in OPEN) != running:
                continue
            words = _expiry_words(record, entry)
            OpenConflicts(store, record.run).drop(record, ABORT)
            store.inbox.note_outcome(entry.id, f"nothing was moved; to try again: corral merge {record.run}")
            store.note(record.run, Noted(words), at=now)
            ended.append(words)
    if ended:
        store.flush()
    return ended


def _expiry_words(record: MergeRecord, entry: Entry) -> str:
    names = ", ".join(conflict.path for conflict in record.conflicts[:5])
    late = entry.answered_by == BY_DEADLINE
    why = "nobody settled it in time" if late else f"given up by {entry.answered_by}"
    return f"the merge into {record.into} has ended: it was in conflict in {names}, and {why}"
