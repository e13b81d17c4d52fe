"""When a race is decided before all have arrived: who cannot win any more, and when the money is nearly gone."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from corral import amounts
from corral.model import GRADES, Attempt, AttemptRecord, Evidence, Grade
from corral.rules.race import select
from corral.rules.race.select import How

NEARLY = 0.8  #: of the budget: with a proven result at hand, the rest is not spent on another


class Race(Struct, frozen=True, kw_only=True):
    """A race as it is."""

    over: Sequence[Attempt]  #: the last try of each lane that has come to its end
    at_work: Sequence[AttemptRecord]
    how: How = "evidence"
    grade: Grade = "proven"  #: the best that one at work can still reach
    scored: bool = False  #: a scorer or a judge has a say: nobody knows yet what they will say
    budget_usd: float | None = None
    spent_usd: float = 0.0
    now: float = 0.0


def best(race: Race) -> Attempt | None:
    """Return the best of those that have arrived, if it is done."""
    ranking = select.rank(race.over, race.how)
    return next((each for each in race.over if each.id == ranking.winner), None)


def decision_reason(race: Race) -> str | None:
    """Return why no attempt need start or continue; None while one might."""
    first = best(race)
    if first is None:
        return None
    if race.how == "first":
        return f"{first.id} is {_word(first)}, and the first"
    nearly = race.budget_usd is not None and race.spent_usd >= NEARLY * race.budget_usd
    if nearly and (race.how != "evidence" or _is_unbeaten(first, race)):
        spent = f"{amounts.usd(race.spent_usd)} of {amounts.usd(race.budget_usd)}"
        return f"{first.id} is {_word(first)}, and {spent} are spent"
    return None


def _word(first: Attempt) -> str:
    return select.grade_of(first) or "proven"


def _is_unbeaten(first: Attempt, race: Race) -> bool:
    """Tell whether nobody at work can reach a better grade."""
    grade = select.grade_of(first)
    return grade is None or GRADES.index(grade) <= GRADES.index(race.grade)


def to_stop(race: Race) -> dict[str, str]:
    """Return which attempts at work are to be stopped, and why."""
    if why := decision_reason(race):
        return {record.attempt.id: why for record in race.at_work}
    first = best(race)
    if first is None:
        return {}
    return {
        record.attempt.id: f"{first.id} is {_word(first)}, and this one cannot do better any more"
        for record in race.at_work
        if is_beaten(first, record, race)
    }


def is_beaten(first: Attempt, record: AttemptRecord, race: Race) -> bool:
    """Tell whether even the best that an attempt at work could still become is worse than a proven one."""
    if race.scored and race.how == "evidence":
        return False
    if race.how == "evidence" and select.grade_of(first) == "unharmed":
        return False  # size, cost and time decide nothing among those that are not proven
    best_grade = GRADES[min(GRADES.index(each) for each in (race.grade, select.grade_of(first) or race.grade))]
    so_far = structs.replace(
        record.attempt,
        seconds=max(0.0, race.now - record.started),
        evidence=Evidence(grade=best_grade) if first.evidence is not None else None,
    )
    return select.key(first, race.how) < select.hoped_key(so_far, race.how)
