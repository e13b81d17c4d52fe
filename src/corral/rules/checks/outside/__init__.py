"""The product outside the tests: calls that its tests check, made by an ordinary program."""

from corral.rules.checks.outside.checked import CheckedCall
from corral.rules.checks.outside.compared_parts import changed_parts, find_self_judging
from corral.rules.checks.outside.finding import Probe, RunnerSettings, is_runner_setting, probes, states_of
from corral.rules.checks.outside.verdict import OutsideVerdict, ProbeAnswer, answers, judge_answers

__all__ = [
    "CheckedCall",
    "OutsideVerdict",
    "Probe",
    "ProbeAnswer",
    "RunnerSettings",
    "answers",
    "changed_parts",
    "find_self_judging",
    "is_runner_setting",
    "judge_answers",
    "probes",
    "states_of",
]
