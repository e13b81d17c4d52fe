"""The queue of runs that nobody has taken up yet, who can take them up, slots of attempts, and values of the server."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import structs

from corral.model import ENCODER, HeldSlot, RunRecord, SlotDemand, SlotLimits
from corral.model.server import QueuedRun, ServerRecord
from corral.store.records import LEASE_SECONDS, SlotOwner, SlotsSeen, lease_left
from corral.store.sql import Database, Row
from corral.world import process_identity

KEEP_SECONDS = 7 * 86_400.0  #: how long a key is remembered


class RunQueue:
    """Runs that no process has taken up, and values of the server."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def enqueue(self, record: RunRecord, *, priority: int, by: str, key: tuple[str, str] | None = None) -> None:
        """Put a stored run at the end of its priority; and under a key, so that it is not made twice."""
        with self._store.transaction():
            last = self._store.rows("queue_edge", priority=priority)[0]["last"] or 0.0
            self._store.do("enqueue", run=record.id, priority=priority, place=last + 1.0, by=by, at=record.created)
            if key:
                self._store.do("forget_submissions", before=record.created - KEEP_SECONDS)
                self._store.do("add_submission", key=key[0], digest=key[1], run=record.id, at=record.created)

    def put_back(self, run: str, priority: int, by: str, at: float) -> None:
        """Let a run that is known be taken up, at the end of its priority."""
        with self._store.transaction():
            last = self._store.rows("queue_edge", priority=priority)[0]["last"] or 0.0
            self._store.do("leave_queue", run=run)
            self._store.do("enqueue", run=run, priority=priority, place=last + 1.0, by=by, at=at)

    def find_submission(self, key: str) -> tuple[str, str] | None:
        """Return the digest of what was submitted under a key, and its run."""
        rows = self._store.rows("submission", key=key)
        return (rows[0]["digest"], rows[0]["run"]) if rows else None

    def waiting(self, most: int = 1000) -> list[QueuedRun]:
        """Return what waits, in the order in which it is taken up."""
        return [_waiting(row) for row in self._store.rows("waiting_runs", most=most)]

    def find(self, run: str) -> QueuedRun | None:
        rows = self._store.rows("in_queue", run=run)
        return _waiting(rows[0]) if rows else None

    def count(self) -> int:
        return self._store.rows("count_waiting")[0]["count"]

    def leave(self, run: str) -> None:
        """Take a run off the queue: someone drives it."""
        if self._store.rows("in_queue", run=run):
            with self._store.transaction():
                self._store.do("leave_queue", run=run)

    def move(self, run: str, *, priority: int, first: bool, before: str | None = None) -> bool:
        """Give a run another priority, and a place among those of it: the first, the last, or just before another."""
        with self._store.transaction():
            edge = self._store.rows("queue_edge", priority=priority)[0]
            place = (edge["first"] or 0.0) - 1.0 if first else (edge["last"] or 0.0) + 1.0
            if before is not None and (other := self.find(before)) is not None:
                earlier = [
                    each.place for each in self.waiting() if each.priority == priority and each.place < other.place
                ]
                place = ((max(earlier) if earlier else other.place - 2.0) + other.place) / 2
            return self._store.do("place_in_queue", run=run, priority=priority, place=place) == 1

    def value(self, name: str) -> str | None:
        rows = self._store.rows("value", name=name)
        return rows[0]["value"] if rows else None

    def set_value(self, name: str, text: str | None) -> None:
        with self._store.transaction():
            if text is None:
                self._store.do("drop_value", name=name)
            else:
                self._store.do("set_value", name=name, value=text)

    def servers(self, now: float) -> list[ServerRecord]:
        """Return the engines that serve this store and are there, the oldest first."""
        return [server for server, alive in self._known_servers(now) if alive]

    def serve(self, by: ServerRecord, now: float) -> ServerRecord | None:
        """Note an engine that serves this store; return the one instead that serves its place already."""
        with self._store.transaction():
            for server, alive in self._known_servers(now):
                if alive and server.place == by.place and server.owner != by.owner:
                    return server
                if not alive:
                    self._store.do("drop_engine", owner=server.owner)
            until = self._store.to_stored_time(now + LEASE_SECONDS)
            started = self._store.to_stored_time(now)
            self._store.do("put_engine", **structs.asdict(by), started=started, until=until)
        return None

    def renew_serving(self, owner: str, now: float) -> bool:
        """Say that an engine is still there; return whether it is known."""
        with self._store.transaction():
            return (
                self._store.do("renew_engine", owner=owner, until=self._store.to_stored_time(now + LEASE_SECONDS)) == 1
            )

    def stop_serving(self, owner: str) -> None:
        with self._store.transaction():
            self._store.do("drop_engine", owner=owner)

    def _known_servers(self, now: float) -> list[tuple[ServerRecord, bool]]:
        found: list[tuple[ServerRecord, bool]] = []
        for row in self._store.rows("engines"):
            server = ServerRecord(
                owner=row["owner"], place=row["place"], address=row["address"], resumes=bool(row["resumes"])
            )
            fresh = lease_left(self._store.to_local_time(row["until"]), now) > 0
            found.append((server, fresh and process_identity.is_alive(server.owner) is not False))
        return found


