"""Tests of the server itself."""

from collections.abc import Iterator

import pytest

from tests.rig.stores import close_all


@pytest.fixture(autouse=True)
def kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.delenv("CORRAL_STORE", raising=False)
    yield "postgres"
    close_all()
