"""The slots of one run: taken in the transaction in which an attempt begins, freed when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from corral.config import loader
from corral.model import HeldSlot, RunPlan, SlotDemand, SlotLimits
from corral.model.errors import CorralError
from corral.rules.schedule.slots import assign_slots
from corral.store.interface import Store
from corral.store.records import SlotOwner, SlotsSeen
from corral.world import process_identity

LOOK_AGAIN_SECONDS = 1.0  #: a process that is killed says nothing when it goes


class Slots:
    """What one run holds and waits for, among all runs of all processes."""

    def __init__(self, store: Store, run: str, owner: str, plan: RunPlan) -> None:
        self._store, self._plan = store, plan
        self._mine = SlotOwner(run=run, owner=owner, repo=plan.repo)
        self._child = store.lineage.of(run) is not None  # its parent has a slot and waits for it: it needs none
        self._limits, self._limits_at = plan.limits, 0.0
        self._freed: list[str] = []
        self._seen, self._held = SlotsSeen(), list[HeldSlot]()
        self._others: list[SlotDemand] = []
        self._own: dict[str, SlotDemand] = {}
        self._since = self._now = 0.0
        self._refused: set[str] = set()
        self._looked = self._left = False

    @property
    def _is_limited(self) -> bool:
        return self._limits != SlotLimits()

    @property
    def waiting(self) -> bool:
        """Whether something would begin if others were not at work."""
        return bool(self._own)

    def news(self, now: float) -> bool:
        """Tell whether something changed that this run waits for."""
        return self.waiting and self._store.slots.look(now) != self._seen

    # --- one turn, in one transaction

    def open_turn(self, now: float) -> bool:
        """Give back what is over, and look at the state of things; return whether something was given back."""
        freed, self._freed, self._now = self._freed, [], now
        if not self._child and now - self._limits_at >= LOOK_AGAIN_SECONDS:
            self._limits, self._limits_at = _limits_now(self._plan), now
        for attempt in freed:
            self._store.slots.free(attempt)
        if self._is_limited or not self._looked:  # once at least: what a killed process left is not left for good
            self._store.slots.free_dead(self._mine, now, process_identity.is_alive)
            self._looked = True
        if self._is_limited:
            self._refused = set()
            self._look()
        return bool(freed)

    def free(self, agent: str) -> bool:
        """Tell whether one more attempt of an agent may begin now."""
        if not self._is_limited:
            return True
        if agent in self._refused:  # in one turn there is never more room than before
            return False
        mine = self._want(agent, 1)
        if assign_slots(self._held, [*self._others, mine])[self._mine.run, agent]:
            return True
        self._refused.add(agent)
        return False

    def take(self, agent: str) -> None:
        """Count one in that is about to begin; each one that got a slot is last in the line."""
        self._held.append(HeldSlot(self._mine.run, agent, self._mine.repo))
        self._since = self._now

    def hold(self, attempt: str, agent: str) -> None:
        self._left = False
        self._store.slots.hold(self._mine, attempt, agent)

    def over(self, attempt: str) -> None:
        """Give a slot back at the next turn."""
        self._freed.append(attempt)

    def close_turn(self, waiting: Mapping[str, int]) -> bool:
        """Let others know what this run waits for; return whether it begins to wait."""
        if not (self._is_limited or self._own):
            return False
        waited = self.waiting
        if not waited and not self._since:
            self._since = self._now
        wanted = {agent: self._want(agent, waiting[agent]) for agent in self._refused if waiting.get(agent)}
        for agent in self._own.keys() - wanted.keys():
            self._store.slots.unwant(self._mine.run, agent)
        for agent, want in wanted.items():
            if self._own.get(agent) != want:
                self._left = False
                self._store.slots.want(self._mine, want)
        self._own = wanted
        if not wanted:
            self._since = 0.0
        self._seen = self._store.slots.look(self._now)
        return bool(wanted) and not waited

    def take_over(self) -> None:
        """Free what an earlier owner of the run holds and waits for."""
        self._store.slots.take_over(self._mine)

    def leave(self) -> None:
        """Give all back: nobody drives the run any more."""
        if not self._left:
            self._store.slots.leave(self._mine)
        self._own, self._left = {}, True

    def _look(self) -> None:
        self._seen = self._store.slots.look(self._now)
        self._held = list(self._seen.held)
        self._others = [each for each in self._seen.demands if each.run != self._mine.run]

    def _want(self, agent: str, count: int) -> SlotDemand:
        return SlotDemand(
            run=self._mine.run,
            agent=agent,
            repo=self._mine.repo,
            count=count,
            priority=self._plan.priority,
            since=self._since or self._now,
            limits=self._limits,
        )


def _limits_now(plan: RunPlan) -> SlotLimits:
    """Return the limits as settings have them by now: a user may ask for more, or less, while runs are at work."""
    try:
        return loader.load(Path(plan.repo)).limits
    except CorralError:  # settings that have become wrong
        return plan.limits
