"""What happened: lists of runs, their events, their mail, and what is new since a moment."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field, structs

from corral.engine.context import Context, LocalRuns
from corral.engine.views import run_status
from corral.model import OPEN, Attempt, Grade, Run, Status, moment
from corral.model.errors import StoreTrouble
from corral.model.events import Condensed, Noted, StoredEvent
from corral.model.server import ListedMerge, RunFilter, RunSummary
from corral.rules.context.mail import MOST_DELIVERIES, NAMES, Priority
from corral.store.interface import Store
from corral.store.records import MailMessage, RunLine

if TYPE_CHECKING:
    from corral.engine.views.log_pages import LogPage, LogQuery
    from corral.engine.views.presence import Presence
    from corral.engine.views.run_page import FileStat, RunView
    from corral.model.flow import Flow
    from corral.model.server import LoggedEvent

GRADED_MOST = 200  #: runs of a list that shows grades
MOST_TASK = 2000  #: characters of a task
#: A run is stored with another status than it has: one that asks is stored as running, one whose time to answer is over
#: as waiting.
ALSO_STORED_AS: Mapping[Status, tuple[Status, ...]] = {"waiting": ("running",), "failed": ("waiting",)}

MailState = Literal["waiting", "taken", "read", "dead"]  #: dead: taken again and again, and never acknowledged


class History:
    """All that is read of runs; it needs no event loop, but for `watch` and `at_work`."""

    def __init__(self, context: Context, local_runs: Callable[[], LocalRuns]) -> None:
        self._context, self._local_runs = context, local_runs  # loaded when a user follows a run

    @property
    def _store(self) -> Store:
        return self._context.store

    # --- all runs

    def runs(self, most: int = 1_000_000) -> list[RunSummary]:
        return self.page(RunFilter(most=most))

    def page(self, wanted: RunFilter) -> list[RunSummary]:
        """Return a page of runs, newest first."""
        return run_page_of(self._store, wanted)

    def runs_of(self, folder: Path, statuses: tuple[Status, ...] = (), most: int = 50) -> list[RunSummary]:
        """Return the runs of the repository, or plain folder, that holds `folder`, newest first."""
        git_dir = _git_dir_of(folder)
        place = None if git_dir else str(folder.resolve())
        return self.page(
            RunFilter(most=most, statuses=statuses, git_dir=git_dir and str(git_dir), repo=place, top_level=True)
        )

    def in_repository(self, folder: Path) -> bool:
        """Tell whether a folder belongs to a git repository."""
        return _git_dir_of(folder) is not None

    def run_counts(self) -> dict[str, int]:
        """Return how many runs have each status."""
        return self._store.pages.counts()

    def flow_records(self) -> dict[str, tuple[int, int]]:
        """Return for each flow, by its name, how many runs of it ended and how many of them well."""
        return self._store.history.flow_records()

    def attempt_counts(self) -> list[tuple[str, str, int, float]]:
        """Return agent, status, how many attempts, and what is known of their cost."""
        return self._store.pages.attempt_counts()

    async def at_work(self, name: str | None, folder: Path, asked: Sequence[str] = ()) -> Presence:
        """Return who is at work on which files: of a run, or of all runs of the repository that `folder` is in.

        `asked`: files; the result says who may write them.
        """
        from corral.engine.views import presence  # noqa: PLC0415

        return await presence.at_work(self._store, self._store.find(name) if name else None, folder, asked)

    def export(
        self, name: str | None, say: Callable[[str], None], report: Callable[[int, int], None]
    ) -> Iterator[Run | StoredEvent]:
        """Yield everything: each run's document, then its events. What cannot be read is said, and passed over.

        `report` hears how many runs of how many are done.
        """
        from corral.engine.views import run_document  # noqa: PLC0415 -- a list of runs needs none

        names = [self._store.find(name)] if name else [line.run for line in reversed(self.runs())]
        for place, run in enumerate(names):
            report(place, len(names))
            try:
                yield run_document.build(self._store, run)
                yield from self.events(run)
            except StoreTrouble as trouble:
                say(f"run {run} is not whole: {trouble}")

    # --- one run

    def status(self, run: str) -> Status:
        return self._store.status(run)

    def flow_of(self, name: str) -> Flow:
        """Return what a run carries out."""
        return self._store.run(self._store.find(name)).plan.flow

    def node_states(self, name: str) -> dict[str, Status]:
        """Return the nodes of a run, and the state of each."""
        return {node.id: node.status for node in self._store.nodes(self._store.find(name))}

    def attempts(self, run: str) -> list[Attempt]:
        """Return the attempts of a run as they are stored."""
        return [each.attempt for each in self._store.attempts(run)]

    def note(self, run: str, words: str) -> None:
        """Write a line into the log of a run; who watches it hears of it at once."""
        self._store.note(run, Noted(words), at=time.time())
        self._store.flush()

    def mail(self, name: str) -> list[MailView]:
        """Return the mail that the agents of a run wrote and got."""
        return mail_of_run(self._store, self._store.find(name))

    # --- events

    def log(self, run: str | None, after: int, most: int, node: str | None = None) -> list[LoggedEvent]:
        """Return events of all runs, of one, or of one node of it, oldest first."""
        return self._store.pages.events(run, after, most, node)

    def log_before(self, run: str, before: int, most: int) -> list[LoggedEvent]:
        """Return the events of a run just before a sequence number, oldest first."""
        return self._store.pages.last_events(run, before, most)

    def log_page(self, run: str, wanted: LogQuery) -> LogPage:
        """Return a page of a run's log, narrowed to what is looked for."""
        from corral.engine.views import log_pages  # noqa: PLC0415

        return log_pages.page(self._store, run, wanted)

    def view(self, name: str) -> RunView:
        """Return all that a screen shows of one run."""
        from corral.engine.views import run_page  # noqa: PLC0415

        return run_page.view(self._store, self._context.settings, self._store.find(name))

    async def changed_files(self, found: RunView, attempt: str) -> tuple[FileStat, ...]:
        """Return the files that an attempt of a run changed, and by how much."""
        from corral.engine.views import run_page  # noqa: PLC0415

        return await run_page.files(self._context.home, found, attempt)

    def last_sequence(self) -> int:
        return self._store.pages.last_sequence()

    def events(self, run: str, after: int = 0) -> Iterator[StoredEvent]:
        """Yield what is stored of a run's events, oldest first."""
        while batch := self._store.events(run, after):
            yield from batch
            after = batch[-1].seq

    def summaries(self, name: str) -> Iterator[StoredEvent]:
        """Yield the summaries from which agents of a run continued, oldest first."""
        return (stored for stored in self.events(self._store.find(name)) if isinstance(stored.event(), Condensed))

    def follow(self, name: str, after: int = 0) -> Iterator[StoredEvent]:
        """Yield events as they come, from any process, until the run is over."""
        run = self._store.find(name)
        bell = self._store.watch()
        try:
            while True:
                over = self._store.run(run).status not in OPEN
                for stored in self.events(run, after):
                    after = stored.seq
                    yield stored
                if over or self._local_runs().is_left(run):
                    return
                bell.wait(1.0)
        finally:
            bell.close()

    async def watch(self, name: str, after: int = 0) -> AsyncGenerator[list[StoredEvent]]:
        """Yield what is new each time something was written, from any process, and at least once a second.

        It ends when the run is over, or when nobody drives it any more.
        """
        run, local_runs = self._store.find(name), self._local_runs()
        bell = self._store.watch()
        try:
            while True:
                over = self._store.run(run).status not in OPEN or (run not in local_runs and local_runs.is_left(run))
                new = list(self.events(run, after))
                after = new[-1].seq if new else after
                yield new
                if over:
                    return
                await bell.listen(1.0)
        finally:
            bell.close()


