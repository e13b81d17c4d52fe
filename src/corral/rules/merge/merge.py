"""Decide what of a run is merged, and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from corral.model import OPEN, Attempt, NodeState, Question, Run
from corral.model.errors import BadRequest
from corral.model.flow import agent_and_model
from corral.model.merge import FilePick, MergeRecord

MOST_SUBJECT = 72
MOST_HUNKS = 100_000
NUMBERS = re.compile(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*")
WEEK = 7 * 86400.0


def attempts_to_merge(run: Run, pick: str | None) -> list[tuple[NodeState, Attempt]]:
    """Return whose work is merged: of each node that is done its winner; or the one attempt that was picked."""
    if pick is not None:
        return [_picked_attempt(run, pick)]
    if run.status in OPEN:
        raise _not_over(run, f"run {run.run} is not over: {run.status}")
    won = [(node, each) for node in run.nodes for each in node.attempts if each.id == node.winner and each.commit]
    if run.status != "done" or not won:
        with_work = [each.id for node in run.nodes for each in node.attempts if each.commit]
        why = f"run {run.run} is {run.status}" if run.status != "done" else f"run {run.run} changed nothing"
        hint = f"look, then choose: corral merge {run.run} --pick {with_work[-1]}" if with_work else ""
        raise BadRequest(f"there is nothing to merge: {why}", hint=hint)
    return won


def override_text(run: Run, pick: str) -> str:
    """Say what a picked attempt was refused for; nothing where it was not."""
    _, attempt = _picked_attempt(run, pick)
    if attempt.status == "done" or attempt.error is None:
        return ""
    return f"{attempt.id} is {attempt.status} and merged as you picked it; it was refused: {attempt.error.message}"


def _not_over(run: Run, words: str) -> BadRequest:
    """Say what a run that is not over needs: time, or someone who drives it."""
    if run.status in OPEN and run.reason and "corral resume" in run.reason:  # nobody drives it
        ways = f"continue it: corral resume {run.run}; or end it: corral stop {run.run}"
        return BadRequest(f"{words}, and {run.reason}", hint=ways)
    return BadRequest(words, hint=f"wait for it: corral logs -f {run.run}")


def _picked_attempt(run: Run, pick: str) -> tuple[NodeState, Attempt]:
    pairs = [(node, attempt) for node in run.nodes for attempt in node.attempts]
    names = ", ".join(f"{attempt.id} ({attempt.agent})" for _, attempt in pairs)
    found = [pair for pair in pairs if pick in (pair[1].id, _number(pair[1].id))]
    again = {attempt.retry_of for _, attempt in pairs if attempt.commit}  # a later try effective for it
    found = found or [
        pair for pair in pairs if pair[1].commit and pair[1].id not in again and pick in _attempt_names(pair[1])
    ]
    if not found:
        raise BadRequest(f"run {run.run} has no attempt `{pick}`", hint=f"it has: {names}" if names else "")
    if len(found) > 1:
        fit = ", ".join(f"{_number(each.id)} ({agent_and_model(each.agent, each.model)})" for _, each in found)
        raise BadRequest(f"several attempts are `{pick}`: {fit}", hint="say the number of the one that is meant")
    node, attempt = found[0]
    if attempt.status in OPEN:
        raise _not_over(run, f"attempt {attempt.id} is not over: {attempt.status}")
    if not attempt.commit:
        raise BadRequest(f"attempt {attempt.id} changed nothing", hint=f"it has: {names}")
    return node, attempt


def attempt_named(run: Run, name: str, among: Sequence[str]) -> str | None:
    """Return which of some attempts a user means: by id, number, or agent; None: none, or several."""
    pairs = [each for node in run.nodes for each in node.attempts if each.id in among]
    said = name.strip()
    found = [each for each in pairs if said in (each.id, _number(each.id))]
    found = found or [each for each in pairs if said in _attempt_names(each)]
    return found[0].id if len(found) == 1 else None


def _number(attempt: str) -> str:
    return attempt.rpartition("-")[2]


def _attempt_names(attempt: Attempt) -> set[str]:
    """Return what an attempt is called besides its number: its agent, also with its model."""
    shown = agent_and_model(attempt.agent, attempt.model)
    return {attempt.agent, shown, f"{attempt.agent}:{attempt.model}"}


def take(text: str, who: str) -> FilePick:
    """Read what is to be taken of whom: `a.py`, or hunks of it, `a.py#1,3-5`; `a.py#all` is a file with such a name."""
    path, sign, numbers = text.rpartition("#")
    if not sign or not path or not (numbers == "all" or NUMBERS.fullmatch(numbers)):
        return FilePick(text, who)
    found: list[int] = []
    for part in numbers.split(",") if numbers != "all" else ():
        first, _, last = part.partition("-")
        if int(last or first) - int(first) > MOST_HUNKS or int(first) == 0:
            raise BadRequest(f"--take {text}: {part} are no hunks", hint="they are numbered from 1")
        found += range(int(first), int(last or first) + 1)
    if numbers != "all" and not found:
        raise BadRequest(f"--take {text}: that names no hunk", hint=f"--take {path}#1,3-5={who}")
    return FilePick(path, who, tuple(dict.fromkeys(found)))


def _revise(run: Run, later: Collection[str], earlier: Collection[str]) -> bool:
    """Tell whether attempts continue from others: they contain their work."""
    before = {each.id: each.revises for node in run.nodes for each in node.attempts}

    def goes_on(attempt: str) -> bool:
        name = before.get(attempt)
        while name is not None and name not in earlier:
            name = before.get(name)
        return name is not None

    return all(map(goes_on, later))


def refuse_another(run: Run, asked: MergeRecord, effective: Sequence[MergeRecord]) -> None:
    """Refuse other work of a node than what a branch has of it: rivals are to choose from, not to be added up."""
    node_of = {attempt.id: node.id for node in run.nodes for attempt in node.attempts}
    wanted = _by_node(asked, node_of)
    for record in effective:
        for node, there in _by_node(record, node_of).items():
            other = node in wanted and (there != wanted[node] or set(record.take) != set(asked.take))
            if other and not _revise(run, wanted[node], there):
                numbers = ", ".join(sorted(map(_number, there), key=int))
                words = (
                    f"attempt {numbers} of this run is" if len(there) == 1 else f"attempts {numbers} of this run are"
                )
                hint = f"take that back first: corral undo {run.run}"
                raise BadRequest(f"{words} merged into {record.into} already", hint=hint)


def _by_node(record: MergeRecord, node_of: Mapping[str, str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for attempt in record.attempts or ((record.attempt,) if record.attempt else ()):
        if attempt in node_of:
            found.setdefault(node_of[attempt], set()).add(attempt)
    return found


def subject(run: Run) -> str:
    first = run.task.strip().splitlines()[0] if run.task.strip() else run.run
    return first if len(first) <= MOST_SUBJECT else first[: MOST_SUBJECT - 3] + "..."


def message(run: Run, attempts: Sequence[str], *, squashed: bool, into: str) -> str:
    """Return what a commit of a merge says."""
    head = subject(run) if squashed else f"Merge {run.run} into {into}\n\n{subject(run)}"
    trailers = "".join(f"Corral-Attempt: {attempt}\n" for attempt in attempts)
    return f"{head}\n\nCorral-Run: {run.run}\n{trailers}"


def nodes_of(run: Run, commits: tuple[str, str] | None) -> tuple[str, str] | None:
    """Return the nodes that made two commits; None where it is not one each."""
    found = [
        next((node.id for node in run.nodes for each in node.attempts if each.commit == commit), None)
        for commit in commits or ()
    ]
    return (found[0], found[1]) if len(found) == 2 and found[0] and found[1] else None


def suspects(run: Run) -> list[tuple[tuple[str, Attempt], tuple[str, Attempt]]]:
    """Return the pairs of a run's nodes whose results changed the same file: they may conflict when it is merged."""
    won = [(node.id, each) for node in run.nodes for each in node.attempts if each.id == node.winner and each.commit]
    return [
        (one, other)
        for one, other in combinations(won, 2)
        if one[0] != other[0] and in_both(one[1].files_changed, other[1].files_changed)
    ]


