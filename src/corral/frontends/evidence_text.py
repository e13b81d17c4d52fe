"""Evidence in words: one line for summaries, and all that is known for `corral evidence`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from corral.frontends.text import one_line, printable, table
from corral.model import AlteredTests, Attempt, Doubt, EvidenceRun, SteeringFile, TestChange
from corral.model.flow import agent_and_model

if TYPE_CHECKING:
    from corral.engine.views.evidence import EvidenceView, GradedAttempt

HEAD = ("TREE", "ENDED", "TESTS", "TIME", "REPORT", "CHECK")
MOST_SHOWN = 20  #: names of one kind
MOST_LINE = 1000
TREES = {
    "delivered": "the work as it was delivered",
    "base": "what the work started from",
    "harness": "the work with the base's own tests and settings of tests",
    "allowed": "the same, with the files that the task lets change",
    "control": "the base with these files alone: there the checks must fail",
    "altered": "the work with other expected values in its tests: there these must fail",
    "reordered": "the work again, its tests in the opposite order: a part of them where they take long",
    "again": "the work once more: a check whose tests cannot be chosen must not pass by chance",
    "base again": "the base once more: what was fixed must fail each time",
    "held-out": "that, with the held-out files",
    "held-out base": "the base with the held-out files",
}


def line(attempt: Attempt) -> str:
    """Say the grade and its reasons in one line; nothing where there is no grade."""
    if attempt.evidence is None:
        return ""
    return grade_words(attempt.evidence.grade, attempt.evidence.reasons)


def grade_words(grade: str, reasons: Sequence[str]) -> str:
    return one_line(f"{grade}: {'; '.join(reasons)}" if reasons else grade, MOST_LINE)


def lines(found: EvidenceView) -> list[str]:
    """Say how an attempt was checked."""
    who = agent_and_model(found.agent, found.model)
    mark = ", the winner" if found.winner else ""
    text = [f"{found.grade or 'no grade'}  {found.attempt} ({who}): {found.status}{mark}"]
    if found.grade is None and found.error:
        text.append(f"  {one_line(found.error, MOST_LINE)}")
    text += [f"  {printable(reason)}" for reason in found.reasons]
    text += _section(
        "trees", [f"{name:<13}  {hashed[:12]}  {TREES.get(name, '')}" for name, hashed in found.trees.items()]
    )
    text += _section("runs", table(HEAD, [_run(each) for each in found.runs]) if found.runs else [])
    for each in (change for change in found.tests if _says_something(change)):
        text += _section(f"tests of `{printable(each.command)}`", _tests(each))
    for each in found.altered:
        text += _section(f"altered tests of `{printable(each.command)}`, which must fail", _altered_rows(each))
    text += _section("files that steer tests", _steered_rows(found.steered))
    text += _section("doubts", [_doubt(each) for each in found.doubts[:MOST_SHOWN]])
    text += _section("checks were also run", [printable(note) for note in found.notes])
    if len(found.attempts) > 1:
        text += _section("attempts of this run", [_short(each) for each in found.attempts])
    return text


def _section(name: str, rows: Sequence[str]) -> list[str]:
    return [name, *(f"  {row}" for row in rows)] if rows else []


def _run(each: EvidenceRun) -> tuple[str, ...]:
    ended = printable(each.note) if each.note else "passed" if each.passed else f"FAILED ({each.exit_code})"
    tests = ""
    if each.tests and each.tests.passed is not None:
        tests = f"{each.tests.passed}/{each.tests.passed + each.tests.failed}"
    time = "known" if each.cached else f"{each.seconds:.1f} s"
    return (each.tree, ended, tests or "-", time, "+".join(each.reporter) or "exit code", printable(each.command))


def _says_something(each: TestChange) -> bool:
    counted = (each.before, each.after) != (None, None)
    return counted or bool(each.added or each.fixed or each.missing or each.skipped)


def _tests(each: TestChange) -> list[str]:
    counts = [f"{'?' if each.before is None else each.before} at the base"]
    counts.append(f"{'?' if each.after is None else each.after} now")
    if each.added:
        counts.append(f"{each.added} new")
    rows = [", ".join(counts)]
    for word, names in (("fixed", each.fixed), ("missing", each.missing), ("skipped", each.skipped)):
        rows += [f"{word:<8} {printable(name)}" for name in names[:MOST_SHOWN]]
        rows += [f"{word:<8} and {len(names) - MOST_SHOWN} more"] if len(names) > MOST_SHOWN else []
    return rows


def _altered_rows(each: AlteredTests) -> list[str]:
    passed = {*each.unnoticed, *each.unreached}
    rows = [f"{'PASSED' if name in passed else 'failed':<8} {printable(name)}" for name in each.names[:MOST_SHOWN]]
    return [*rows, f"and {each.count - MOST_SHOWN} more"] if each.count > MOST_SHOWN else rows


def _doubt(each: Doubt) -> str:
    place = f"{printable(each.path)}:{each.line}" if each.line else printable(each.path)
    capped = " (with it nothing is proven)" if each.caps else " (weak)"
    weak = "" if each.strong else capped
    return f"{place}: {printable(each.words)}{weak}"


def _steered_rows(files: Sequence[SteeringFile]) -> list[str]:
    rows = [f"{each.how:<9} {printable(each.path)}: {printable(each.why)}" for each in files[:MOST_SHOWN]]
    return [*rows, f"and {len(files) - MOST_SHOWN} more"] if len(files) > MOST_SHOWN else rows


def _short(each: GradedAttempt) -> str:
    number = each.attempt.rpartition("-")[2]
    mark = " *" if each.winner else ""
    what = grade_words(each.grade, each.reasons) if each.grade else each.status
    return f"{number}{mark}  {agent_and_model(each.agent, each.model)}  {what}"
