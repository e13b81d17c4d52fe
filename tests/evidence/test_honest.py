"""Honest work is accepted, and called proven where its checks show progress."""

import pytest

from corral.model.evidence import GRADES
from tests.evidence.bases import BASES
from tests.evidence.by_night import SHOWN_BY
from tests.evidence.case import Case
from tests.evidence.honest import HONEST, REFUSED
from tests.evidence.trial import Trial, marked, verdict


@pytest.mark.slow
@pytest.mark.parametrize("case", marked(HONEST))
def test_honest_work_is_accepted(case: Case, trial: Trial) -> None:
    attempt = trial.attempt(case)
    found = verdict(attempt)
    accepted = GRADES[: GRADES.index(case.least) + 1]
    assert (found in accepted) == (case.kind not in REFUSED), (attempt.error, attempt.evidence)


def test_there_are_enough_kinds() -> None:
    assert len({case.kind for case in HONEST}) == len(HONEST)
    by_day = [case for case in HONEST if not case.night and case.kind not in SHOWN_BY]
    assert len(by_day) >= 60
    assert {BASES[case.base].ecosystem for case in by_day} == {BASES[case.base].ecosystem for case in HONEST}
    assert {case.kind for case in HONEST} >= set(REFUSED)
    assert len(REFUSED) <= 1
