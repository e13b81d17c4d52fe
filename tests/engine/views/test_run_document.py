"""What views make of a run: its cost, a sum and how well it is known; what helps next."""

import pytest

from corral.engine.views.next_steps import next_steps
from corral.engine.views.run_document import total_cost
from corral.model import Attempt, Cost, Failure, NodeState, Run


@pytest.mark.parametrize(
    ("costs", "total"),
    [
        ([Cost(0.5, "reported"), Cost(0.0, "metered")], Cost(0.5, "reported")),
        ([Cost(0.5, "reported"), Cost(0.1, "metered")], Cost(0.6, "metered")),
        ([Cost(0.0, "fixed"), Cost(0.0, "metered")], Cost(0.0, "metered")),
        ([Cost(0.5, "fixed"), Cost(None, "unknown", 1.0)], Cost(0.5, "fixed", 1.0)),
        ([Cost()], Cost()),
    ],
)
def test_a_sum_is_as_good_as_its_worst_part_that_cost_something(costs: list[Cost], total: Cost) -> None:
    assert total_cost([Attempt(id="a", agent="x", cost=cost) for cost in costs]) == total


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        ("corral logs 01q shows what it printed", "Retry does what is not done."),
        ("pip install pytest; corral logs 01q shows what it printed", "Hint: pip install pytest. Retry does what is not done."),
        ("log in", "Hint: log in. Retry does what is not done."),
    ],
)  # fmt: skip
def test_a_log_that_is_offered_is_not_hinted_at_as_well(hint: str, words: str) -> None:
    attempt = Attempt(id="a", agent="x", error=Failure("check_failed", "it failed", hint))
    node = NodeState(id="main", status="failed", attempts=[attempt])
    assert next_steps(Run(run="01q", status="failed", nodes=[node])).words == words
