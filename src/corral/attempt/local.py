"""Where an attempt runs: in this process, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from corral.attempt.attempt_machine import AttemptMachine
from corral.attempt.events import AttemptEvents
from corral.attempt.repositories import repository_of
from corral.attempt.runner import AttemptRunner
from corral.attempt.toolbox.context import RunContext
from corral.attempt.toolbox.toolbox import Toolbox
from corral.machines.host import host_of
from corral.machines.local import LocalMachine
from corral.model import AttemptRecord, RunPlan
from corral.model.flow import Node


class AttemptRun(Protocol):
    """One attempt that is carried out somewhere."""

    @property
    def record(self) -> AttemptRecord: ...
    async def carry_out(self) -> None: ...
    def steer(self, text: str) -> bool: ...
    def condense(self, by: str) -> bool: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...


Place = Callable[[AttemptRecord, Node], AttemptRun]


def here(plan: RunPlan, office: RunContext) -> Place:
    """Return what carries out attempts of a run in this process."""
    store = office.store
    repository = repository_of(plan, store.folder)

    def course(record: AttemptRecord, node: Node) -> AttemptRun:
        host = host_of(plan, node.task, repository, store.folder, record)
        where = AttemptMachine(LocalMachine(host), host)
        recorder = AttemptEvents(record, store, office.listen, node.task)
        toolbox = Toolbox(office, recorder, node, where)
        return AttemptRunner(recorder, node, office.dress, where, toolbox)

    return course
