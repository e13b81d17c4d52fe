"""The winner of a race is right, or there is none, or the user chooses."""

import pytest

from tests.evidence.case import Race
from tests.evidence.races import RACES
from tests.evidence.trial import Trial, verdict


@pytest.mark.slow
@pytest.mark.parametrize("race", RACES, ids=lambda race: race.kind)
def test_the_winner_is_right(race: Race, trial: Trial) -> None:
    run = trial.race(race)
    node = run.nodes[0]
    seen = {attempt.agent: (verdict(attempt), attempt.evidence, attempt.error) for attempt in node.attempts}
    winner = {attempt.id: attempt.agent for attempt in node.attempts}.get(node.winner or "")
    if race.waits:
        assert (run.status, winner) == ("waiting", None), (run.reason, seen)
    elif race.winners:
        assert winner in race.winners, (run.status, run.reason, seen)
    else:
        assert (run.status, winner) == ("failed", None), (run.reason, seen)


def test_there_are_enough() -> None:
    assert len({race.kind for race in RACES}) == len(RACES)
    assert len(RACES) >= 40
