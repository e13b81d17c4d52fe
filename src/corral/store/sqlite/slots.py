"""Which attempts are at work, in all processes of this store, and which runs would begin more."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from corral.model import ENCODER, HeldSlot, SlotDemand, SlotLimits
from corral.store.records import SlotOwner, SlotsSeen, lease_left
from corral.store.sqlite.database import Database


class SqliteSlots:
    """The slots that all processes of this store share."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def look(self, now: float) -> SlotsSeen:
        """Return who is at work and who waits; whoever waits must be heard of, or one that hangs would hold up all."""
        held = tuple(HeldSlot(row["run"], row["agent"], row["repo"]) for row in self._store.rows("slots"))
        wants = tuple(
            SlotDemand(
                run=row["run"],
                agent=row["agent"],
                repo=row["repo"],
                count=row["count"],
                priority=row["priority"],
                since=row["since"],
                limits=msgspec.json.decode(row["limits"], type=SlotLimits),
            )
            for row in self._store.rows("slot_wants")
            if lease_left(row["lease_until"], now)
        )
        return SlotsSeen(held, wants)

    def free_dead(self, mine: SlotOwner, now: float, alive: Callable[[str], bool | None]) -> None:
        """Free what processes held that are gone; of another machine's one learns by the lease."""
        found = [*self._store.rows("slots"), *self._store.rows("slot_wants")]
        leases = {row["owner"]: row["lease_until"] for row in found if row["owner"] != mine.owner}
        for owner, until in leases.items():
            here = alive(owner)
            if here is False or (here is None and not lease_left(until, now)):
                self._store.do("free_slots_of_owner", owner=owner)
                self._store.do("drop_slot_wants_of_owner", owner=owner)

    def hold(self, mine: SlotOwner, attempt: str, agent: str) -> None:
        self._store.do("hold_slot", attempt=attempt, run=mine.run, owner=mine.owner, agent=agent, repo=mine.repo)

    def free(self, attempt: str) -> None:
        self._store.do("free_slot", attempt=attempt)

    def want(self, mine: SlotOwner, wanted: SlotDemand) -> None:
        """Remember that a run would begin more of an agent."""
        self._store.do(
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

    def unwant(self, run: str, agent: str) -> None:
        self._store.do("drop_slot_want", run=run, agent=agent)

    def take_over(self, mine: SlotOwner) -> None:
        """Free what any other owner of a run holds and waits for: slots, and files that its agents claimed."""
        with self._store.transaction():
            self._store.do("release_claims_of_others", run=mine.run, owner=mine.owner)
            self._store.do("free_slots_of_others", run=mine.run, owner=mine.owner)
            self._store.do("drop_slot_wants_of_others", run=mine.run, owner=mine.owner)

    def leave(self, mine: SlotOwner) -> None:
        """Free all that a run holds and waits for: this process does not drive it any more, another one may."""
        with self._store.transaction():
            self._store.do("free_slots_of_run", run=mine.run, owner=mine.owner)
            self._store.do("drop_slot_wants_of_run", run=mine.run, owner=mine.owner)
