"""What we say of the server: who may use it, what waits to be taken up, what starts by itself, whom it tells."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, get_args

from msgspec import Struct, field

from corral.model import Grade, Request, Status
from corral.model.events import StoredEvent
from corral.model.forge import ForgeKind

DeliveryState = Literal["waiting", "delivered", "dead"]  #: of a webhook
AccessScope = Literal["read", "run", "merge", "admin"]
SCOPES: tuple[AccessScope, ...] = get_args(AccessScope)


class Token(Struct, frozen=True, kw_only=True):
    """Who may use the server, and for what. The secret itself is shown once and never stored."""

    id: str
    name: str
    scopes: tuple[AccessScope, ...]
    created: float
    used: float | None = None
    revoked: float | None = None

    def may(self, scope: AccessScope) -> bool:
        """Admin may everything; every token may read."""
        return scope == "read" or scope in self.scopes or "admin" in self.scopes


class QueuedRun(Struct, frozen=True, kw_only=True):
    """A run that no process has taken up yet."""

    run: str
    priority: int
    place: float
    by: str
    at: float
    git_dir: str = ""  #: of its repository, on the machine where it was made
    waits: str = ""  #: why no server takes it up, if that is known


class Ticket(Struct, frozen=True, kw_only=True):
    """How a run is put into the queue: by whom, how urgent, and under which key, so that it is not made twice."""

    by: str
    priority: int = 0
    key: str | None = None


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs of all to list, newest first."""

    most: int = 50
    before: str | None = None  #: older than this run
    statuses: tuple[Status, ...] = ()
    repo: str | None = None
    git_dir: str | None = None  #: of the repository itself, whichever of its checkouts a run was started in
    agent: str | None = None
    words: str | None = None  #: in its task or its name
    since: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])  #: an empty value fits any
    top_level: bool = False  #: none that an agent of another run started
    unmerged: bool = False  #: only runs whose work is on no branch of the user's


class LoggedEvent(Struct, frozen=True):
    """An event of any run where it is in the one log."""

    run: str
    stored: StoredEvent


class QueueState(Struct, frozen=True, kw_only=True):
    """What waits to be taken up, and how it is taken up."""

    held: bool
    concurrency: int
    count: int
    waiting: tuple[QueuedRun, ...]


class ServerRecord(Struct, frozen=True, kw_only=True):
    """Which process serves a store, and where."""

    owner: str
    place: str  #: its machine and state folder
    address: str
    resumes: bool = True  #: continues by itself with runs that were left


class ScheduleRecord(Struct, frozen=True, kw_only=True):
    """A request that is made again and again, by the clock."""

    name: str
    cron: str
    zone: str = "UTC"
    request: Request
    by: str = ""
    most_open: int = 1  #: it waits while so many of its runs are not over
    per_day: int = 24
    enabled: bool = True
    last_at: float | None = None
    last: str = ""  #: the run it started last, or why it did not


class TriggerRecord(Struct, frozen=True, kw_only=True):
    """A request that is made when another program calls, or when a branch moves.

    `{{payload.…}}` in its texts is filled from what was sent, or from where the branch went.
    """

    name: str
    secret: str  #: with which calls are signed
    request: Request
    by: str = ""
    when: str = ""  #: a condition over `payload` and `event`, as in flows; empty: always
    approve: str = ""  #: for how long a user is asked before it starts, as `60m`; empty: nobody is asked
    approve_unless: str = ""  #: a condition as `when`: where it holds, nobody is asked
    forge: ForgeKind | None = None  #: it is called by this forge, about issues and pull requests of the repository
    on: tuple[str, ...] = ()  #: of a forge: `label:NAME` of an issue, `comment:WORD` that a comment begins with
    who: tuple[str, ...] = ()  #: of a forge: users that may start it, `@write` and `association:NAME`; nobody else
    branch: str = ""  #: of the request's repository, that is watched; empty: only calls count
    seen: str = ""  #: the commit at which that branch was seen last
    most_open: int = 4
    per_hour: int = 30
    enabled: bool = True
    last_at: float | None = None
    last: str = ""  #: of the watched branch: the run it started last, or why it did not


class WebhookRecord(Struct, frozen=True, kw_only=True):
    """Whom we tell of what happens."""

    id: str
    url: str
    secret: str  #: with which we sign
    types: tuple[str, ...] = ()  #: of events, as run.done; empty: all
    created: float = 0.0
    enabled: bool = True


class Delivery(Struct, frozen=True, kw_only=True):
    """One delivery to one webhook, and its result."""

    id: str
    webhook: str
    type: str
    state: DeliveryState
    tries: int
    next_at: float
    at: float
    answer: str
    body: bytes = b""


class Callback(Struct, frozen=True, kw_only=True):
    """The one post that a run owes to a web address, when it is over or waits for an answer."""

    run: str
    id: str  #: the same at every try
    url: str
    state: Literal["asked", "waiting", "delivered", "dead"] = "asked"  #: asked: the run is not over
    body: bytes = b""
    tries: int = 0
    next_at: float = 0.0
    answer: str = ""


ListedMerge = Literal["ready", "conflict", "merged", "undone"]


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run as every list shows it: `ls --json`, the page, HTTP and MCP."""

    run: str
    name: str | None
    labels: Mapping[str, str]
    status: Status
    reason: str | None
    strategy: str
    task: str
    repo: str
    agents: tuple[str, ...]
    started: str
    seconds: float | None
    cost: dict[str, float | None]
    orphaned: bool = False  #: its process is gone
    answered: bool = False  #: it was left waiting for an answer, and has it by now
    grade: Grade | None = None  #: of the weakest of its winners, in short lists
    merge: ListedMerge | None = None  #: what became of its work, in short lists; null where there is none

    @property
    def created(self) -> float:
        """When it was asked for, in seconds."""
        return datetime.fromisoformat(self.started).timestamp()

    @property
    def usd(self) -> float | None:
        """What it is known to have cost."""
        return self.cost["usd"]

    @property
    def title(self) -> str:
        """Its name, or else its task."""
        return self.name or self.task


class RunPage(Struct, frozen=True, kw_only=True):
    runs: list[RunSummary]
    next: str | None  #: give it as `before` to get what is older


class Diff(Struct, frozen=True, kw_only=True):
    """What an attempt changed."""

    attempt: str
    commit: str | None
    files_changed: tuple[str, ...]
    insertions: int
    deletions: int
    patch: str
    cut: bool = False  #: it is longer than is shown
