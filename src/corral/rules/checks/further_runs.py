"""What further runs of a check show: with altered tests, in another order, with held-out files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from corral.model import NOT_STARTED, AlteredTests, CheckObservation, Doubt, TestOrder
from corral.model.evidence import MOST_NAMES, Outcome
from corral.rules.checks.altering import AlteredFiles, AlteredTest
from corral.rules.checks.base_comparison import stem
from corral.rules.checks.steering import roles
from corral.rules.checks.steering.text_patterns import EXITS, FORGES, HANDLES, PATCHES

#: Doubts about whether a failure is noticed: a run in which every altered test fails answers them.
ANSWERED = frozenset({EXITS, FORGES, HANDLES})
#: The same where what judges may be replaced: only where all of it was altered.
ANSWERED_EXACTLY = frozenset({PATCHES})
NOT_RUN = "no check ran the held-out files"
PATHS = re.compile(r"[\w./*?\[\]-]+")
BEHIND = (":", " ", ".", "/", "[")  #: what follows the name of a file or module in the id of a test
#: Test programs whose reporters can choose tests and their order.
ABLE = frozenset({"pytest", "unittest"})
MOST_PARAMETERS = 10  #: of one altered test function that are run
LEAST_SECONDS, SHARE = 0.3, 0.2  #: for which tests run in another order: at least, and of the time of the checks
MOST_REPEATED, MOST_ROUNDS = 10, 20  #: tests that run at the base again, and how often each does
FEW_ROUNDS = 5  #: up to which the ends of a test alone are no pattern
CHEAP_SECONDS = 5.0  #: of checks whose tests cannot be chosen: up to then the work runs them again, too
MOST_WHOLE = 3  #: how often they run again
UNSTABLE = "has tests that pass only by chance, or only in their usual order"


def fixed_tests(before: CheckObservation, now: CheckObservation) -> tuple[str, ...]:
    """Return the tests that pass now and did not pass at the base, where the check failed there."""
    if not _has_failed(before) or now.report is None:
        return ()
    then = before.report.tests if before.report else {}
    return tuple(name for name, end in now.report.tests.items() if end == "passed" and then.get(name) != "passed")


def _has_failed(seen: CheckObservation) -> bool:
    result = seen.result
    return result.exit_code not in (0, *NOT_STARTED) and not result.note


def altered_tests(
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
    files = {_file_of_test(each.id) for each in altered.tests}
    passed = now.report.tests if now.report else {}
    return [
        name
        for name, end in ends.items()
        if end == "failed" and passed.get(name) == "passed" and _file_of_test(name) not in files and files
    ]


def _file_of_test(test: str) -> str:
    """Return the file or module of a test, by its id."""
    return test.partition("::")[0] if "::" in test else test.rpartition(".")[0].rpartition(".")[0]


def altered_against(found: AlteredTests) -> list[str]:
    """Say what speaks against work whose tests pass with other expected values."""
    if not found.unnoticed:
        return []
    return [f"`{found.command}` passes whatever its tests expect: {_some(found.unnoticed)}"]


def altered_limits(found: AlteredTests) -> list[str]:
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


def runs_held_out(now: CheckObservation, without: CheckObservation, files: Sequence[str], text: str) -> bool:
    """Tell whether a check ran held-out files: by the ids of tests, or because it names or loads one of them.

    `without`: its run on the same tree without them; `text`: its command and the scripts that it runs.
    """
    tests = now.report.tests if now.report else {}
    if tests and now.report and not now.report.cut:
        if any(outcome in ("passed", "failed") for outcome in _held_out_tests(tests, without, files).values()):
            return True
        files = [each for each in files if not roles.is_test(each) or not roles.is_code(each)]
    loaded = {*(now.report.inside if now.report else ())} - {*(without.report.inside if without.report else ())}
    return any(PurePosixPath(path).stem in loaded or _is_named(path, text) for path in files)


def fail_before(
    now: CheckObservation, before: CheckObservation, without: CheckObservation, files: Sequence[str]
) -> bool:
    """Tell whether held-out tests fail at the base and pass now, where reporters name them; else the check does."""
    if now.report is None or not now.report.tests:
        return True
    theirs = [
        name for name, outcome in _held_out_tests(now.report.tests, without, files).items() if outcome == "passed"
    ]
    known: Mapping[str, Outcome] = before.report.tests if before.report else {}
    if not theirs:  # they are what other tests read
        return any(known.get(name) == "failed" for name in now.report.tests)
    return any(known.get(name, "failed") == "failed" for name in theirs)


def _held_out_tests(
    tests: Mapping[str, Outcome], without: CheckObservation, files: Sequence[str]
) -> dict[str, Outcome]:
    """Return the tests of held-out files: by the file in their ids, or because they are not there otherwise."""
    known = without.report.tests if without.report else {}
    return {name: outcome for name, outcome in tests.items() if name not in known or _is_of(name, files)}


def _is_of(name: str, files: Sequence[str]) -> bool:
    for path in files:
        pure = PurePosixPath(path)
        dotted = ".".join(pure.with_suffix("").parts)
        if name == path or name.startswith(
            tuple(f"{each}{mark}" for each in (path, dotted, pure.stem) for mark in BEHIND)
        ):
            return True
        if pure.name.endswith("_test.go") and re.search(rf"(^|/){re.escape(pure.parent.name)}\W", name):
            return True
    return False


def _is_named(path: str, text: str) -> bool:
    """Tell whether a command or script names a file, a folder of it, or a pattern that fits it."""
    pure = PurePosixPath(path)
    for word in PATHS.findall(text):
        plain = word.removeprefix("./").rstrip("/.")
        if plain in (path, pure.name) or (any(sign in plain for sign in "*?[") and _fits(path, plain)):
            return True
        if "/" in path and plain and path.startswith(f"{plain}/"):
            return True
    return (
        roles.is_code(path)
        and re.search(rf"\b(import|from|require|source)\b[^\n]*\b{re.escape(pure.stem)}\b", text) is not None
    )


def _fits(path: str, pattern: str) -> bool:
    return pattern.strip("*?/") != "" and (fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}"))


def order_alone(altered: AlteredFiles, *, every: bool) -> TestOrder | None:
    """Return the order in which altered tests run alone; None: what else runs may decide. `every`: all parameters."""
    if not altered.tests or altered.scripts:
        return None
    return TestOrder(only=tuple(each.id for each in altered.tests), most=0 if every else MOST_PARAMETERS)


def reversed_order(ids: Iterable[str], runs: Sequence[CheckObservation], seconds: float) -> TestOrder | None:
    """Return the opposite order, files of these tests first; None: no reporter can change it, or there is no order."""
    able = [each.report for each in runs if each.report and ABLE & {*each.report.runners}]
    if not any(len(each.tests) > 1 for each in able):
        return None
    files = {_file_or_module(each): each for each in ids}
    return TestOrder(turned=True, first=tuple(files.values()), seconds=LEAST_SECONDS + SHARE * seconds)


def _file_or_module(test: str) -> str:
    return test.partition("::")[0] if "::" in test else stem(test).rpartition(".")[0]


def reordered_limits(now: CheckObservation, again: CheckObservation) -> list[str]:
    """Say which tests passed and fail in another order."""
    passed, ends = (each.report.tests if each.report else {} for each in (now, again))
    failed = [name for name, end in ends.items() if end == "failed" and passed.get(name) == "passed"]
    return [f"`{now.result.command}` {UNSTABLE}: {', '.join(failed[:3])}{' ...' * (len(failed) > 3)}"] if failed else []


def repeated_order(runs: Sequence[tuple[CheckObservation, CheckObservation]], seconds: float) -> TestOrder | None:
    """Return the order in which fixed tests run at the base again and again; None: no reporter can choose tests.

    `runs`: each check at the base and in the run that counts; `seconds`: how long these took.
    """
    names = [name for before, now in runs if _can_choose(now) for name in fixed_tests(before, now)]
    if not names:
        return None
    step = -(-len(names) // MOST_REPEATED)
    return TestOrder(
        only=tuple(names[::step]),
        most=MOST_REPEATED,
        seconds=LEAST_SECONDS + SHARE * seconds,
        times=MOST_ROUNDS,
    )


def _can_choose(seen: CheckObservation) -> bool:
    return bool(seen.report and ABLE & {*seen.report.runners})


def whole_runs(runs: Sequence[tuple[CheckObservation, CheckObservation]], seconds: float) -> tuple[int, int]:
    """Return how often checks whose tests cannot be chosen run again, at the base and on the work.

    The base runs at least once more, unless its failure was looked at twice already; what is quick runs more often.
    """
    cheap = LEAST_SECONDS + SHARE * seconds
    taken = [sum(each.result.seconds for each in side) for side in zip(*runs, strict=True)]
    quick = [min(MOST_WHOLE, int(cheap // max(each, 0.001))) for each in taken]
    looked = all(before.result.again is not None for before, _ in runs if _has_failed(before))
    short = taken[1] <= CHEAP_SECONDS
    return max(quick[0], int(short or not looked)), max(quick[1], int(short))


def whole_needed(runs: Sequence[tuple[CheckObservation, CheckObservation]], again: Sequence[CheckObservation]) -> int:
    """Return how often the whole checks must run at the base: where fixed tests pass alone, not merely at times."""
    ends = [
        found
        for (before, now), seen in zip(runs, again, strict=False)
        if _can_choose(now)
        for name in fixed_tests(before, now)
        if any(found := _passes(name, seen))
    ]
    if not ends or any(map(_is_mixed, ends)):
        return 0
    return 1 if min(map(len, ends)) > FEW_ROUNDS else 2


def _passes(name: str, seen: CheckObservation) -> tuple[bool, ...]:
    """Return whether a test passed, for each time that it ran."""
    if seen.report is None or name not in seen.report.tests:
        return ()
    ends = seen.report.repeated.get(name) or (seen.report.tests[name],)
    return tuple(end == "passed" for end in ends if end not in ("skipped", "xfailed"))


def _is_mixed(passes: Sequence[bool]) -> bool:
    """Tell whether a test passes at times; one that changes once may depend on what the first time left."""
    return sum(first != second for first, second in itertools.pairwise(passes)) > 1


def chance_limits(
    before: CheckObservation,
    now: CheckObservation,
    base_again: Sequence[CheckObservation],
    base_whole: Sequence[CheckObservation],
    again: Sequence[CheckObservation],
) -> list[str]:
    """Say that a check fails only at times at the base, or passes only at times now.

    `base_again`: it once more at the base, its fixed tests alone where a reporter can choose them; `base_whole`: all of
    it there, where these passed alone; `again`: on the work.
    """
    if not _has_failed(before):
        return []
    command, names = now.result.command, fixed_tests(before, now)
    if _can_choose(now) and names:
        by_chance = [name for name in names if _passes_by_chance(name, base_again, base_whole)]
    elif _can_choose(now):  # those that were chosen are tests of another check
        by_chance = []
    elif names:
        by_chance = [name for name in names if any(any(_passes(name, each)) for each in base_again)]
    else:
        by_chance = [command] if any(each.result.passed for each in base_again) else []
    if by_chance:
        which = f" ({_some(by_chance)})" if names else ""
        return [f"`{command}` fails at times at the base{which}: passing once shows nothing"]
    failed = [each for each in again if not each.result.passed and not each.result.note]
    return [f"`{command}` fails at times on the work: passing once shows nothing"] if failed else []


def _passes_by_chance(
    name: str, base_again: Sequence[CheckObservation], base_whole: Sequence[CheckObservation]
) -> bool:
    """Tell whether a test that failed at the base passes there at times, and not because it ran alone."""
    ends = [_passes(name, each) for each in base_again]
    return any(map(_is_mixed, ends)) or any(any(_passes(name, each)) for each in base_whole)
