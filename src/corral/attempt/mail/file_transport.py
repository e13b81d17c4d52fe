"""Mail and outputs as files, for agents that take no MCP servers: ~/mail/inbox, ~/mail/outbox, ~/outputs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import msgspec
from msgspec import Struct

from corral.attempt.mail.mailbox import ReceivedMail
from corral.attempt.toolbox.results import text_of
from corral.attempt.toolbox.toolbox import AttemptToolbox
from corral.machines.machine import Machine
from corral.model import ENCODER
from corral.model.errors import CorralError
from corral.rules.context import mail
from corral.rules.context.mail import LONGEST_LEASE_SECONDS, MOST_BYTES, MOST_TAKEN, Priority

LOOK_SECONDS = 1.0
HALF_WRITTEN_SECONDS = 3.0  #: what is no JSON yet may still be written for so long
MOST_AT_ONCE = 50
MOST_OUTPUTS = 100
MOST_FILE_BYTES = 4 * MOST_BYTES
INBOX, OUTBOX, REFUSED, OUTPUTS = "mail/inbox", "mail/outbox", "mail/refused", "outputs"
WORDS = """# Other agents

You work in a run with others: {names}. Their mail to you comes as files into ~/mail/inbox. To write to one of
them, or to `all`, put a file NAME.json with {{"to": "...", "text": "..."}} into ~/mail/outbox; "priority" (low, normal,
high, urgent) and the "thread" of a message that you answer may be in it. What is refused comes back into
~/mail/refused. What those who are done have said lies in ~/outputs."""


class _MailDraft(Struct, frozen=True, forbid_unknown_fields=True):
    to: str
    text: str
    priority: Priority = "normal"
    thread: str = ""


class FileMail:
    """Carries mail between the store and one agent's HOME while it works."""

    def __init__(self, toolbox: AttemptToolbox, machine: Machine, workspace: str) -> None:
        self._mail, self._results, self._machine, self._workspace = toolbox.mail, toolbox.results, machine, workspace
        self._delivered: list[int] = []
        self._outputs_shown: set[str] | None = None  # of whose output it has been shown

    def words(self) -> str:
        """Return the prompt's note about mail; empty if there are no other agents."""
        circle = self._mail.recipients()
        names = [*mail.others(circle), *(f"{place.node} (over)" for place in circle.places if place.over)]
        return WORDS.format(names=", ".join(names[:50])) if names else ""

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Carry while the agent works, and once more when it has ended."""
        await self._carry()
        carrying = asyncio.create_task(self._keep_carrying())
        try:
            yield
        finally:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)
        await self._send(last=True)

    def acknowledge(self) -> None:
        """Acknowledge what was delivered: its agent has ended well."""
        if self._delivered:
            self._mail.acknowledge(self._delivered)

    async def _keep_carrying(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(CorralError, OSError):  # tried again at the next look
                await self._carry()

    async def _carry(self) -> None:
        await self._send(last=False)
        if self._outputs_shown is not None and self._mail.waiting() <= len(self._delivered):
            return
        for message in await self._mail.take(MOST_TAKEN, 0.0, LONGEST_LEASE_SECONDS):
            await self._deliver(message)
        await self._show_outputs()

    async def _show_outputs(self) -> None:
        """Put there what others have said last; looked at when it starts and when mail comes, for it takes time."""
        self._outputs_shown = self._outputs_shown or set()
        for state, attempt in self._results.finished_nodes()[:MOST_OUTPUTS]:
            if state.id not in self._outputs_shown:
                self._outputs_shown.add(state.id)
                ending = "txt" if isinstance(attempt.output, str) else "json"
                await self._put(f"{OUTPUTS}/{_plain(state.id)}.{ending}", text_of(attempt.output).encode())

    async def _deliver(self, message: ReceivedMail) -> None:
        await self._put(f"{INBOX}/{message.id:06d}.json", msgspec.json.format(ENCODER.encode(message), indent=1))
        self._delivered.append(message.id)

    async def _send(self, *, last: bool) -> None:
        for drop in await self._machine.drops(self._workspace, OUTBOX, MOST_AT_ONCE, MOST_FILE_BYTES):
            try:
                draft = msgspec.json.decode(drop.content, type=_MailDraft)
                self._mail.send(draft.to, draft.text, draft.priority, draft.thread)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                if not last and drop.age_seconds < HALF_WRITTEN_SECONDS:
                    continue
                await self._refuse(drop.name, f"it is no message: {error}")
            except CorralError as error:
                await self._refuse(drop.name, f"{error}" + (f"\nhint: {error.hint}" if error.hint else ""))
            await self._machine.take_drop(self._workspace, OUTBOX, drop.name)

    async def _refuse(self, name: str, words: str) -> None:
        await self._put(f"{REFUSED}/{_plain(name)}.txt", words.encode(errors="replace"))

    async def _put(self, name: str, content: bytes) -> None:
        with contextlib.suppress(OSError):  # it has put something else in the way: its own loss
            await self._machine.put(self._workspace, name, content)


def _plain(name: str) -> str:
    """Return a name that is one of a file, whatever it holds."""
    return (
        "".join(message if message.isalnum() or message in "-_." else "_" for message in name)[:100].lstrip(".") or "_"
    )
