"""The winner of a race is right, or there is none, or the user chooses."""

import pytest

from tests.evidence.case import Race
from tests.evidence.races import LOST, RACES
from tests.evidence.trial import Trial, marked, verdict


@pytest.mark.slow
@pytest.mark.parametrize("race", marked(RACES))
def test_the_winner_is_right(race: Race, trial: Trial) -> None:
    run = trial.race(race)
    node = run.nodes[0]
    seen = {attempt.agent: (verdict(attempt), attempt.evidence, attempt.error) for attempt in node.attempts}
    winner = {attempt.id: attempt.agent for attempt in node.attempts}.get(node.winner or "")
    if race.waits:
        right = (run.status, winner) == ("waiting", None)
    elif race.winners:
        right = winner in race.winners
    else:
        right = (run.status, winner) == ("failed", None)
    assert right == (race.kind not in LOST), (run.status, winner, run.reason, seen)


def test_there_are_enough() -> None:
    assert len({race.kind for race in RACES}) == len(RACES)
    assert len(RACES) >= 40
    assert {race.kind for race in RACES} >= set(LOST)
    assert len(LOST) <= 1
