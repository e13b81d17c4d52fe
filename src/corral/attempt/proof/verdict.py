"""What the engine says of one attempt's work: its verdict, its scores, and its receipt on the commit."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from msgspec import UNSET, Struct

from corral.attempt import briefing
from corral.attempt.agent_work import AgentWork
from corral.attempt.events import AttemptEvents
from corral.machines import checks
from corral.machines.host import Host
from corral.model import Attempt, CheckResult, Failure, Receipt
from corral.model.errors import BadRequest, GitTrouble
from corral.model.events import Ended
from corral.model.evidence import Proof, unchecked_evidence
from corral.model.flow import Task
from corral.rules.checks import receipts
from corral.rules.checks import verdict as judge
from corral.rules.checks.verdict import Verdict
from corral.rules.text import names
from corral.version import __version__
from corral.world import machine_limits
from corral.world.git import merge_commits, notes
from corral.world.trust import make_receipt_key

GROUP = "corral.scorers"
MOST_PATCH = 16 << 20


async def judge_work(work: AgentWork) -> Verdict:
    """Return how an attempt ended: by its agent's own part, by what it delivered, by what its checks prove of that."""
    record, attempt = work.record, work.attempt
    if record.outcome != "done":
        return Verdict(record.outcome or "failed", attempt.error)
    if refused := await _refuse_unchecked(work):
        return refused
    proof = await _run_checks(work)
    attempt.checks, record.evidence = proof.results, work.events.redactor.value(proof.detail)
    if work.host.stop.is_set():
        return Verdict("stopped")
    verdict = _judge_proof(work, proof)
    if verdict.status == "done" and work.node.scorers:
        attempt.scores = await score(work.node.scorers, work.host, attempt, work.say)
    if verdict.status == "done" and attempt.evidence:
        briefing.confirm(work.events, attempt.evidence.grade)
    return verdict


async def _refuse_unchecked(work: AgentWork) -> Verdict | None:
    """Return what fails work before any check is run: marks, missing artifacts, its scope, nothing revised."""
    if marked := await _marks_left(work):
        return judge.of_marks(marked)
    if missing := sorted(work.node.artifacts.keys() - {each.name for each in work.record.artifacts}):
        return judge.of_artifacts(missing)
    if strayed := judge.of_scope(work.attempt.sandbox.violations, work.guard.patch):
        return strayed
    if await _is_unrevised(work):
        words = f"it changed nothing since {work.attempt.revises}"
        return Verdict("failed", Failure("no_change", words, "its answer: corral show"))
    return None


async def _marks_left(work: AgentWork) -> list[str]:
    """Return files whose conflicts nobody resolved."""
    if not work.record.conflicts:
        return []
    commit = work.attempt.commit or work.host.base or "HEAD"
    return await merge_commits.with_marks(work.host.repository, commit, work.record.conflicts)


async def _is_unrevised(work: AgentWork) -> bool:
    """Tell whether a revision left all as it was reviewed."""
    record, attempt = work.record, work.attempt
    if not attempt.revises or not record.start or not attempt.commit:
        return bool(attempt.revises and not attempt.commit)
    return record.tree == await work.host.repository.tree_of(record.start)


async def _run_checks(work: AgentWork) -> Proof:
    """Find out what the checks prove of what was delivered."""
    node, host, record = work.node, work.host, work.record
    commit = work.attempt.commit or host.base
    unchanged_ok = node.task.read_only or node.task.unchanged_ok or node.output is not None
    if not node.task.checks or not (work.attempt.files_changed or unchanged_ok):
        return Proof(evidence=unchecked_evidence("there was no check"))
    from corral.attempt.proof.evidence import EvidenceCollector  # noqa: PLC0415 -- slow to load, for checks alone

    prover = EvidenceCollector(host, node.task, record, work.events.emit, work.events.store)
    return await prover.prove(commit, record.compared_with or host.base)


def _judge_proof(work: AgentWork, proof: Proof) -> Verdict:
    task, attempt, record = work.node.task, work.attempt, work.record
    ended, fits = Ended(ok=True, denied=record.denied), work.node.output is not None
    verdict = judge.of_work(task, attempt, ended, proof.results, record.saved, gives_output=fits)
    if verdict.status != "done" or work.node.kind == "run":
        return verdict
    attempt.evidence = work.events.redactor.value(proof.evidence)
    return judge.of_evidence(verdict, attempt, work.host.plan.evidence.require, task, gives_output=fits)


