"""Flows from Python: a builder that writes what a flow file says, so that the same reader checks it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import msgspec

from corral.engine.engine import Engine
from corral.engine.telling import Listener
from corral.errors import BadRequest
from corral.events import Heard
from corral.flow import MergeStrategy, Reducer, Select, TaskType
from corral.model import Request, Run

Need = str | Mapping[str, str]


class Place(TypedDict, total=False):
    """Where a node stands in the graph."""

    needs: Sequence[Need]
    when: str
    for_each: str


class Work(Place, total=False):
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


class Command(Place, total=False):
    """What a command may say besides itself."""

    timeout: str
    idle: str
    retries: int
    checks: Sequence[str]


class Question(Place, total=False):
    """What a gate may say besides its question."""

    default: str
    deadline: str


class Top(TypedDict, total=False):
    """What holds for the whole flow."""

    budget: float
    parallel: int
    on_failure: str
    defaults: Mapping[str, Any]


class Going(TypedDict, total=False):
    """What may be said of one run."""

    inputs: Mapping[str, Any]
    agent: str
    base: str
    budget_usd: float
    priority: int
    yes: bool
    trust: bool
    unsandboxed: bool


class Flow:
    """A flow that is put together step by step. Each step returns the flow, so that steps can be chained."""

    def __init__(self, name: str, **top: Unpack[Top]) -> None:
        self._top: dict[str, Any] = {"name": name, **top}
        self._inputs: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, dict[str, Any]] = {}

    def input(self, name: str, **about: Any) -> Flow:  # noqa: ANN401 -- a default may be anything
        """Take a value in when it is run: `default=`, `description=`."""
        self._inputs[name] = about
        return self

    def task(self, name: str, text: str, **keys: Unpack[Work]) -> Flow:
        """Add work for an agent."""
        return self._add(name, {"task": text, **keys})

    def run_command(self, name: str, command: str, **keys: Unpack[Command]) -> Flow:
        """Add a command in the box."""
        return self._add(name, {"run": command, **keys})

    def gate(self, name: str, question: str, **keys: Unpack[Question]) -> Flow:
        """Add a question to a person; the flow goes on when the answer is yes."""
        return self._add(name, {"gate": question, **keys})

    def merge(
        self, name: str, into: str | None = None, strategy: MergeStrategy = "auto", **keys: Unpack[Place]
    ) -> Flow:
        """Land what the nodes before it made."""
        landing = {"strategy": strategy} if into is None else {"into": into, "strategy": strategy}
        return self._add(name, {"merge": landing, **keys})

    def flow(self, name: str, file: str, given: Mapping[str, Any] | None = None, **keys: Unpack[Place]) -> Flow:
        """Add another flow file, with values for its inputs."""
        return self._add(name, {"flow": file, **({"with": given} if given else {}), **keys})

    def to_json(self) -> str:
        """Return it as a flow file, in JSON."""
        return msgspec.json.format(self._encoded(), indent=2).decode() + "\n"

    def to_yaml(self) -> str:
        """Return it as a flow file, in YAML."""
        import yaml  # noqa: PLC0415 -- only who wants YAML waits for it

        return yaml.safe_dump(msgspec.json.decode(self._encoded()), sort_keys=False, allow_unicode=True, width=100)

    def _encoded(self) -> bytes:
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


def run(flow: Flow, repo: str | Path = ".", listen: Listener | None = None, **going: Unpack[Going]) -> Run:
    """Carry a flow out in this process and return its run document, whatever became of it: see its `status`.

    What is wrong with the flow, the repository or the settings raises `corral.errors.BadRequest` before anything is
    started. Ctrl-C stops the agents and keeps their work; a run whose process dies goes on with `corral resume`.
    """
    given: dict[str, Any] = dict(going)
    agent = given.pop("agent", None)
    request = Request(
        flow=flow.to_json(),
        flow_file=str(Path.cwd() / "flow"),
        repo=str(repo),
        agents=(agent,) if agent else (),
        **given,
    )
    engine = Engine()
    try:
        return asyncio.run(_driven(engine, request, listen or _nobody))
    finally:
        engine.close()


async def _driven(engine: Engine, request: Request, listen: Listener) -> Run:
    if threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, engine.drives.stop, "stopped by SIGINT")
    return await engine.drive(await engine.submit(request), listen)


def _nobody(_: Heard) -> None:
    """Listen to nothing."""
