"""From a request to a run: check it, open it here, or leave it to whichever process takes it up."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from msgspec import structs

from corral import amounts
from corral.attempt import repositories
from corral.attempt.repositories import repository_of
from corral.engine.budget.money import Money
from corral.engine.context import Context, Say, Vet
from corral.engine.planning import submit
from corral.engine.planning.git_state_cache import GitStateCache
from corral.engine.planning.submit import RunSubmission
from corral.model import ENCODER, Request, RunPlan, RunRecord, TrackRecord
from corral.model.errors import Conflicting, CorralError, Stopped
from corral.model.flow import TaskType
from corral.model.server import Ticket
from corral.rules.text import names
from corral.store.interface import Store
from corral.store.records import LEASE_SECONDS
from corral.world import clock
from corral.world.git import hidden_refs
from corral.world.git.repository import Repository

MOST_WAITING = 100_000  #: runs in the queue
MOST_MOVES = 50  #: of a branch while a request is prepared


class Requests:
    """Requests of users, until they are runs."""

    def __init__(self, context: Context, money: Money, stopping: Callable[[], str | None]) -> None:
        self._context, self._money, self._stopping = context, money, stopping
        self._git_states = GitStateCache()

    def folder(self, repo: str) -> Path:
        """Return the folder that a request names."""
        return submit.folder_of(Request(repo=repo))

    async def prepare(self, request: Request) -> RunSubmission:
        """Check a request as `submit` does; nothing is started."""
        _ = self._context.store
        return await submit.prepare(request, self._context.home, self.track_records, self._git_states)

    async def submit(self, request: Request, say: Say) -> str:
        """Check a request and open its run, owned by this process; from here on a crash loses nothing."""
        self._money.refuse_halted()
        run = _new_id()
        async with self._pin_base(request, run) as submission:
            if stopping := self._stopping():
                raise Stopped(f"{stopping} before anything was started")
            for note in (*submission.notes, *await self._unknown_work(submission.plan)):
                say(note)
            with self._context.store.transaction():
                self._context.store.add_run(_record(run, submission.plan, self._context.owner))
                self._note_repository(submission.plan)
                _add_callback(self._context.store, run, request)
        return run

    async def enqueue(
        self, request: Request, ticket: Ticket, say: Say = lambda _: None, vet: Vet = lambda _: None
    ) -> str:
        """Check a request and leave its run to whichever process takes it up; `vet` may refuse what came of it."""
        self._money.refuse_halted()
        run = _new_id()
        async with self._pin_base(request, run, vet) as submission:
            for note in submission.notes:
                say(note)
            plan = structs.replace(submission.plan, priority=ticket.priority or submission.plan.priority)
            with self._context.store.transaction():
                made = _enqueue(self._context.store, _record(run, plan, None), ticket, request)
                self._note_repository(plan)
        if made != run:  # the same was asked for at the same time
            await _unpin(submission.plan, self._context.home, run)
        return made

    def _note_repository(self, plan: RunPlan) -> None:
        """Let engines on other machines know who has the repository of a run."""
        self._context.store.repositories.note(plan.git_dir, self._context.place, time.time())

    @contextlib.asynccontextmanager
    async def _pin_base(self, request: Request, run: str, vet: Vet = lambda _: None) -> AsyncGenerator[RunSubmission]:
        """Prepare a request and hold its base for the run that is opened meanwhile; not where none is."""
        submission = await self._prepare_pinned(request, run, vet)
        try:
            yield submission
        except BaseException:
            await _unpin(submission.plan, self._context.home, run)
            raise
        finally:
            repositories.forget_pending_pin(self._context.home, run)

    async def _prepare_pinned(self, request: Request, run: str, vet: Vet) -> RunSubmission:
        """Prepare a request and hold its base; where that moved meanwhile, hold the new one first."""
        submission = await self.prepare(request)
        vet(submission.plan)
        if submission.keyed:
            from corral.machines import key_trial  # noqa: PLC0415 -- most agents have none

            await key_trial.check(submission.keyed, self._context.home)
        if submission.plan.base is None or await self._pin(submission.plan, submission.plan.base, run, request):
            return submission
        held = await self._pin_moving(submission.plan, run, request)
        try:
            glances = None  # what was said of another commit does not hold for this one
            submission = await submit.prepare(request, self._context.home, self.track_records, glances, held)
            vet(submission.plan)
        except BaseException:
            await _unpin(submission.plan, self._context.home, run)
            raise
        return submission

    async def _pin_moving(self, plan: RunPlan, run: str, request: Request) -> str:
        """Hold the commit that a moving branch is at; nothing but that is done between two looks at it."""
        repository = repository_of(plan, self._context.home)
        for _ in range(MOST_MOVES):
            commit = await repository.commit_of(request.base or "HEAD")
            if commit and await self._pin(plan, commit, run, request):
                return commit
        raise Conflicting(f"{request.repo}: its HEAD moves all the time", hint="name a commit with --base")

    async def _pin(self, plan: RunPlan, commit: str, run: str, request: Request) -> bool:
        """Hold a commit if it still is the base; looked at before as well: a ref to nothing breaks `git gc`."""
        repository, named = repository_of(plan, self._context.home), request.base
        if not request.with_changes and not await _is_at(repository, commit, plan.into, named):
            return False
        repositories.note_pending_pin(self._context.home, run, self._context.owner, plan)
        await hidden_refs.pin(repository, run, commit)
        if request.with_changes or await _is_at(repository, commit, plan.into, named):
            return True
        await _unpin(plan, self._context.home, run)
        return False

    async def _unknown_work(self, plan: RunPlan) -> list[str]:
        """Return a note if a store without runs meets a repository that holds work of runs."""
        store = self._context.store
        if not store.is_empty():
            return []
        found = await hidden_refs.list_snapshots(repository_of(plan, store.folder), ["refs/corral/attempts"])
        if not found:
            return []
        work = f"this repository holds the work of {amounts.count(len(found), 'attempt')} (refs/corral)"
        return [f"{work} that the store in {store.folder} does not know; it and its branches stay as they are"]

    def before(self, request: Request, ticket: Ticket) -> str | None:
        """Return the run that was made for the same request under the same key already."""
        return _before(self._context.store, ticket, request)

    def track_records(self, kind: TaskType | None) -> list[TrackRecord]:
        """Return how agents did tasks of a type here before."""
        return self._context.store.history.track_records(kind)


async def _unpin(plan: RunPlan, home: Path, run: str) -> None:
    with contextlib.suppress(CorralError, OSError):
        await hidden_refs.remove(repository_of(plan, home), run)


def _new_id() -> str:
    return names.run_id(int(time.time() * 1000), int.from_bytes(os.urandom(4)))


async def _is_at(repository: Repository, commit: str, branch: str | None, named: str | None) -> bool:
    """Tell whether a base still is where it was found: seen after its ref was written, no `git gc` can have it."""
    with contextlib.suppress(OSError):
        if not named and branch and (repository.git_dir / "refs" / "heads" / branch).read_text().strip() == commit:
            return True
    if not (repository.folder / ".git").exists() and repository.folder != repository.git_dir:
        return True  # a plain folder: nobody else writes to what is behind it
    return await repository.commit_of(named or "HEAD") == commit


def _record(run: str, plan: RunPlan, owner: str | None) -> RunRecord:
    now = time.time()
    return RunRecord(
        id=run,
        status="queued",
        reason=None,
        plan=plan,
        created=now,
        clock=clock.reading(),
        owner=owner,
        lease_until=now + LEASE_SECONDS if owner else 0.0,
    )


def _before(store: Store, ticket: Ticket, request: Request) -> str | None:
    """Return the run that was made for this key already."""
    if ticket.key is None or (found := store.queue.find_submission(ticket.key)) is None:
        return None
    if found[0] != _digest(request):
        raise Conflicting("this key was used for another request", hint="a key stands for one request; make a new one")
    return found[1]


def _enqueue(store: Store, record: RunRecord, ticket: Ticket, request: Request) -> str:
    """Put a run into the queue; of two at once with the same key the first counts."""
    if store.queue.count() >= MOST_WAITING:
        raise Conflicting(f"{MOST_WAITING} runs wait already", hint="see `corral queue`")
    with store.transaction():
        if (run := _before(store, ticket, request)) is not None:
            return run
        key = (ticket.key, _digest(request)) if ticket.key else None
        store.add_run(record)
        _add_callback(store, record.id, request)
        store.queue.enqueue(record, priority=ticket.priority, by=ticket.by, key=key)
    return record.id


def _add_callback(store: Store, run: str, request: Request) -> None:
    if request.callback is not None:
        store.automation.ask_callback(run, request.callback)


def _digest(request: Request) -> str:
    return hashlib.sha256(ENCODER.encode(request)).hexdigest()
