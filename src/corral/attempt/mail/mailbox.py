"""The mail of one attempt: written, taken, acknowledged; by its tools, or by files where it has none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct, field

from corral.attempt.events import AttemptEvents
from corral.attempt.toolbox.context import RunContext
from corral.model import OPEN
from corral.model.errors import BadRequest
from corral.model.events import Mailed
from corral.rules.context import mail
from corral.rules.context.mail import NAMES, MailAddress, MailNode, MailRecipients, Priority
from corral.store.records import MailMessage, Reader

MOST_SHOWN = 200  #: characters of a message in its event
MOST_THREAD = 50


class ReceivedMail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as an agent sees it."""

    id: int
    sender: str = field(name="from")
    text: str
    thread: str
    priority: Priority
    at: str
    times_delivered: int = 1


class Mailbox:
    """Writes and reads in the name of one attempt."""

    def __init__(self, toolbox_context: RunContext, attempt_events: AttemptEvents) -> None:
        record = attempt_events.record
        self._context, self._events = toolbox_context, attempt_events
        self._who = Reader(record.run, record.node, record.attempt.id)

    def recipients(self) -> MailRecipients:
        """Look who is there to write to."""
        store, who, lineage = self._context.store, self._who, self._context.lineage
        at_work: dict[str, list[str]] = {}
        for node, attempt in store.attempts_at_work(who.run):
            at_work.setdefault(node, []).append(attempt)
        parent = lineage.of(who.run)
        children = [child.run for child in lineage.below_attempt(who.attempt)]
        return MailRecipients(
            run=who.run,
            node=who.node,
            attempt=who.attempt,
            places=[
                MailNode(node=node.id, over=node.status not in OPEN, attempts=tuple(at_work.get(node.id, ())))
                for node in store.nodes(who.run)
            ],
            parent=MailAddress(parent.parent, parent.attempt) if parent else None,
            children=[MailAddress(run, store.nodes(run)[0].id) for run in children],
        )

    def send(self, to: str, text: str, priority: Priority, thread: str) -> tuple[str, int]:
        """Write to someone; return the thread and how many copies went out."""
        mail.check_length(text)
        circle, who, now = self.recipients(), self._who, time.time()
        boxes = mail.addresses_of(to, circle)
        if thread and not self._context.mail.thread(who, thread, 1):
            raise BadRequest(f"there is no thread `{thread[:80]}` of yours", hint="leave it out to begin one")
        named = thread or f"{who.attempt}.{time.time_ns():x}"
        messages = [
            MailMessage(
                run=box.run,
                box=box.name,
                sender=mail.signature(circle, box),
                sender_run=who.run,
                sender_attempt=who.attempt,
                thread=named,
                priority=mail.RANKS[priority],
                text=self._events.redactor.text(text),
                at=now,
            )
            for box in boxes
        ]
        self._context.mail.send(messages, mail.check_capacity)
        self._events.emit(Mailed(to, text[:MOST_SHOWN], named, priority))
        for run in {box.run for box in boxes}:
            self._context.child_runs.wakeups.ring(run)
        return named, len(messages)

    async def take(self, most: int, wait_seconds: float, lease_seconds: float) -> list[ReceivedMail]:
        """Take what waits; wait for something to come if nothing does."""
        until = time.monotonic() + wait_seconds
        while True:
            now = time.time()
            found = self._context.mail.take(self._who, most, now, now + lease_seconds)
            left = until - time.monotonic()
            if found or left <= 0:
                return [received_mail(message, 1) for message in found]
            # A lease that runs out rings for nobody: look again now and then.
            await self._context.child_runs.wakeups.wait(self._who.run, min(left, 5.0))

    def acknowledge(self, messages: Sequence[int]) -> int:
        return self._context.mail.read(self._who, messages, time.time())

    def thread(self, name: str) -> list[ReceivedMail]:
        return [received_mail(message) for message in self._context.mail.thread(self._who, name, MOST_THREAD)]

    def waiting(self) -> int:
        return sum(self._context.mail.waiting(self._who.run, box) for box in (self._who.node, self._who.attempt))

    def close(self) -> None:
        """Give back what was taken and not dealt with: another try of the node may read it."""
        self._context.mail.close(self._who.attempt, time.time() - mail.KEPT_SECONDS)


def received_mail(message: MailMessage, more: int = 0) -> ReceivedMail:
    return ReceivedMail(
        id=message.id,
        sender=message.sender,
        text=message.text,
        thread=message.thread,
        priority=NAMES[message.priority],
        at=datetime.fromtimestamp(message.at, UTC).isoformat(timespec="seconds"),
        times_delivered=message.deliveries + more,
    )