def _git_dir_of(folder: Path) -> Path | None:
    from corral.world.git.discovery import git_dir_of  # noqa: PLC0415 -- slow to load; most lists are of all runs

    return git_dir_of(folder)


class MailView(Struct, frozen=True, kw_only=True):
    """A message, and what became of it."""

    id: int
    run: str
    sender: str = field(name="from")
    to: str
    thread: str
    priority: Priority
    state: MailState
    deliveries: int
    at: str
    read: str | None
    text: str


def mail_of_run(store: Store, run: str) -> list[MailView]:
    return [_mail_view(message) for message in store.mail(MOST_DELIVERIES).of_run(run)]


def _mail_view(message: MailMessage) -> MailView:
    return MailView(
        id=message.id,
        run=message.run,
        sender=message.sender,
        to=message.box,
        thread=message.thread,
        priority=NAMES[message.priority],
        state=_mail_state(message),
        deliveries=message.deliveries,
        at=moment(message.at),
        read=moment(message.read_at) if message.read_at else None,
        text=message.text,
    )


def _mail_state(message: MailMessage) -> MailState:
    if message.read_at is not None:
        return "read"
    if message.deliveries >= MOST_DELIVERIES:
        return "dead"
    return "taken" if message.holder else "waiting"


def run_page_of(store: Store, wanted: RunFilter) -> list[RunSummary]:
    """Return the runs that fit a filter, newest first."""
    stored = tuple(
        dict.fromkeys(each for status in wanted.statuses for each in (status, *ALSO_STORED_AS.get(status, ())))
    )
    asked = structs.replace(wanted, statuses=stored)
    found: list[RunLine] = []
    while True:
        lines = store.pages.runs(asked)
        now = run_status.list_statuses(store, lines)
        found += [line for line in now if not wanted.statuses or line.status in wanted.statuses]
        if len(found) >= wanted.most or len(lines) < asked.most:
            break
        asked = structs.replace(asked, before=lines[-1].run)
    found = found[: wanted.most]
    done = [line.run for line in found if line.status == "done"]
    short = bool(done) and len(found) <= GRADED_MOST
    grades = store.pages.grades(done) if short else dict[str, Grade]()
    merges = store.pages.merge_states(done) if short else dict[str, ListedMerge]()
    return [_summary(line, grades.get(line.run), merges.get(line.run)) for line in found]


def _summary(line: RunLine, grade: Grade | None, merge: ListedMerge | None) -> RunSummary:
    return RunSummary(
        run=line.run,
        name=line.name,
        labels=line.labels,
        status=line.status,
        reason=line.reason,
        strategy=line.strategy,
        task=line.task[:MOST_TASK],
        repo=line.repo,
        agents=line.agents,
        started=moment(line.created),
        seconds=line.seconds,
        cost={"usd": line.usd},
        orphaned=run_status.is_lost(line.status, line.owner, line.lease_until),
        answered=line.answered,
        grade=grade,
        merge=merge,
    )
