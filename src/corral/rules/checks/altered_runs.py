"""What runs with altered tests show: failures that nobody notices, and doubts that they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corral.model import NOT_STARTED, AlteredTests, CheckObservation, Doubt
from corral.model.evidence import MOST_NAMES, Outcome
from corral.rules.checks.altering import AlteredFiles, AlteredTest
from corral.rules.checks.steering.text_patterns import EXITS, FORGES, HANDLES, PATCHES

#: Doubts about whether a failure is noticed: a run in which every altered test fails answers them.
ANSWERED = frozenset({EXITS, FORGES, HANDLES})
#: The same where what judges may be replaced: only where all of it was altered.
ANSWERED_EXACTLY = frozenset({PATCHES})


def fixed_tests(before: CheckObservation, now: CheckObservation) -> tuple[str, ...]:
    """Return the tests that pass now and did not pass at the base, where the check failed there."""
    if not _has_failed(before) or now.report is None:
        return ()
    then = before.report.tests if before.report else {}
    return tuple(name for name, end in now.report.tests.items() if end == "passed" and then.get(name) != "passed")


def _has_failed(seen: CheckObservation) -> bool:
    result = seen.result
    return result.exit_code not in (0, *NOT_STARTED) and not result.note


def of_check(
    altered: AlteredFiles, before: CheckObservation, now: CheckObservation, run: CheckObservation
) -> AlteredTests:
    """Return what became of the altered tests of one check."""
    wanted = {*fixed_tests(before, now)}
    own = [each.id for each in altered.tests if each.id in wanted]
    ends = run.report.tests if run.report else {}
    own = [name for name in own if name in ends]
    unnoticed = [name for name in own if ends.get(name) == "passed"]
    scripts = [each.id for each in altered.scripts.get(run.result.command, ())] if _has_failed(before) else []
    unnoticed += scripts if run.result.passed else []
    names = (*own, *scripts)
    inner = {each.id for each in (*altered.tests, *altered.scripts.get(run.result.command, ())) if each.inner}
    return AlteredTests(
        command=run.result.command,
        names=names[:MOST_NAMES],
        count=len(names),
        unnoticed=tuple([each for each in unnoticed if each not in inner][:MOST_NAMES]),
        unreached=tuple([each for each in unnoticed if each in inner][:MOST_NAMES]),
        unstable=tuple(_unstable(altered, now, ends)[:MOST_NAMES]),
    )


def _unstable(altered: AlteredFiles, now: CheckObservation, ends: Mapping[str, Outcome]) -> list[str]:
    """Return tests that nobody altered, in files that nobody altered, which passed before and fail now."""
    files = {_file(each.id) for each in altered.tests}
    passed = now.report.tests if now.report else {}
    return [
        name
        for name, end in ends.items()
        if end == "failed" and passed.get(name) == "passed" and _file(name) not in files and files
    ]


def _file(test: str) -> str:
    """Return the file or module of a test, by its id."""
    return test.partition("::")[0] if "::" in test else test.rpartition(".")[0].rpartition(".")[0]


def against(found: AlteredTests) -> list[str]:
    """Say what speaks against work whose tests pass with other expected values."""
    if not found.unnoticed:
        return []
    return [f"`{found.command}` passes whatever its tests expect: {_some(found.unnoticed)}"]


def limits(found: AlteredTests) -> list[str]:
    """Say why passing tests prove nothing: what judges in them never runs, or nobody notices that it fails."""
    words = {
        "passes although what judges in it fails, never runs, or looks for something else": found.unreached,
        "ran tests again that pass only by chance, or only beside others": found.unstable,
    }
    return [f"`{found.command}` {why}: {_some(names)}" for why, names in words.items() if names]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")


def answered_doubts(
    doubts: Sequence[Doubt],
    altered: AlteredFiles,
    runs: Sequence[tuple[CheckObservation, CheckObservation, CheckObservation]],
) -> list[Doubt]:
    """Return the weak doubts that are settled: all tests that show progress were altered, and every one failed.

    `runs`: of each check at the base, now, and with altered tests.
    """
    shown = [_noticed_tests(altered, *each) for each in runs if _has_failed(each[0])]
    if not shown or not all(shown):
        return []
    exact = all(each.exact for tests in shown for each in tests)
    words = ANSWERED | ANSWERED_EXACTLY if exact else ANSWERED
    return [each for each in doubts if not each.strong and each.caps and each.words in words]


def _noticed_tests(
    altered: AlteredFiles, before: CheckObservation, now: CheckObservation, run: CheckObservation
) -> list[AlteredTest]:
    """Return the altered tests of a check that failed, as they must; none where others show progress, too."""
    names = fixed_tests(before, now)
    if not names:
        noticed = not run.result.passed and not run.result.note
        return [*altered.scripts.get(run.result.command, ())] if noticed else []
    ends = run.report.tests if run.report else {}
    known = {each.id: each for each in altered.tests if ends.get(each.id) == "failed"}
    return [known[name] for name in names] if all(name in known for name in names) else []
