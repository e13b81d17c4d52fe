"""Which of several attempts is the best: a total order by evidence, with a reason in words for each place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from corral import amounts
from corral.model import GRADES, Attempt, Grade
from corral.model.flow import Select as How
from corral.rules.checks import base_comparison
from corral.rules.race import variation

ALWAYS_FINE = ("net", "tried")  #: violations that did no harm


class Ranking(Struct, frozen=True, kw_only=True):
    """All attempts, the best first."""

    order: tuple[str, ...]
    winner: str | None  #: None: none is good enough
    why: str
    reasons: Mapping[str, str]  #: of each attempt: why it is where it is


class Criterion(Struct, frozen=True):
    """One thing to go by: less is better."""

    name: str
    value: Callable[[Attempt], float]
    best: str  #: said of a winner that it decided for
    words: Callable[[float, float], str]  #: said of one that comes after another for it: its own value, the other's
    #: The best value that an attempt at work can still reach. Where nobody can say, any: it is not stopped for it.
    hope: Callable[[Attempt], float] = lambda _: -math.inf


def is_proven(attempt: Attempt) -> bool:
    """Tell whether it is done; nothing less ever wins."""
    return attempt.status == "done" and all(check.passed for check in attempt.checks)


def grade_of(attempt: Attempt) -> Grade | None:
    """Return how well its work is proven; None where that was never found out."""
    return attempt.evidence.grade if attempt.evidence else None


def _grade(attempt: Attempt) -> int:
    """Return the place of its grade, the best first; runs of before grades have none, and are all alike."""
    grade = grade_of(attempt)
    return GRADES.index("unchecked" if grade is None else grade)


def _outside(attempt: Attempt) -> int:
    return sum(each.kind not in ALWAYS_FINE for each in attempt.sandbox.violations)


def _doubts(attempt: Attempt) -> int:
    """Count what makes its checks worth less: chance, and tests that do not run any more.

    Tests that it added count for nothing: an agent could add any number to win.
    """
    return sum(check.flaky + base_comparison.count_lost(check) for check in attempt.checks)


def _score(attempt: Attempt) -> float:
    return -sum(value for _, value in sorted(attempt.scores.items()) if math.isfinite(value))


def _cost(attempt: Attempt) -> float:
    usd = attempt.cost.usd
    return usd if usd is not None and math.isfinite(usd) else math.inf


def _none(_: Attempt) -> float:
    """The best value of what is counted and may still turn out to be nothing."""
    return 0.0


def _money(usd: float) -> str:
    return "unknown" if math.isinf(usd) else amounts.usd(usd)


PROVEN = Criterion(
    "done", lambda each: not is_proven(each), "the only one that is done", lambda _own, _other: "not done", _none
)
GRADE = Criterion(
    "evidence",
    _grade,
    "the best evidence",
    lambda own, other: f"weaker evidence: {GRADES[int(own)]}, against {GRADES[int(other)]}",
    _grade,
)
NEW = Criterion(
    "new failures",
    lambda each: sum(len(check.new_failures) for check in each.checks),
    "fewest new failures",
    lambda own, _: amounts.count(own, "new failure"),
    _none,
)
SCOPE = Criterion(
    "scope",
    _outside,
    "nothing outside its scope",
    lambda own, _: f"{amounts.count(own, 'write')} outside its scope",
    _outside,
)
FAILED = Criterion(
    "checks",
    lambda each: sum(not check.passed for check in each.checks),
    "most checks pass",
    lambda own, _: f"{amounts.count(own, 'check')} failed",
    _none,
)
NOTHING = Criterion(
    "delivered",
    lambda each: not each.files_changed,
    "something was delivered",
    lambda _own, _other: "it changed nothing",
    _none,
)
DOUBTS = Criterion(
    "doubts",
    _doubts,
    "its checks leave no doubt",
    lambda own, _: f"{amounts.count(own, 'doubt')} about its checks (flaky, or tests that do not run any more)",
    _none,
)
OLD = Criterion(
    "old failures",
    lambda each: sum(len(check.old_failures) for check in each.checks),
    "fewest old failures left",
    lambda own, other: f"leaves {amounts.count(own, 'old failure')}, against {other:.0f}",
    _none,
)
SCORE = Criterion("score", _score, "highest score", lambda own, other: f"score {-own:g}, against {-other:g}")
VOTES = Criterion(
    "judge",
    lambda each: -(each.votes or 0.0),
    "preferred by the judge",
    lambda own, other: f"the judge gave it {-own:g}, against {-other:g}",
)
AGREES = Criterion(
    "varied inputs",
    variation.is_outvoted,
    "most rivals agree with it on varied inputs",
    lambda _own, _other: "differs from most rivals on varied inputs",
    _none,
)
SIZE = Criterion(
    "size",
    lambda each: each.insertions + each.deletions,
    "smallest change",
    lambda own, other: f"larger change: {amounts.count(own, 'line')} against {other:.0f}",
    _none,
)
COST = Criterion(
    "cost",
    _cost,
    "lowest cost",
    lambda own, other: f"cost {_money(own)}, against {_money(other)}",
    lambda each: each.cost.usd or 0.0,
)
TIME = Criterion(
    "time",
    lambda each: each.seconds if math.isfinite(each.seconds) else math.inf,
    "quickest",
    lambda own, other: f"slower: {own:.1f} s against {other:.1f} s",
    lambda each: each.seconds,
)
OUTPUT = Criterion(
    "output",
    lambda each: -(len(each.output) if isinstance(each.output, str) else len(str(each.output or ""))),
    "most output",
    lambda own, other: f"less output: {-own:.0f} against {-other:.0f} characters",
)

BY: Mapping[How, Sequence[Criterion]] = {
    "evidence": (PROVEN, GRADE, NOTHING, NEW, SCOPE, FAILED, DOUBTS, OLD, SCORE, VOTES, AGREES, SIZE, COST, TIME),
    "cheapest": (PROVEN, COST, OUTPUT),
    "first": (PROVEN, TIME, COST),
}


def key(attempt: Attempt, how: How = "evidence") -> tuple[float, ...]:
    """Return by what attempts are ordered, but for the last tie-break."""
    values = [criterion.value(attempt) for criterion in BY[how]]
    return _key(values, how, done=is_proven(attempt))


def hoped_key(attempt: Attempt, how: How = "evidence") -> tuple[float, ...]:
    """Return the best key that an attempt at work can still have; its cost, time and grade are those it has so far."""
    return _key([criterion.hope(attempt) for criterion in BY[how]], how, done=True)


def _key(values: list[float], how: How, *, done: bool) -> tuple[float, ...]:
    if how == "cheapest":  # as the original designs: by cost among those that succeeded, else by output
        values[2 if done else 1] = 0
    return tuple(float(value) for value in values)


def rank(candidates: Sequence[Attempt], how: How = "evidence") -> Ranking:
    """Order attempts; the order does not depend on the order they are given in."""
    ranked = sorted(candidates, key=lambda each: (key(each, how), _place(each.id), each.id))
    reasons = {
        each.id: _first_words(each) if place == 0 else _behind(each, ranked[place - 1], how)
        for place, each in enumerate(ranked)
    }
    best = ranked[0] if ranked and is_proven(ranked[0]) else None
    why = _why(best, ranked[1:], how) if best else none_good(ranked)
    if best:
        reasons[best.id] = why
    return Ranking(order=tuple(each.id for each in ranked), winner=best.id if best else None, why=why, reasons=reasons)


def undecided_attempts(candidates: Sequence[Attempt], trees: Mapping[str, str]) -> tuple[str, ...]:
    """Return the attempts between which nothing but size, cost and time would decide, though none is proven.

    Checks that pass with and without the work do not say which is right: then the smallest change is often the one
    that did least. The same holds where they answer varied inputs differently and no majority agrees. Those whose
    trees are the same are one: `trees` are theirs by attempt.
    """
    equal = equal_attempts(candidates)
    if not equal or not (grade_of(equal[0]) == "unharmed" or variation.is_split(equal)):
        return ()
    return distinct_attempts(equal, trees)


def equal_attempts(candidates: Sequence[Attempt]) -> list[Attempt]:
    """Return the best, and those that only size, cost and time put behind it; none if none is done."""
    ranked = sorted(candidates, key=lambda each: (key(each), _place(each.id), each.id))
    if not ranked or not is_proven(ranked[0]):
        return []
    decisive = BY["evidence"].index(SIZE)
    return [each for each in ranked if key(each)[:decisive] == key(ranked[0])[:decisive]]


def distinct_attempts(equal: Sequence[Attempt], trees: Mapping[str, str]) -> tuple[str, ...]:
    """Return one attempt for each tree, if there are several."""
    by_tree = {trees.get(each.id) or each.id: each.id for each in reversed(equal)}
    names = tuple(sorted(by_tree.values(), key=lambda name: (_place(name), name)))  # by number: no order is a hint
    return names if len(names) > 1 else ()


def _place(name: str) -> tuple[int, str]:
    number = name.rpartition("-")[2]
    return (int(number), "") if number.isascii() and number.isdigit() else (0, number)


def _deciding(one: Attempt, other: Attempt, how: How) -> tuple[Criterion, float, float] | None:
    for criterion, mine, theirs in zip(BY[how], key(one, how), key(other, how), strict=True):
        if mine != theirs:
            return criterion, mine, theirs
    return None


def _behind(attempt: Attempt, ahead: Attempt, how: How) -> str:
    found = _deciding(attempt, ahead, how)
    if found is None:
        return f"equal to {ahead.id}, and came later"
    criterion, mine, theirs = found
    if criterion is PROVEN:
        return not_proven(attempt)
    if criterion is AGREES:
        return variation.difference(attempt)
    return criterion.words(mine, theirs)


def _why(best: Attempt, others: Sequence[Attempt], how: How) -> str:
    checks = evidence_words(best)
    if not others:
        return checks
    found = _deciding(best, others[0], how)
    agreement = variation.agreement(best) if how == "evidence" else ""
    if agreement and found and found[0] is AGREES:
        return f"{checks}; {agreement}"
    checks += f"; {agreement}" if agreement else ""
    return f"{checks}; {found[0].best if found else 'the first of equals'}"


def evidence_words(attempt: Attempt) -> str:
    """Say what its checks prove."""
    count = len(attempt.checks)
    return "all checks pass" if count > 1 else "its check passes" if count else "no check was asked for"


def _first_words(attempt: Attempt) -> str:
    return evidence_words(attempt) if is_proven(attempt) else not_proven(attempt)


def not_proven(attempt: Attempt) -> str:
    """Say in a few words why an attempt cannot win."""
    if attempt.error:
        return f"{attempt.error.kind}: {attempt.error.message}"
    return attempt.status.replace("_", " ")


def none_good(ranked: Sequence[Attempt]) -> str:
    """Say that nothing is good enough, and why not."""
    if not ranked:
        return "nothing was tried"
    words = [f"{each.agent}: {not_proven(each)}" for each in ranked]
    return "none is good enough: " + "; ".join(dict.fromkeys(words)) if len(words) > 1 else not_proven(ranked[0])
