"""Who may begin next where the slots are few: the urgent, then who has fewest at work, then who waits longest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from corral.model import HeldSlot, SlotDemand


class FreeSlots(Protocol):
    """What all other runs leave to one."""

    def free(self, agent: str) -> bool: ...
    def take(self, agent: str) -> None: ...


def assign_slots(held: Sequence[HeldSlot], wants: Sequence[SlotDemand]) -> Counter[tuple[str, str]]:
    """Hand out every slot there is; return how many more of which agent each run may begin."""
    total, agents = len(held), Counter(each.agent for each in held)
    runs, repos = Counter(each.run for each in held), Counter(each.repo for each in held)
    given: Counter[tuple[str, str]] = Counter()

    def fits(want: SlotDemand) -> bool:
        limits, agent = want.limits, want.limits.per_agent.get(want.agent)
        return (
            given[want.run, want.agent] < want.count
            and (limits.parallel is None or total < limits.parallel)
            and (agent is None or agents[want.agent] < agent)
            and (limits.per_repository is None or repos[want.repo] < limits.per_repository)
        )

    while ready := [want for want in wants if fits(want)]:
        first = min(ready, key=lambda each: (-each.priority, runs[each.run], each.since, each.run, each.agent))
        given[first.run, first.agent] += 1
        total, agents[first.agent] = total + 1, agents[first.agent] + 1
        runs[first.run], repos[first.repo] = runs[first.run] + 1, repos[first.repo] + 1
    return given
