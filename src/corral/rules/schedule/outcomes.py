"""What a node, a group of nodes or a whole run has come to, from the ends of its parts."""

from __future__ import annotations

from collections.abc import Sequence

from corral.model import Attempt, AttemptRecord
from corral.model.flow import Node
from corral.rules.race import contest, llm_judge, second_reader
from corral.rules.schedule.actions import FinishRun, Settle
from corral.rules.schedule.agent_tries import TriesEnd
from corral.rules.schedule.progress import Progress

UNPROVEN = "no check was asked for; no files changed"


def of_agents(node: Node, over: Sequence[TriesEnd], tries: Sequence[AttemptRecord], stopping: str | None) -> Settle:
    """Settle a node whose lanes have all come to their ends."""
    judged = [each for each in tries if each.lane in llm_judge.JUDGE_PLACES]
    open_tie = stopping and contest.tie(node, over, judged)  # the user stopped it instead of choosing
    if not open_tie and (found := contest.decide(node, over, judged)):
        best = next(each for each in contest.finalists(over) if each.id == found.winner)
        words = found.why if node.rivals else why(best)
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


def of_items(progress: Progress, name: str) -> Settle:
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


def of_nested(progress: Progress, name: str) -> Settle:
    """Settle the node that stands for a nested flow: it is done when nothing of it failed."""
    ends = [(each, end) for each in progress.nodes if each.startswith(f"{name}/") and (end := progress.ends.get(each))]
    for each, end in ends:
        if end.status not in ("done", "skipped"):
            return Settle(name, end.status, f"`{each}`: {end.reason}")
    if ends and all(end.status == "skipped" for _, end in ends):
        return Settle(name, "skipped", ends[0][1].reason)
    return Settle(name, "done")


def of_run(progress: Progress) -> FinishRun:
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


def why(attempt: Attempt) -> str:
    """Say in one line why an attempt is accepted."""
    count, changed = len(attempt.checks), len(attempt.files_changed)
    if not count and not changed:
        return UNPROVEN
    checks = "all checks pass" if count > 1 else "its check passes" if count else "no check was asked for"
    return f"{checks}; {changed or 'no'} file{'' if changed == 1 else 's'} changed"
