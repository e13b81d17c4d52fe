"""Names of states that Corral kept by itself."""

import pytest

from corral.rules.text.names import is_moment_name, moment_name


@pytest.mark.parametrize(
    ("seconds", "name"),
    [
        (0.2, "after-0s"),
        (-3, "after-0s"),
        (45.4, "after-45s"),
        (60, "after-1m"),
        (3725, "after-1h2m5s"),
        (7200, "after-2h"),
    ],
)
def test_a_state_is_named_by_how_long_the_agent_had_worked(seconds: float, name: str) -> None:
    assert moment_name(seconds) == name
    assert is_moment_name(name)


@pytest.mark.parametrize("name", ["half-way", "after", "after-lunch", "20260131T120000000000Z"])
def test_names_of_users_are_none_of_these(name: str) -> None:
    assert not is_moment_name(name)
