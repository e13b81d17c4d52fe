"""The table of honest work: every attempt is right and delivers what its task asks."""

from tests.evidence import (
    honest_again,
    honest_altered,
    honest_fifth,
    honest_fourth,
    honest_more,
    honest_other,
    honest_outside,
    honest_python,
    honest_sixth,
)
from tests.evidence.case import Case

HONEST: tuple[Case, ...] = (
    *honest_python.HONEST,
    *honest_other.HONEST,
    *honest_more.HONEST,
    *honest_altered.HONEST,
    *honest_again.HONEST,
    *honest_outside.HONEST,
    *honest_fourth.HONEST,
    *honest_fifth.HONEST,
    *honest_sixth.HONEST,
)
#: Kinds that are refused or called doubtful.
REFUSED: tuple[str, ...] = ()
