"""What a front end asks for, and how names and labels of runs are written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from corral.model.errors import BadRequest
from corral.model.flow import Select, TaskType
from corral.model.values import Level

MOST_NAME = 100
MOST_LABELS = 50
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")


class Request(Struct, frozen=True, kw_only=True):
    """What a front end asks for: a task as the person put it, nothing looked up yet."""

    prompt: str = ""
    repo: str = "."
    name: str | None = None  #: of the run, for lists; `corral rename` changes it
    labels: Mapping[str, str] = field(default_factory=dict[str, str])  #: to find the run again: `corral ls --label`
    agents: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()  #: further ones, side by side
    strategy: str | None = None
    review: bool = False
    flow: str | None = None  #: the text of a flow file
    flow_file: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    draft: bool = False  #: it is only looked at: inputs may be without a value
    type: TaskType | None = None
    files: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    no_checks: bool = False  #: the checks that settings name do not count
    select: Select | None = None
    scorers: tuple[str, ...] = ()
    judge: str | None = None
    held_out: str | None = None  #: a folder of this machine whose files are laid over the work for a last check
    read_only: bool = False
    budget_usd: float | None = None
    max_tokens: int | None = None
    yes: bool = False  #: go on past budgets, up to the ceiling
    timeout: str | None = None
    idle: str | None = None
    retries: int | None = None
    fallback: tuple[str, ...] = ()
    role: str | None = None
    skills: tuple[str, ...] = ()
    base: str | None = None
    with_changes: bool = False  #: start from the checkout as it is, with what is not committed
    machine: str | None = None  #: a machine of the settings, or `any`; None: here
    require: Level | None = None  #: None: strict, or on macOS seatbelt
    unsandboxed: bool = False
    trust: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    net: str | None = None
    scope: str | None = None  #: a file
    merge: Literal["never", "auto"] = "never"
    output: str | None = None  #: the shape that the output must have, as JSON, or a file that holds it
    priority: int = 0  #: among runs that wait: more is sooner
    approve: str | None = None  #: a person is asked for so long before anything starts; no answer is a no
    question: str | None = None  #: the words of that, where it is not simply about the task
    planned: bool = False  #: its flow was written by an agent
    issue: str | None = None  #: the address of an issue that is the task, or belongs to it
    callback: str | None = None  #: an address that is posted to when the run is over or waits for an answer
    from_last: bool = False  #: a further try starts from where the last one stopped


def check_name(name: str) -> str:
    """Return the name of a run, trimmed; refuse one that would not fit a line of a list."""
    name = name.strip()
    if not name or len(name) > MOST_NAME or not name.isprintable():
        hint = f"one line of at most {MOST_NAME} characters"
        raise BadRequest(f"`{name[:MOST_NAME]}` cannot name a run", hint=hint)
    return name


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels, with values trimmed; refuse keys and values that could not be searched for."""
    for key, value in labels.items():
        if not KEY.fullmatch(key):
            hint = "letters, digits and . _ / - : --label team=web"
            raise BadRequest(f"`{key[:MOST_NAME]}` cannot be the key of a label", hint=hint)
        if len(value) > MOST_NAME or not value.isprintable():
            raise BadRequest(f"the label `{key}` is too long", hint=f"one line of at most {MOST_NAME} characters")
    if len(labels) > MOST_LABELS:
        raise BadRequest(f"a run has at most {MOST_LABELS} labels", hint="leave some out")
    return {key: value.strip() for key, value in labels.items()}


def read_labels(texts: Sequence[str], *, any_value: bool = False) -> dict[str, str]:
    """Read `KEY=VALUE`; to search, `KEY` alone means any value."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals and not any_value:
            raise BadRequest(f"--label {text}: what is its value?", hint="--label KEY=VALUE")
        found[key.strip()] = value.strip()
    return check_labels(found)
