"""Which attempts are at work, in all processes of this store, and which runs would begin more."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from corral.model import ENCODER, SlotHeld, SlotLimits, SlotWant
from corral.store.sqlite.store import Store, lease_left


class Mine(Struct, frozen=True, kw_only=True):
    """A run, and the process that drives it."""

    run: str
    owner: str
    repo: str


class Seen(Struct, frozen=True):
    """All of it at one moment, but for what belongs to the dead."""

    held: tuple[SlotHeld, ...] = ()
    wants: tuple[SlotWant, ...] = ()


def look(store: Store, now: float) -> Seen:
    """Return who is at work and who waits; whoever waits must be heard of, or one that hangs would hold up all."""
    held = tuple(SlotHeld(row["run"], row["agent"], row["repo"]) for row in store.rows("slots"))
    wants = tuple(
        SlotWant(
            run=row["run"],
            agent=row["agent"],
            repo=row["repo"],
            count=row["count"],
            priority=row["priority"],
            since=row["since"],
            limits=msgspec.json.decode(row["limits"], type=SlotLimits),
        )
        for row in store.rows("slot_wants")
        if lease_left(row["lease_until"], now)
    )
    return Seen(held, wants)


def free_dead(store: Store, mine: Mine, now: float, alive: Callable[[str], bool | None]) -> None:
    """Free what processes held that are gone; of another machine's one learns by the lease."""
    found = [*store.rows("slots"), *store.rows("slot_wants")]
    leases = {row["owner"]: row["lease_until"] for row in found if row["owner"] != mine.owner}
    for owner, until in leases.items():
        here = alive(owner)
        if here is False or (here is None and not lease_left(until, now)):
            store.do("free_slots_of_owner", owner=owner)
            store.do("drop_slot_wants_of_owner", owner=owner)


def hold(store: Store, mine: Mine, attempt: str, agent: str) -> None:
    store.do("hold_slot", attempt=attempt, run=mine.run, owner=mine.owner, agent=agent, repo=mine.repo)


def free(store: Store, attempt: str) -> None:
    store.do("free_slot", attempt=attempt)


def want(store: Store, mine: Mine, wanted: SlotWant) -> None:
    """Remember that a run would begin more of an agent."""
    store.do(
        "want_slot",
        run=mine.run,
        agent=wanted.agent,
        owner=mine.owner,
        repo=mine.repo,
        count=wanted.count,
        priority=wanted.priority,
        since=wanted.since,
        limits=ENCODER.encode(wanted.limits),
    )


def unwant(store: Store, run: str, agent: str) -> None:
    store.do("drop_slot_want", run=run, agent=agent)


def take_over(store: Store, mine: Mine) -> None:
    """Free what any other owner of a run holds and waits for: slots, and files that its agents claimed."""
    with store.transaction():
        store.do("release_claims_of_others", run=mine.run, owner=mine.owner)
        store.do("free_slots_of_others", run=mine.run, owner=mine.owner)
        store.do("drop_slot_wants_of_others", run=mine.run, owner=mine.owner)


def leave(store: Store, mine: Mine) -> None:
    """Free all that a run holds and waits for: this process does not drive it any more, another one may."""
    with store.transaction():
        store.do("free_slots_of_run", run=mine.run, owner=mine.owner)
        store.do("drop_slot_wants_of_run", run=mine.run, owner=mine.owner)
