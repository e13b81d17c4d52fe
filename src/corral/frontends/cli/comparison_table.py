"""The table of a run's attempts side by side, as `compare` and `demo` print it."""

from __future__ import annotations

from corral import amounts
from corral.engine.views.compare import ComparedAttempt, ComparedCheck, ComparedNode, Comparison
from corral.frontends import run_text, text
from corral.model.flow import agent_and_model

HEAD = ("PLACE", "ATTEMPT", "AGENT", "STATUS", "EVIDENCE", "CHECKS", "BROKEN", "CHANGE", "VIOLATIONS", "COST", "TIME")
DROP = ("VIOLATIONS", "TIME", "BROKEN", "COST", "STATUS", "PLACE", "CHANGE")  #: where there is no room, in this order


def comparison_lines(found: Comparison) -> list[str]:
    """Put the attempts of each node into a table."""
    tables = [_table(node, named=len(found.nodes) > 1) for node in found.nodes]
    return [line for place, lines in enumerate(tables) for line in ([""] if place else []) + lines]


def _table(node: ComparedNode, *, named: bool) -> list[str]:
    rows = [
        (
            f"{each.place or '-'}{' *' if each.winner else ''}",
            _number(each.attempt) + (f", revises {_number(each.revises)}" if each.revises else ""),
            agent_and_model(each.agent, each.model),
            each.status + (f" ({each.tries} tries)" if each.tries > 1 else ""),
            each.evidence.grade if each.evidence else "-",
            "; ".join(map(_check, each.checks)) or "-",
            str(each.new_failures),
            f"{amounts.count(each.files_changed, 'file')} +{each.insertions} -{each.deletions}",
            str(len(each.outside)),
            text.money(each.cost),
            amounts.seconds(each.seconds),
        )
        for each in node.attempts
    ]
    head = [f"node {node.node}: {node.status}"] if named else []
    reasons = [f"{_label(each)} {text.one_line(each.reason, 1000)}{_extra(each)}" for each in node.attempts]
    return [*head, *text.table(HEAD, rows, DROP), *reasons, f"{'winner' if node.winner else 'none'}: {node.why}"]


def _label(each: ComparedAttempt) -> str:
    return f"{each.place}." if each.place else f"attempt {_number(each.attempt)}:"


def _number(attempt: str) -> str:
    return attempt.rpartition("-")[2]


def _check(check: ComparedCheck) -> str:
    """Write `FAIL -> pass`, with counts of tests where they are known: `FAIL 3/4 -> pass 4/4`."""
    after = _state(check.after) + _count(check.tests_after)
    if check.before is None:
        return after
    return f"{_state(check.before)}{_count(check.tests_before)} -> {after}" + (" flaky" if check.flaky else "")


def _state(passed: bool) -> str:  # noqa: FBT001
    return "pass" if passed else "FAIL"


def _count(tests: run_text.Tally | None) -> str:
    return "" if tests is None or tests.passed is None else f" {tests.passed}/{tests.passed + tests.failed}"


def _extra(each: ComparedAttempt) -> str:
    scores = [f"{name} {value:g}" for name, value in sorted(each.scores.items())]
    return f" ({', '.join(scores)})" if scores else ""
