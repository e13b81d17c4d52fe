"""A task as a program puts it, and what may be said of one run; the words are those of `corral run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

import msgspec
from msgspec import Struct

from corral.frontends.python.flows import Flow
from corral.model import Level, Request
from corral.model.errors import BadRequest
from corral.model.flow import MergeWhen, RunStrategy, Select, TaskType


class Task(Struct, frozen=True):
    """What is to be done, and what holds for it: `Task("fix the flaky test", checks=["pytest -q"])`."""

    text: str
    agents: Sequence[str] = ()  #: several are a race
    checks: Sequence[str] = ()
    type: TaskType | None = None
    files: Sequence[str] = ()
    strategy: RunStrategy | None = None
    review: bool = False
    select: Select | None = None
    scorers: Sequence[str] = ()
    judge: str | None = None
    held_out: str | None = None  #: a folder of files that no agent sees: laid over the work, and checked again
    role: str | None = None
    skills: Sequence[str] = ()
    read_only: bool = False  #: changing nothing is success
    output: Mapping[str, Any] | None = None  #: the shape that its answer must have
    timeout: str | None = None
    idle: str | None = None
    retries: int | None = None
    fallback: Sequence[str] = ()
    max_tokens: int | None = None
    read: Sequence[str] = ()
    write: Sequence[str] = ()
    env: Sequence[str] = ()
    net: str | None = None
    require: Level | None = None


class RunOptions(TypedDict, total=False):
    """What may be said of one run."""

    inputs: Mapping[str, Any]  #: of a flow
    agent: str
    name: str  #: to find it again
    labels: Mapping[str, str]
    base: str
    with_changes: bool  #: start from the checkout as it is, with what is not committed
    budget_usd: float
    held_out: str  #: of a flow, as a task's own
    merge: MergeWhen
    priority: int
    issue: str  #: its address; the task is then what it asks for
    callback: str  #: an address that is posted to when it is over or waits for an answer
    yes: bool
    trust: bool
    unsandboxed: bool


Wanted = str | Task | Flow


def request(wanted: Wanted, repo: str | Path, active: RunOptions) -> Request:
    """Return it as the engine takes it."""
    more: dict[str, Any] = dict(active)
    agent = more.pop("agent", None)
    named = (agent,) if agent else ()
    if isinstance(wanted, Flow):
        here = str(Path.cwd() / "flow")
        return Request(flow=wanted.to_json(), flow_file=here, repo=str(repo), agents=named, **more)
    task = Task(wanted) if isinstance(wanted, str) else wanted
    if task.agents and agent:
        raise BadRequest("the agent is named twice", hint="in the task, or for the run")
    if "inputs" in more:
        raise BadRequest("a task has no inputs", hint="only flows do")
    if task.held_out and "held_out" in more:
        raise BadRequest("held_out is said twice", hint="in the task, or for the run")
    said = {
        name: _plain(getattr(task, name))
        for name in task.__struct_fields__
        if name not in ("text", "agents", "output", *more)
    }
    output = None if task.output is None else msgspec.json.encode(task.output).decode()
    return Request(
        prompt=task.text, repo=str(repo), agents=tuple(task.agents) or named, output=output, **said, **more
    )  # fmt: skip


def _plain(value: Any) -> Any:  # noqa: ANN401 -- whatever a field holds
    """Return lists as the engine keeps them."""
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value
