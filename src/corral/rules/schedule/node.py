"""What the agents of one node do next: each in its own lane, against each other in a race, compared by a judge."""

from __future__ import annotations

import heapq
from collections import ChainMap
from collections.abc import Container, Sequence
from typing import Any, cast

from msgspec import Struct, structs

from corral.model import Attempt, AttemptRecord, RetryPolicy
from corral.model.flow import AgentChoice, Node
from corral.rules.flows.expressions import Expression, Wrong
from corral.rules.race import contest, early_stop, llm_judge, second_reader
from corral.rules.schedule import agent_tries, outcomes
from corral.rules.schedule.actions import Action, Choose, Lower, Settle, Vary
from corral.rules.schedule.agent_tries import AgentTries, Begin, GoOn, Over, Park, WaitUntil
from corral.rules.schedule.progress import Progress, result_of
from corral.rules.schedule.slots import RunSlots

Undecided = Begin | GoOn | WaitUntil | Park | Lower | None  #: what a lane does that has not come to its end


class Moment(Struct, frozen=True):
    """When something is decided, and what a person said that holds for all of it."""

    now: float
    stopping: str | None = None
    allowed_usd: float = 0.0
    held: Container[str] = frozenset[str]()  #: nodes that are paused


class NodeWork:
    """The attempts of a run's nodes: what follows from those there were."""

    def __init__(self, progress: Progress, seats: RunSlots, policy: RetryPolicy) -> None:
        self._progress, self._seats, self._policy = progress, seats, policy
        self._looks: dict[str, float] = {}  # races that are looked at again, and when
        self.later: list[tuple[float, str]] = []  #: when to decide about which nodes again, soonest first

    def due(self, now: float) -> list[str]:
        """Return the nodes that are decided about again by now."""
        found: list[str] = []
        while self.later and self.later[0][0] <= now:
            found.append(heapq.heappop(self.later)[1])
        return found

    def wait(self) -> WaitUntil:
        """Return when the next node is decided about again."""
        moment, name = self.later[0]
        return WaitUntil(moment, quiet=self._looks.get(name) == moment)

    def decide(self, node: Node, at: Moment) -> list[Action] | Settle:
        """Return what to do for a node now, or the end it has come to."""
        tries = self._progress.tries.get(node.id, [])
        actions: list[Action] = []
        over: list[Over] = []
        waiting: list[tuple[AgentTries, Undecided]] = []
        for place, agent in enumerate((node.agent, *node.rivals)):
            lane = self._lane(node, place, tries, at)
            lane = structs.replace(lane, agent=agent)
            found = agent_tries.decide(lane, driven=self._seats.driven, stopping=bool(at.stopping), now=at.now)
            if isinstance(found, Over) and found.last and not at.stopping:
                found = self._read(node, lane, found, at)
            if isinstance(found, Over) and node.repeat and found.last and not at.stopping:
                found = agent_tries.next_round(lane, holds=self._until_holds(node, found.last.attempt), now=at.now)
            if isinstance(found, Over):
                over.append(found)
            else:
                waiting.append((lane, found))
        if node.rivals and over and waiting:
            waiting = self._raced(node, over, waiting, actions, at.now)
        for _, found in waiting:
            actions += self.act(node, found, at)
        return actions if waiting else self._ended(node, over, tries, at)

    def _ended(
        self, node: Node, over: Sequence[Over], tries: Sequence[AttemptRecord], at: Moment
    ) -> list[Action] | Settle:
        """Choose among lanes that have all come to their ends, or do what is needed to choose."""
        if not at.stopping and (rivals := contest.to_vary(node, over)):
            return [Vary(node.id, rivals)]
        judged = [each for each in tries if each.lane in llm_judge.LANES]
        judge = node.judge or (node.reader if contest.tie(node, over, ()) else None)
        if judge and (asked := self._judging(node, judge, over, at)) is not None:
            return asked
        if not at.stopping and (equal := contest.tie(node, over, judged)):
            return [Choose(node.id, equal)]
        return outcomes.of_lanes(node, over, tries, at.stopping)

    def _lane(self, node: Node, place: int, tries: Sequence[AttemptRecord], at: Moment) -> AgentTries:
        return AgentTries(
            node=node,
            place=place,
            agent=node.agent,
            tries=[record for record in tries if record.lane == place],
            policy=self._policy,
            spent_usd=sum(record.attempt.cost.usd or 0.0 for record in tries),
            allowed_usd=at.allowed_usd,
        )

    def act(self, node: Node, found: Undecided, at: Moment) -> list[Action]:
        """Return what a lane does now; what waits is remembered."""
        match found:
            case WaitUntil(time=moment):
                heapq.heappush(self.later, (moment, node.id))
            case Begin() if node.id in at.held:
                pass  # until it is released
            case Begin() if self._seats.take(node.id, found.agent.name):
                return [found]
            case GoOn() if at.stopping or self._seats.resume(found.record):
                return [found]
            case Park() | Lower():
                return [found]
            case _:
                pass
        return []

    def _raced(
        self,
        node: Node,
        over: list[Over],
        waiting: list[tuple[AgentTries, Undecided]],
        actions: list[Action],
        now: float,
    ) -> list[tuple[AgentTries, Undecided]]:
        """End a race early where somebody has won it; return the lanes that are still worth something."""
        tries = self._progress.tries.get(node.id, [])
        standing = contest.race(node, tries, over, sum(each.attempt.cost.usd or 0.0 for each in tries), now)
        actions += contest.halts(node, standing, self._seats.driven)
        if (why := early_stop.decided(standing)) is not None:
            at_work = {record.lane for record in standing.at_work}
            readers = [each for each in tries if each.lane <= second_reader.FIRST_LANE and each.phase != "over"]
            at_work |= {second_reader.FIRST_LANE - each.lane for each in readers}
            over += [
                Over(lane.tries[-1] if lane.tries else None, why) for lane, _ in waiting if lane.place not in at_work
            ]
            waiting = [(lane, found) for lane, found in waiting if lane.place in at_work]
        elif early_stop.best(standing) is not None and standing.at_work:
            self._look_again(node, now)  # what they have cost by then may decide it
        return waiting

    def _look_again(self, node: Node, now: float) -> None:
        if self._looks.get(node.id, 0.0) <= now:
            self._looks[node.id] = now + contest.LOOK_AGAIN_SECONDS
            heapq.heappush(self.later, (self._looks[node.id], node.id))

    def _read(self, node: Node, lane: AgentTries, over: Over, at: Moment) -> Over | Undecided:
        """Ask a second reader about work that is done; return the end of its lane once nothing speaks against it."""
        last = over.last.attempt if over.last else None
        if last is None or node.reader is None or not second_reader.wanted(node, last):
            return over
        tries = second_reader.tries_of(last.id, self._progress.tries.get(node.id, ()))
        own = structs.replace(
            lane,
            node=second_reader.lane_node(node, node.reader),
            place=second_reader.lane_of(lane.place),
            agent=node.reader,
            tries=tries,
            allowed_usd=0.0,
        )
        found = agent_tries.decide(own, driven=self._seats.driven, stopping=False, now=at.now)
        if isinstance(found, Begin):
            return structs.replace(found, candidates=(last.id,))
        if not isinstance(found, Over | Park):
            return found
        said = second_reader.read(tries[-1]) if tries else None
        return Lower(node.id, last.id, second_reader.reason_of(said)) if said and said.workaround else over

    def _judging(self, node: Node, judge: AgentChoice, over: Sequence[Over], at: Moment) -> list[Action] | None:
        """Ask a judge about those that are proven; None: there is nothing to ask, or it has answered."""
        found = contest.survivors(over)
        if len(found) < 2 or at.stopping:
            return None
        tries = self._progress.tries.get(node.id, [])
        work = llm_judge.lane_node(node, judge)
        actions: list[Action] = []
        open_lanes = 0
        for place in llm_judge.LANES:
            lane = structs.replace(self._lane(work, place, tries, at), agent=judge, allowed_usd=0.0)
            decided = agent_tries.decide(lane, driven=self._seats.driven, stopping=False, now=at.now)
            if isinstance(decided, Over | Park):
                continue
            open_lanes += 1
            if isinstance(decided, Begin):
                decided = structs.replace(decided, candidates=llm_judge.shown(found, place))
            actions += self.act(node, decided, at)
        return actions if open_lanes else None

    def _until_holds(self, node: Node, last: Attempt) -> bool | None:
        until = node.repeat.until if node.repeat else "checks"
        if until == "checks" or last.status != "done":
            return None
        try:
            own = {"output": last.output, "attempt": result_of(last)}
            return Expression(until).holds(ChainMap(own, cast("dict[str, Any]", self._progress.known(node.id))))
        except Wrong:
            return False
