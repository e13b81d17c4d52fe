"""Claims on files, kept in the store: asked for, granted when free, and released with their owner at the latest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from msgspec import Struct

from corral.model import Claim
from corral.store.sql import Database


class ClaimRequest(Struct, frozen=True, kw_only=True):
    """Who asks: an attempt in a workspace that it shares, driven by a process."""

    space: str
    run: str
    attempt: str
    owner: str


Ready = Callable[[Sequence[Claim]], Sequence[int]]
"""Which of all claims of a workspace can be granted now, by place: the rules decide, not the store."""


class Claims:
    """The claims of all workspaces; each step is one transaction, so two processes never both get the same file."""

    def __init__(self, store: Database, ready: Ready, alive: Callable[[str], bool | None]) -> None:
        self._store, self._ready, self._alive = store, ready, alive

    def claim(self, who: ClaimRequest, paths: Sequence[str], *, exclusive: bool, at: float) -> bool:
        """Ask for paths, all or none; return whether they are held now. If not, they wait in line."""
        with self._store.transaction():
            self._release_dead(who.space)
            for path in sorted({*paths}):
                self._store.do(
                    "add_claim",
                    space=who.space,
                    run=who.run,
                    attempt=who.attempt,
                    owner=who.owner,
                    path=path,
                    exclusive=int(exclusive),
                    at=at,
                )
            self._grant(who.space)
            mine = [claim for claim in self.all(who.space) if claim.attempt == who.attempt]
            return all(claim.held for claim in mine if claim.path in paths)

    def holds_all(self, who: ClaimRequest) -> bool:
        """Return whether all that the attempt asked for is held by now."""
        with self._store.transaction():
            self._release_dead(who.space)
            self._grant(who.space)
            return all(claim.held for claim in self.all(who.space) if claim.attempt == who.attempt)

    def release(self, who: ClaimRequest, paths: Sequence[str] | None = None) -> None:
        """Give paths back, or all of the attempt's; those who wait may go on."""
        with self._store.transaction():
            if paths is None:
                self._store.do("release_claims", attempt=who.attempt)
            for path in paths or ():
                self._store.do("release_claim", space=who.space, attempt=who.attempt, path=path)
            self._grant(who.space)

    def waiters(self, space: str) -> list[Claim]:
        """Return what is waited for."""
        return [claim for claim in self.all(space) if not claim.held]

    def all(self, space: str) -> list[Claim]:
        return [
            Claim(
                place=row["place"],
                run=row["run"],
                attempt=row["attempt"],
                owner=row["owner"],
                path=row["path"],
                exclusive=bool(row["exclusive"]),
                held=bool(row["held"]),
                at=row["at"],
            )
            for row in self._store.rows("claims", space=space)
        ]

    def _grant(self, space: str) -> None:
        for place in self._ready(self.all(space)):
            self._store.do("hold_claim", place=place)

    def _release_dead(self, space: str) -> None:
        for row in self._store.rows("claim_owners", space=space):
            owner = cast("str", row["owner"])
            if self._alive(owner) is False:
                self._store.do("release_claims_of_owner", owner=owner)
