"""The cost of a run: a sum, and how well it is known."""

import pytest

from corral.engine.views.run_document import total_cost
from corral.model import Attempt, Cost


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
