"""One node of a run: what its agents do next, and what it, a group of nodes or the run has come to."""

from __future__ import annotations

import heapq
from collections import ChainMap
from collections.abc import Container, Sequence
from typing import Any, cast

from msgspec import Struct, structs

from corral.model import Attempt, AttemptRecord, RetryPolicy
from corral.model.flow import AgentChoice, Node
from corral.rules.flows.expressions import Expression, ExpressionError
from corral.rules.race import contest, early_stop, llm_judge, second_reader
from corral.rules.schedule import agent_tries
from corral.rules.schedule.actions import Action, Choose, FinishRun, Lower, Settle, Vary
from corral.rules.schedule.agent_tries import AgentTries, Begin, Park, ResumeAttempt, TriesEnd, WaitUntil
from corral.rules.schedule.progress import Progress, result_of
from corral.rules.schedule.slots import RunSlots

Undecided = Begin | ResumeAttempt | WaitUntil | Park | Lower | None  #: what a lane does that has not come to its end
UNPROVEN = "no check was asked for; no files changed"


class Moment(Struct, frozen=True):
    """When something is decided, and what a user said that holds for all of it."""

    now: float
    stopping: str | None = None
    allowed_usd: float = 0.0
    held: Container[str] = frozenset[str]()  #: nodes that are paused


