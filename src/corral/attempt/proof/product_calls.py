"""Calls of the product outside its tests, in the box of a check: of one attempt, or of rivals on varied inputs."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from corral.attempt.proof import trees
from corral.attempt.proof.tree_runs import TreeRuns
from corral.attempt.proof.trees import TROUBLES, ReadChange
from corral.attempt.repositories import repository_of
from corral.machines import boxes
from corral.machines.boxes import Kept
from corral.machines.host import Host
from corral.machines.logs import Log, Tail
from corral.model import ENCODER, AttemptRecord, CheckObservation, CheckResult, RunPlan, Variation
from corral.model.errors import CorralError
from corral.model.flow import Node, Task
from corral.rules.checks.outside import finding, programs, verdict
from corral.rules.checks.outside.finding import Probe, RunnerSettings
from corral.rules.checks.outside.verdict import OutsideVerdict, ProbeAnswer
from corral.rules.checks.steering import roles
from corral.rules.race import variation, varied_calls
from corral.rules.race.variation import RivalAnswer
from corral.rules.race.varied_calls import ProductCall
from corral.world.git import blobs
from corral.world.git.repository import Repository
from corral.world.process import ProcessLimits

PROBED = "use"  #: of the checkout and the log, beside an attempt's own
MOST_READ = 200  #: files that are looked through
MOST_SECONDS = 20.0  #: of one program
MOST_OUTPUT = 400_000
MARK = "answer "  #: stands for what is random in the mark of a program, where its answers are kept
VARIED = "vary"  #: of the checkout and the log, beside an attempt's own
MOST_FILES = 200  #: of tests that are read
NOTHING_TO_VARY = "the base's tests call nothing that was changed with plain values"
VariationResult = Mapping[str, Variation]


async def probe_outside(
    host: Host,
    looked: ReadChange,
    commit: str,
    runs: Sequence[tuple[CheckObservation, CheckObservation]],
    trees: TreeRuns,
) -> OutsideVerdict:
    """Make calls of the base's tests outside of any test, on the work and at the base; no trouble there counts."""
    try:
        found, among_themselves = await _probes(host, looked, runs)
    except (CorralError, *TROUBLES):
        return OutsideVerdict()
    ends = [await _judge_probe(host, each, looked.base, commit, trees) for each in found]
    return OutsideVerdict(
        against=tuple(words for each in ends for words in each.against),
        limits=(*among_themselves, *(words for each in ends for words in each.limits)),
        note="; ".join(each.note for each in ends if each.note),
    )


async def _probes(
    host: Host, looked: ReadChange, runs: Sequence[tuple[CheckObservation, CheckObservation]]
) -> tuple[list[Probe], tuple[str, ...]]:
    """Return the programs to run, and which tests judge parts of the product by each other."""
    changed = [path for path, each in looked.changed.items() if each.after]
    paths = [path for path in looked.listed if roles.is_test(path) and path.endswith((".py", ".js", ".mjs", ".cjs"))]
    others = [path for path in looked.listed if finding.is_runner_setting(path)]
    kept = [*paths[:MOST_READ], *others[:MOST_READ]]
    found = await blobs.contents(host.repository, [looked.listed[path] for path in kept])
    texts = {path: found[looked.listed[path]].decode(errors="replace") for path in kept if looked.listed[path] in found}

    def read() -> tuple[list[Probe], tuple[str, ...]]:
        sources = {path: texts[path] for path in paths if path in texts}
        states = finding.states_of(sources, runs)
        settings = RunnerSettings(
            files={path: texts[path] for path in others if path in texts}, checks=host.task.checks
        )
        parts = finding.changed_parts(_python_pairs(looked))
        product = [path for path in looked.listed if not roles.is_test(path)]
        return (
            finding.probes(sources, states, changed, looked.listed, settings),
            finding.find_self_judging(sources, states, parts, product),
        )

    return await asyncio.to_thread(read)


