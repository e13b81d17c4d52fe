"""Every test of the store is run on each database."""

from collections.abc import Iterator

import pytest

from tests.rig.stores import close_all


@pytest.fixture(autouse=True, params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The kind of store that a test opens; processes that it starts open the same."""
    monkeypatch.delenv("CORRAL_STORE", raising=False)
    if request.param == "postgres":
        monkeypatch.setenv("CORRAL_STORE", request.getfixturevalue("postgres").database())
    yield request.param
    close_all()
