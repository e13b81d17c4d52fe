"""The guide lists the kinds that are tried."""

from tests.evidence.kinds_text import BEGIN, END, GUIDE, with_kinds


def test_the_guide_lists_the_kinds() -> None:
    guide = GUIDE.read_text()
    assert guide.count(BEGIN) == guide.count(END) == 1
    assert guide == with_kinds(guide), "write the list anew: .venv/bin/python -m tests.evidence.kinds_text"
