"""Checks run on one tree after another for one attempt; what was found out before is not run again."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

from msgspec import structs

from corral.machines import checks as checking
from corral.machines.calls import LaidFile
from corral.machines.host import Host
from corral.machines.network import is_open
from corral.machines.workspace_host import WorkspaceHost
from corral.model import ENCODER, AttemptRecord, CheckObservation, CheckResult, EvidenceRun, Tally, TestOrder
from corral.model.errors import SetupFailed
from corral.model.evidence import Tree
from corral.model.flow import Task
from corral.rules.checks import base_comparison
from corral.store.interface import Store
from corral.world.workspace import held_out
from corral.world.workspace.checkout import Workspace

#: Checkouts made beside an attempt's own, which a crash may leave.
BESIDE = (
    "check", "check2", "base", "base2", "base3", "harness", "harness2", "allowed", "allowed2", "control",
    "altered", "reordered", "again", "baseagain", "heldout", "heldout2", "heldoutbase", "heldoutbase2",
    "score", "vary", "use",
)  # fmt: skip
NAMES: Mapping[Tree, str] = {
    "delivered": "check", "base": "base", "harness": "harness", "allowed": "allowed", "control": "control",
    "altered": "altered", "reordered": "reordered", "again": "again", "base again": "baseagain",
    "held-out": "heldout", "held-out base": "heldoutbase",
}  # fmt: skip
HOSTS = (
    "base",
    "altered",
    "reordered",
    "again",
    "baseagain",
)  #: trees whose checks run as a user of their own, maybe beside those of the work
LIMITED = ("altered", "reordered", "again", "baseagain")
LEAST_SECONDS, MOST_TIMES = 30.0, 3  #: that these may take, and how often as long as the work's own
VERSION = 5  #: of what is remembered of a run of checks
_flights: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


def _flight(key: str) -> asyncio.Lock:
    """Return the lock of a suite: attempts that race ask for the same at the same moment."""
    return _flights.setdefault(key, asyncio.Lock())


class TreeRuns:
    """The checks of one attempt on all trees that they are run on, in that order."""

    def __init__(self, host: Host, task: Task, record: AttemptRecord, store: Store | None) -> None:
        """`store` remembers results; None: all is run anew, beside what the attempt itself left."""
        self._host, self._task, self._record, self._store = host, task, record, store
        self.trees: dict[Tree, str] = {}
        self.runs: list[EvidenceRun] = []
        self.notes: list[str] = []  #: on what else than the work itself
        self.orders: dict[str, TestOrder] = {}  #: which tests run on a tree; all on others

    async def suite(
        self,
        tree: Tree,
        commit: str | None,
        on_result: Callable[[CheckResult], None],
        again: Callable[[Sequence[CheckObservation]], Awaitable[bool]] | None = None,
    ) -> tuple[CheckObservation, ...]:
        """Run all checks on a commit, or find out that they were; a failure is looked at twice if `again` says so."""
        found = await self.run_unnoted(tree, commit, on_result, again)
        await self.note(tree, commit, found)
        return found

    async def run_unnoted(
        self,
        tree: Tree,
        commit: str | None,
        on_result: Callable[[CheckResult], None],
        again: Callable[[Sequence[CheckObservation]], Awaitable[bool]] | None = None,
    ) -> tuple[CheckObservation, ...]:
        """Do the same, and leave it to the caller to note it: runs side by side end in any order."""
        key, name = await self.key(commit, tree), NAMES[tree]
        async with _flight(key):
            known = self._store.history.check_results(key, time.time()) if self._store else None
            if known is not None:
                found = with_results(known, [structs.replace(each.result, cached=True) for each in known])
                for each in found:
                    on_result(each.result)
            else:
                found = await self.run_checks(name, commit, self._task.checks, on_result)
            failed = [place for place, each in enumerate(found, 1) if is_unexplained(each.result)]
            if failed and not self._host.stop.is_set() and (again is None or await again(found)):
                # A later check may need what an earlier one made, so those before it are run too.
                more = await self.run_checks(f"{name}2", commit, self._task.checks[: failed[-1]], ignore_result)
                seen = list(found)
                for place in failed:
                    seen[place - 1] = base_comparison.seen_once_more(seen[place - 1], more[place - 1])
                found, known = tuple(seen), None
            if known is None and not self._host.stop.is_set():
                self.keep(key, found)
        return found

    async def run_again(
        self, tree: Tree, commit: str | None, place: int, order: TestOrder | None = None
    ) -> tuple[CheckObservation, ...]:
        """Run all checks on a commit anew, in a checkout of their own, or find out that they were; `place` counts."""
        which = structs.replace(order, seconds=0.0) if order else None  # rivals that take longer or less share it
        key = hashlib.sha256(ENCODER.encode((await self.key(commit), tree, place, which))).hexdigest()
        name = NAMES[tree]
        async with _flight(key):
            found = self._store.history.check_results(key, time.time()) if self._store else None
            if found is None:
                self.orders.pop(name, None)
                if order is not None:
                    self.orders[name] = order
                found = await self.run_checks(name, commit, self._task.checks, ignore_result)
                if not self._host.stop.is_set():
                    self.keep(key, found)
            else:
                found = with_results(found, [structs.replace(each.result, cached=True) for each in found])
        return tuple(found)

    async def run_checks(
        self, name: str, commit: str | None, checks: Sequence[str], on_result: Callable[[CheckResult], None]
    ) -> tuple[CheckObservation, ...]:
        """Run checks in a checkout of their own; on another tree than the work's own a failing setup is a result."""
        lay = layer(self._host) if name.startswith("heldout") else None
        host = self._host_of(name)
        try:
            found = await checking.observe(host, self.folder(name), commit, checks, on_result, lay)
            return tuple(self._host.redactor.value(found))
        except SetupFailed as error:
            if name.startswith("check"):
                raise
            note = f"its workspace could not be set up: {error}"
            results = [CheckResult(command=check, exit_code=1, seconds=0.0, note=note) for check in checks]
            return tuple(CheckObservation(result=each) for each in results)

    def folder(self, name: str) -> Path:
        """Return where a checkout beside the attempt's own is made."""
        own = name if self._store else f"verify{name}"
        return Path(self._record.folder).with_name(f"{self._record.attempt.id}-{own}")

    def _host_of(self, name: str) -> WorkspaceHost:
        """Return who runs checks: what may run beside others has a host of its own, and a limit where it may hang."""
        tree = name.rstrip("23")
        if tree not in HOSTS:
            return self._host
        most = min(self._task.time_limit_seconds, LEAST_SECONDS + MOST_TIMES * self.taken_seconds)
        host = self._host.beside(tree, most if tree in LIMITED else None)
        host.order = self.orders.get(tree)
        return host

    @property
    def taken_seconds(self) -> float:
        """How long the checks of the work took."""
        return sum(each.seconds for each in self.runs if each.tree == "delivered")

    @property
    def side_by_side(self) -> bool:
        """Whether checks on two trees may run at once: nothing but the processor is shared between their boxes."""
        nets = (
            self._host.boxes.fitted.scope.net,
            *([self._host.plan.setup.net] if self._host.plan.setup.command else []),
        )
        shared = self._host.boxes.fitted.resolved.paths("writable")
        return not shared and not any(is_open(self._host.level, net) for net in nets)

    def recall(self, key: str) -> CheckObservation | None:
        """Return what is remembered of one program."""
        found = self._store.history.check_results(key, time.time()) if self._store else None
        return found[0] if found else None

    def keep(self, key: str, found: Sequence[CheckObservation]) -> None:
        if self._store:
            self._store.history.keep_check_results(key, found, time.time())

    async def note(self, tree: Tree, commit: str | None, found: Sequence[CheckObservation]) -> None:
        self.trees[tree] = await self._host.repository.tree_of(commit) if commit else ""
        self.runs += [
            EvidenceRun(
                tree=tree,
                command=each.result.command,
                exit_code=each.result.exit_code,
                note=each.result.note,
                seconds=each.result.seconds,
                cached=each.result.cached,
                reporter=each.report.runners if each.report else (),
                programs=each.report.programs if each.report else (),
                tests=_nameless(each.result.tests) if tree.startswith("held-out") else each.result.tests,
            )
            for each in found
        ]
        if tree == "base":
            self.notes.append("at the base")

    async def key(self, commit: str | None, tree_kind: Tree = "delivered") -> str:
        """Hash all that the result of a check depends on, as far as we know of it."""
        host, plan = self._host, self._host.plan
        tree = await host.repository.tree_of(commit) if commit else ""
        # Another run starts where the user may have changed what lies beside the repository's own files.
        own = plan.base is None or tree != await host.repository.tree_of(plan.base) or _brings_more(host)
        parts = (
            VERSION,
            tree,
            plan.evidence.held_out if tree_kind.startswith("held-out") else None,
            self._task.checks,
            self._task.time_limit_seconds,
            plan.git_dir,
            plan.setup,
            plan.level,
            host.boxes.fitted.scope,
            self._record.run if own else "",
            *filter(None, [self.orders.get(tree_kind)]),
            *filter(None, [self._record.attempt.machine]),  # what holds on one machine need not hold on another
        )
        return hashlib.sha256(ENCODER.encode(parts)).hexdigest()


