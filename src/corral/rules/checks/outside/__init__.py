"""The product outside the tests: calls that its tests check, made by an ordinary program."""

from corral.rules.checks.outside.checked import Checked
from corral.rules.checks.outside.finding import Probe, Settings, probes, states_of, wanted
from corral.rules.checks.outside.verdict import Line, Outside, answers, judged

__all__ = ["Checked", "Line", "Outside", "Probe", "Settings", "answers", "judged", "probes", "states_of", "wanted"]
