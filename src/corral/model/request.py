"""What a front end asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from corral.model.flow import Select, TaskType
from corral.model.values import Level


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
    issue: str | None = None  #: the address of an issue that is the task, or belongs to it
    callback: str | None = None  #: an address that is posted to when the run is over or waits for an answer
    from_last: bool = False  #: a further try starts from where the last one stopped
