"""What an attempt may look at of others: outputs and files of nodes of its run that are over, and of its children."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from corral.attempt.toolbox.context import RunContext
from corral.machines.host import Host
from corral.model import ENCODER, OPEN, Attempt, AttemptRecord, NodeState, Status
from corral.model.errors import BadRequest
from corral.rules.scope import globs
from corral.rules.scope.globs import split

MOST_CHARACTERS = 50_000  #: at once; a program that takes the answer has limits of its own
MOST_FILE_BYTES = 8 << 20


class TextPart(Struct, frozen=True, kw_only=True):
    """A part of something long."""

    node: str
    status: Status
    text: str
    size: int  #: of the whole, in characters
    next_offset: int | None = None


class NodeResults:
    """Reads for one attempt; nothing of other runs can be named."""

    def __init__(self, toolbox_context: RunContext, record: AttemptRecord, host: Host) -> None:
        self._context, self._record, self._host = toolbox_context, record, host

    def output(self, name: str, offset: int) -> TextPart:
        state, attempt = self._over(name)
        return _piece(name, state.status, text_of(attempt.output), offset)

    def files(self, name: str) -> dict[str, Any]:
        state, attempt = self._over(name)
        shown = [path for path in attempt.files_changed if self._may_read(path)]
        return {"node": name, "status": state.status, "commit": attempt.commit, "files": shown}

    async def file(self, name: str, path: str, offset: int) -> TextPart:
        state, attempt = self._over(name)
        if attempt.commit is None:
            raise BadRequest(f"`{name}` has left no files", hint="list_nodes shows who has")
        if not self._may_read(path):
            raise BadRequest(f"{path}: your scope does not let you read it", hint="list_files shows what you may read")
        found = await self._host.repository.git("cat-file", "-s", f"{attempt.commit}:{path}", fine=(0, 128))
        if found.code != 0:
            raise BadRequest(f"`{name}` has no file {path[:200]}", hint="see list_files")
        if int(found.out) > MOST_FILE_BYTES:
            raise BadRequest(f"{path}: {int(found.out) >> 20} MB are too much to be shown", hint="read a smaller file")
        shown = await self._host.repository.git("cat-file", "blob", f"{attempt.commit}:{path}", fine=(0, 128))
        if shown.code != 0:
            raise BadRequest(f"{path} is not a file", hint="list_files shows what is there")
        return _piece(name, state.status, shown.out.decode(errors="replace"), offset)

    def finished_nodes(self) -> list[tuple[NodeState, Attempt]]:
        """Return the nodes of this run that are over and have left something."""
        store, run = self._context.store, self._record.run
        records = store.attempts(run)
        found = [(state, _last(state, records)) for state in store.nodes(run) if state.status not in OPEN]
        return [(state, attempt) for state, attempt in found if attempt]

    def _over(self, name: str) -> tuple[NodeState, Attempt]:
        store, run = self._context.store, self._record.run
        child = next((each.run for each in self._context.lineage.below_attempt(self._record.attempt.id)
                      if each.run == name), None)  # fmt: skip
        states = store.nodes(child or run)
        state = next((each for each in states if child or each.id == name), None)
        if state is None:
            raise BadRequest(f"there is no node `{name[:80]}` in this run", hint="see list_nodes")
        if state.status in OPEN:
            raise BadRequest(
                f"`{name}` is not over yet: {state.status}", hint="continue with other work, and call again later"
            )
        attempt = _last(state, store.attempts(child or run))
        if attempt is None:
            raise BadRequest(
                f"`{name}` has left nothing: {state.status}", hint="list_nodes shows who has left something"
            )
        return state, attempt

    def _may_read(self, path: str) -> bool:
        if path.startswith("/") or "\0" in path or ".." in split(path):
            return False
        fitted = self._host.boxes.fitted
        here = globs.top(fitted.scope, ignore=fitted.ignore)
        for part in split(path):
            here = here.enter(part)
        return here.readable()


def text_of(output: object) -> str:
    return output if isinstance(output, str) else "" if output is None else ENCODER.encode(output).decode()


def _last(state: NodeState, records: list[AttemptRecord]) -> Attempt | None:
    """Return the winner of a node, or else its last attempt."""
    tries = [record.attempt for record in records if record.node == state.id]
    return next((each for each in tries if each.id == state.winner), tries[-1] if tries else None)


def _piece(name: str, status: Status, text: str, offset: int) -> TextPart:
    end = offset + MOST_CHARACTERS
    return TextPart(
        node=name,
        status=status,
        text=text[offset:end],
        size=len(text),
        next_offset=end if end < len(text) else None,
    )
