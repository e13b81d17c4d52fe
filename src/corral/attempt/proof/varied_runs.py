"""Rivals of a race on varied inputs: one program in the box of a check, on the work of each."""

from __future__ import annotations

import asyncio
import itertools
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from corral.attempt.proof import trees
from corral.attempt.repositories import repository_of
from corral.machines import boxes
from corral.machines.boxes import Kept
from corral.machines.host import Host
from corral.machines.logs import Log, Tail
from corral.model import AttemptRecord, RunPlan, Variation
from corral.model.errors import CorralError
from corral.model.flow import Node, Task
from corral.rules.checks.outside import programs
from corral.rules.checks.steering import roles
from corral.rules.race import variation, varied_calls
from corral.rules.race.variation import RivalAnswer
from corral.rules.race.varied_calls import ProductCall
from corral.world.git import blobs
from corral.world.git.repository import Repository
from corral.world.process import ProcessLimits
from corral.world.workspace import checkout

NAME = "vary"  #: of the checkout and the log, beside an attempt's own
MOST_FILES = 200  #: of tests that are read
NOTHING_TO_VARY = "the base's tests call nothing that was changed with plain values"

VariationResult = Mapping[str, Variation]


class Variations:
    """The comparisons of one run that are under way."""

    def __init__(self, plan: RunPlan, state: Path, wake: Callable[[], None]) -> None:
        self._plan, self._state, self._wake = plan, state, wake
        self._tasks: dict[str, asyncio.Task[VariationResult]] = {}

    @property
    def at_work(self) -> bool:
        return bool(self._tasks)

    def begin(self, node: Node, records: Sequence[AttemptRecord]) -> None:
        """Compare attempts; once at a time for each node."""
        if node.id not in self._tasks:
            task = asyncio.ensure_future(compare(self._plan, node.task, self._state, records))
            task.add_done_callback(lambda _: self._wake())
            self._tasks[node.id] = task

    def take_ended(self) -> list[tuple[str, VariationResult]]:
        """Return what was found out since, by node."""
        over = [(node, task) for node, task in self._tasks.items() if task.done()]
        for node, _ in over:
            del self._tasks[node]
        return [(node, task.result()) for node, task in over]

    async def close(self) -> None:
        """End what is under way: it is done again when the run is resumed."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def compare(plan: RunPlan, task: Task, state: Path, records: Sequence[AttemptRecord]) -> VariationResult:
    """Run the same varied calls on the work of each; what fails there gives no answer, and never fails the race."""
    repository = repository_of(plan, state)
    try:
        changed = {path for each in records for path in each.attempt.files_changed}
        known = varied_calls.modules(path for path in changed if not roles.is_test(path))
        sources = await _sources(repository, records[0].compared_with or records[0].base, task.checks)
        calls = await asyncio.to_thread(_calls, sources, known)
    except CorralError as error:
        return {each.attempt.id: Variation(note=f"the tests could not be read: {error}") for each in records}
    if not calls:
        return {each.attempt.id: Variation(note=NOTHING_TO_VARY) for each in records}
    roots = list(dict.fromkeys([known[call.module] for call in calls] + ["."]))
    program = programs.python(calls, roots, variation.MARK, errors=True)
    command = programs.command(program, programs.python_of(task.checks), "main.py", {})
    by_tree: dict[str, list[RivalAnswer]] = {}
    for each in records:
        if each.tree not in by_tree:
            host = Host(plan, task, repository, state, each.attempt.id)
            by_tree[each.tree] = await _run_calls(host, each, each.attempt.commit, command, len(calls))
    given = {each.attempt.id: by_tree[each.tree] for each in records}
    found = variation.compare_rivals(calls, given)
    base = records[0].compared_with or records[0].base
    if base and any(each.majority and each.group > 1 for each in found.values()):
        host = Host(plan, task, repository, state, records[0].attempt.id)
        found = variation.compare_rivals(calls, given, await _run_calls(host, records[0], base, command, len(calls)))
    return found


def _calls(sources: Sequence[str], known: Mapping[str, str]) -> tuple[ProductCall, ...]:
    return varied_calls.with_own(varied_calls.found_in(sources, known))


async def _sources(repository: Repository, base: str | None, checks: Sequence[str]) -> list[str]:
    """Return the Python code that checked the base: its tests, and what the checks name or hold themselves."""
    listed = await trees.list_files(repository, base)
    named = {word.removeprefix("./") for check in checks for word in re.findall(r"[\w./-]+\.py\b", check)}
    paths = [path for path in listed if path.endswith(".py") and (path in named or roles.is_test(path))]
    found = await blobs.contents(repository, [listed[path] for path in paths[:MOST_FILES]])
    return [*_inline(checks), *(text.decode(errors="replace") for text in found.values())]


def _inline(checks: Sequence[str]) -> list[str]:
    found: list[str] = []
    for check in checks:
        try:
            words = shlex.split(check)
        except ValueError:
            continue
        found += [code for flag, code in itertools.pairwise(words) if flag == "-c"]
    return found


async def _run_calls(
    host: Host, record: AttemptRecord, commit: str | None, command: str, calls: int
) -> list[RivalAnswer]:
    """Run the program on a commit, in a clean checkout and the box of a check of one attempt."""
    folder = Path(record.folder).with_name(f"{record.attempt.id}-{NAME}")
    host.base = record.base
    limits = ProcessLimits(timeout_seconds=min(variation.MOST_SECONDS, host.task.time_limit_seconds))
    tail = Tail(variation.MOST_OUTPUT)
    try:
        await host.fit_again(record.attempt.agent)
        made = await host.make(folder, commit)
        network = await host.network(host.boxes.fitted.scope.net)
        box = host.boxes.box(made, folder, network=network)
        ended = await boxes.run_shell(
            host.boxes, host.redactor, command, box, limits, Kept(Log(host.logs / f"{NAME}.log"), tail, network)
        )
    except CorralError:
        return [RivalAnswer()] * calls
    finally:
        await checkout.remove(folder)
    printed = variation.MARK in tail.text()
    return variation.answers(tail.text(), calls, ended=printed and not ended.why)
