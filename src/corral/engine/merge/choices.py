"""What was chosen for which path of a merge in conflict."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from corral.engine.merge.open_conflicts import SIDES
from corral.model.errors import BadRequest
from corral.model.merge import Choice, Conflict, MergeRecord, MergeRequest, Side
from corral.world.git import blobs, resolve_conflicts
from corral.world.git.merge_commits import MergeResult
from corral.world.git.repository import Repository


class Choices:
    """What was chosen for paths in conflict, now or before; a choice counts for the very versions it was made for."""

    def __init__(self, repository: Repository, request: MergeRequest, waiting: MergeRecord | None) -> None:
        self._repository = repository
        self._asked = {**dict(request.resolve), **{path: None for path, _ in request.texts}}
        self._texts = dict(request.texts)
        self._before = waiting.choices if waiting else ()
        self._new: list[tuple[str, Choice]] = []
        self.answer: Side | None = None  #: for all that nothing else was chosen for
        self.settled: dict[str, tuple[Conflict, Choice]] = {}

    @property
    def all(self) -> tuple[tuple[str, Choice], ...]:
        """What is to be kept with a merge that still waits."""
        return (*self._before, *self._new)

    @property
    def new(self) -> bool:
        return bool(self._new)

    async def settle(self, merged: MergeResult) -> MergeResult:
        """Put what was chosen in its place; the rest stays in conflict."""
        chosen: dict[str, Choice] = {}
        for conflict in merged.conflicts:
            if choice := await self._choice(conflict):
                chosen[conflict.path] = choice
                self.settled[conflict.path] = conflict, choice
        return await resolve_conflicts.settle(self._repository, merged, chosen) if chosen else merged

    def check(self, left: tuple[Conflict, ...]) -> None:
        """Refuse a choice for a path that is in no conflict."""
        known = {path for path, _ in self._before} | set(self.settled)
        for path in self._asked:
            if path not in known:
                names = ", ".join(conflict.path for conflict in left) or "nothing"
                raise BadRequest(f"--resolve {path}: that is not in conflict", hint=f"in conflict: {names}")

    async def _choice(self, conflict: Conflict) -> Choice | None:
        if conflict.path in self._asked:
            choice = structs.replace(await self._make_choice(conflict), of=conflict.blobs)
            self._new.append((conflict.path, choice))
            return choice
        for path, choice in reversed(self._before):
            if path == conflict.path and choice.of in (None, conflict.blobs):
                return choice
        return Choice(side=self.answer) if self.answer else None

    async def _make_choice(self, conflict: Conflict) -> Choice:
        if conflict.path in self._texts:
            if resolve_conflicts.is_submodule(conflict):
                raise BadRequest(f"{conflict.path} is a submodule: it has no text", hint="choose ours or theirs")
            content = await self._like(self._texts[conflict.path], conflict)
            return Choice(blob=await resolve_conflicts.keep_file(self._repository, content))
        text = self._asked[conflict.path] or ""
        if text in SIDES:
            return Choice(side=SIDES[text])
        file = Path(text).expanduser()
        if not file.is_file():
            raise BadRequest(
                f"--resolve: there is no file {text}", hint="say ours, theirs, base, or a file that has the answer"
            )
        return Choice(blob=await resolve_conflicts.keep_file(self._repository, file.read_bytes()))

    async def _like(self, text: str, conflict: Conflict) -> bytes:
        """Return a text with the line endings that both sides have: what comes from a form has its own."""
        found = await blobs.contents(self._repository, [blob for blob in conflict.blobs[1:] if blob])
        content = text.encode(errors="surrogateescape")
        sides = [side for side in found.values() if b"\n" in side]
        plain = content.replace(b"\r\n", b"\n")
        if sides and all(side.count(b"\r\n") == side.count(b"\n") for side in sides):
            return plain.replace(b"\n", b"\r\n")
        return content if any(b"\r\n" in side for side in sides) else plain
