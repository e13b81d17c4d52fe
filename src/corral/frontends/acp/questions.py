"""Questions of the inbox, asked where the user is: as a form, as a permission, or in words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from corral.agents.formats.acp.client_requests import ELICITATION_REPLY, PERMISSION_REPLY, ClientCapabilities
from corral.agents.formats.printed_json import UNREADABLE, decode
from corral.frontends.acp.connection import EditorConnection, RefusedByClient
from corral.frontends.acp.updates import ShownCall, Updates, text_content
from corral.model import Entry, moment

#: Not asked while a run works: to wait for a quota, or for a merge that was asked for by itself, is no hurry; and
#: whether a result is merged is asked at its end.
NOT_ASKED = ("limit", "merge", "result")
KEY = "answer"


class FormOption(Struct, frozen=True):
    """One answer to a permission request."""

    id: str
    name: str
    kind: str


class Asker:
    """Asks the user of one session; who does not answer in time has said nothing."""

    def __init__(
        self, connection: EditorConnection, updates: Updates, client: ClientCapabilities, ask_seconds: float
    ) -> None:
        self._connection, self._updates = connection, updates
        self._client, self._seconds = client, ask_seconds

    def can_ask(self, entry: Entry) -> bool:
        """Return whether the client can show this question; one for any words needs a form."""
        return self._has_forms or bool(entry.choices)

    @property
    def _has_forms(self) -> bool:
        return self._client.elicitation is not None and self._client.elicitation.form is not None

    async def ask(self, entry: Entry) -> str | None:
        """Return what the user answers; None: they did not."""
        return await (self._ask_by_form(entry) if self._has_forms else self._ask_by_permission(entry))

    async def permit(self, call: ShownCall, options: Sequence[FormOption]) -> str | None:
        """Ask for one of several answers about a tool call; None: there was none in time."""
        shown = [{"optionId": each.id, "name": each.name, "kind": each.kind} for each in options]
        asked: dict[str, object] = {
            "sessionId": self._updates.session,
            "toolCall": call.pending(),
            "options": shown,
        }
        try:
            async with asyncio.timeout(self._seconds):
                raw = await self._connection.ask("session/request_permission", asked)
            outcome = decode(PERMISSION_REPLY, raw).outcome
        except (TimeoutError, RefusedByClient, *UNREADABLE):
            return None
        chosen = outcome.option_id if outcome.outcome == "selected" else None
        return chosen if any(each.id == chosen for each in options) else None

    async def _ask_by_form(self, entry: Entry) -> str | None:
        asked: dict[str, object] = {
            "mode": "form",
            "sessionId": self._updates.session,
            "message": _words(entry),
            "requestedSchema": _form(entry),
        }
        try:
            async with asyncio.timeout(self._seconds):
                reply = decode(ELICITATION_REPLY, await self._connection.ask("elicitation/create", asked))
        except (TimeoutError, RefusedByClient, *UNREADABLE):
            return None
        if reply.action == "accept":
            words = (reply.content or {}).get(KEY)
            return str(words) if words not in (None, "") else None
        declined = entry.default if entry.about == "budget" else "no"
        return declined if reply.action == "decline" and declined in entry.choices else None

    async def _ask_by_permission(self, entry: Entry) -> str | None:
        call = ShownCall(f"question-{entry.id}", entry.text[:500], "other", (text_content(_words(entry)),))
        self._updates.begin_question(call)
        options = [FormOption(choice, choice, _kind(choice, entry)) for choice in entry.choices]
        try:
            answer = await self.permit(call, options)
        except asyncio.CancelledError:
            self._updates.change_call(call.id, status="completed", title=f"Answered elsewhere: {entry.text[:500]}")
            raise
        said = "not answered here" if answer is None else f"answered: {answer}"
        self._updates.change_call(
            call.id, status="failed" if answer is None else "completed", title=f"{entry.text[:500]} ({said})"
        )
        return answer


def _kind(choice: str, entry: Entry) -> str:
    return "reject_once" if choice in ("no", "none", "stop", "abort", entry.default) else "allow_once"


def _words(entry: Entry) -> str:
    lines = [entry.text, entry.context, f"Without an answer by {moment(entry.deadline)}: {entry.default}"]
    return "\n".join(line for line in lines if line)


def _form(entry: Entry) -> dict[str, object]:
    """Return a form of one field."""
    field: dict[str, object] = {"type": "string", "title": "Answer"}
    amounts = entry.about == "budget" and len(entry.choices) > 1  # besides its choices, any amount
    if entry.choices and not amounts:
        field["enum"] = list(entry.choices)
        if entry.default in entry.choices:
            field["default"] = entry.default
    elif amounts:
        field["description"] = "|".join((*entry.choices, "an amount in USD"))
    return {"type": "object", "properties": {KEY: field}, "required": [KEY]}
