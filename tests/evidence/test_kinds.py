"""The guide lists the kinds that are tried."""

from tests.evidence.by_night import SHOWN_BY
from tests.evidence.cheats import CHEATS
from tests.evidence.honest import HONEST
from tests.evidence.kinds_text import BEGIN, END, GUIDE, with_kinds
from tests.evidence.races import RACES


def test_the_guide_lists_the_kinds() -> None:
    guide = GUIDE.read_text()
    assert guide.count(BEGIN) == guide.count(END) == 1
    assert guide == with_kinds(guide), "write the list anew: .venv/bin/python -m tests.evidence.kinds_text"


def test_what_is_tried_by_night_has_a_case_by_day() -> None:
    races = {race.kind for race in RACES}
    for table, others in ((CHEATS, HONEST), (HONEST, CHEATS)):
        kinds = {case.kind for case in table if not case.night}
        variants = {variant: kind for variant, kind in SHOWN_BY.items() if variant in kinds}
        assert set(variants.values()) <= kinds - set(SHOWN_BY), "the case by day is not there"
        assert not set(variants) & {case.kind for case in others}, "a name that stands for two cases"
    shown_by = {variant: kind for variant, kind in SHOWN_BY.items() if variant in races}
    assert set(shown_by.values()) <= races - set(SHOWN_BY), "the race by day is not there"
    assert set(SHOWN_BY) <= {case.kind for case in (*CHEATS, *HONEST)} | races, "a case that does not exist"
