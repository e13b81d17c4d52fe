"""Runs that may show that passing tests prove nothing: altered tests, another order, calls outside of tests."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from msgspec import Struct, structs

from corral.attempt.proof import product_calls
from corral.attempt.proof.tree_runs import TreeRuns, ignore_result
from corral.attempt.proof.trees import EXECUTABLE, PLAIN, TROUBLES, ReadChange, make_commit
from corral.machines.host import Host
from corral.model import CheckObservation
from corral.model.evidence import Tree
from corral.rules.checks import altering, further_runs, grading
from corral.rules.checks.altering import AlteredFiles
from corral.rules.checks.grading import CheckRuns, WorkFacts
from corral.rules.checks.outside.verdict import OutsideVerdict
from corral.rules.checks.steering import roles
from corral.world.git import blobs
from corral.world.git.collect import CommitEntry
from corral.world.git.repository import Repository

MOST_READ = 200  #: test files that are looked through
NAME = "altered"


class _Trial(Struct, frozen=True, kw_only=True):
    tree: Tree
    commit: str
    found: tuple[CheckObservation, ...]
    words: str


class Trials:
    """Tries to show that the tests which one work passes would pass anyway."""

    def __init__(self, host: Host, trees: TreeRuns, looked: ReadChange, commit: str, made: list[str]) -> None:
        """`made` gets the names of commits for checks alone."""
        self._host, self._trees, self._looked, self._commit, self._made = host, trees, looked, commit, made
        self._change = AlteredFiles()

    async def run_all(self, ran: CheckRuns, work: WorkFacts, ids: Sequence[str]) -> tuple[CheckRuns, WorkFacts]:
        """Run all of them, side by side where nothing is shared between their boxes; `ids` show progress."""
        altered = asyncio.ensure_future(self._run_altered(ran, work, ids))
        turned = asyncio.ensure_future(self._run_reordered(ran, work, ids, altered))
        probed = asyncio.ensure_future(self._run_probes(ran, work, turned))
        repeated = asyncio.ensure_future(self._run_again(ran, work, probed))
        trials = (altered, turned, probed, repeated)
        try:
            found = [await altered, await turned]
            outside_tests = await probed
            ran, words = await repeated
        finally:
            for each in trials:
                each.cancel()
            await asyncio.gather(*trials, return_exceptions=True)
        for each in found:
            if each is not None:
                await self._trees.note(each.tree, each.commit, each.found)
                self._trees.notes.append(each.words)
        for seen in (*ran.base_again, *ran.base_whole):
            await self._trees.note("base again", self._looked.base, seen)
        for seen in ran.again:
            await self._trees.note("again", self._commit, seen)
        self._trees.notes += [words] if words else []
        ran = structs.replace(ran, **{each.tree: each.found for each in found if each})
        return ran, structs.replace(work, altered=self._change, outside=outside_tests)

    async def _slot(self, before: asyncio.Future[_Trial | None] | asyncio.Future[OutsideVerdict]) -> None:
        """Wait for the one before, where they cannot run at once."""
        if not self._trees.side_by_side:
            await asyncio.wait([before])

    async def _run_altered(self, ran: CheckRuns, work: WorkFacts, ids: Sequence[str]) -> _Trial | None:
        """Run the checks with other expected values in the tests that the work made pass: these must fail."""
        failed = [each.result.command for each in ran.base or () if not each.result.passed]
        change = await alter_tests(self._host, self._looked, self._commit, ids, failed)
        if not change.files:
            return None
        commit = await commit_of(self._host, self._commit, change)
        self._made.append(NAME)
        if order := further_runs.order_alone(change, every=grading.needs_every_test(work)):
            self._trees.orders["altered"] = order
        found = await self._trees.run_unnoted("altered", commit, ignore_result, again=_never)
        self._change = change
        ends = {name for each in found if each.report for name in each.report.tests}
        count = sum(map(len, change.scripts.values())) + sum(each.id in ends for each in change.tests)
        what = "one altered test" if count == 1 else f"{count or 'no'} altered tests"
        return _Trial(tree="altered", commit=commit, found=found, words=f"with {what}, which must fail")

    async def _run_reordered(
        self, ran: CheckRuns, work: WorkFacts, ids: Sequence[str], before: asyncio.Future[_Trial | None]
    ) -> _Trial | None:
        """Run tests in the opposite order, for a part of the time that they took."""
        await self._slot(before)
        runs = [now for _, now in grading.counting_runs(ran, work)]
        order = further_runs.reversed_order(ids, runs, self._trees.taken_seconds)
        if order is None:
            return None
        self._trees.orders["reordered"] = order
        found = await self._trees.run_unnoted("reordered", self._commit, ignore_result, again=_never)
        return _Trial(tree="reordered", commit=self._commit, found=found, words="with tests in the opposite order")

    async def _run_again(
        self, ran: CheckRuns, work: WorkFacts, before: asyncio.Future[OutsideVerdict]
    ) -> tuple[CheckRuns, str]:
        """Run fixed tests at the base again and again, or checks whose tests cannot be chosen there and on the work."""
        base = self._looked.base
        if base is None:
            return ran, ""
        await self._slot(before)
        runs, seconds = grading.counting_runs(ran, work), self._trees.taken_seconds
        if order := further_runs.repeated_order(runs, seconds):
            first = await self._trees.run_again("base again", base, 0, order)
            count = 0 if self._host.stop.is_set() else further_runs.whole_needed(runs, first)
            whole = [await self._trees.run_again("base again", base, place) for place in range(1, count + 1)]
            ran = structs.replace(ran, base_again=(first,), base_whole=tuple(whole))
            return ran, "with the fixed tests once more at the base"
        at_base, here = further_runs.whole_runs(runs, seconds)
        again = [await self._trees.run_again("base again", base, place) for place in range(at_base)]
        own = [await self._trees.run_again("again", self._commit, place) for place in range(here)]
        places = [where for where, runs in (("at the base", again), ("here", own)) if runs]
        words = f"once more {' and '.join(places)}" if places else ""
        return structs.replace(ran, base_again=tuple(again), again=tuple(own)), words

    async def _run_probes(
        self, ran: CheckRuns, work: WorkFacts, before: asyncio.Future[_Trial | None]
    ) -> OutsideVerdict:
        await self._slot(before)
        return await product_calls.probe_outside(
            self._host, self._looked, self._commit, grading.counting_runs(ran, work), self._trees
        )


async def _never(_: Sequence[CheckObservation]) -> bool:
    return False


async def alter_tests(
    host: Host, looked: ReadChange, commit: str, ids: Collection[str], failed: Sequence[str]
) -> AlteredFiles:
    """Alter what lies in a commit as at the base: tests by id, and scripts that decide about these checks."""
    try:
        scripts = await asyncio.to_thread(_scripts, looked, failed)
    except TROUBLES:
        scripts = {}
    own = {path for paths in scripts.values() for path in paths}
    entries = await _entries(host.repository, commit)
    known = [path for path, entry in entries.items() if looked.listed.get(path) == entry.blob]
    paths = [path for path in known if path in own or (roles.is_test(path) and altering.may_hold(path, ids))]
    found = await blobs.contents(host.repository, [entries[path].blob for path in paths[:MOST_READ]])
    sources: dict[str, str] = {}
    for path in paths:
        try:
            sources[path] = found[entries[path].blob].decode()
        except (KeyError, UnicodeDecodeError):  # too long, or no text
            continue
    try:
        return await asyncio.to_thread(altering.alter, sources, ids, scripts)
    except TROUBLES:
        return AlteredFiles()


def _scripts(looked: ReadChange, failed: Sequence[str]) -> dict[str, tuple[str, ...]]:
    scripts = altering.deciding_scripts(looked.programs(), looked.listed)
    return {check: paths for check, paths in scripts.items() if check in failed}


async def commit_of(host: Host, commit: str, change: AlteredFiles) -> str:
    """Make the commit with altered tests."""
    entries = await _entries(host.repository, commit)
    contents = {path: text.encode() for path, text in change.files.items()}
    return await make_commit(host, NAME, commit, {path: entries[path] for path in contents}, contents)


async def _entries(repository: Repository, commit: str) -> dict[str, CommitEntry]:
    """Return the plain files of a commit."""
    out = (await repository.git("ls-tree", "-r", "-z", "--full-tree", commit)).out
    rows = (row.partition("\t") for row in out.decode(errors="surrogateescape").split("\0") if row)
    parts = ((path, about.split(" ")) for about, _, path in rows)
    return {path: CommitEntry(about[0], about[2]) for path, about in parts if about[0] in (PLAIN, EXECUTABLE)}
