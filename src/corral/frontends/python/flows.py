"""Flows from Python: a builder that writes what a flow file says, so that the same reader checks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

import msgspec

from corral.model.errors import BadRequest
from corral.model.flow import MergeStrategy, Reducer, Select, TaskType

Need = str | Mapping[str, str]


class NodeOptions(TypedDict, total=False):
    """Where a node is in the graph."""

    needs: Sequence[Need]
    when: str
    for_each: str | Sequence[Any]
    matrix: str | Mapping[str, Sequence[Any]]


class TaskOptions(NodeOptions, total=False):
    """What a task may say besides its text; the same keys as in a flow file."""

    agent: str
    race: Sequence[str]
    role: str
    type: TaskType
    files: Sequence[str]
    skills: Sequence[str]
    checks: Sequence[str]
    read_only: bool
    retries: int
    fallback: Sequence[str]
    timeout: str
    idle: str
    budget: float
    share: float
    output: Any
    repeat: Mapping[str, Any]
    select: Select
    scorers: Sequence[str]
    judge: str
    reduce: Reducer


class CommandOptions(NodeOptions, total=False):
    """What a command may say besides itself."""

    timeout: str
    idle: str
    retries: int
    checks: Sequence[str]
    output: Any
    repeat: Mapping[str, Any]


class GateOptions(NodeOptions, total=False):
    """What a gate may say besides its question."""

    default: str
    deadline: str


class FlowOptions(TypedDict, total=False):
    """What holds for the whole flow."""

    budget: float
    context: str
    parallel: int
    on_failure: str
    defaults: Mapping[str, Any]


class Flow:
    """A flow that is put together step by step. Each step returns the flow, so that steps can be chained."""

    def __init__(self, name: str, **top: Unpack[FlowOptions]) -> None:
        self._top: dict[str, Any] = {"name": name, **top}
        self._inputs: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, dict[str, Any]] = {}

    def input(self, name: str, **about: Any) -> Flow:  # noqa: ANN401 -- a default may be anything
        """Take a value in when it is run: `default=`, `description=`."""
        self._inputs[name] = about
        return self

    def task(self, name: str, text: str, **keys: Unpack[TaskOptions]) -> Flow:
        """Add work for an agent."""
        return self._add(name, {"task": text, **keys})

    def run_command(self, name: str, command: str, **keys: Unpack[CommandOptions]) -> Flow:
        """Add a command in the box."""
        return self._add(name, {"run": command, **keys})

    def gate(self, name: str, question: str, **keys: Unpack[GateOptions]) -> Flow:
        """Add a question to a user; the flow continues when the answer is yes."""
        return self._add(name, {"gate": question, **keys})

    def merge(
        self, name: str, into: str | None = None, strategy: MergeStrategy = "auto", **keys: Unpack[NodeOptions]
    ) -> Flow:
        """Merge what the nodes before it made."""
        spec = {"strategy": strategy} if into is None else {"into": into, "strategy": strategy}
        return self._add(name, {"merge": spec, **keys})

    def flow(self, name: str, file: str, given: Mapping[str, Any] | None = None, **keys: Unpack[NodeOptions]) -> Flow:
        """Add another flow file, with values for its inputs."""
        return self._add(name, {"flow": file, **({"with": given} if given else {}), **keys})

    def to_json(self) -> str:
        """Return it as a flow file, in JSON."""
        return msgspec.json.format(self._encode(), indent=2).decode() + "\n"

    def to_yaml(self) -> str:
        """Return it as a flow file, in YAML."""
        import yaml  # noqa: PLC0415 -- only callers that need YAML wait for it

        return yaml.safe_dump(msgspec.json.decode(self._encode()), sort_keys=False, allow_unicode=True, width=100)

    def _encode(self) -> bytes:
        whole = {**self._top, **({"inputs": self._inputs} if self._inputs else {}), "nodes": self._nodes}
        try:
            return msgspec.json.encode(whole)
        except (TypeError, ValueError) as error:
            raise BadRequest(
                f"the flow cannot be written down: {error}", hint="texts, numbers, lists, dicts"
            ) from error

    def _add(self, name: str, node: dict[str, Any]) -> Flow:
        if name in self._nodes:
            raise BadRequest(f"there is a node `{name}` already", hint="each has a name of its own")
        self._nodes[name] = node
        return self
