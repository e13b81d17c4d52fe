"""What clients of the API send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct, defstruct, field, structs

from corral.model import Request
from corral.model.flow import RunStrategy
from corral.model.merge import Side, Strategy
from corral.model.server import AccessScope
from corral.model.values import MOST_RETRIES

Text = Annotated[str, Meta(max_length=200_000)]
Long = Annotated[str, Meta(max_length=1_000_000)]
Word = Annotated[str, Meta(max_length=1000)]
Words = Annotated[tuple[Word, ...], Meta(max_length=100)]
Priority = Annotated[int, Meta(ge=-1000, le=1000)]


#: What of a request only the command line can say, for it names files of this machine or opens more to agents.
NOT_BY_HTTP = frozenset({
    "approve", "draft", "flow_file", "from_last", "held_out", "issue", "scope", "trust", "unsandboxed", "with_changes",
    "yes",
})  # fmt: skip
SPOKEN = {"prompt": "task", "require": "require_sandbox"}  #: names that the API has for fields of a request


class Limits:
    """Fields of a request whose type says too little of what may be sent; all others follow from their type."""

    prompt: Text
    tasks: Annotated[tuple[Text, ...], Meta(max_length=100)]
    strategy: RunStrategy | None
    flow: Text | None
    inputs: dict[str, Any]
    output: dict[str, Any] | None
    budget_usd: Annotated[float, Meta(ge=0)] | None
    max_tokens: Annotated[int, Meta(ge=1)] | None
    retries: Annotated[int, Meta(ge=0, le=MOST_RETRIES)] | None
    priority: Priority


class Bounded:
    """What may be sent for a type."""

    text: Word
    optional: Word | None
    texts: Words
    table: Annotated[dict[Word, Word], Meta(max_length=100)]


LIMITS, BOUNDED = (get_type_hints(each, include_extras=True) for each in (Limits, Bounded))
BY_TYPE: dict[Any, Any] = {
    str: BOUNDED["text"],
    str | None: BOUNDED["optional"],
    tuple[str, ...]: BOUNDED["texts"],
    Mapping[str, str]: BOUNDED["table"],
}


def _fields() -> list[tuple[str, Any, Any]]:
    kinds = get_type_hints(Request)
    return [
        (
            SPOKEN.get(each.name, each.name),
            LIMITS.get(each.name, BY_TYPE.get(kinds[each.name], kinds[each.name])),
            "" if each.name == "repo" else _default(each),
        )
        for each in structs.fields(Request)
        if each.name not in NOT_BY_HTTP
    ]


def _default(each: structs.FieldInfo) -> Any:  # noqa: ANN401 -- whatever a field holds
    return each.default if each.default_factory is NODEFAULT else field(default_factory=each.default_factory)


if TYPE_CHECKING:

    class Submission(Request, frozen=True):
        """A request as clients send it; `request_of` makes a request of it."""

else:
    Submission = defstruct("Submission", _fields(), frozen=True, kw_only=True, forbid_unknown_fields=True)
    Submission.__doc__ = "A task, or the text of a flow; the names are those of `corral run`."


def request_of(wanted: Submission, repo: str) -> Request:
    """Return what was sent as the engine takes it; `repo` was looked at."""
    sent: dict[str, Any] = {
        each.name: getattr(wanted, SPOKEN.get(each.name, each.name))
        for each in structs.fields(Request)
        if each.name not in NOT_BY_HTTP
    }
    sent["output"] = None if sent["output"] is None else msgspec.json.encode(sent["output"]).decode()
    sent["repo"] = repo
    return Request(**sent)


def submission(fields: Mapping[str, Any]) -> Submission:
    """Return what a form sends, checked as a body is."""
    return msgspec.convert(dict(fields), Submission)


class RenameBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Word  #: empty: it has none any more


class SteerBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: Text


class NodeBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: Word | None = None  #: else the whole run


class ChooseBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attempt: Word  #: its id or number


class FlowBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flow: Text
    repo: Word = ""
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    agents: Words = ()


class AnswerBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    answer: Text


class MergeBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to merge; the names are those of `corral merge`."""

    strategy: Strategy = "auto"
    into: Word | None = None
    pick: Word | None = None
    take: dict[Word, Word] = field(default_factory=dict[str, str])  #: file, or hunks of it (`a.py#1,3`), to attempt
    resolve: dict[Word, Side] = field(default_factory=dict[str, Any])
    resolve_with: Word | None = None
    tries: Annotated[int, Meta(ge=1, le=10)] = 3
    autostash: bool = False
    checks: bool = True


class ResolveBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of files in conflict; the merge that waits for it is continued."""

    choices: dict[Word, Side] = field(default_factory=dict[str, Any])
    texts: dict[Word, Long] = field(default_factory=dict[str, str])  #: what a file shall contain
    agent: Word | None = None  #: settles all that nothing was chosen for
    tries: Annotated[int, Meta(ge=1, le=10)] = 3
    seen: Word | None = None  #: `before` of the conflicts; refused if the branch has moved since
    into: Word | None = None
    strategy: Strategy = "auto"
    autostash: bool = False
    checks: bool = True


class QueueChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    held: bool | None = None
    concurrency: Annotated[int, Meta(ge=1, le=1000)] | None = None


class QueueMove(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    priority: Priority | None = None
    before: Word | None = None  #: a run that waits too
    first: bool = False


class NewToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    scopes: Annotated[tuple[AccessScope, ...], Meta(min_length=1)] = ("read",)
