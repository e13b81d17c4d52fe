"""Whether a branch whose history was rewritten still holds the lines of a merge: an amended commit does."""

from __future__ import annotations

from corral.world.git import resolve_conflicts
from corral.world.git.repository import Repository

MOST_FILES = 100
MOST_BYTES = 1 << 20


async def keeps_lines(repository: Repository, branch: str, before: str, after: str) -> bool:
    """Tell whether at least half of the lines that came from one commit to another are in a branch's files."""
    added = kept = 0
    for path in list(await repository.names_changed(before, after))[:MOST_FILES]:
        old, new, now = [await _lines(repository, commit, path) for commit in (before, after, branch)]
        came = {line for line in new - old if line.strip()}
        added += len(came)
        kept += len(came & now)
    return bool(added) and 2 * kept >= added


async def _lines(repository: Repository, commit: str, path: str) -> set[bytes]:
    found = (await resolve_conflicts.entries_of(repository, commit, [path])).get(path)
    if found is None or not found[0].startswith("100"):
        return set()
    return {*(await repository.blob(found[1]))[:MOST_BYTES].splitlines()}
