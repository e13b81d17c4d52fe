"""The ledger in the store: reserve before the start, settle at the end, a transaction each, so nobody overspends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

from msgspec import structs

from corral.model import Attempt, CostSource, Tokens
from corral.model.money import (
    ENOUGH,
    TINY,
    Bound,
    CostSum,
    Expected,
    GuessedAttempt,
    LedgerLine,
    Limit,
    LimitBalance,
    PaidAttempt,
    Refusal,
    Totals,
    Window,
    fit_side_by_side,
)
from corral.model.values import MOST_USD, token_count
from corral.store.sql import Database, Row

NONE = Tokens()
QUARTER_SECONDS, DAY_SECONDS = 900, 86_400  #: what the running sums are of
MILLIONTHS = 1_000_000  #: of a dollar: so the running sums count
SHARED: tuple[Window, ...] = ("day", "month", "ceiling")  #: windows of limits that all runs have in common


class Ledger:
    """The ledger of all runs of all processes."""

    def __init__(self, store: Database, alive: Callable[[str], bool | None]) -> None:
        self._store, self._alive = store, alive

    # --- reservations

    def reserve(
        self, line: LedgerLine, bounds: Sequence[Bound], expected: Expected = "fixed", below_usd: float = 0.0
    ) -> Refusal | None:
        """Reserve money for an attempt, if every bound has room for it; return the one that has not.

        `below_usd` counts for the attempt's task besides: what runs that it started have cost or may cost. It is on the
        disk before the agent can spend anything: with the transaction by which the attempt begins to work.
        """
        with self._store.visible_transaction():
            self._release_dead(line.at, line.owner)
            granted = self.reservable(line, bounds, expected, below_usd)
            if isinstance(granted, Refusal):
                return granted
            self._store.do(
                "reserve",
                attempt=line.attempt,
                run=line.run,
                node=line.node,
                agent=line.agent,
                account=line.account,
                model=line.model,
                role=line.role,
                type=line.type,
                repo=line.repo,
                owner=line.owner,
                reserved=granted,
                at=line.at,
                guessed=int(line.guessed and line.reports),
                notional=int(line.notional),
            )
        return None

    def reservable(
        self, line: LedgerLine, bounds: Sequence[Bound], expected: Expected, below_usd: float
    ) -> float | Refusal:
        """Return how much would be reserved for an attempt now, or the bound that has no room for it."""
        usd, wanted = _stored_usd(line.reserved), line.reserved
        for bound in bounds:
            own = bound.limit.window == "node" and not bound.spender
            room = self._balance(bound, line, below_usd if own else 0.0)
            if line.guessed and room.others and bound.run == line.run and bound.limit.window in ("node", "run"):
                return Refusal(room.limit, room.spent, room.reserved, wanted, waits=True, guessed=True)
            found = room.grant(wanted, expected, line.least)
            if found is None:
                waits = room.may_wait(wanted, expected, line.least)
                refusal = Refusal(room.limit, room.spent, room.reserved, wanted, waits)
                return self._wait_refusal(line, [bound], expected) or refusal if line.patient and not waits else refusal
            usd = min(usd, found)
        return self._wait_refusal(line, bounds, expected) or usd

    def _wait_refusal(self, line: LedgerLine, bounds: Sequence[Bound], expected: Expected) -> Refusal | None:
        """Return why an attempt of an assumed price must wait for others like it, of any run, that share a limit.

        None where it may start, and where it may not start even when those others have ended.
        """
        if not (line.guessed and line.reports):
            return None
        for bound in bounds:
            others = self._guessed_at_work(bound, line) if bound.limit.window in SHARED else []
            if not others:
                continue
            room = self._balance(bound, line, 0.0)
            freed = structs.replace(room, reserved=max(0.0, room.reserved - sum(each.unspent for each in others)))
            fits = fit_side_by_side(room.remaining_usd, self._highest_cost(line.agent, line.model), others)
            if not fits and freed.grant(line.reserved, expected, line.least) is not None:
                behind = tuple(each.attempt for each in others)
                waits = Refusal(room.limit, room.spent, room.reserved, line.reserved, waits=True, guessed=True)
                return structs.replace(waits, behind=behind)
        return None

    def _guessed_at_work(self, bound: Bound, line: LedgerLine) -> list[GuessedAttempt]:
        rows = self._store.rows(
            "guessed_at_work",
            since=bound.since,
            besides=line.attempt,
            agent=bound.limit.agent,
            repo=bound.limit.repo,
            is_child=int(bool(self.ancestors(line.run))),
        )
        return [
            GuessedAttempt(
                attempt=row["attempt"],
                usd=row["usd"],
                unspent=row["unspent"],
                dearest=self._highest_cost(row["agent"], row["model"]),
            )
            for row in rows
        ]

    def _highest_cost(self, agent: str, model: str | None) -> float | None:
        """Return what the dearest attempt of an agent is known to have cost; None where too few costs are known."""
        row = self._store.rows("dearest_paid", agent=agent, model=model)[0]
        return cast("float", row["usd"]) if row["count"] >= ENOUGH else None

    def _balance(self, bound: Bound, line: LedgerLine, below_usd: float) -> LimitBalance:
        spent, reserved = self.spent_and_reserved(bound, besides=line.attempt)
        limit = bound.limit
        row = self._store.rows(
            "reserved_at_work",
            besides=line.attempt,
            agent=limit.agent,
            node=bound.node if limit.window == "node" and not bound.spender else "",
            own=line.run,
            root=bound.run if limit.window == "run" or bound.spender else "",
        )[0]
        return LimitBalance(
            limit=structs.replace(limit, usd=limit.usd + self.allowed_overrun(bound)),
            spent=spent + below_usd,
            reserved=reserved,
            at_work=cast("float", row["usd"]),
            others=cast("int", row["count"]),
        )

    def hold_more(self, attempt: str, reserved: float, bounds: Sequence[Bound], now: float) -> Refusal | None:
        """Raise what is reserved for an attempt at work to `reserved` in all, if there is room."""
        with self._store.transaction():
            self._release_dead(now)
            refusal = self._refusal(attempt, reserved, bounds)
            if refusal is None:
                self._store.do("hold_more", attempt=attempt, reserved=_stored_usd(reserved))
            return refusal

    def spend(self, attempt: str, spent: float, source: CostSource, tokens: Tokens = NONE) -> None:
        """Note what an attempt has spent so far: a crash then loses nothing of it."""
        with self._store.transaction():
            self._store.do("spend", attempt=attempt, spent=_stored_usd(spent), source=source, **_counts(tokens))

    def risk(self, attempt: str, uncounted: float | None) -> None:
        """Note what an attempt may spend from now on before it is counted; None: all that is reserved for it."""
        with self._store.transaction():
            self._store.do("risk", attempt=attempt, uncounted=uncounted)

    def settle(self, attempt: Attempt, spent: float, at: float, reserved: float = 0.0) -> None:
        """Note what an attempt cost in the end and give back the rest, but for `reserved`: its unknown part."""
        known = _stored_usd(spent)
        with self._store.transaction():
            self._store.do(
                "settle",
                attempt=attempt.id,
                spent=known,
                reserved=known + _stored_usd(reserved) if reserved else 0.0,
                source=attempt.cost.source,
                at=at,
                status=attempt.status,
                seconds=attempt.seconds,
                model=attempt.model,
                **_counts(attempt.tokens),
            )

    def release_dead(self, now: float) -> None:
        """Give back what dead processes reserved and cannot have spent; where that cannot be written, it is left."""
        owners = [cast("str", row["owner"]) for row in self._store.rows("owners_of_reservations")]
        if not self._store.writable or all(self._alive(owner) is not False for owner in owners):
            return
        with self._store.transaction():
            self._release_dead(now)

    def line(self, attempt: str) -> PaidAttempt | None:
        rows = self._store.rows("line", attempt=attempt)
        return _paid_attempt(rows[0]) if rows else None

    def open_lines(self, run: str) -> dict[str, PaidAttempt]:
        """Return the attempts of a run that are not settled."""
        return {line.attempt: line for row in self._store.rows("open_lines", run=run) for line in (_paid_attempt(row),)}

    def _release_dead(self, now: float, me: str = "") -> None:
        for row in self._store.rows("owners_of_reservations"):
            owner = cast("str", row["owner"])
            if owner != me and self._alive(owner) is False:
                self._store.do("release_reservations", owner=owner, at=now)

    def _refusal(self, attempt: str, wanted: float, bounds: Sequence[Bound]) -> Refusal | None:
        for bound in bounds:
            spent, reserved = self.spent_and_reserved(bound, besides=attempt)
            whole = bound.limit.usd + self.allowed_overrun(bound)
            if spent + reserved + wanted > whole + TINY or bound.limit.window == "halt":
                return Refusal(structs.replace(bound.limit, usd=whole), spent, reserved, wanted)
        return None

    def spent_and_reserved(self, bound: Bound, besides: str = "") -> tuple[float, float]:
        """Return what is spent and what is reserved within a bound, but for one attempt."""
        limit, node = bound.limit, bound.node if bound.limit.window == "node" else ""
        if bound.spender:
            rows = self._store.rows_of("held_of_family", bound.waiting, run=bound.run, node=node, besides=besides)
            row = rows[0]
        elif limit.window in ("run", "node"):
            row = self._store.rows("held_of_run", run=bound.run, node=node, agent=limit.agent, besides=besides)[0]
        else:
            days = _whole_times(bound.since)
            row = self._store.rows("held_since", **days, agent=limit.agent, repo=limit.repo, besides=besides)[0]
            return _usd(row["spent"]), _usd(row["reserved"])
        return cast("float", row["spent"]), cast("float", row["reserved"])

    # --- limits

    def limits(self) -> list[Limit]:
        return [
            Limit(
                window=row["window"], usd=row["usd"], agent=row["agent"], repo=row["repo"], where=f"set by {row['by']}"
            )
            for row in self._store.rows("limits")
        ]

    def set_limit(self, limit: Limit, by: str, at: float) -> None:
        with self._store.transaction():
            self._store.do(
                "set_limit", window=limit.window, agent=limit.agent, repo=limit.repo, usd=limit.usd, by=by, at=at
            )

    def drop_limits(self, window: Window | None = None, *, agent: str = "", repo: str = "", every: bool = False) -> int:
        with self._store.transaction():
            return self._store.do("drop_limit", window=window or "", agent=agent, repo=repo, every=int(every))

    def allow(self, run: str, window: Window, usd: float, by: str, at: float) -> None:
        """Let one run go past a limit by so much: a user said so."""
        with self._store.transaction():
            self._store.do("allow", run=run, window=window, usd=usd, by=by, at=at)

    def allowed_overrun(self, bound: Bound) -> float:
        """Return by how much a bound's run may go past its limit; nothing lifts a ceiling."""
        if bound.limit.window in ("ceiling", "halt") or not bound.run:
            return 0.0
        runs = dict.fromkeys(filter(None, (bound.run, bound.spender)))
        found = [self._store.rows("allowed", run=run, window=bound.limit.window)[0] for run in runs]
        return sum(cast("float", row["usd"]) for row in found)

    def adopt(self, run: str, parent: str) -> None:
        """Count a run for the run that started it, and for all above."""
        with self._store.transaction():
            above = [cast("str", row["ancestor"]) for row in self._store.rows("ancestors", run=parent)]
            for ancestor in (parent, *above):
                self._store.do("add_ancestor", run=run, ancestor=ancestor)

    def ancestors(self, run: str) -> list[str]:
        return [cast("str", row["ancestor"]) for row in self._store.rows("ancestors", run=run)]

    # --- history

    def history(self, since: float = 0.0, until: float = float("inf"), repo: str = "") -> list[PaidAttempt]:
        """Return every attempt of a time, oldest first."""
        return [_paid_attempt(row) for row in self._store.rows("history", since=since, until=until, repo=repo)]

    def totals(self) -> list[Totals]:
        """Return sums of everything: as many rows as there are agents, models and endings, however long it is used."""
        rows = self._store.rows("ledger_totals")
        found = [Totals(**{name: row[name] for name in Totals.__struct_fields__}) for row in rows]
        return [structs.replace(each, spent=_usd(each.spent), reserved=_usd(each.reserved)) for each in found]

    def cost_sums(self, since: float = 0.0, repo: str = "") -> list[CostSum]:
        """Return what attempts since a time cost: a sum for all of one agent, model, repository and so on."""
        times = _whole_times(since)
        return [
            CostSum(
                agent=row["agent"],
                account=row["account"] or None,
                model=row["model"] or None,
                type=row["type"] or None,
                repo=row["repo"],
                source=row["source"],
                notional=bool(row["is_notional"]),
                attempts=row["attempts"],
                done=row["done"],
                unknown=row["attempts"] if row["source"] == "unknown" else 0,
                usd=_usd(row["spent"]),
                reserved_usd=_usd(row["unspent"]),
                notional_usd=_usd(row["spent"]) if row["is_notional"] else 0.0,
                tokens=token_count(row["tokens"]),
                seconds=row["seconds"],
            )
            for row in self._store.rows("cost_sums", since=times["since"], day=times["day"], repo=repo)
        ]

    def cost_quarters(self, since: float = 0.0, repo: str = "") -> list[CostSum]:
        """Return what each agent cost in each quarter of an hour since a time."""
        times = _whole_times(since)
        return [
            CostSum(
                at=row["quarter"] * QUARTER_SECONDS,
                agent=row["agent"],
                attempts=row["attempts"],
                done=row["done"],
                unknown=row["unknown"],
                usd=_usd(row["spent"]),
                reserved_usd=_usd(row["unspent"]),
                notional_usd=_usd(row["notional"]),
                tokens=token_count(row["tokens"]),
                seconds=row["seconds"],
            )
            for row in self._store.rows("cost_quarters", since=times["since"], quarter=times["quarter"], repo=repo)
        ]

    def paid_before(self, agent: str, model: str | None, kind: str | None, most: int = 200) -> list[float]:
        """Return what attempts like this one cost, newest first, where it is known."""
        rows = self._store.rows("prices_paid", agent=agent, model=model, type=kind, most=most)
        return [cast("float", row["spent"]) for row in rows]

    def least_before(self, agent: str, model: str | None, kind: str | None) -> float:
        """Return the least that an attempt like this one is known to have cost, also one cut short; 0 if none is."""
        return cast("float", self._store.rows("least_paid", agent=agent, model=model, type=kind)[0]["usd"])


def _paid_attempt(row: Row) -> PaidAttempt:
    found = PaidAttempt(**{name: row[name] for name in PaidAttempt.__struct_fields__})
    return structs.replace(found, notional=bool(found.notional))


def _whole_times(since: float) -> dict[str, float]:
    """Return since when entries count: a time, and the first quarter of an hour and the first day wholly after it."""
    day, quarter = math.ceil(since / DAY_SECONDS), math.ceil(since / QUARTER_SECONDS)
    return {"since": since, "quarter": quarter, "day": day}


def _usd(millionths: float) -> float:
    return millionths / MILLIONTHS


def _stored_usd(usd: float) -> float:
    """Return an amount that can be added up with all others, whatever it was computed from."""
    return min(max(usd, 0.0), MOST_USD) if not math.isnan(usd) else 0.0


def _counts(tokens: Tokens) -> dict[str, int]:
    return {name: token_count(getattr(tokens, name)) for name in ("input", "output", "cache_read", "cache_write")}
