"""What is tried again for a pull request, and when."""

from corral.rules.merge import pull_request


def test_what_cannot_begin_waits_twice_as_long_each_time_up_to_a_day() -> None:
    waits = [pull_request.again_seconds(tries) for tries in (0, 1, 2, 7, 8, 10_000)]
    assert waits == [600, 1200, 2400, 76_800, 86_400, 86_400]
