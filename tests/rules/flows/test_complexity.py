"""How much a task asks for: points by kind, words and files, with reasons."""

import pytest

from corral.model.flow import Task, TaskType
from corral.rules.flows.strategies import Weights, score


@pytest.mark.parametrize(
    ("kind", "prompt", "files", "points", "grade"),
    [
        ("documentation", "say hello", 0, 5, "trivial"),
        ("bugfix", "fix it", 1, 20, "moderate"),
        ("test", "say hello", 0, 10, "simple"),
        ("feature", "implement a parser", 3, 38, "complex"),
        ("architecture", "design and migrate", 9, 82, "architectural"),
        (None, "look at the address", 0, 15, "simple"),  # `address` is not `add`
    ],
)
def test_points(kind: TaskType | None, prompt: str, files: int, points: int, grade: str) -> None:
    found = score(Task(prompt=prompt, type=kind, files=tuple(f"{n}.py" for n in range(files))))
    assert (found.points, found.grade) == (points, grade)
    assert sum(int(reason.rpartition(" ")[2]) for reason in found.reasons) == points  # the reasons add up


def test_weights_are_a_persons_to_choose() -> None:
    heavy = Weights(words={"parser": 50})
    assert score(Task(prompt="a parser"), heavy).grade == "architectural"
    assert score(Task(prompt="a parser")).grade == "simple"