class ScorerInput(Struct, frozen=True, kw_only=True):
    """What a plug-in is given: the attempt as the run document has it, and its change as a patch."""

    attempt: Attempt
    task: str
    patch: str


Scorer = Callable[[ScorerInput], float]


def plug_in(name: str) -> Scorer | None:
    from importlib.metadata import entry_points  # noqa: PLC0415 -- slow to load, and seldom needed

    for point in entry_points(group=GROUP):
        if point.name == name:
            try:
                return point.load()
            except Exception as error:
                raise BadRequest(
                    f"the scorer `{name}` cannot be loaded: {error}",
                    hint="install its package beside corral, or leave out the scorer",
                ) from error
    return None


async def score(scorers: Sequence[str], host: Host, attempt: Attempt, say: Callable[[str], None]) -> dict[str, float]:
    """Ask every scorer; one that fails gives no score, and that is reported."""
    found: dict[str, float] = {}
    known = {name: plug_in(name) for name in scorers}
    for name, scorer in known.items():
        if scorer is not None:
            about = ScorerInput(attempt=attempt, task=host.task.prompt, patch=await _patch(host, attempt))
            try:
                value = float(await asyncio.to_thread(scorer, about))
            except Exception as error:  # noqa: BLE001 -- anybody's code
                say(f"the scorer `{name}` failed: {error}")
                continue
            _take(name, value, found, say)
    commands = [name for name, scorer in known.items() if scorer is None]
    if commands and attempt.commit:
        folder = host.state / "workspaces" / f"{attempt.id}-score"
        for result in await checks.run(host, folder, attempt.commit, commands, lambda _: None):
            value = number(result)
            if value is None:
                say(f"the scorer `{result.command}` printed no number, or failed ({result.exit_code})")
            else:
                _take(result.command, value, found, say)
    return found


def _take(name: str, value: float, found: dict[str, float], say: Callable[[str], None]) -> None:
    if math.isfinite(value):
        found[name] = value
        say(f"score {value:g} by `{name}`")
    else:
        say(f"the scorer `{name}` gave no number: {value}")


def number(result: CheckResult) -> float | None:
    """Return the number on the last line of what a command printed."""
    lines = [line.strip() for line in result.output.splitlines() if line.strip()]
    if not result.passed or not lines:
        return None
    try:
        return float(lines[-1])
    except ValueError:
        return None


async def _patch(host: Host, attempt: Attempt) -> str:
    parts: list[bytes] = []

    def take(part: bytes) -> None:
        if sum(map(len, parts)) < MOST_PATCH:
            parts.append(part)

    if attempt.commit:
        await host.repository.patch(host.base, attempt.commit, take)
    return b"".join(parts).decode(errors="replace")


def make_receipt(attempt_events: AttemptEvents, task: Task, host: Host, commit: str) -> Receipt:
    """Make the receipt of an attempt that is done, without secrets, sealed with this machine's key."""
    return receipts.seal(
        attempt_events.redactor.value(_unsealed_receipt(attempt_events, task, host, commit)),
        make_receipt_key(host.state),
    )


def _unsealed_receipt(attempt_events: AttemptEvents, task: Task, host: Host, commit: str) -> Receipt:
    record, attempt = attempt_events.record, attempt_events.attempt
    return Receipt(
        attempt=attempt.id,
        agent=attempt.agent,
        base=host.base,
        commit=commit,
        tree=record.tree,
        diff_sha256=record.diff_sha256,
        checks=attempt.checks,
        cost=attempt.cost,
        tokens=attempt.tokens,
        sandbox=attempt.sandbox,
        status=attempt.status,
        task_sha256=hashlib.sha256(task.prompt.encode()).hexdigest(),
        corral=__version__,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        evidence=attempt.evidence if attempt.evidence is not None else UNSET,
        programs=(record.evidence.programs or UNSET) if record.evidence else UNSET,
    )


async def add_receipt_note(host: Host, receipt: Receipt, say: Callable[[str], None]) -> None:
    """Put the receipt on the commit that it is about; the store has it, so work is not lost where git refuses it."""
    try:
        async with host.repository_lock():
            await notes.add_note(host.repository, receipt.commit, names.NOTES, receipts.text(receipt))
    except (GitTrouble, OSError) as error:
        if machine_limits.is_disk_full(str(error)):
            raise
        say(f"its receipt is not noted on its commit: {error}"[:500])
