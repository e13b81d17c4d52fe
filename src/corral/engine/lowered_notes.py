"""Notes on commits whose grade a second reader lowered after they were written."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import UNSET, structs

from corral.attempt.proof import receipt
from corral.attempt.repositories import repository_of
from corral.machines.host import Host
from corral.model import Attempt, Receipt, RunPlan
from corral.rules.checks import receipts
from corral.rules.text import names
from corral.world.receipt_key import get_or_make_key


async def bring_up_to_date(plan: RunPlan, state: Path, attempt: Attempt) -> None:
    """Have the note on an attempt's commit say the grade that it has now; one of another attempt stays as it is."""
    repository = repository_of(plan, state)
    if attempt.commit is None or attempt.evidence is None:
        return
    words = ("notes", f"--ref={names.NOTES}", "show", attempt.commit)
    found = await repository.git(*words, fine=(0, 1, 128))
    try:
        noted = msgspec.json.decode(found.out, type=Receipt)
    except (msgspec.MsgspecError, ValueError):  # there is none, or it is somebody else's
        return
    if noted.attempt != attempt.id or noted.evidence is UNSET or noted.evidence == attempt.evidence:
        return
    lowered = structs.replace(noted, status=attempt.status, evidence=attempt.evidence)
    host = Host(plan, plan.flow.nodes[0].task, repository, state, attempt.id)
    await receipt.note(host, receipts.seal(lowered, get_or_make_key(state)), lambda _: None)
