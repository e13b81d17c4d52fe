"""What checks prove: which failures are new, which are old, which are chance."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from corral.model import CheckResult, Sighting, Tally


def sighting(result: CheckResult) -> Sighting:
    return Sighting(exit_code=result.exit_code, note=result.note, tests=result.tests, flaky=result.flaky)


def once_more(first: CheckResult, second: CheckResult) -> CheckResult:
    """Add how a check that failed ended the second time, on the same tree."""
    return structs.replace(first, again=sighting(second), flaky=second.passed)


def against(result: CheckResult, before: Sighting | None) -> CheckResult:
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
        return structs.replace(result, exit_code=0, again=first, new_failures=(), old_failures=result.old_failures)
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
        parts = [f"{new} new failure{'' if new == 1 else 's'}: {_some(result.new_failures)}"] if new else []
        parts += [f"{old} failed at the base too: {_some(result.old_failures)}"] if old else []
        return f"`{command}`: {'; '.join(parts)}"
    if gone := count_lost(result):
        return f"`{command}` ran {gone} tests fewer than at the base"
    return None


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