def _waiting(row: Row) -> QueuedRun:
    return QueuedRun(
        run=row["run"],
        priority=row["priority"],
        place=row["place"],
        by=row["by"],
        at=row["at"],
        git_dir=row["git_dir"],
    )


class Repositories:
    """Which machines have which repository, each by its path there."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def note(self, git_dir: str, place: str, at: float) -> None:
        """Remember that a machine has a repository."""
        if place not in self.places(git_dir):
            with self._store.transaction():
                self._store.do("note_repository", git_dir=git_dir, place=place, at=at)

    def places(self, git_dir: str) -> list[str]:
        """Return the machines that are known to have a repository, each with its state folder."""
        return [row["place"] for row in self._store.rows("repository_places", git_dir=git_dir)]

    def forget(self, git_dir: str, place: str) -> None:
        """Remember that a machine has a repository no more."""
        with self._store.transaction():
            self._store.do("forget_repository", git_dir=git_dir, place=place)


class Slots:
    """The slots that all processes of this store share."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def look(self, now: float) -> SlotsSeen:
        """Return the active and the waiting engines; a waiting one must be live, or it could hold up all."""
        held = tuple(HeldSlot(row["run"], row["agent"], row["repo"]) for row in self._store.rows("slots"))
        demands = tuple(
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
            if lease_left(self._store.to_local_time(row["lease_until"]), now)
        )
        return SlotsSeen(held, demands)

    def free_dead(self, mine: SlotOwner, now: float, alive: Callable[[str], bool | None]) -> None:
        """Free what processes held that are gone; of another machine's one learns by the lease."""
        found = [*self._store.rows("slots"), *self._store.rows("slot_wants")]
        leases = {
            row["owner"]: self._store.to_local_time(row["lease_until"]) for row in found if row["owner"] != mine.owner
        }
        for owner, until in leases.items():
            here = alive(owner)
            if here is False or (here is None and not lease_left(until, now)):
                self._store.do("free_slots_of_owner", owner=owner)
                self._store.do("drop_slot_wants_of_owner", owner=owner)

    def hold(self, mine: SlotOwner, attempt: str, agent: str) -> None:
        self._store.do("hold_slot", attempt=attempt, run=mine.run, owner=mine.owner, agent=agent, repo=mine.repo)

    def place(self, attempt: str, machine: str | None) -> None:
        """Count an attempt in on a machine; None: here, where machines do not count."""
        self._store.do("place_slot", attempt=attempt, machine=machine)

    def by_machine(self) -> dict[str, int]:
        """Return how many attempts are at work on each other machine."""
        return {row["machine"]: row["count"] for row in self._store.rows("machine_slots")}

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
        """Free what any other owner of a run holds and waits for."""
        with self._store.transaction():
            self._store.do("free_slots_of_others", run=mine.run, owner=mine.owner)
            self._store.do("drop_slot_wants_of_others", run=mine.run, owner=mine.owner)

    def leave(self, mine: SlotOwner) -> None:
        """Free all that a run holds and waits for: this process does not drive it any more, another one may."""
        with self._store.transaction():
            self._store.do("free_slots_of_run", run=mine.run, owner=mine.owner)
            self._store.do("drop_slot_wants_of_run", run=mine.run, owner=mine.owner)
