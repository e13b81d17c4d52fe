"""Prove one attempt's work: its checks on what it delivered, at the base, once more where they failed."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

from msgspec import structs

from corral.engine.host import Host
from corral.engine.proof import checking
from corral.engine.talk.recorder import Recorder
from corral.events import Checked, Noted
from corral.flow import Task
from corral.model import ENCODER, CheckResult
from corral.rules import evidence, judge
from corral.world import collecting
from corral.world.store import suites

#: Checkouts made beside an attempt's own, which a crash may leave.
BESIDE = ("check", "check2", "recheck", "recheck2", "base", "base2", "base3", "score")
_flights: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


def _flight(key: str) -> asyncio.Lock:
    """Return the lock of a suite: attempts that race want the same at the same moment."""
    return _flights.setdefault(key, asyncio.Lock())


class Evidence:
    """Finds out what the checks of one attempt prove."""

    def __init__(self, recorder: Recorder, host: Host, task: Task, *, races: bool = False) -> None:
        self._recorder, self._host, self._task, self._races = recorder, host, task, races
        self._record = recorder.record

    async def prove(self, commit: str | None, base: str | None) -> list[CheckResult]:
        """Run the checks on what was delivered, and whatever else is needed to believe them."""
        results = await self._suite("check", commit, lambda result: self._recorder.emit(Checked(result)))
        if self._host.stop.is_set():
            return results
        if base is not None and commit == base:  # nothing was changed: this is the base
            return [evidence.judged_by_chance(evidence.against(each, evidence.sighting(each))) for each in results]
        if base is not None and self._worth_comparing(results):
            before = await self._before(base, results)
            results = [evidence.against(now, then) for now, then in zip(results, before, strict=True)]
        results = [evidence.judged_by_chance(each) for each in results]
        if base is not None and commit is not None and all(each.passed for each in results):
            results = await self._with_tests_of(base, commit, results)
        for each in results:
            if words := evidence.told(each):
                self._recorder.emit(Noted(words))
        return results

    def _worth_comparing(self, results: Sequence[CheckResult]) -> bool:
        """A check that passes and has nothing to do with tests is as good as it can be: the base could add nothing."""
        return self._races or any(not each.passed or each.tests or evidence.tests(each.command) for each in results)

    async def _before(self, base: str, now: Sequence[CheckResult]) -> list[evidence.Sighting]:
        """Return how the checks ended at the base; looked at twice where the work's own failed by chance."""
        found = await self._suite("base", base, _unheard)
        by_chance = [each.flaky and then.passed and not then.flaky for each, then in zip(now, found, strict=True)]
        if any(by_chance) and not self._host.stop.is_set():
            again = await checking.run(self._host, self._beside("base3"), base, self._task.checks, _unheard)
            found = [
                structs.replace(then, flaky=then.flaky or not other.passed)
                for then, other in zip(found, again, strict=True)
            ]
            await self._keep(base, found)
        return [evidence.sighting(each) for each in found]

    async def _with_tests_of(self, base: str, commit: str, results: Sequence[CheckResult]) -> list[CheckResult]:
        """Believe checks that pass only if they pass with the base's own tests too, and with as many."""
        task, host = self._task, self._host
        changed, added = await host.repository.changed_and_added(base, commit)
        guarded = judge.guarded_by(task.checks, task, changed, added)
        again: Sequence[CheckResult] = results
        if guarded:
            original = await collecting.with_files_of(host.repository, commit, base, guarded)
            again = await self._suite("recheck", original, _unheard)
        touched = [path for path in (*changed, *added) if not judge.named_in(task, path)]
        return [self._believed(first, second, guarded, touched) for first, second in zip(results, again, strict=True)]

    def _believed(
        self, first: CheckResult, second: CheckResult, guarded: Sequence[str], touched: Sequence[str]
    ) -> CheckResult:
        if not (second.passed or second.flaky):
            files = ", ".join(guarded[:5])
            words = f"`{first.command}` passes only with changed tests: {files}"
            return self._noted(structs.replace(first, note=words, output=second.output, log=second.log))
        if self._task.type == "test":
            return first
        counted = evidence.missing(structs.replace(second, exit_code=0, before=first.before), touched)
        return self._noted(structs.replace(first, note=counted.note)) if counted.note else first

    def _noted(self, result: CheckResult) -> CheckResult:
        self._recorder.emit(Checked(result))
        return result

    # --- running

    async def _suite(self, name: str, commit: str | None, told: Callable[[CheckResult], None]) -> list[CheckResult]:
        """Run all checks on a commit, or find out that they were: a failure is looked at twice."""
        key = await self._key(commit)
        async with _flight(key):
            known = suites.find(self._recorder.store, key, time.time())
            if known is not None:
                cached = [structs.replace(each, cached=True) for each in known]
                for each in cached:
                    told(each)
                return cached
            results = await checking.run(self._host, self._beside(name), commit, self._task.checks, told)
            failed = [place for place, each in enumerate(results, 1) if not each.passed and not each.note]
            if failed and not self._host.stop.is_set():
                # A later check may need what an earlier one made, so those before it are run too.
                checks = self._task.checks[: failed[-1]]
                again = await checking.run(self._host, self._beside(f"{name}2"), commit, checks, _unheard)
                for place in failed:
                    results[place - 1] = evidence.once_more(results[place - 1], again[place - 1])
            if not self._host.stop.is_set():
                suites.keep(self._recorder.store, key, results, time.time())
            return results

    async def _keep(self, commit: str, results: Sequence[CheckResult]) -> None:
        suites.keep(self._recorder.store, await self._key(commit), results, time.time())

    async def _key(self, commit: str | None) -> str:
        """Hash all that the result of a check depends on, as far as we know of it."""
        host, plan = self._host, self._host.plan
        tree = await host.repository.tree_of(commit) if commit else ""
        # Another run starts where the person may have changed what lies beside the repository's own files.
        own = plan.base is None or tree != await host.repository.tree_of(plan.base) or _brings_more(host)
        parts = (
            tree,
            self._task.checks,
            self._task.time_limit_seconds,
            plan.git_dir,
            plan.setup,
            plan.level,
            host.boxes.fitted.scope,
            self._record.run if own else "",
        )
        return hashlib.sha256(ENCODER.encode(parts)).hexdigest()

    def _beside(self, name: str) -> Path:
        return Path(self._record.folder).with_name(f"{self._record.attempt.id}-{name}")


def _brings_more(host: Host) -> bool:
    return bool(host.plan.setup.copy) or (host.repository.folder / ".worktreeinclude").exists()


def _unheard(_: CheckResult) -> None:
    """Tell nobody: what is compared with is not the attempt's own doing."""
