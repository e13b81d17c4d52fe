"""What steers tests in a work, how the harness tree is made without it, and doubts about product code."""

from corral.rules.checks.steering.doubts import doubts, doubts_about_surroundings
from corral.rules.checks.steering.harness import harness, missing_contents
from corral.rules.checks.steering.known_inputs import doubts_about_inputs
from corral.rules.checks.steering.own_tests import programs_of, scripts
from corral.rules.checks.steering.partial_repairs import doubts_about_repairs
from corral.rules.checks.steering.static_checks import static_doubts
from corral.rules.checks.steering.unasked_changes import doubts_about_changes, doubts_about_lines
from corral.rules.checks.steering.work import MOST_FILES, Contents, Harness, Key, PathChange, Side
from corral.rules.checks.steering.written_answers import doubts_about_answers

__all__ = [
    "MOST_FILES",
    "Contents",
    "Harness",
    "Key",
    "PathChange",
    "Side",
    "doubts",
    "doubts_about_answers",
    "doubts_about_changes",
    "doubts_about_inputs",
    "doubts_about_lines",
    "doubts_about_repairs",
    "doubts_about_surroundings",
    "harness",
    "missing_contents",
    "programs_of",
    "scripts",
    "static_doubts",
]  # fmt: skip