def _python_pairs(looked: ReadChange) -> dict[str, tuple[str, str]]:
    """Return the changed Python code of the product, at the base and now."""
    found: dict[str, tuple[str, str]] = {}
    for path in looked.changed:
        before, now = (looked.contents.get((side, path)) for side in ("base", "delivered"))
        if path.endswith(".py") and before and now and not roles.is_test(path):
            found[path] = before.decode(errors="replace"), now.decode(errors="replace")
    return found


async def _judge_probe(host: Host, probe: Probe, base: str | None, commit: str, trees: TreeRuns) -> OutsideVerdict:
    now = await _answers(host, probe, commit, trees)
    own = [(each, line) for each, line in zip(probe.calls, now, strict=True) if each.expected]
    right = all(line.fits(each) for each, line in own)
    if base is None or not any(line.fits(each) or line.differs(each) for each, line in own):
        return OutsideVerdict()
    if right and not probe.has_variants:
        return verdict.judge_answers(probe.calls, now, [ProbeAnswer(place) for place in range(len(now))])
    return verdict.judge_answers(probe.calls, now, await _answers(host, probe, base, trees))


async def _answers(host: Host, probe: Probe, commit: str, trees: TreeRuns) -> list[ProbeAnswer]:
    """Run a program on a commit, or find out what it printed before."""
    interpreter = programs.python_of(host.task.checks)
    own = hashlib.sha256(ENCODER.encode((await trees.key(commit), interpreter, probe))).hexdigest()
    known = trees.recall(own)
    if known is None:
        known = await _run(host, probe, interpreter, commit, trees)
        if known.result.exit_code == 0:
            trees.keep(own, [known])
    return verdict.answers(known.result.output, MARK, len(probe.calls))


async def _run(host: Host, probe: Probe, interpreter: str, commit: str, trees: TreeRuns) -> CheckObservation:
    mark = f"{secrets.token_hex(8)} "
    folder = trees.folder(PROBED)
    own = host.beside(PROBED, min(MOST_SECONDS, host.task.time_limit_seconds))
    tail = Tail(MOST_OUTPUT)
    started = time.monotonic()
    result = CheckResult(command="the product outside the tests", exit_code=1, seconds=0.0)
    try:
        made = await own.make(folder, commit)
        network = await own.network(own.boxes.fitted.scope.net)
        box = own.boxes.box(made, folder, network=network)
        limits = ProcessLimits(timeout_seconds=own.task.time_limit_seconds)
        log = Log(host.logs / f"{PROBED}-{probe.language}.log")
        command = probe.command(interpreter, mark)
        ended = await boxes.run_shell(own.boxes, own.redactor, command, box, limits, Kept(log, tail, network))
        output = "\n".join(MARK + line.removeprefix(mark) for line in tail.text().splitlines() if line.startswith(mark))
        seconds = round(time.monotonic() - started, 3)
        result = structs.replace(result, exit_code=ended.code, seconds=seconds, output=output)
    except CorralError as trouble:  # a program that cannot start says nothing of the work: no line of it is an answer
        result = structs.replace(result, output=f"not run: {trouble}")
    finally:
        await own.remove(folder)
    return CheckObservation(result=result)


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
    folder = Path(record.folder).with_name(f"{record.attempt.id}-{VARIED}")
    host.base = record.base
    limits = ProcessLimits(timeout_seconds=min(variation.MOST_SECONDS, host.task.time_limit_seconds))
    tail = Tail(variation.MOST_OUTPUT)
    try:
        await host.fit_again(record.attempt.agent)
        made = await host.make(folder, commit)
        network = await host.network(host.boxes.fitted.scope.net)
        box = host.boxes.box(made, folder, network=network)
        ended = await boxes.run_shell(
            host.boxes, host.redactor, command, box, limits, Kept(Log(host.logs / f"{VARIED}.log"), tail, network)
        )
    except CorralError:
        return [RivalAnswer()] * calls
    finally:
        await host.remove(folder)
    printed = variation.MARK in tail.text()
    return variation.answers(tail.text(), calls, ended=printed and not ended.why)