def in_both(one: Sequence[str], other: Sequence[str]) -> set[str]:
    """Return the paths of each that the other has too, or that lie in a folder which is a file there."""
    found: set[str] = set()
    for mine, theirs in ((one, frozenset(other)), (other, frozenset(one))):
        found.update(path for path in mine if path in theirs or not theirs.isdisjoint(_folders(path)))
    return found


def _folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def result_question(run: Run, now: float) -> Question:
    """Ask whether a result is merged."""
    into = run.merge.into or "its branch"
    return Question(
        key=f"{run.run}/result",
        run=run.run,
        kind="approval",
        about="result",
        text=f"Merge run {run.run} into {into}?",
        context=f"corral diff {run.run} shows it. Any other answer than `merge` leaves it on its branch",
        choices=("merge", "later", "reject"),
        default="later",
        deadline=now + WEEK,
    )


def question(record: MergeRecord, now: float) -> Question:
    """Ask how a merge in conflict continues."""
    names = ", ".join(conflict.path for conflict in record.conflicts[:8])
    who = f"Run {record.run} and {record.into}"
    sides = "ours: the branch's, theirs: the run's"
    if record.between:
        one, other = record.between
        who, sides = f"{one} and {other} of run {record.run}", f"ours: what {one} wrote, theirs: what {other} wrote"
    return Question(
        key=f"{record.run}/merge/{record.id}",
        run=record.run,
        attempt=record.attempt,
        kind="conflict",
        about="merge",
        text=f"{who} both changed {names}. Whose version counts there?",
        context=(
            f"{sides}; either answer merges the run, if its checks pass. "
            f"File by file: corral merge {record.run} --resolve FILE=ours|theirs|base|PATH. Nothing was moved yet"
        ),
        choices=("ours", "theirs", "abort"),
        default="abort",
        deadline=now + WEEK,
    )
