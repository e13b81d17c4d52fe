"""What is tried again for a pull request, and when."""

import pytest

from corral.model.forge import Remark
from corral.rules.merge import pull_request
from corral.rules.merge.pull_request import FollowStep, remark_parts

OLD = " (in an older version)"


def test_what_cannot_begin_waits_twice_as_long_each_time_up_to_a_day() -> None:
    waits = [pull_request.again_seconds(tries) for tries in (0, 1, 2, 7, 8, 10_000)]
    assert waits == [600, 1200, 2400, 76_800, 86_400, 86_400]


@pytest.mark.parametrize(
    ("remark", "said"),
    [
        (
            Remark(id="1", author="ada", text="```suggestion\n```", file="a.py", line=3, last_line=5),
            ["ada suggests to remove a.py:3-5."],
        ),
        (
            Remark(id="1", author="ada", text="no\n```suggestion:-2+1\nx = 1\n```", file="a.py", line=4, outdated=True),
            [f"ada says on a.py:4{OLD}:\nno\nada suggests to replace a.py:2-5{OLD} with exactly:\n```text\nx = 1\n```"],
        ),
        (
            Remark(id="1", author="ada", text="````suggestion\n```sh\nls\n```\n````", file="a.md", line=1, last_line=1),
            ["ada suggests to replace a.md:1 with exactly:\n````text\n```sh\nls\n```\n````"],
        ),
        (
            Remark(id="1", author="ada", text="```suggestion\nnever closed", file="a.py", line=1, old=True),
            ["ada says on a.py:1 (before the change):\n```suggestion\nnever closed"],
        ),
    ],
)
def test_suggestions_are_lines_to_replace(remark: Remark, said: list[str]) -> None:
    assert remark_parts(FollowStep(act="revise", reason="", remarks=(remark,))) == said


def test_hostile_suggestions_take_little() -> None:
    many = Remark(id="1", author="eve", text="```suggestion\n" * 100_000, file="a.py", line=1)
    assert len(remark_parts(FollowStep(act="revise", reason="", remarks=(many,)))[0]) < 5000
