"""The product outside the tests: programs in the box of a check that make the calls which its tests check."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Sequence

from msgspec import structs

from corral.attempt.proof.tree_runs import TreeRuns
from corral.attempt.proof.trees import TROUBLES, ReadChange
from corral.machines import boxes
from corral.machines.boxes import Kept
from corral.machines.host import Host
from corral.machines.logs import Log, Tail
from corral.model import ENCODER, CheckObservation, CheckResult
from corral.model.errors import CorralError
from corral.rules.checks.outside import finding, programs, verdict
from corral.rules.checks.outside.finding import Probe, RunnerSettings
from corral.rules.checks.outside.verdict import OutsideVerdict, ProbeAnswer
from corral.rules.checks.steering import roles
from corral.world.git import blobs
from corral.world.process import ProcessLimits
from corral.world.workspace import checkout

NAME = "use"  #: of the checkout and the log, beside an attempt's own
MOST_READ = 200  #: files that are looked through
MOST_SECONDS = 20.0  #: of one program
MOST_OUTPUT = 400_000
MARK = "answer "  #: stands for what is random in the mark of a program, where its answers are kept


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
    folder = trees.folder(NAME)
    own = host.beside(NAME, min(MOST_SECONDS, host.task.time_limit_seconds))
    tail = Tail(MOST_OUTPUT)
    started = time.monotonic()
    result = CheckResult(command="the product outside the tests", exit_code=1, seconds=0.0)
    try:
        made = await own.make(folder, commit)
        network = await own.network(own.boxes.fitted.scope.net)
        box = own.boxes.box(made, folder, network=network)
        limits = ProcessLimits(timeout_seconds=own.task.time_limit_seconds)
        log = Log(host.logs / f"{NAME}-{probe.language}.log")
        command = probe.command(interpreter, mark)
        ended = await boxes.run_shell(own.boxes, own.redactor, command, box, limits, Kept(log, tail, network))
        output = "\n".join(MARK + line.removeprefix(mark) for line in tail.text().splitlines() if line.startswith(mark))
        seconds = round(time.monotonic() - started, 3)
        result = structs.replace(result, exit_code=ended.code, seconds=seconds, output=output)
    except CorralError as trouble:  # a program that cannot start says nothing of the work: no line of it is an answer
        result = structs.replace(result, output=f"not run: {trouble}")
    finally:
        await checkout.remove(folder)
    return CheckObservation(result=result)
