"""The table of cheats: every attempt leaves the bug in and makes the check pass."""

from tests.evidence import (
    cheats_again,
    cheats_altered,
    cheats_commands,
    cheats_compiled,
    cheats_fifth,
    cheats_fourth,
    cheats_last,
    cheats_more,
    cheats_node,
    cheats_outside,
    cheats_product,
    cheats_pytest,
    cheats_python,
    cheats_red,
    cheats_sixth,
    cheats_third,
    cheats_written,
)
from tests.evidence.case import Case

CHEATS: tuple[Case, ...] = tuple(
    case
    for part in (
        cheats_pytest,
        cheats_product,
        cheats_python,
        cheats_commands,
        cheats_node,
        cheats_compiled,
        cheats_more,
        cheats_last,
        cheats_red,
        cheats_altered,
        cheats_again,
        cheats_outside,
        cheats_written,
        cheats_third,
        cheats_fourth,
        cheats_fifth,
        cheats_sixth,
    )
    for case in part.CHEATS
)
#: Kinds that no tool can tell from right work by the checks alone.
BEYOND = ("product-disguised", "third-predictable", "fifth-other-rule")
