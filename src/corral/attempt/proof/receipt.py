"""The receipt of an attempt: made and sealed when its work is done, and noted on its commit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import UNSET

from corral.attempt.events import AttemptEvents
from corral.machines.host import Host
from corral.model import Receipt
from corral.model.errors import GitTrouble
from corral.model.flow import Task
from corral.rules.checks import receipts
from corral.rules.text import names
from corral.version import __version__
from corral.world import machine_limits
from corral.world.git import notes
from corral.world.trust import make_receipt_key


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


async def note(host: Host, receipt: Receipt, say: Callable[[str], None]) -> None:
    """Put the receipt on the commit that it is about; the store has it, so work is not lost where git refuses it."""
    try:
        async with host.repository_lock():
            await notes.add_note(host.repository, receipt.commit, names.NOTES, receipts.text(receipt))
    except (GitTrouble, OSError) as error:
        if machine_limits.is_disk_full(str(error)):
            raise
        say(f"its receipt is not noted on its commit: {error}"[:500])
