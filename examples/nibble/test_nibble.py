"""Does nibble keep what corral promises? `pytest test_nibble.py`, or `python test_nibble.py` without pytest."""

import sys
from pathlib import Path

import pytest
from corral.testing.conformance import Conformance, main

SUITE = Conformance(
    agent="nibble",
    key="NIBBLE_KEY",
    url="NIBBLE_URL",
    url_path="/v1",
    asks="/chat/completions",
    path=[str(Path(__file__).parent)],  # where its program lies
)


@pytest.mark.parametrize("case", SUITE.cases)
def test_conformance(case: str, tmp_path: Path) -> None:
    SUITE.check(case, tmp_path)


if __name__ == "__main__":
    sys.exit(main(SUITE))