def with_results(seen: Sequence[CheckObservation], results: Sequence[CheckResult]) -> tuple[CheckObservation, ...]:
    return tuple(structs.replace(each, result=result) for each, result in zip(seen, results, strict=True))


def results_of(seen: Sequence[CheckObservation]) -> list[CheckResult]:
    return [each.result for each in seen]


def is_unexplained(result: CheckResult) -> bool:
    return not result.passed and not result.note and result.again is None


def _nameless(tests: Tally | None) -> Tally | None:
    """Return counts without names: those of held-out tests are never shown."""
    return structs.replace(tests, failing=()) if tests else None


def _brings_more(host: Host) -> bool:
    return bool(host.plan.setup.copy) or (host.repository.folder / ".worktreeinclude").exists()


def ignore_result(_: CheckResult) -> None:
    """Tell nobody: what is compared with is not the attempt's own doing."""


class HeldOutFiles:
    """The held-out files of a run."""

    def __init__(self, host: Host, name: str) -> None:
        self._host, self._name = host, name

    async def lay(self, made: Workspace) -> list[str]:
        return await asyncio.to_thread(held_out.lay, self._host.state, self._name, made.tree, self._host.owner)

    def files(self) -> Sequence[LaidFile]:
        folder = self._host.state / held_out.FOLDER / self._name
        named = [(name, folder / name) for name in held_out.files(self._host.state, self._name)]
        return [LaidFile(name, path.read_bytes(), path.stat().st_mode & 0o777) for name, path in named]


def layer(host: Host) -> HeldOutFiles | None:
    """Return what lays the held-out files of a run over a checkout; None where it has none."""
    name = host.plan.evidence.held_out
    return HeldOutFiles(host, name) if name is not None else None


async def files(host: Host) -> tuple[str, ...]:
    """Return the paths of the held-out files of a run."""
    name = host.plan.evidence.held_out
    return tuple(await asyncio.to_thread(held_out.files, host.state, name)) if name else ()