class NodeWork:
    """The attempts of a run's nodes: what follows from those there were."""

    def __init__(self, progress: Progress, free_slots: RunSlots, policy: RetryPolicy) -> None:
        self._progress, self._slots, self._policy = progress, free_slots, policy
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
        if revised := [record for record in tries if record.attempt.revises]:
            return self._revise(node, revised, at)
        actions: list[Action] = []
        over: list[TriesEnd] = []
        waiting: list[tuple[AgentTries, Undecided]] = []
        for place, agent in enumerate((node.agent, *node.rivals)):
            lane = self._agent_tries(node, place, tries, at)
            lane = structs.replace(lane, agent=agent)
            found = agent_tries.decide(lane, driven=self._slots.active_ids, stopping=bool(at.stopping), now=at.now)
            if isinstance(found, TriesEnd) and found.last and not at.stopping:
                found = self._read(node, lane, found, at)
            if isinstance(found, TriesEnd) and node.repeat and found.last and not at.stopping:
                found = agent_tries.next_round(lane, holds=self._until_holds(node, found.last.attempt), now=at.now)
            if isinstance(found, TriesEnd):
                over.append(found)
            else:
                waiting.append((lane, found))
        if node.rivals and over and waiting:
            waiting = self._end_race_early(node, over, waiting, actions, at.now)
        for _, found in waiting:
            actions += self.act(node, found, at)
        return actions if waiting else self._choose(node, over, tries, at)

    def _revise(self, node: Node, revised: Sequence[AttemptRecord], at: Moment) -> list[Action] | Settle:
        """Continue the last revision of a node; what else its agents did stays as it is."""
        last = revised[-1]
        if last.by_hand and last.phase == "over":  # nobody but the user tries that again
            return revision_outcome(node, TriesEnd(last))
        tries = [each for each in revised if each.attempt.revises == last.attempt.revises]
        agent = next((each for each in (node.agent, *node.rivals) if each.name == last.attempt.agent), None)
        lane = structs.replace(
            self._agent_tries(node, last.lane, tries, at), agent=agent or AgentChoice(last.attempt.agent)
        )
        found = agent_tries.decide(lane, driven=self._slots.active_ids, stopping=bool(at.stopping), now=at.now)
        if isinstance(found, TriesEnd) and not at.stopping:
            found = self._read(node, lane, found, at)
        return revision_outcome(node, found) if isinstance(found, TriesEnd) else self.act(node, found, at)

    def _choose(
        self, node: Node, over: Sequence[TriesEnd], tries: Sequence[AttemptRecord], at: Moment
    ) -> list[Action] | Settle:
        """Choose among lanes that have all come to their ends, or do what is needed to choose."""
        if not at.stopping and (rivals := contest.to_vary(node, over)):
            return [Vary(node.id, rivals)]
        judged = [each for each in tries if each.lane in llm_judge.JUDGE_PLACES]
        judge = node.judge or (node.reader if contest.tie(node, over, ()) else None)
        if judge and (asked := self._judging(node, judge, over, at)) is not None:
            return asked
        if not at.stopping and (equal := contest.tie(node, over, judged)):
            return [Choose(node.id, equal)]
        return agents_outcome(node, over, tries, at.stopping)

    def _agent_tries(self, node: Node, place: int, tries: Sequence[AttemptRecord], at: Moment) -> AgentTries:
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
            case Begin() if self._slots.take(node.id, found.agent.name):
                return [found]
            case ResumeAttempt() if at.stopping or self._slots.resume(found.record):
                return [found]
            case Park() | Lower():
                return [found]
            case _:
                pass  # there is no slot for it now, or nothing to do
        return []

    def _end_race_early(
        self,
        node: Node,
        over: list[TriesEnd],
        waiting: list[tuple[AgentTries, Undecided]],
        actions: list[Action],
        now: float,
    ) -> list[tuple[AgentTries, Undecided]]:
        """End a race early where someone has won it; return the lanes that are still worth something."""
        tries = self._progress.tries.get(node.id, [])
        limit_status = contest.race(node, tries, over, sum(each.attempt.cost.usd or 0.0 for each in tries), now)
        actions += contest.halts(node, limit_status, self._slots.active_ids)
        if (why := early_stop.decision_reason(limit_status)) is not None:
            at_work = {record.lane for record in limit_status.at_work}
            readers = [each for each in tries if each.lane <= second_reader.FIRST_READER_PLACE and each.phase != "over"]
            at_work |= {second_reader.FIRST_READER_PLACE - each.lane for each in readers}
            over += [
                TriesEnd(lane.tries[-1] if lane.tries else None, why)
                for lane, _ in waiting
                if lane.place not in at_work
            ]
            waiting = [(lane, found) for lane, found in waiting if lane.place in at_work]
        elif early_stop.best(limit_status) is not None and limit_status.at_work:
            self._look_again(node, now)  # what they have cost by then may decide it
        return waiting

    def _look_again(self, node: Node, now: float) -> None:
        if self._looks.get(node.id, 0.0) <= now:
            self._looks[node.id] = now + contest.LOOK_AGAIN_SECONDS
            heapq.heappush(self.later, (self._looks[node.id], node.id))

    def _read(self, node: Node, lane: AgentTries, over: TriesEnd, at: Moment) -> TriesEnd | Undecided:
        """Ask a second reader about work that is done; return the end of its lane once nothing speaks against it."""
        last = over.last.attempt if over.last else None
        if last is None or node.reader is None or not second_reader.needs_reader(node, last):
            return over
        tries = second_reader.tries_of(last.id, self._progress.tries.get(node.id, ()))
        own = structs.replace(
            lane,
            node=second_reader.reader_node(node, node.reader),
            place=second_reader.reader_place(lane.place),
            agent=node.reader,
            tries=tries,
            allowed_usd=0.0,
        )
        found = agent_tries.decide(own, driven=self._slots.active_ids, stopping=False, now=at.now)
        if isinstance(found, Begin):
            return structs.replace(found, candidates=(last.id,))
        if not isinstance(found, TriesEnd | Park):
            return found
        said = second_reader.read(tries[-1]) if tries else None
        return Lower(node.id, last.id, second_reader.reason_of(said)) if said and said.workaround else over

    def _judging(self, node: Node, judge: AgentChoice, over: Sequence[TriesEnd], at: Moment) -> list[Action] | None:
        """Ask a judge about those that are proven; None: there is nothing to ask, or it has answered."""
        found = contest.survivors(over)
        if len(found) < 2 or at.stopping:
            return None
        tries = self._progress.tries.get(node.id, [])
        work = llm_judge.judge_node(node, judge)
        actions: list[Action] = []
        open_lanes = 0
        for place in llm_judge.JUDGE_PLACES:
            lane = structs.replace(self._agent_tries(work, place, tries, at), agent=judge, allowed_usd=0.0)
            decided = agent_tries.decide(lane, driven=self._slots.active_ids, stopping=False, now=at.now)
            if isinstance(decided, TriesEnd | Park):
                continue
            open_lanes += 1
            if isinstance(decided, Begin):
                decided = structs.replace(decided, candidates=llm_judge.judging_order(found, place))
            actions += self.act(node, decided, at)
        return actions if open_lanes else None

    def _until_holds(self, node: Node, last: Attempt) -> bool | None:
        until = node.repeat.until if node.repeat else "checks"
        if until == "checks" or last.status != "done":
            return None
        try:
            own = {"output": last.output, "attempt": result_of(last)}
            return Expression(until).holds(ChainMap(own, cast("dict[str, Any]", self._progress.known_names(node.id))))
        except ExpressionError:
            return False


