"""Questions to the user at the client by elicitation, in both eras of the protocol; other clients get instructions."""

from __future__ import annotations

import msgspec
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct

from corral.model import Entry, moment

NOT_ASKED = ("limit", "merge")  #: to wait for a quota, or a merge that was asked for by itself, is no hurry
KEY = "answer"


class Pending(Struct, frozen=True):
    """What a client sends back with its answer, sealed by us: which question it was."""

    run: str
    entry: str


class InputNeeded(Exception):
    """No error: the client is to ask its user, and to call again with the answer."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("input is needed")
        self.result = result


def can_ask(context: ServerRequestContext) -> bool:
    """Tell whether a client shows forms to its user."""
    capabilities = context.session.client_capabilities
    forms = capabilities.elicitation if capabilities else None
    return forms is not None and (forms.form is not None or forms.url is None)


async def ask(context: ServerRequestContext, entry: Entry) -> str | None:
    """Return what the user answers; None: they did not. In the newer era the call ends here and comes again."""
    form = ElicitRequestFormParams(message=_words(entry), requested_schema=_form(entry))
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        state = msgspec.json.encode(Pending(entry.run, entry.id)).decode()
        raise InputNeeded(InputRequiredResult(input_requests={KEY: ElicitRequest(params=form)}, request_state=state))
    try:
        result = await context.session.elicit_form(form.message, form.requested_schema, context.request_id)
    except MCPError:
        return None  # it said it can, and cannot
    return _answer_of(entry, result)


def read_answer(entry: Entry, responses: InputResponses | None) -> str | None:
    """Return what a call that came again brings along."""
    result = (responses or {}).get(KEY)
    return _answer_of(entry, result) if isinstance(result, ElicitResult) else None


def pending(state: str | None) -> Pending | None:
    return msgspec.json.decode(state, type=Pending) if state else None


def _answer_of(entry: Entry, result: ElicitResult) -> str | None:
    if result.action == "accept":
        words = (result.content or {}).get(KEY)
        return str(words) if words not in (None, "") else None
    declined = entry.default if entry.about == "budget" else "no"
    return declined if result.action == "decline" and declined in entry.choices else None


def ways(entry: Entry) -> str:
    """Say what may be answered."""
    if _takes_amounts(entry):
        return "|".join((*entry.choices, "an amount in USD"))
    return "|".join(entry.choices) or "any words"


def _takes_amounts(entry: Entry) -> bool:
    return entry.about == "budget" and len(entry.choices) > 1  # a ceiling offers no more


def _words(entry: Entry) -> str:
    lines = [entry.text, entry.context]
    lines.append(f"Without an answer by {moment(entry.deadline)}: {entry.default}")
    return "\n".join(line for line in lines if line)


def _form(entry: Entry) -> dict[str, object]:
    """Return a form of one field; forms hold plain values only."""
    field: dict[str, object] = {"type": "string", "title": "Answer", "description": ways(entry)}
    if entry.choices and not _takes_amounts(entry):
        field = {"type": "string", "title": "Answer", "enum": list(entry.choices)}
        if entry.default in entry.choices:
            field["default"] = entry.default
    return {"type": "object", "properties": {KEY: field}, "required": [KEY]}
