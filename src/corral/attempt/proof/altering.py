"""The tree with altered tests: the work, with other expected values in the base's tests that it made pass."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from corral.attempt.proof.trees import EXECUTABLE, PLAIN, TROUBLES, ReadChange, make_commit
from corral.machines.host import Host
from corral.rules.checks import altering
from corral.rules.checks.altering import AlteredFiles
from corral.rules.checks.steering import roles
from corral.world.git import blobs
from corral.world.git.collect import CommitEntry
from corral.world.git.repository import Repository

MOST_READ = 200  #: test files that are looked through
NAME = "altered"


async def alter_tests(
    host: Host, looked: ReadChange, commit: str, ids: Collection[str], failed: Sequence[str]
) -> AlteredFiles:
    """Alter what lies in a commit as at the base: tests by id, and scripts that decide about these checks."""
    try:
        scripts = await asyncio.to_thread(_scripts, looked, failed)
    except TROUBLES:
        scripts = {}
    own = {path for paths in scripts.values() for path in paths}
    entries = await _entries(host.repository, commit)
    known = [path for path, entry in entries.items() if looked.listed.get(path) == entry.blob]
    paths = [path for path in known if path in own or (roles.is_test(path) and altering.may_hold(path, ids))]
    found = await blobs.contents(host.repository, [entries[path].blob for path in paths[:MOST_READ]])
    sources: dict[str, str] = {}
    for path in paths:
        try:
            sources[path] = found[entries[path].blob].decode()
        except (KeyError, UnicodeDecodeError):  # too long, or no text
            continue
    try:
        return await asyncio.to_thread(altering.alter, sources, ids, scripts)
    except TROUBLES:
        return AlteredFiles()


def _scripts(looked: ReadChange, failed: Sequence[str]) -> dict[str, tuple[str, ...]]:
    scripts = altering.deciding_scripts(looked.programs(), looked.listed)
    return {check: paths for check, paths in scripts.items() if check in failed}


async def commit_of(host: Host, commit: str, change: AlteredFiles) -> str:
    """Make the commit with altered tests."""
    entries = await _entries(host.repository, commit)
    contents = {path: text.encode() for path, text in change.files.items()}
    return await make_commit(host, NAME, commit, {path: entries[path] for path in contents}, contents)


async def _entries(repository: Repository, commit: str) -> dict[str, CommitEntry]:
    """Return the plain files of a commit."""
    out = (await repository.git("ls-tree", "-r", "-z", "--full-tree", commit)).out
    rows = (row.partition("\t") for row in out.decode(errors="surrogateescape").split("\0") if row)
    parts = ((path, about.split(" ")) for about, _, path in rows)
    return {path: CommitEntry(about[0], about[2]) for path, about in parts if about[0] in (PLAIN, EXECUTABLE)}
