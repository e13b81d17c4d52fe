"""Merge nodes of a flow: each merges what the nodes before it made, while the run continues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from corral.model.errors import ChecksFailed, CorralError
from corral.model.flow import MergeSpec, Node
from corral.model.merge import MergeRecord, MergeRequest
from corral.rules.schedule.actions import Settle

MergeCall = Callable[[MergeRequest, Callable[[str], None]], Awaitable[MergeRecord]]


class FlowMerges:
    """The merges of one run that are under way, or wait for a user to settle their conflicts."""

    def __init__(self, run: str, merge: MergeCall, say: Callable[[str], None], wake: Callable[[], None]) -> None:
        self._run, self._merge, self._say, self._wake = run, merge, say, wake
        self._tasks: dict[str, asyncio.Task[MergeRecord]] = {}
        self.conflicts: dict[str, str] = {}  # node -> text for the user

    @property
    def at_work(self) -> bool:
        return bool(self._tasks)

    def begin(self, node: Node, heads: tuple[str, ...], proofs: tuple[str, ...]) -> None:
        """Merge; what was merged before a crash is found to be there already."""
        spec = node.merge or MergeSpec()
        request = MergeRequest(run=self._run, strategy=spec.strategy, into=spec.into, heads=heads, proofs=proofs)
        task = asyncio.ensure_future(self._merge(request, self._say))
        task.add_done_callback(lambda _: self._wake())
        self._tasks[node.id] = task

    def take_ended(self) -> list[Settle]:
        """Return the merges that have come to an end since."""
        over = [(node, task) for node, task in self._tasks.items() if task.done()]
        for node, _ in over:
            del self._tasks[node]
        return [settle for node, task in over if (settle := self._settle(node, task))]

    def _settle(self, node: str, task: asyncio.Task[MergeRecord]) -> Settle | None:
        try:
            record = task.result()
        except ChecksFailed as error:
            return Settle(node, "failed", f"check_failed: {str(error).splitlines()[0]}")
        except CorralError as error:
            return Settle(node, "failed", f"{error} ({error.hint})" if error.hint else str(error))
        if record.state == "conflict":
            names = ", ".join(conflict.path for conflict in record.conflicts[:5])
            who = f"{' and '.join(record.between)} conflict" if record.between else f"conflicts with {record.into}"
            self.conflicts[node] = f"{who} in {names}: corral inbox"
            return None
        return Settle(node, "done", why=f"merged into {record.into}: {(record.after or '')[:12]}")

    async def close(self) -> None:
        """End what is under way; a merge is all or nothing."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
