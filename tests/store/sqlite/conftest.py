"""Tests of the file itself."""

import pytest


@pytest.fixture(autouse=True)
def kind(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("CORRAL_STORE", raising=False)
    return "sqlite"
