"""Where an attempt runs: in this process, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.events import AttemptEvents
from corral.attempt.repositories import repository_of
from corral.attempt.runner import AttemptRunner
from corral.attempt.toolbox.context import RunContext
from corral.attempt.toolbox.toolbox import AttemptToolbox
from corral.machines.host import host_of
from corral.machines.local import LocalMachine
from corral.model import AttemptRecord, RunPlan
from corral.model.flow import Node


class AttemptRun(Protocol):
    """One attempt that is carried out somewhere."""

    @property
    def record(self) -> AttemptRecord: ...
    async def execute(self) -> None: ...
    def steer(self, text: str) -> bool: ...
    def condense(self, by: str) -> bool: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...


AttemptFactory = Callable[[AttemptRecord, Node], AttemptRun]


def local_attempts(plan: RunPlan, toolbox_context: RunContext) -> AttemptFactory:
    """Return what carries out attempts of a run in this process."""
    store = toolbox_context.store
    repository = repository_of(plan, store.folder)

    def make_attempt_run(record: AttemptRecord, node: Node) -> AttemptRun:
        host = host_of(plan, node.task, repository, store.folder, record)
        where = AttemptMachine(LocalMachine(host), host)
        attempt_events = AttemptEvents(record, store, toolbox_context.listen, node.task)
        toolbox = AttemptToolbox(toolbox_context, attempt_events, node, where)
        return AttemptRunner(attempt_events, node, toolbox_context.connect_agent, where, toolbox)

    return make_attempt_run
