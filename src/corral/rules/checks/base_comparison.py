"""Tests and checks compared with the base: which were fixed, which are gone, which failures are new or chance."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, structs

from corral import amounts
from corral.model import CheckObservation, CheckResult, Report, Sighting, Tally, TestChange
from corral.model.evidence import MOST_NAMES, Outcome

GO_TEST = re.compile(r"(?:[^\s/]+/)*?([^\s/.]+\.(?:Test|Example|Fuzz|Benchmark)\w*(?:/.*)?)")
OFF: tuple[Outcome, ...] = ("skipped", "xfailed")
#: Ids that runners give what failed before any test of it ran: the file, module, class or suite is in the group.
STAND_INS = (
    re.compile(r"(?:^|\.)_FailedTest\.(.+)$"),
    re.compile(r"^(?:setUp|tearDown)(?:Class|Module) \((.+)\)$"),
    re.compile(r"^(.+?)(?: >)? \"(?:before|after) (?:all|each)\" hook\b"),
)


class IdComparison(Struct, frozen=True, kw_only=True):
    """What the ids of one check say."""

    change: TestChange
    against: tuple[str, ...] = ()  #: speaks against the work
    limits: tuple[str, ...] = ()  #: nothing is proven by it
    remarks: tuple[str, ...] = ()  #: worth a line, and no more


def excuse_nothing(_: str) -> bool:
    return False


def compare_ids(
    base: CheckObservation,
    now: CheckObservation,
    excused: Callable[[str], bool] = excuse_nothing,
    renamed: Mapping[str, str] | None = None,
) -> IdComparison:
    """Compare the tests of one check by id; `excused` tells of an id that the task lets go.

    A test that failed at the base counts like one that passed: skipped now, it was not fixed. `renamed`: tests of the
    base lie in other files now, or have other names in them (old -> new); None: none does.
    """
    before, after = base.report, now.report
    if before is None or not before.tests:
        return _compare_counts(base, now)
    if after is None or not after.tests:
        words = f"`{now.result.command}` ran {len(before.tests)} tests at the base and none here"
        return IdComparison(change=_change(base, now), against=(words,))
    if before.cut or after.cut:
        words = f"`{now.result.command}` has too many tests to compare them all by name"
        return IdComparison(change=_change(base, now), remarks=(words,))
    gone = [name for name, outcome in before.tests.items() if outcome not in OFF and name not in after.tests]
    gone = [name for name in gone if renamed is None or not _has_moved(name, before, after, renamed)]
    off = [name for name, outcome in before.tests.items() if outcome not in OFF and after.tests.get(name) in OFF]
    # A check that passes with failing tests at the base is lenient by itself.
    lax = {name for name, outcome in before.tests.items() if outcome == "failed" and base.result.passed}
    failing = [name for name, outcome in after.tests.items() if outcome == "failed" and name not in lax]
    lenient = {name for name in (*gone, *off) if excused(name) or _may_change(name, before, after)}
    replaced = _replaced_ids(gone, before, after) - lenient
    stood_in = {name for name in gone if before.tests[name] == "failed" and _runs_now(name, after)} - lenient
    missed = [name for name in gone if name not in lenient | replaced | stood_in]
    outside = [name for name in stood_in if not _runs_now(name, after, before)]
    others = {name for name in _enough(missed, before, after) if before.tests[name] == "failed"}
    missed = [name for name in missed if name not in others]
    unseen = [name for name, outcome in after.tests.items() if outcome in OFF and name not in before.tests]
    limits = [
        *_tests_text("failed at the base outside of their tests", outside, "failed at the base outside of its tests"),
        *_tests_text("of the base run under other names", sorted(others), "of the base runs under another name"),
        *_tests_text("are skipped, and the base did not come to them", unseen if stood_in else (),
               "is skipped, and the base did not come to it"),
    ]  # fmt: skip
    against = [
        *_tests_text("do not run any more", missed, "does not run any more"),
        *_tests_text("are skipped here and ran at the base", [name for name in off if name not in lenient],
               "is skipped here and ran at the base"),
        *_tests_text("fail although the check ended with 0", failing, "fails although the check ended with 0"),
    ]  # fmt: skip
    remarks = _tests_text(
        "of the base do not run or are skipped", sorted(lenient), "of the base does not run or is skipped"
    )
    remarks += _tests_text("have other ids in each run", sorted(replaced), "has another id in each run")
    change = _change(base, now, tuple(name for name in gone if name not in stood_in), tuple(off))
    return IdComparison(change=change, against=tuple(against), limits=tuple(limits), remarks=tuple(remarks))


def _compare_counts(base: CheckObservation, now: CheckObservation) -> IdComparison:
    """Compare by the counts that a check printed, where no reporter saw its tests."""
    before, after = count_run(base.result.tests), count_run(now.result.tests)
    change = TestChange(command=now.result.command, before=before, after=after)
    if not before or (after or 0) >= before:
        return IdComparison(change=change)
    words = f"`{now.result.command}` ran {after or 0} tests; at the base it was {before}"
    return IdComparison(change=change, limits=(words,)) if after else IdComparison(change=change, against=(words,))


def _change(
    base: CheckObservation, now: CheckObservation, missing: Sequence[str] = (), skipped: Sequence[str] = ()
) -> TestChange:
    before = base.report.tests if base.report else {}
    after = now.report.tests if now.report else {}
    fixed = [name for name, outcome in after.items() if outcome == "passed" and before.get(name) != "passed"]
    return TestChange(
        command=now.result.command,
        before=sum(outcome not in OFF for outcome in before.values()),
        after=sum(outcome not in OFF for outcome in after.values()),
        fixed=tuple(sorted(fixed)[:MOST_NAMES]),
        missing=tuple(sorted(missing)[:MOST_NAMES]),
        skipped=tuple(sorted(skipped)[:MOST_NAMES]),
        added=sum(name not in before for name in after),
    )


def stem(name: str) -> str:
    """Return the id of a test without what tells its parameters apart."""
    return name.partition("[")[0] if name.endswith("]") else name


def _may_change(name: str, before: Report, after: Report) -> bool:
    """Tell whether a test that passed may rightly be gone: other parameters of it pass, or it stood in the product."""
    return before.tests[name] == "passed" and (_sibling_passes(name, after) or _is_doctest(name))


def _runs_now(name: str, after: Report, before: Report | None = None) -> bool:
    """Tell whether an id stood for tests that the base could not load or set up, and those run and pass now.

    With `before`: and at least one of them did not pass at the base.
    """
    passed = {each for each, outcome in before.tests.items() if outcome == "passed"} if before else set[str]()
    places = [name, *(found[1] for pattern in STAND_INS if (found := pattern.search(name)))]
    return any(
        outcome == "passed"
        and other not in passed
        and any(other.startswith(place) and not other[len(place)].isalnum() for place in places if place != other)
        for other, outcome in after.tests.items()
    )


def may_be_unstable(base: CheckObservation, now: CheckObservation) -> bool:
    """Tell whether ids of the base are gone and as many others came: they may be other ones in each run."""
    before, after = base.report, now.report
    if before is None or after is None or before.unstable or before.cut or after.cut:
        return False
    gone = [name for name, outcome in before.tests.items() if outcome not in OFF and name not in after.tests]
    return bool(gone) and bool(_enough(gone, before, after))


def with_unstable(base: CheckObservation, again: CheckObservation) -> CheckObservation:
    """Note which ids of a run another run of the same tree does not have."""
    if base.report is None or again.report is None:
        return base
    tests, other = base.report.tests, again.report.tests
    differ = [name for name in tests if name not in other]
    families = {stem(name) for name in differ} - {*differ}  # where some differ, others are the same by chance
    unstable = tuple(name for name in tests if name not in other or (stem(name) != name and stem(name) in families))
    return structs.replace(base, report=structs.replace(base.report, unstable=unstable))


def _replaced_ids(gone: Sequence[str], before: Report, after: Report) -> set[str]:
    """Return ids that are other ones in each run of the base as well, where as many tests of their kind pass now."""
    unstable = {*before.unstable}
    return _enough([name for name in gone if name in unstable], before, after) if unstable else set()


def _enough(gone: Sequence[str], before: Report, after: Report) -> set[str]:
    """Return those ids whose function has at least as many new ones that pass now."""
    passing = Counter(
        _family(name) for name, outcome in after.tests.items() if outcome == "passed" and name not in before.tests
    )
    wanted = Counter(map(_family, gone))
    return {name for name in gone if passing[_family(name)] >= wanted[_family(name)]}


def _family(name: str) -> str:
    """Return the function of a parametrised id; of others their file, or the suites that they are in."""
    own = stem(name)
    if own != name:
        return own
    found = re.match(r"(.*)(?:::|\s>\s|/)", name)
    return found[1] if found else ""


def _sibling_passes(name: str, after: Report) -> bool:
    """Tell whether the function of a parametrised id still passes with other parameters."""
    own = stem(name)
    return own != name and any(outcome == "passed" and stem(other) == own for other, outcome in after.tests.items())


def _is_doctest(name: str) -> bool:
    """Tell the id of a doctest in a product file: `pkg/mod.py::pkg.mod.function`."""
    path, _, rest = name.partition("::")
    dotted = ".".join(PurePosixPath(path).with_suffix("").parts)
    module = PurePosixPath(path).stem
    from corral.rules.checks.steering import roles  # noqa: PLC0415 -- slow to load, for failed tests alone

    return bool(rest) and not roles.is_test(path) and rest.startswith((module, dotted)) and "::" not in rest


def _has_moved(name: str, before: Report, after: Report, renamed: Mapping[str, str]) -> bool:
    """Tell whether a test runs under another name now: only files that are as good as the base's are there."""
    own = re.sub(r"\w+", lambda word: renamed.get(word[0], word[0]), _without_file(name))
    return any(
        _without_file(other) in (own, _without_file(name)) and outcome == "passed" and other not in before.tests
        for other, outcome in after.tests.items()
    )


