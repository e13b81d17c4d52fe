"""What the store hands out besides the data of the model: lines of listings, leases, mail, slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from corral.model import HeldSlot, SlotDemand, Status
from corral.model.merge import MergeRecord

LEASE_SECONDS = 15.0  #: how long a run belongs to a process that says nothing
LEASE_AHEAD_SECONDS = 60.0  #: a lease that ends later than this after a whole one is from before the clock was set back


class StoreReport(Struct, frozen=True, kw_only=True):
    """How a store is: sound or not, its version and its size."""

    kind: str  #: sqlite
    where: str
    sound: bool
    problem: str | None  #: what is wrong, if it is not sound
    writable: bool
    schema: int  #: the newest migration that it has
    bytes: int
    runs: int
    attempts: int
    events: int


class RunLine(Struct, frozen=True, kw_only=True):
    """A run as a listing shows it."""

    run: str
    name: str | None
    labels: Mapping[str, str]
    status: Status
    reason: str | None
    created: float
    ended: float | None
    seconds: float | None  #: None until it is over
    repo: str
    strategy: str
    task: str
    agents: tuple[str, ...]
    usd: float | None
    owner: str | None
    lease_until: float
    answered: bool = False  #: it was left waiting for an answer, and has it by now


def engine_place(owner: str, home: Path) -> str:
    """Return the machine and state folder of an engine: one serves each, and their repositories are noted by it."""
    return f"{machine_of(owner)}:{home}"


def machine_of(name: str) -> str:
    """Return the machine in the name of a process, or in an engine's place."""
    return name.partition("/")[0].partition(":")[0]


def lease_left(until: float, now: float) -> float:
    """Return for how many seconds more a lease holds; 0 for one that ends too late to be true."""
    left = until - now
    return left if 0 < left <= LEASE_SECONDS + LEASE_AHEAD_SECONDS else 0.0


class SlotOwner(Struct, frozen=True, kw_only=True):
    """A run, and the process that drives it."""

    run: str
    owner: str
    repo: str


class SlotsSeen(Struct, frozen=True):
    """All of it at one moment, but for what belongs to the dead."""

    held: tuple[HeldSlot, ...] = ()
    demands: tuple[SlotDemand, ...] = ()


class Child(Struct, frozen=True, kw_only=True):
    """A run and the attempt that spawned it."""

    run: str
    root: str
    parent: str
    node: str
    attempt: str
    depth: int
    budget_usd: float | None
    at: float


class MailMessage(Struct, frozen=True, kw_only=True):
    """A message as it is written; it lies in one box."""

    run: str
    box: str
    sender: str
    sender_run: str
    sender_attempt: str
    thread: str
    priority: int
    text: str
    at: float
    id: int = 0
    holder: str | None = None
    lease_until: float = 0.0
    deliveries: int = 0
    read_at: float | None = None


class Reader(Struct, frozen=True):
    """Whose boxes are looked into: those of its node, and its own."""

    run: str
    node: str
    attempt: str


# --- the merges of one run, oldest first


def latest_merge(records: Sequence[MergeRecord]) -> MergeRecord | None:
    """Return the record that gives the present state."""
    ended = [record for record in records if record.state != "begun"]
    moved = [record for record in ended if record.before != record.after]
    return (moved or ended)[-1] if ended else None


def merges_in_conflict(records: Sequence[MergeRecord]) -> list[MergeRecord]:
    """Return the merges that wait for a user: where the last into a branch is in conflict."""
    by_branch: dict[str, list[MergeRecord]] = {}
    for record in records:
        by_branch.setdefault(record.ref, []).append(record)
    last = [latest_merge(of_branch) for of_branch in by_branch.values()]
    return sorted((each for each in last if each and each.state == "conflict"), key=lambda each: each.id)


def merged_last(records: Sequence[MergeRecord]) -> MergeRecord | None:
    """Return the last merge that holds: whatever clashed or was undone since, its work is there."""
    effective = [record for record in records if record.state in ("merged", "undoing")]
    moved = [record for record in effective if record.before != record.after]
    since = max((record.id for record in records if record.state == "undone"), default=0)
    return (moved or [record for record in effective if record.id > since] or [None])[-1]


def run_seconds(created: float, ended: float | None, seconds: float | None) -> float | None:
    """Return how long a run took; an older store has only the times of its wall clock."""
    return seconds if ended is None or seconds is not None else round(max(0.0, ended - created), 3)
