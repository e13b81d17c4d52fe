"""The runs that prove one attempt's work: its checks on what it delivered, at the base, with the base's own tests."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence

from msgspec import structs

from corral.attempt.proof import product_calls, tree_runs, trees
from corral.attempt.proof.tree_runs import TreeRuns, ignore_result, is_unexplained, results_of, with_results
from corral.attempt.proof.trees import ReadChange
from corral.attempt.proof.trials import Trials
from corral.machines.host import Host
from corral.model import AttemptRecord, CheckObservation, CheckResult, Doubt, EvidenceDetail
from corral.model import Evidence as Word
from corral.model.events import Checked, Event, Noted
from corral.model.evidence import Proof, Tree, unchecked_evidence
from corral.model.flow import Task
from corral.rules.checks import base_comparison, grading
from corral.rules.checks.base_comparison import compare_with_base, judge_flaky, sighting
from corral.rules.checks.grading import CheckRuns, GradingResult, WorkFacts
from corral.rules.checks.steering import Harness, roles
from corral.rules.checks.steering.written_answers import claimed_files
from corral.store.interface import Store

Emit = Callable[[Event], None]


class EvidenceCollector:
    """Finds out what the checks of one attempt prove."""

    def __init__(self, host: Host, task: Task, record: AttemptRecord, emit: Emit, store: Store | None) -> None:
        """`store` remembers results; None: all is run anew, beside what the attempt itself left."""
        self._host, self._task, self._emit = host, task, emit
        self._trees = TreeRuns(host, task, record, store)
        self._made: list[str] = []  #: commits for checks alone

    async def prove(self, commit: str | None, base: str | None) -> Proof:
        """Run the checks on what was delivered, and whatever else is needed to believe them."""
        try:
            return await self._prove(commit, base)
        finally:
            await trees.let_go(self._host, self._made)

    async def _prove(self, commit: str | None, base: str | None) -> Proof:
        delivered, before = await self._here_and_before(commit, base)
        if self._host.stop.is_set():
            return self._proof(results_of(delivered))
        if commit == base:  # nothing was changed: this is the base
            now = with_results(
                delivered,
                [compare_with_base(each.result, sighting(each.result)) for each in delivered],
            )
            return self._prove_unchanged([judge_flaky(each.result) for each in now])
        compared = [each.result for each in delivered]
        if before is not None:
            pairs = zip(compared, before, strict=True)
            compared = [compare_with_base(now, sighting(then.result)) for now, then in pairs]
        delivered = with_results(delivered, [judge_flaky(each) for each in compared])
        self._say_differences(delivered)
        ran = CheckRuns(delivered=delivered, base=before)
        passed = all(each.result.passed for each in delivered)
        if commit is None or before is None or not passed or self._host.stop.is_set():
            return self._grade(ran, WorkFacts())
        looked = await trees.look(self._host.repository, base, commit, self._task)
        shadows = self._shadows(before, delivered)
        try:  # what an agent wrote is read here, in many languages
            harness, doubts = await asyncio.to_thread(looked.harness_and_doubts, self._task.checks, shadows)
        except trees.TROUBLES as error:
            return self._grade(ran, WorkFacts(unreadable=f"{type(error).__name__}: {error}"[:200]))
        return await self._with_harness(looked, ran, harness, self._work(looked, harness, doubts, shadows))

    def _prove_unchanged(self, results: list[CheckResult]) -> Proof:
        self._say_differences(with_results([CheckObservation(result=each) for each in results], results))
        if not all(each.passed for each in results):
            return self._proof(results)
        if self._task.read_only:
            return self._proof(results, unchecked_evidence("nothing was changed, as the task is read-only"))
        words = "nothing was changed: its checks pass as they do at the base"
        return self._proof(results, Word(grade="unharmed", reasons=(words,)))

    async def _here_and_before(
        self, commit: str | None, base: str | None
    ) -> tuple[tuple[CheckObservation, ...], tuple[CheckObservation, ...] | None]:
        """Run the checks on what was delivered and at the base, side by side where nothing is shared between them."""
        here = asyncio.ensure_future(
            self._trees.run_unnoted("delivered", commit, lambda result: self._emit(Checked(result)))
        )
        first = None
        if base is not None and self._trees.side_by_side and not await self._same_tree(commit, base):
            first = asyncio.ensure_future(self._first_before(base, here))
        try:
            delivered = await here
            await self._trees.note("delivered", commit, delivered)
            # Without a commit to start from the base is an empty tree, where every check fails: only a pass says
            # something.
            empty = base is None and not all(each.result.passed for each in delivered)
            if commit == base or empty or (first is None and self._host.stop.is_set()):
                return delivered, None
            then = await (first or self._first_before(base, here))
            await self._trees.note("base", base, then)
            return delivered, await self._before(base, delivered, then)
        finally:
            for each in (here, first):
                if each is not None and not each.done():
                    each.cancel()
                    await asyncio.gather(each, return_exceptions=True)

    async def _same_tree(self, commit: str | None, base: str) -> bool:
        tree = self._host.repository.tree_of
        return commit == base or (commit is not None and await tree(commit) == await tree(base))

    async def _first_before(
        self, base: str | None, here: asyncio.Future[tuple[CheckObservation, ...]]
    ) -> tuple[CheckObservation, ...]:
        async def again(then: Sequence[CheckObservation]) -> bool:
            return _worth_again(await asyncio.shield(here), then)

        return await self._trees.run_unnoted("base", base, ignore_result, again)

    async def _before(
        self, base: str | None, now: Sequence[CheckObservation], found: tuple[CheckObservation, ...]
    ) -> tuple[CheckObservation, ...]:
        """Return what the checks say at the base; run them once more where the work's own failed by chance."""
        by_chance = [
            each.result.flaky and then.result.passed and not then.result.flaky
            for each, then in zip(now, found, strict=True)
        ]
        if any(by_chance) and not self._host.stop.is_set():
            again = await self._trees.run_checks("base3", base, self._task.checks, ignore_result)
            found = with_results(found, [
                structs.replace(then.result, flaky=then.result.flaky or not other.result.passed)
                for then, other in zip(found, again, strict=True)
            ])  # fmt: skip
            self._trees.keep(await self._trees.key(base), found)
        return found

    def _work(
        self, looked: ReadChange, harness: Harness, doubts: Sequence[Doubt], shadows: tuple[str, ...]
    ) -> WorkFacts:
        checks, by_product = self._task.checks, dict.fromkeys(harness.decided_by_product, harness.decides)
        return WorkFacts(
            steered=tuple(structs.replace(each, path=_text(each.path)) for each in harness.steered),
            own=tuple(check in harness.decided_by_own_tests for check in checks),
            decides=tuple(tuple(map(_text, by_product.get(check, ()))) for check in checks),
            claims=claimed_files(checks, harness.product, looked.changed, looked.listed, looked.contents),
            doubts=tuple(structs.replace(each, path=_text(each.path)) for each in doubts),
            shadows=shadows,
            tests_task=self._task.type == "test",
            unasked=tuple(_text(path) for path in harness.paths("allowed") if not self._is_asked_for(path)),
            product=tuple(map(_text, harness.product)),
            renamed=harness.renamed if harness.moved_tests or harness.renamed else None,
        )

    def _is_asked_for(self, path: str) -> bool:
        return roles.role_of(path) not in ("test", "runner") or roles.asks_to_change(self._task, path)

    async def _with_harness(self, looked: ReadChange, ran: CheckRuns, harness: Harness, work: WorkFacts) -> Proof:
        """Run the checks with the base's own tests, where something that steers them was changed."""
        commit, strict = looked.commit, not harness.own_tests_only
        if trees.differs(harness, strict=strict):
            commit = await self._make(
                "harness", trees.harness_commit(self._host, "harness", looked, harness, strict=strict)
            )
            self._trees.notes.append(f"with the base's own tests, as {_steered_names(harness)} changed")
            ran = structs.replace(ran, harness=await self._trees.suite("harness", commit, ignore_result))
            shadows = self._shadows(ran.base or (), ran.harness or ())
            work = structs.replace(work, shadows=tuple(dict.fromkeys((*work.shadows, *shadows))))
        ran = structs.replace(ran, base=await self._settle_ids(looked.base, ran.base, ran.harness or ran.delivered))
        if grading.needs_allowed(ran, work) and not self._host.stop.is_set():
            commit, ran = await self._with_allowed(looked, harness, ran)
        if not self._host.stop.is_set() and (ids := grading.worth_altering(ran, work)):
            trials = Trials(self._host, self._trees, looked, commit, self._made)
            ran, work = await trials.run_all(ran, work, ids)
        if not self._host.stop.is_set() and grading.grade(ran, work).evidence is not None:
            ran = await self._with_held_out(looked, commit, ran)
            work = structs.replace(work, held_out=await tree_runs.files(self._host), check_texts=looked.check_texts())
        if work.outside is None and not self._host.stop.is_set() and grading.is_proven(ran, work):
            found = await product_calls.probe_outside(
                self._host, looked, commit, grading.counting_runs(ran, work), self._trees
            )
            work = structs.replace(work, outside=found)
        return self._grade(ran, work)

    async def _settle_ids(
        self,
        base: str | None,
        before: Sequence[CheckObservation] | None,
        now: Sequence[CheckObservation],
        tree: Tree = "base",
    ) -> tuple[CheckObservation, ...] | None:
        """Find out which ids of the base are other ones in each run, where some are gone and as many came."""
        if before is None:
            return None
        doubtful = [base_comparison.may_be_unstable(then, each) for then, each in zip(before, now, strict=False)]
        if not any(doubtful) or self._host.stop.is_set():
            return tuple(before)
        name = "base3" if tree == "base" else "heldoutbase2"
        again = await self._trees.run_checks(name, base, self._task.checks, ignore_result)
        found = tuple(base_comparison.with_unstable(then, each) for then, each in zip(before, again, strict=True))
        self._trees.keep(await self._trees.key(base, tree), found)
        return found

    async def _with_allowed(self, looked: ReadChange, harness: Harness, ran: CheckRuns) -> tuple[str, CheckRuns]:
        """Run the checks with what the task lets change, and with that alone."""
        commit = looked.commit
        allowed: tuple[CheckObservation, ...] = ran.delivered
        if trees.differs(harness, strict=False):
            commit = await self._make(
                "allowed", trees.harness_commit(self._host, "allowed", looked, harness, strict=False)
            )
            allowed = await self._trees.suite("allowed", commit, ignore_result)
        control = None
        if looked.base and not self._host.stop.is_set() and all(grading.can_pass(each) for each in allowed):
            only = await self._make("control", trees.control_commit(self._host, looked, harness.steered))
            control = await self._trees.suite("control", only, ignore_result, again=_never)
            self._trees.notes.append("with what the task lets change, with and without the product")
        return commit, structs.replace(ran, allowed=allowed, control=control)

    async def _with_held_out(self, looked: ReadChange, commit: str, ran: CheckRuns) -> CheckRuns:
        """Run the checks with files that no agent ever sees laid over the tree."""
        if self._host.plan.evidence.held_out is None:
            return ran
        self._trees.notes.append("with held-out files, here and at the base")
        after = await self._trees.suite("held-out", commit, ignore_result)
        before = None
        if not self._host.stop.is_set():
            before = await self._trees.suite("held-out base", looked.base, ignore_result)
            before = await self._settle_ids(looked.base, before, after, "held-out base")
        return structs.replace(ran, held_out=after, held_out_base=before)

    def _shadows(self, base: Sequence[CheckObservation], now: Sequence[CheckObservation]) -> tuple[str, ...]:
        """Return modules that the base's run had from elsewhere and this run has from its own tree, unasked."""
        found: set[str] = set()
        for before, after in zip(base, now, strict=False):
            if before.report and after.report:
                outside = {*before.report.outside} - {*before.report.inside}
                found |= outside & {*after.report.inside}
        asked = set(re.findall(r"\w+", self._task.prompt))
        return tuple(sorted(found - asked))

    async def _make(self, name: str, making: Awaitable[str]) -> str:
        commit = await making
        self._made.append(name)
        return commit

    # --- what is said of it

    def _grade(self, ran: CheckRuns, work: WorkFacts) -> Proof:
        graded = grading.grade(ran, work)
        for first, last in zip(ran.delivered, graded.results, strict=True):
            if first.result.note != last.note:
                self._emit(Checked(last))
        if self._trees.notes:
            self._say(f"its checks also ran {'; '.join(self._trees.notes)}")
        return self._proof(graded.results, graded.evidence, graded, work)

    def _proof(
        self,
        results: Sequence[CheckResult],
        word: Word | None = None,
        graded: GradingResult | None = None,
        work: WorkFacts | None = None,
    ) -> Proof:
        detail = EvidenceDetail(
            trees=self._trees.trees,
            runs=tuple(self._trees.runs),
            tests=graded.tests if graded else (),
            altered=graded.altered if graded else (),
            steered=work.steered if work else (),
            doubts=work.doubts if work else (),
            notes=(*self._trees.notes, *([work.outside.note] if work and work.outside and work.outside.note else [])),
        )
        return Proof(results=tuple(results), evidence=word, detail=detail)

    def _say_differences(self, seen: Sequence[CheckObservation]) -> None:
        for each in seen:
            if words := base_comparison.comparison_text(each.result):
                self._say(words)

    def _say(self, words: str) -> None:
        self._emit(Noted(words))


async def _never(_: Sequence[CheckObservation]) -> bool:
    return False


def _worth_again(now: Sequence[CheckObservation], then: Sequence[CheckObservation]) -> bool:
    """Tell whether a failure at the base needs a second look: not where its tests, by name, fail there and pass now."""
    return any(
        is_unexplained(before.result)
        and not (after.result.passed and before.report and "failed" in before.report.tests.values())
        for after, before in zip(now, then, strict=True)
    )


def _text(path: str) -> str:
    """Return a path as text that can be stored: git's need not be UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def _steered_names(harness: Harness) -> str:
    paths = [_text(each.path) for each in harness.steered]
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