def _without_file(name: str) -> str:
    """Return an id without its file, module or folder: `a.py::T::test_x`, `tests.a.T.test_x`, `pkg/calc.TestAdd`."""
    _, mark, rest = name.partition("::")
    if not mark and (found := GO_TEST.fullmatch(name)):
        return found[1]
    return rest if mark else ".".join(name.split(".")[-2:])


def _tests_text(many: str, names: Sequence[str], one: str) -> list[str]:
    if not names:
        return []
    if len(names) == 1:
        return [f"the test {names[0]} {one}"]
    return [f"{len(names)} tests {many}: {', '.join(sorted(names)[:3])}" + (" ..." if len(names) > 3 else "")]


def sighting(result: CheckResult) -> Sighting:
    return Sighting(exit_code=result.exit_code, note=result.note, tests=result.tests, flaky=result.flaky)


def once_more(first: CheckResult, second: CheckResult) -> CheckResult:
    """Add how a check that failed ended the second time, on the same tree."""
    return structs.replace(first, again=sighting(second), flaky=second.passed)


def seen_once_more(first: CheckObservation, second: CheckObservation) -> CheckObservation:
    """Add how a check that failed ended the second time; where that is a pass, its tests count and not the first's."""
    counts = second if second.result.passed else first
    return structs.replace(counts, result=once_more(first.result, second.result))