def agents_outcome(
    node: Node, over: Sequence[TriesEnd], tries: Sequence[AttemptRecord], stopping: str | None
) -> Settle:
    """Settle a node whose lanes have all come to their ends."""
    judged = [each for each in tries if each.lane in llm_judge.JUDGE_PLACES]
    open_tie = stopping and contest.tie(node, over, judged)  # the user stopped it instead of choosing
    if not open_tie and (found := contest.decide(node, over, judged)):
        best = next(each for each in contest.finalists(over) if each.id == found.winner)
        words = found.why if node.rivals else outcome_reason(best)
        if words is not None and (unread := second_reader.notes(best.id, tries)):
            words += f"; {unread}"
        return Settle(node.id, "done", winner=found.winner, why=words, votes=found.votes)
    if stopping:
        return Settle(node.id, "stopped", stopping)
    last = over[-1]
    if any(each.over_budget for each in over):
        return Settle(node.id, "over_budget", last.reason)
    if node.rivals:
        status, reason = contest.none_good(over)
        return Settle(node.id, status, reason)
    status = last.last.attempt.status if last.last else "failed"
    reasons = list(dict.fromkeys(each.reason for each in over))
    return Settle(node.id, "failed" if status == "done" else status, "; ".join(reasons))


def revision_outcome(node: Node, over: TriesEnd) -> Settle:
    """Settle a node whose work was revised: a revision that is done wins, else what it had come to stays."""
    record = over.last
    if record is None:
        return Settle(node.id, "stopped")
    attempt, before = record.attempt, record.before
    if attempt.status == "done":
        return Settle(node.id, "done", winner=attempt.id, why=f"{outcome_reason(attempt)}; revises {attempt.revises}")
    words = over.reason or agent_tries.reason(attempt)
    if before is None or before.winner is None:
        return Settle(node.id, attempt.status, words)
    if attempt.status in ("limited", "over_budget"):
        return Settle(node.id, attempt.status, words, before.winner, before.why)
    kept = f"{before.why or before.winner}; revision {attempt.id} was not accepted: {words}"
    return Settle(node.id, before.status, before.reason, before.winner, kept)


def items_outcome(progress: Progress, name: str) -> Settle:
    """Settle a node whose items are all over."""
    ends = [progress.ends[each] for each in progress.members[name]]
    bad = [end for end in ends if end.status not in ("done", "skipped")]
    if not bad and progress.nodes[name].kind == "gate":  # one "no" is enough: what needs it does not start
        refused = [end for end in ends if end.status == "skipped"]
        if refused:
            return Settle(name, "skipped", f"{len(refused)} of {len(ends)} items: {refused[0].reason}", why="no")
    if not bad:
        return Settle(name, "done", why=f"all {len(ends)} items")
    first = next(each for each in progress.members[name] if progress.ends[each] is bad[0])
    label = progress.combination(first)
    kind = f"combinations, first {label}" if label else "items"
    return Settle(name, bad[0].status, f"{len(bad)} of {len(ends)} {kind}: {bad[0].reason}")


def nested_outcome(progress: Progress, name: str) -> Settle:
    """Settle the node that stands for a nested flow: it is done when nothing of it failed."""
    ends = [(each, end) for each in progress.nodes if each.startswith(f"{name}/") and (end := progress.ends.get(each))]
    for each, end in ends:
        if end.status not in ("done", "skipped"):
            return Settle(name, end.status, f"`{each}`: {end.reason}")
    worked = [end for each, end in ends if not progress.nodes[each].planning] or [end for _, end in ends]
    if worked and all(end.status == "skipped" for end in worked):
        return Settle(name, "skipped", worked[0].reason)
    return Settle(name, "done")


def run_outcome(progress: Progress) -> FinishRun:
    """Say what a run has come to whose nodes are all over."""
    if progress.smooth:
        return FinishRun("done")
    ends = [end for name in progress.nodes if (end := progress.ends[name]).status != "skipped"]
    bad = [end for end in ends if end.status != "done"]
    if not bad:
        return FinishRun("done")
    statuses = {end.status for end in bad}
    words = next((end.reason for end in bad if end.reason), None)
    for status in ("stopped", "over_budget", "limited"):
        if status in statuses:
            return FinishRun(status, words)
    if len(bad) < len(ends):
        return FinishRun("partial", words)
    return FinishRun("timed_out" if statuses == {"timed_out"} else "failed", words)


def outcome_reason(attempt: Attempt) -> str:
    """Say in one line why an attempt is accepted."""
    count, changed = len(attempt.checks), len(attempt.files_changed)
    if not count and not changed:
        return UNPROVEN
    checks = "all checks pass" if count > 1 else "its check passes" if count else "no check was asked for"
    return f"{checks}; {changed or 'no'} file{'' if changed == 1 else 's'} changed"
