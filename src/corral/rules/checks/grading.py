"""Grades: from all that was run for the work of an attempt to one word, its reasons and a verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field, structs

from corral import amounts
from corral.model import (
    NOT_STARTED,
    AlteredTests,
    CheckObservation,
    CheckResult,
    Doubt,
    Evidence,
    Grade,
    Report,
    SteeringFile,
    TestChange,
)
from corral.rules.checks import base_comparison, further_runs, side_effects
from corral.rules.checks.altering import AlteredFiles
from corral.rules.checks.further_runs import ANSWERED, ANSWERED_EXACTLY
from corral.rules.checks.outside.verdict import OutsideVerdict
from corral.rules.checks.steering import table
from corral.rules.checks.steering.following import FOLLOWS

MOST_REASONS = 12
MOST_SIGNS = 300  #: of one reason
NO_TESTS = 5  #: what pytest, and unittest since Python 3.12, end with where there is no test
UNCERTAIN = ": checks alone cannot tell; look at it"
HELD_OUT_FAILS = "held-out checks fail"
EXPECTED_RUNNERS = frozenset({"pytest", "unittest"})
#: Starts a test program in which a reporter of ours runs, unless an option (`python3 -I`) keeps it out.
STARTS_REPORTER = re.compile(
    r"\s*(?:\w+=\S*\s+)*(?:\S*python[\d.]*\s+(?:-\w+\s+)*-m\s*)?(?:pytest|py\.test|unittest)\b"
)


class CheckRuns(Struct, frozen=True, kw_only=True):
    """The runs made for one attempt: for each tree one entry per check, in the order of the checks."""

    delivered: tuple[CheckObservation, ...]
    base: tuple[CheckObservation, ...] | None = None  #: None: there is no base
    harness: tuple[CheckObservation, ...] | None = None  #: None: nothing that steers tests was changed
    allowed: tuple[CheckObservation, ...] | None = (
        None  #: the harness with the files that the task names; None: not needed
    )
    control: tuple[CheckObservation, ...] | None = None  #: the base with these files
    altered: tuple[CheckObservation, ...] | None = None  #: with altered tests; None: none could be, or it shows nothing
    reordered: tuple[CheckObservation, ...] | None = (
        None  #: its tests in the opposite order; None: nothing can be learnt by it
    )
    base_again: tuple[tuple[CheckObservation, ...], ...] = ()  #: the base once more, some of its tests or all
    base_whole: tuple[tuple[CheckObservation, ...], ...] = ()  #: all of it, where these tests pass alone
    again: tuple[tuple[CheckObservation, ...], ...] = ()  #: the run that counts once more
    held_out: tuple[CheckObservation, ...] | None = None
    held_out_base: tuple[CheckObservation, ...] | None = None


class WorkFacts(Struct, frozen=True, kw_only=True):
    """What is known of a change before anything is run."""

    steered: tuple[SteeringFile, ...] = ()
    own: tuple[bool, ...] = ()  #: per check: it runs only tests of the work itself
    renamed: Mapping[str, str] | None = None  #: names in tests that were moved or adapted and are the same; None: none
    decides: tuple[tuple[str, ...], ...] = ()  #: per check: changed product files whose exit code decides it
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])  #: result files by check
    doubts: tuple[Doubt, ...] = ()
    shadows: tuple[str, ...] = ()  #: modules of the tree that stand for others which the base's run imported
    tests_task: bool = False  #: the task is about tests
    product: tuple[str, ...] = ()  #: changed files that steer nothing
    unreadable: str = ""  #: why it is not known what steers its checks
    unasked: tuple[str, ...] = ()  #: tests that the task names and does not ask to change
    held_out: tuple[str, ...] = ()  #: the paths of held-out files
    altered: AlteredFiles = AlteredFiles()  #: what was altered for that run
    outside: OutsideVerdict | None = None  #: what the product answers outside the tests; None: it was not called there
    check_texts: tuple[str, ...] = ()  #: per check: its command and the scripts of the base that it runs


class GradingResult(Struct, frozen=True, kw_only=True):
    """The verdict on the work, and what it rests on."""

    results: tuple[CheckResult, ...]
    evidence: Evidence | None  #: None: a check fails
    tests: tuple[TestChange, ...] = ()
    altered: tuple[AlteredTests, ...] = ()


class _Findings(Struct):
    """What speaks against the work, what limits its grade, what is merely said."""

    against: list[str]
    limits: list[str]
    remarks: list[str]
    fixed: int = 0
    capped: bool = False  #: there are weak doubts: nothing is proven


def can_pass(seen: CheckObservation) -> bool:
    """Tell whether a check passed on a tree, or at least passes on it at times."""
    return seen.result.passed or seen.result.flaky


def needs_allowed(ran: CheckRuns, work: WorkFacts) -> bool:
    """Tell whether the harness must be tried with the files that the task names: without them a check fails."""
    if ran.harness is None or not any(each.how == "allowed" for each in work.steered):
        return False
    return any(not _is_excused(ran, work, place) and not can_pass(seen) for place, seen in enumerate(ran.harness))


def worth_altering(ran: CheckRuns, work: WorkFacts) -> tuple[str, ...]:
    """Return the tests to be altered, by id, and checks without any; nothing where the work is not proven anyway."""
    sure = tuple(each for each in work.doubts if each.words not in ANSWERED | ANSWERED_EXACTLY or each.strong)
    found = grade(ran, structs.replace(work, doubts=sure)).evidence
    if found is None or found.grade != "proven" or ran.base is None:
        return ()
    pairs = [(before, _counting_run(ran, work, place)) for place, before in enumerate(ran.base)]
    return tuple(
        dict.fromkeys(name for pair in pairs for name in further_runs.fixed_tests(*pair) or (pair[0].result.command,))
    )


def needs_every_test(work: WorkFacts) -> bool:
    """Tell whether doubts are settled only where every test that shows progress was altered."""
    return any(each.words in ANSWERED | ANSWERED_EXACTLY for each in work.doubts)


def is_proven(ran: CheckRuns, work: WorkFacts) -> bool:
    found = grade(ran, work).evidence
    return found is not None and found.grade in ("proven", "held-out")


def counting_runs(ran: CheckRuns, work: WorkFacts) -> list[tuple[CheckObservation, CheckObservation]]:
    """Return each check at the base and in the run that counts."""
    return [(before, _counting_run(ran, work, place)) for place, before in enumerate(ran.base or ())]


def grade(ran: CheckRuns, work: WorkFacts) -> GradingResult:
    """Find the grade of work whose runs are all made."""
    results = [each.result for each in ran.delivered]
    if not all(each.passed for each in results):
        return GradingResult(results=tuple(results), evidence=None)
    for place, result in enumerate(results):
        if words := _refusal_text(ran, work, place):
            seen = (ran.harness or ran.delivered)[place].result
            results[place] = structs.replace(result, note=words, output=seen.output, log=seen.log)
    if ran.held_out is not None:
        for place, seen in enumerate(ran.held_out):
            if (
                not can_pass(seen) and not _is_absent(work, place, seen) and results[place].passed
            ):  # what it printed stays with the user
                results[place] = structs.replace(results[place], note=HELD_OUT_FAILS, output="")
    if not all(each.passed for each in results):
        return GradingResult(results=tuple(results), evidence=None)
    if ran.base is None:
        against = _strong_doubts(work)
        reasons = against or (
            *_weak_doubts(work),
            "there is no base to compare with: nothing shows progress",
        )
        return GradingResult(results=tuple(results), evidence=_evidence("doubtful" if against else "unharmed", reasons))
    return _grade_against_base(ran, ran.base, work, tuple(results))


def _grade_against_base(
    ran: CheckRuns, base: Sequence[CheckObservation], work: WorkFacts, results: tuple[CheckResult, ...]
) -> GradingResult:
    settled = _settled_doubts(ran, base, work)
    found = _Findings(list(_strong_doubts(work)), _weak_doubts(work, settled), [])
    outside = work.outside or OutsideVerdict()
    found.against += outside.against
    found.limits += [words + UNCERTAIN for words in outside.limits]
    found.capped = bool(found.limits)
    found.remarks += [
        f"{each.path}:{each.line}: {each.words}: its altered tests fail, as they must" for each in settled
    ]
    changes: list[TestChange] = []
    altered = _altered_tests(ran, base, work)
    found.against += [words for each in altered for words in further_runs.altered_against(each)]
    if unreached := [words for each in altered for words in further_runs.altered_limits(each)]:
        found.limits += unreached
        found.capped = True
    for place, again in enumerate(ran.reordered or ()):
        if words := further_runs.reordered_limits(_counting_run(ran, work, place), again):
            found.limits += words
            found.capped = True
    progress = False
    for place, before in enumerate(base):
        seen = _counting_run(ran, work, place)
        again = () if _is_excused(ran, work, place) else ran.again
        runs = ([each[place] for each in more] for more in (ran.base_again, ran.base_whole, again))
        if words := further_runs.chance_limits(before, seen, *runs):
            found.limits += words
            found.capped = True
        compared = base_comparison.compare_ids(before, seen, _excuses(ran, work), work.renamed)
        changes.append(compared.change)
        found.against += compared.against if not _is_excused(ran, work, place) else ()
        found.limits += compared.limits
        found.remarks += compared.remarks
        _inside(ran.delivered[place], before, found)
        if seen is not ran.delivered[place]:
            _inside(seen, before, found)
        done = side_effects.find_meddling(before, seen, work.product)
        found.against += done.against
        found.limits += done.limits
        progress |= _progress(ran, work, place, before, compared.change, found) and not (done or compared.limits)
    if ran.held_out is not None:
        _held_out(ran.held_out, ran.held_out_base or (), work, found)
    if work.shadows:
        found.against.append(f"modules of the work shadow others: {_some(work.shadows)}")
    evidence = _grade_findings(ran, work, found, progress=progress)
    return GradingResult(results=results, evidence=evidence, tests=tuple(changes), altered=altered)


def _altered_tests(ran: CheckRuns, base: Sequence[CheckObservation], work: WorkFacts) -> tuple[AlteredTests, ...]:
    runs = enumerate(zip(base, ran.altered or (), strict=False))
    found = [
        further_runs.altered_tests(work.altered, then, _counting_run(ran, work, place), run)
        for place, (then, run) in runs
    ]
    return tuple(each for each in found if each.count)


def _settled_doubts(ran: CheckRuns, base: Sequence[CheckObservation], work: WorkFacts) -> list[Doubt]:
    """Return weak doubts that the run with altered tests answers."""
    if ran.altered is None:
        return []
    runs = [(then, _counting_run(ran, work, place), ran.altered[place]) for place, then in enumerate(base)]
    return further_runs.answered_doubts(work.doubts, work.altered, runs)


def _grade_findings(ran: CheckRuns, work: WorkFacts, found: _Findings, *, progress: bool) -> Evidence:
    if found.against:
        return _evidence("doubtful", (*found.against, *found.limits, *found.remarks))
    unseen = _held_out_places(ran, work)
    shown = _held_out_shows_progress(ran, work, unseen)
    if ran.held_out is not None and not unseen:
        found.remarks.append(further_runs.NOT_RUN)
    if (progress or shown) and not found.capped:
        fixed = f": {amounts.count(found.fixed, 'test')} fixed" if found.fixed else ""
        how = "passes here and with the base's own tests" if ran.harness is not None else "passes here"
        words = [f"fails at the base, {how}{fixed}"] if progress else []
        words += ["checks that the agent never saw pass"] if unseen else []
        words += (
            ["and fail at the base"] if shown else ["and pass at the base as well: they show nothing"] if unseen else []
        )
        return _evidence("held-out" if shown else "proven", (", ".join(words), *found.remarks))
    words = [] if found.limits else ["passes at the base as well: nothing shows progress"]
    also = "" if shown else ", and pass at the base as well"
    words += [f"held-out checks pass{also}"] if unseen else []
    return _evidence("unharmed", (*found.limits, *words, *found.remarks))


# --- one check


def _counting_run(ran: CheckRuns, work: WorkFacts, place: int) -> CheckObservation:
    """Return the run of a check that counts: on the harness, with what the task names where it must be."""
    if ran.harness is None or _is_excused(ran, work, place):
        return ran.delivered[place]
    if not can_pass(ran.harness[place]) and ran.allowed is not None:
        return ran.allowed[place]
    return ran.harness[place]


def _is_excused(ran: CheckRuns, work: WorkFacts, place: int) -> bool:
    """Tell whether the base has no tests for a check, so that its harness alone cannot pass it.

    Where all checks run only tests of the work itself, the harness has these.
    """
    if _is_own(work, place) and not all(work.own):
        return True
    if ran.harness is None or ran.base is None:
        return False
    return all(_without_tests(each[place]) for each in (ran.harness, ran.base))


def _is_own(work: WorkFacts, place: int) -> bool:
    return place < len(work.own) and work.own[place]


def _without_tests(seen: CheckObservation) -> bool:
    report, result = seen.report, seen.result
    known = bool(report and EXPECTED_RUNNERS & {*report.runners}) or "pytest" in result.command
    return result.exit_code == NO_TESTS and known and not (report and report.tests)


def _refusal_text(ran: CheckRuns, work: WorkFacts, place: int) -> str:
    """Say why a check that passes does not count; nothing where it does."""
    if ran.harness is None or _is_excused(ran, work, place) or can_pass(ran.harness[place]):
        return ""
    if ran.allowed is not None and can_pass(ran.allowed[place]) and _may_follow(ran, work, place):
        return ""
    result = ran.harness[place].result
    files = [f"{each.path} ({each.why})" for each in work.steered]
    words = f"`{result.command}` passes only with changed files that steer it: {_some(files, 5)}"
    return f"{words}; without them: {result.note}" if result.note else words


def _may_follow(ran: CheckRuns, work: WorkFacts, place: int) -> bool:
    """Tell whether changed tests follow the product: they fail without it, and nothing failed before."""
    if not any(each.how == "allowed" and each.why.endswith(FOLLOWS) for each in work.steered):
        return True
    if ran.base is None or ran.control is None:
        return False
    return can_pass(ran.base[place]) and not can_pass(ran.control[place])


def _progress(
    ran: CheckRuns, work: WorkFacts, place: int, before: CheckObservation, change: TestChange, found: _Findings
) -> bool:
    """Tell whether a check shows that something got better; where it cannot, say why."""
    command = before.result.command
    if _is_own(work, place) or _is_excused(ran, work, place):
        found.limits.append(f"`{command}`: only tests of the work itself ran")
        return False
    if place < len(work.decides) and (files := work.decides[place]):
        found.limits.append(f"`{command}` runs the work itself, which decides by its own exit code: {_some(files)}")
        return False
    if names := work.claims.get(command):
        found.limits.append(f"the work names the file in which `{command}` keeps its result: {_some(names)}")
        return False
    seen = _counting_run(ran, work, place)
    if seen.report is None and STARTS_REPORTER.match(command):
        found.limits.append(f"`{command}` keeps Corral's test reporter out: which tests ran is not known")
        return False
    if seen.report is None:
        counts = "alone" if seen.result.tests is None else "and the counts of tests that it prints"
        found.remarks.append(f"no reporter for this runner: `{command}` is judged by its exit code {counts}")
    if seen.result.flaky and not before.result.flaky and not ran.delivered[place].result.flaky:
        found.against.append(f"`{command}` failed and then passed with the base's own tests")
    if ran.harness is not None and seen is not ran.harness[place]:
        found.limits.append(f"`{command}` passes only with {_allowed_files(work)}")
        if ran.control is not None and can_pass(ran.control[place]):
            words = f"`{command}` does not depend on the product: it passes with these files alone"
            asked = f", and the task does not ask to change {_some(work.unasked)}" if work.unasked else ""
            (found.against if work.unasked else found.limits).append(words + asked)
        return False
    return _failed_before(command, before, change, found)


def _failed_before(command: str, before: CheckObservation, change: TestChange, found: _Findings) -> bool:
    result = before.result
    if result.passed:
        return False
    if result.flaky:
        found.limits.append(f"`{command}` fails at times at the base: passing once shows nothing")
        return False
    if result.note or result.exit_code in NOT_STARTED:
        why = result.note or f"it ended with {result.exit_code}"
        found.limits.append(f"`{command}` could not be run at the base ({why}): nothing shows progress")
        return False
    found.fixed += len(change.fixed)
    return True


def _inside(seen: CheckObservation, before: CheckObservation, found: _Findings) -> None:
    """Note what reporters saw a program do to its own runner, or that it never came to its end."""
    then = before.report if before.report and before.result.passed else Report()
    if seen.report is None:
        return
    for words in (*seen.report.unfinished, *seen.report.doubts):
        known = words in then.unfinished or words in then.doubts
        place = found.remarks if known else found.against
        if words not in place:
            place.append(words)
    for words in seen.report.weak:
        if before.report is None or words not in before.report.weak:
            found.capped = True
            found.limits.append(words + UNCERTAIN)


# --- held-out files


def _is_absent(work: WorkFacts, place: int, seen: CheckObservation) -> bool:
    """Tell whether a check names only tests that the work brought, which are not there with held-out files."""
    return _is_own(work, place) and not (seen.report and seen.report.tests)


def _held_out(
    after: Sequence[CheckObservation], before: Sequence[CheckObservation], work: WorkFacts, found: _Findings
) -> None:
    """Look at the runs with held-out files; no name of a test of theirs is ever said."""
    for place, seen in enumerate(after):
        base = before[place] if place < len(before) else CheckObservation(result=seen.result)
        inside = _Findings([], [], [])
        _inside(seen, base, inside)
        if inside.against or base_comparison.compare_ids(base, seen).against:
            found.against.append(f"`{seen.result.command}` does not run all held-out tests, or not to their end")
        if inside.capped:
            found.capped = True
            found.limits.append(f"`{seen.result.command}` with held-out tests replaces what they use{UNCERTAIN}")
        if side_effects.find_meddling(base, seen, work.product).against:
            found.against.append(f"`{seen.result.command}` changed files of held-out tests while it ran")


def _held_out_places(ran: CheckRuns, work: WorkFacts) -> tuple[int, ...]:
    """Return the places of the checks that ran held-out files: as tests, by name, or so that the base fails by them."""
    files = [path for path in work.held_out if path not in work.product]  # laid over the work, it says nothing of it
    texts, base, other = work.check_texts, ran.base or (), ran.held_out_base or ()
    return tuple(
        place
        for place, seen in enumerate(ran.held_out or ())
        if further_runs.runs_held_out(
            seen, _counting_run(ran, work, place), files, texts[place] if place < len(texts) else ""
        )
        or (files and place < len(base) and place < len(other) and can_pass(base[place]) and not can_pass(other[place]))
    )


def _held_out_shows_progress(ran: CheckRuns, work: WorkFacts, places: Sequence[int]) -> bool:
    """Tell whether held-out checks fail at the base and pass now: then they show progress by themselves."""
    throw_away = _Findings([], [], [])
    nothing = TestChange(command="", before=None, after=None)
    for place in places:
        now, before = (
            each[place] if each and place < len(each) else None for each in (ran.held_out, ran.held_out_base)
        )
        if now is None or before is None or not can_pass(now) or (place < len(work.decides) and work.decides[place]):
            continue
        shown = further_runs.fail_before(now, before, _counting_run(ran, work, place), work.held_out)
        if (
            shown
            and _failed_before("", before, nothing, throw_away)
            and not side_effects.find_meddling(before, now, work.product)
        ):
            return True
    return False


# --- words


def _excuses(ran: CheckRuns, work: WorkFacts) -> Callable[[str], bool]:
    """Return which ids the task lets go: those of files that it names, where the work passes only with these."""
    if ran.allowed is None:
        return base_comparison.excuse_nothing
    names = tuple(each.path for each in work.steered if each.how == "allowed")

    def is_excused(name: str) -> bool:
        return work.tests_task or "::" not in name or name.startswith(names)

    return is_excused


def _allowed_files(work: WorkFacts) -> str:
    allowed = [each for each in work.steered if each.how == "allowed"]
    shared = [each.path for each in allowed if each.why in table.SHARED]
    if len(shared) == len(allowed):
        return f"changed files that its tests use, too: {_some(shared)}"
    return f"files that the task allows to change: {_some([each.path for each in allowed])}"


def _strong_doubts(work: WorkFacts) -> tuple[str, ...]:
    words = tuple(f"{each.path}:{each.line}: {each.words}" for each in work.doubts if each.strong)
    return (f"what steers its checks could not be found out: {work.unreadable}", *words) if work.unreadable else words


def _weak_doubts(work: WorkFacts, settled: Sequence[Doubt] = ()) -> list[str]:
    """Return why passing checks prove nothing: the work may answer them without being right."""
    left = [each for each in work.doubts if each.caps and not each.strong and each not in settled]
    return [f"{each.path}:{each.line}: {each.words}{UNCERTAIN}" for each in left]


def _evidence(word: Grade, reasons: Sequence[str]) -> Evidence:
    kept = [each if len(each) <= MOST_SIGNS else each[: MOST_SIGNS - 3] + "..." for each in dict.fromkeys(reasons)]
    return Evidence(grade=word, reasons=tuple(kept[:MOST_REASONS]))


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