def compare_with_base(result: CheckResult, before: Sighting | None) -> CheckResult:
    """Hold a result against the base: a failure is new unless the base failed in the same way.

    Where the base failed and did not say in which tests, nothing is known to be new.
    """
    if before is None:
        return result
    if result.passed:
        return structs.replace(result, before=before)
    failing = result.tests.failing if result.tests else ()
    known = before.tests.failing if before.tests else ()
    if before.passed:
        new, old = failing or (result.command,), ()
    elif failing and known:
        new = tuple(name for name in failing if name not in known)
        old = tuple(name for name in failing if name in known)
    else:
        new, old = (), failing or (result.command,)
    return structs.replace(result, before=before, new_failures=new, old_failures=old)


def judge_flaky(result: CheckResult) -> CheckResult:
    """Decide about a check that failed and then passed on the same tree: only where the base does so too is it passed.

    A work that fails now and then is not proven; one that came upon a test that always did so is not to blame.
    """
    if not result.flaky or result.passed:
        return result
    command = result.command
    if result.before is not None and result.before.flaky:
        first = structs.replace(sighting(result), flaky=True)
        tests = result.again.tests if result.again else result.tests
        return structs.replace(result, exit_code=0, tests=tests, again=first, new_failures=())
    return structs.replace(result, note=f"`{command}` is flaky: it failed, and then passed on the same tree")


def count_run(tests: Tally | None) -> int | None:
    """Return how many tests really ran; None where that is not known."""
    return None if tests is None or tests.passed is None else tests.passed + tests.failed


def count_lost(result: CheckResult) -> int:
    """Return how many tests fewer than at the base it ran."""
    before = count_run(result.before.tests) if result.before else None
    if not before:
        return 0
    now = count_run(result.tests)
    return before if now is None else max(0, before - now)


def comparison_text(result: CheckResult) -> str | None:
    """Say what a comparison found, where that is worth a line."""
    command = result.command
    if result.flaky:
        return result.note or f"`{command}` is flaky, here as at the base: it failed, and then passed"
    if result.new_failures or result.old_failures:
        new, old = len(result.new_failures), len(result.old_failures)
        parts = [f"{amounts.count(new, 'new failure')}: {_some(result.new_failures)}"] if new else []
        if result.old_failures == (command,):  # its tests have no names: it is one test
            parts.append("failed before as well")
        elif old:
            parts.append(f"{old} failed before as well: {_some(result.old_failures)}")
        return f"`{command}`: {'; '.join(parts)}"
    if gone := count_lost(result):
        return f"`{command}` ran {gone} tests fewer than at the base"
    return None


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
