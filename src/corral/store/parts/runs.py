"""Runs, nodes, attempts and orders in the store: one transaction per state change."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import cast

import msgspec

from corral.model import ENCODER, AttemptRecord, NodeState, Order, RunPlan, RunRecord, Status
from corral.model.errors import BadRequest, NotFound
from corral.model.server import RunFilter
from corral.store.parts.families import Lineage, Mail, Memory
from corral.store.parts.history import Accounts, Chats, History, Programs
from corral.store.parts.inbox import Inbox
from corral.store.parts.ledger import Ledger
from corral.store.parts.merges import ForgeRecords, Merges, Review
from corral.store.parts.pages import Pages
from corral.store.parts.run_queue import Repositories, RunQueue, Slots
from corral.store.parts.server import AccessTokens, Automation
from corral.store.records import LEASE_AHEAD_SECONDS, LEASE_SECONDS, RunLine, run_seconds
from corral.store.sql import Database
from corral.world import clock, process_identity

_DECODE_ATTEMPT = msgspec.json.Decoder(AttemptRecord)


class Runs(Database):
    """Runs, nodes, attempts and orders; what belongs to a subject of its own has a part of its own."""

    @property
    def inbox(self) -> Inbox:
        return Inbox(self, self.queue)

    @property
    def merges(self) -> Merges:
        return Merges(self)

    @property
    def pages(self) -> Pages:
        return Pages(self)

    @property
    def queue(self) -> RunQueue:
        return RunQueue(self)

    @property
    def repositories(self) -> Repositories:
        return Repositories(self)

    @property
    def accounts(self) -> Accounts:
        return Accounts(self)

    @property
    def automation(self) -> Automation:
        return Automation(self)

    @property
    def memory(self) -> Memory:
        return Memory(self)

    @property
    def programs(self) -> Programs:
        return Programs(self)

    @property
    def chats(self) -> Chats:
        return Chats(self)

    @property
    def history(self) -> History:
        return History(self)

    @property
    def tokens(self) -> AccessTokens:
        return AccessTokens(self)

    @property
    def review(self) -> Review:
        return Review(self)

    @property
    def forge(self) -> ForgeRecords:
        return ForgeRecords(self)

    @property
    def slots(self) -> Slots:
        return Slots(self)

    @property
    def lineage(self) -> Lineage:
        return Lineage(self)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self, self.is_alive)

    def is_alive(self, owner: str) -> bool:
        """Tell whether a process is there; one on another machine is while a lease of it holds."""
        here = process_identity.is_alive(owner)
        now = self.to_stored_time(time.time())
        return bool(self.rows("leases_of_owner", owner=owner, now=now)) if here is None else here

    def mail(self, most_deliveries: int) -> Mail:
        """Return the mail of all runs; one is handed out so many times at most."""
        return Mail(self, most_deliveries)

    # --- runs and their events

    def add_run(self, record: RunRecord) -> None:
        """Store a new run with its nodes."""
        with self.transaction():
            self.do(
                "add_run",
                id=record.id,
                status=record.status,
                reason=record.reason,
                plan=ENCODER.encode(record.plan),
                created=record.created,
                owner=record.owner,
                lease_until=self.to_stored_time(record.lease_until),
                clock=record.clock,
                **_plan_columns(record.plan),
            )
            for place, node in enumerate(record.plan.flow.nodes):
                self.do("add_node", run=record.id, id=node.id, place=place, status="queued")

    def run(self, run: str) -> RunRecord:
        row = self.rows("run", id=run)[0]
        return RunRecord(
            id=row["id"],
            status=row["status"],
            reason=row["reason"],
            plan=msgspec.json.decode(row["plan"], type=RunPlan),
            created=row["created"],
            ended=row["ended"],
            owner=row["owner"],
            lease_until=self.to_local_time(row["lease_until"]),
            epoch=row["epoch"],
            clock=row["clock"],
            seconds=run_seconds(row["created"], row["ended"], row["seconds"]),
        )

    def status(self, run: str) -> Status:
        return cast("Status", self.rows("status", id=run)[0]["status"])

    def is_known(self, run: str) -> bool:
        return bool(self.rows("status", id=run))

    def find(self, name: str) -> str:
        """Resolve an id, an unambiguous prefix of one, or `@last`."""
        if name == "@last":
            rows = self.rows("newest_run")
            if not rows:
                raise NotFound("there is no run yet", hint='start one: corral run "..."')
            return cast("str", rows[0]["id"])
        found = [cast("str", row["id"]) for row in self.rows("runs_with_prefix", prefix=name)] if name else []
        if name in found or len(found) == 1:
            return name if name in found else found[0]
        if not found:
            raise NotFound(f"no run is called `{name}`", hint="see `corral ls`; @last is the newest")
        raise BadRequest(f"`{name}` fits more than one run", hint="say more of it: " + ", ".join(found))

    def list_runs(self, most: int = 1_000_000) -> list[RunLine]:
        return self.pages.runs(RunFilter(most=most))

    def rename_run(self, run: str, name: str | None) -> None:
        with self.transaction():
            found = self.rows("run", id=run)
            if found:
                plan = msgspec.json.decode(found[0]["plan"], type=RunPlan)
                self.save_plan(run, msgspec.structs.replace(plan, name=name))

    def move_run(self, run: str, status: Status, reason: str | None, ended: float | None) -> None:
        with self.transaction():
            seconds = None
            if ended is not None and (made := self.rows("clock", id=run)):
                seconds = clock.seconds_since(made[0]["clock"], made[0]["created"])
            self.do("move_run", id=run, status=status, reason=reason, ended=ended, seconds=seconds)

    def take_lease(self, run: str, owner: str, *, now: float, until: float, loser: str | None = None) -> bool:
        """Own a run that nobody owns, whose lease has run out, or that `loser` owns; a new owner raises its epoch."""
        with self.transaction():
            now, until = self.to_stored_time(now), self.to_stored_time(until)
            far = now + LEASE_SECONDS + LEASE_AHEAD_SECONDS
            return self.do("take_lease", id=run, owner=owner, now=now, until=until, far=far, loser=loser) == 1

    def renew_lease(self, run: str, owner: str, until: float) -> bool:
        with self.transaction():
            return self.do("renew_lease", id=run, owner=owner, until=self.to_stored_time(until)) == 1

    def release_lease(self, run: str, owner: str) -> None:
        with self.transaction():
            self.do("release_lease", id=run, owner=owner)

    def order(self, run: str, verb: str, by: str, at: float, text: str = "") -> int:
        with self.transaction():
            return cast("int", self.rows("add_order", run=run, verb=verb, by=by, at=at, text=text)[0]["id"])

    def orders(self, run: str) -> list[Order]:
        return [Order(row["id"], row["verb"], row["by"], row["text"]) for row in self.rows("orders", run=run)]

    def take_order(self, order: int, at: float, answer: str = "") -> None:
        """Remember that an order was carried out, and the words for its sender."""
        with self.transaction():
            self.do("take_order", id=order, at=at, answer=answer)

    def order_answer(self, order: int) -> str | None:
        found = self.rows("order_answer", id=order)
        return cast("str", found[0]["answer"] or "") if found else None

    def nodes(self, run: str) -> list[NodeState]:
        return [
            NodeState(id=row["id"], status=row["status"], reason=row["reason"], winner=row["winner"], why=row["why"])
            for row in self.rows("nodes", run=run)
        ]

    def move_node(self, run: str, node: NodeState) -> None:
        with self.transaction():
            self.do(
                "move_node",
                run=run,
                id=node.id,
                status=node.status,
                reason=node.reason,
                winner=node.winner,
                why=node.why,
            )

    def add_nodes(self, run: str, names: Iterable[str]) -> None:
        """Store nodes that came up while the run continued; those it knows already stay as they are."""
        with self.transaction():
            place = len(self.rows("nodes", run=run))
            for name in names:
                place += self.do("add_late_node", run=run, id=name, place=place, status="queued")

    def drop_nodes(self, run: str, names: Iterable[str]) -> None:
        """Forget nodes that a flow does not have any more; their attempts stay."""
        with self.transaction():
            for name in names:
                self.do("drop_node", run=run, id=name)

    def save_plan(self, run: str, plan: RunPlan) -> None:
        with self.transaction():
            self.do("save_plan", id=run, plan=ENCODER.encode(plan), **_plan_columns(plan))

    def next_place(self, run: str) -> int:
        return cast("int", self.rows("next_place", run=run)[0]["place"])

    def save_attempt(self, record: AttemptRecord) -> None:
        attempt = record.attempt
        with self.transaction():
            self.do(
                "save_attempt",
                id=attempt.id,
                run=record.run,
                node=record.node,
                place=int(attempt.id.rpartition("-")[2]),
                agent=attempt.agent,
                status=attempt.status,
                phase=record.phase,
                usd=attempt.cost.usd,
                started=record.started,
                ended=record.ended,
                record=ENCODER.encode(record),
                until=record.until,
                grade=attempt.evidence.grade if attempt.evidence else None,
                disputed=int(attempt.cost.disputed is True),
                changes=int(attempt.commit is not None and bool(attempt.files_changed)),
            )

    def attempts(self, run: str) -> list[AttemptRecord]:
        return [_DECODE_ATTEMPT.decode(row["record"]) for row in self.rows("attempts", run=run)]

    def costs_of(self, agent: str) -> list[float]:
        """Return what the last attempts of an agent cost, as far as that is known."""
        return [cast("float", row["usd"]) for row in self.rows("costs_of", agent=agent)]

    def cool_down(self, agent: str, until: float, reason: str) -> None:
        """Let every run know that an agent's quota is used up."""
        with self.transaction():
            self.do("cool_down", agent=agent, until=until, reason=reason)

    def warm_up(self, agent: str) -> None:
        with self.transaction():
            self.do("warm_up", agent=agent)

    def cooldown(self, agent: str, now: float) -> tuple[float, str] | None:
        """Return until when an agent is not to be asked, and why; None if it may be."""
        found = self.rows("cooldown", agent=agent, now=now)
        return (cast("float", found[0]["until"]), cast("str", found[0]["reason"])) if found else None

    def is_empty(self) -> bool:
        """Tell whether there never was a run."""
        return not self.rows("newest_run")

    def attempts_at_work(self, run: str) -> list[tuple[str, str]]:
        """Return node and name of each attempt of a run that is at work."""
        return [(row["node"], row["id"]) for row in self.rows("attempts_at_work", run=run)]


def _plan_columns(plan: RunPlan) -> dict[str, str | None]:
    """Return what listings ask of a plan."""
    flow = plan.flow
    prompts = [node.task.prompt for node in flow.nodes[:2]]
    first = prompts[0] if prompts else ""
    task = {"flow": flow.name, "multi": prompts[-1] if prompts else ""}.get(flow.strategy, first) or ""
    return {
        "name": plan.name,
        "labels": ENCODER.encode(dict(sorted(plan.labels.items()))).decode(),
        "repo": plan.repo,
        "git_dir": plan.git_dir,
        "strategy": flow.strategy,
        "flow": flow.name,
        "task": task,
        "prompt": None if first == task else first,
    }
