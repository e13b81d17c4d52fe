"""Receipts compared with the repository and the store, and the notes on commits whose grade was lowered."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, structs

from corral.attempt.proof.verdict import add_receipt_note
from corral.attempt.repositories import other_machines, repository_of, require
from corral.machines.host import Host
from corral.model import Attempt, AttemptRecord, Receipt, RunPlan
from corral.model.evidence import Proof, unchecked_evidence
from corral.model.flow import Task
from corral.rules.checks import receipts
from corral.rules.checks.receipts import ReceiptFacts, ReceiptVerification
from corral.rules.schedule import agent_tries
from corral.rules.text import names
from corral.store.interface import Store
from corral.world import trust
from corral.world.git.repository import Repository
from corral.world.trust import make_receipt_key
from corral.world.workspace import checkout


class Verification(Struct, frozen=True, kw_only=True):
    """All receipts of a run."""

    run: str
    holds: bool
    receipts: tuple[ReceiptVerification, ...]


async def verify(store: Store, run: str, *, rerun: bool) -> Verification:
    """Look whether every receipt of a run still holds; a run without one proves nothing."""
    plan = store.run(run).plan
    repository = repository_of(plan, store.folder)
    await require(repository, run, [], elsewhere=other_machines(store, str(repository.git_dir)))
    await finish_clean_up(plan, store.folder, store.attempts(run))
    found: list[ReceiptVerification] = []
    for record in store.attempts(run):
        if record.receipt is not None:
            seen = await _inspect(record, record.receipt, plan, repository, store.folder)
            if rerun and seen.commit:
                again = await _again(record, record.receipt, plan, repository, store.folder)
                seen = structs.replace(
                    seen, again=again.results, graded_again=again.evidence, programs=again.detail.programs
                )
            found.append(receipts.verify(record.receipt, seen))
    return Verification(run=run, holds=bool(found) and all(each.holds for each in found), receipts=tuple(found))


async def _inspect(
    record: AttemptRecord, receipt: Receipt, plan: RunPlan, repository: Repository, state: Path
) -> ReceiptFacts:
    key = trust.receipt_key(state)
    if await repository.commit_of(receipt.commit) != receipt.commit:
        return ReceiptFacts(attempt=record.attempt, commit=False, key=key)
    base_there = receipt.base is None or await repository.commit_of(receipt.base) is not None
    tree, hidden, note = await asyncio.gather(
        repository.tree_of(receipt.commit),
        repository.commit_of(names.hidden_ref(receipt.attempt)),
        _note(repository, receipt.commit),
    )
    diff = "unknown: the base is gone"
    if base_there:
        diff = await repository.patch_sha256(receipt.base, receipt.commit, like=receipt.diff_sha256)
    task = next((node.task for node in plan.flow.nodes if node.id == record.node), None)
    filled = task is None or plan.flow.fills
    return ReceiptFacts(
        attempt=record.attempt,
        commit=True,
        tree=tree,
        diff_sha256=diff,
        hidden=hidden,
        note=note or None,
        task_sha256=None if filled or task is None else hashlib.sha256(task.prompt.encode()).hexdigest(),
        key=key,
    )


async def _again(record: AttemptRecord, receipt: Receipt, plan: RunPlan, repository: Repository, state: Path) -> Proof:
    """Prove the work of a receipt once more, by all the runs that it rests on, in boxes like then."""
    commands = tuple(check.command for check in receipt.checks)
    if not commands:
        return Proof(evidence=unchecked_evidence("there was no check"))
    found = next((node.task for node in plan.flow.nodes if node.id == record.node), Task(prompt="verify"))
    task = structs.replace(found, checks=commands)
    host = Host(plan, task, repository, state, receipt.attempt)
    host.base = receipt.base
    await host.fit_again(receipt.agent)
    from corral.attempt.proof.evidence import EvidenceCollector  # noqa: PLC0415 -- slow to load, for checks alone

    prover = EvidenceCollector(host, task, record, lambda _: None, None)
    return await prover.prove(receipt.commit, record.compared_with or receipt.base)


async def finish_clean_up(plan: RunPlan, state: Path, records: Sequence[AttemptRecord]) -> None:
    """Note receipts and remove workspaces of attempts that ended just before their process was killed."""
    repository = repository_of(plan, state)
    in_use = {each.folder for each in records if each.phase != "over" or each.kept or agent_tries.can_continue(each)}
    for record in records if repository.git_dir.exists() else ():
        if record.folder in in_use or record.attempt.machine or not Path(record.folder).is_dir():
            continue
        if record.receipt and not await _note(repository, record.receipt.commit):
            host = Host(plan, plan.flow.nodes[0].task, repository, state, record.attempt.id)
            await add_receipt_note(host, record.receipt, lambda _: None)
        await checkout.remove(Path(record.folder))


async def _note(repository: Repository, commit: str) -> bytes:
    """Return the note on a commit; empty where there is none."""
    found = await repository.git("notes", f"--ref={names.NOTES}", "show", commit, fine=(0, 1, 128))
    return found.out if found.code == 0 else b""


async def update_lowered_notes(plan: RunPlan, state: Path, attempt: Attempt) -> None:
    """Have the note on an attempt's commit say the grade that it has now; one of another attempt stays as it is."""
    repository = repository_of(plan, state)
    if attempt.commit is None or attempt.evidence is None:
        return
    try:
        noted = msgspec.json.decode(await _note(repository, attempt.commit), type=Receipt)
    except (msgspec.MsgspecError, ValueError):  # there is none, or it is someone else's
        return
    if noted.attempt != attempt.id or noted.evidence is UNSET or noted.evidence == attempt.evidence:
        return
    lowered = structs.replace(noted, status=attempt.status, evidence=attempt.evidence)
    host = Host(plan, plan.flow.nodes[0].task, repository, state, attempt.id)
    await add_receipt_note(host, receipts.seal(lowered, make_receipt_key(state)), lambda _: None)
