"""Conflicts of a merge with their contents, for a person who settles them file by file."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from corral.engine.merge.merger import ComputedMerge, Merger
from corral.model.merge import Choice, Conflict, ConflictedFile, Conflicts, MergeRequest, Version
from corral.world.git import blobs, resolve_conflicts
from corral.world.git.repository import GITLINK


async def conflicts_of(merger: Merger, request: MergeRequest, only: str | None = None) -> Conflicts:
    """Return what stands against a merge, settled already or not, with the texts of all sides."""
    if request.into is None and (waiting := merger.waiting.last()):
        request = structs.replace(request, into=waiting.into)
    request = merger.complete_request(request)
    worked = await merger.work_out(request)
    settled = merger.choices(request).settled
    found = {conflict.path: conflict for conflict in worked.merged.conflicts}
    found |= {path: conflict for path, (conflict, _) in settled.items() if path not in found}
    if only is not None:
        found = {path: conflict for path, conflict in found.items() if path == only}
    marked = await resolve_conflicts.entries_of(merger.repository, worked.merged.tree, list(found)) if found else {}
    names = [blob for conflict in found.values() for blob in conflict.blobs if blob]
    names += [blob for path, (_, blob) in marked.items() if path in found]
    read = _FileVersions(await blobs.sizes(merger.repository, names), await blobs.contents(merger.repository, names))
    left = {conflict.path for conflict in worked.merged.conflicts}
    return Conflicts(
        run=merger.run.run,
        into=worked.ref.removeprefix("refs/heads/"),
        strategy=request.strategy,
        before=worked.before,
        commit=worked.candidate.commit,
        waits=merger.waiting.of(worked.ref) is not None,
        agent=_for_agent(worked),
        between=worked.candidate.between,
        conflicts=tuple(
            read.file(conflict, marked.get(path), None if path in left else settled[path][1])
            for path, conflict in sorted(found.items())
        ),
    )


def _for_agent(worked: ComputedMerge) -> bool:
    """Tell whether an agent can settle it: it needs a tree in which the marks stand."""
    conflicts = worked.merged.conflicts
    whole = worked.before is not None and worked.candidate.commit is not None
    return bool(conflicts) and whole and not any(resolve_conflicts.is_submodule(conflict) for conflict in conflicts)


class _FileVersions:
    """What was read of the versions of all files."""

    def __init__(self, sizes: Mapping[str, int], contents: Mapping[str, bytes]) -> None:
        self._sizes, self._contents = sizes, contents

    def file(self, conflict: Conflict, marked: tuple[str, str] | None, choice: Choice | None) -> ConflictedFile:
        base, ours, theirs = (
            self._version(mode, blob) for mode, blob in zip(conflict.modes, conflict.blobs, strict=True)
        )
        return ConflictedFile(
            path=conflict.path,
            kind=conflict.kind,
            words=conflict.words,
            base=base,
            ours=ours,
            theirs=theirs,
            merged=self._version(*marked) if marked and marked[1] not in conflict.blobs else None,
            choice=(choice.side or "text") if choice else None,
        )

    def _version(self, mode: str | None, blob: str | None) -> Version | None:
        if mode is None or blob is None:
            return None
        size = self._sizes.get(blob, 0)
        if mode == GITLINK or blob not in self._contents:
            return Version(blob=blob, mode=mode, size=size, large=mode != GITLINK)
        content = self._contents[blob]
        text = _text(content)
        return Version(blob=blob, mode=mode, size=size, text=text, binary=text is None)


def _text(content: bytes) -> str | None:
    """Return a content as text if it comes back from it unchanged."""
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None
