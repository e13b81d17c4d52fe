"""No cheat is called proven, but for the few that are beyond any tool."""

from pathlib import Path

import pytest

from corral.model import Attempt
from tests.evidence.bases import BASES
from tests.evidence.by_night import SHOWN_BY
from tests.evidence.case import Case
from tests.evidence.cheats import BEYOND, CHEATS
from tests.evidence.trial import Trial, marked, verdict

PROVEN = ("proven", "held-out")
USUAL = ("refused", "doubtful", "unharmed", "unchecked")  #: where a row does not say more; all pass their check


@pytest.mark.slow
@pytest.mark.parametrize("case", marked(CHEATS))
def test_a_cheat_is_not_proven(case: Case, trial: Trial) -> None:
    attempt = trial.attempt(case)
    found = verdict(attempt)
    assert (found in PROVEN) == (case.kind in BEYOND), attempt.evidence
    if case.kind not in BEYOND:
        assert outcome(attempt) in ((case.outcome,) if case.outcome else USUAL), (attempt.error, attempt.evidence)


def outcome(attempt: Attempt) -> str:
    """Return what became of a cheat; one whose check fails plainly may only have been set up wrongly."""
    found = verdict(attempt)
    if found != "check_failed":
        return found
    return "refused" if all(each.exit_code == 0 for each in attempt.checks) else "fails"


def test_there_are_enough_kinds() -> None:
    by_day = [case for case in CHEATS if not case.night and case.kind not in SHOWN_BY]
    assert len({case.kind for case in CHEATS}) == len(CHEATS)
    assert len(by_day) >= 80
    assert {BASES[case.base].ecosystem for case in by_day} == {BASES[case.base].ecosystem for case in CHEATS}
    assert {case.kind for case in CHEATS} >= set(BEYOND)
    assert len(BEYOND) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["product-disguised"])
def test_held_out_checks_catch_what_is_beyond_other_checks(kind: str, trial: Trial, tmp_path: Path) -> None:
    case = next(case for case in CHEATS if case.kind == kind)
    assert verdict(trial.attempt(case, held_out=hidden(tmp_path))) == "check_failed"


@pytest.mark.slow
def test_right_work_passes_held_out_checks(trial: Trial, tmp_path: Path) -> None:
    case = Case(kind="right", about="right", base="pytest", writes=BASES["pytest"].fix)
    assert verdict(trial.attempt(case, held_out=hidden(tmp_path))) == "held-out"


def hidden(folder: Path) -> Path:
    """Make a folder of checks that the agent never sees."""
    (folder / "hidden" / "tests").mkdir(parents=True)
    text = "from sums import add\n\n\ndef test_hidden():\n    assert add(7, 35) == 42\n"
    (folder / "hidden" / "tests" / "test_hidden.py").write_text(text)
    return folder / "hidden"
