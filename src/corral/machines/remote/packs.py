"""Commits for the mirror of a repository on another machine: only the objects that are not there yet."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from corral.machines.calls import MirrorQuestion, MirrorState, TakePack
from corral.machines.frames import PIECE, Connection
from corral.model.errors import CorralError
from corral.world.git.repository import Repository

SHA256_SIGNS = 64
MOST_ANSWER = 4000


def mirror_name(engine: str, git_dir: Path) -> str:
    """Return the name of a repository's mirror on any machine: no two repositories share one."""
    return hashlib.sha256(f"{engine}\0{git_dir}".encode()).hexdigest()[:40]


async def send_commits(
    connection: Connection, repository: Repository, mirror: str, commits: Sequence[str], folder: Path
) -> None:
    """Let a mirror have commits and all that they reach; `folder` is for what is packed."""
    wanted = tuple(dict.fromkeys(commits))
    state = await connection.ask("mirror", MirrorQuestion(mirror=mirror, commits=wanted), MirrorState)
    missing = [commit for commit in wanted if commit in state.missing]
    if not missing:
        return
    known = [commit for commit in state.known if _is_commit(commit) and await repository.commit_of(commit)]
    order = TakePack(
        mirror=mirror,
        commits=tuple(missing),
        shallow=_shallow(repository.git_dir),
        sha256=len(missing[0]) == SHA256_SIGNS,
    )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryFile(dir=folder) as pack:
        lines = "".join([*(f"{commit}\n" for commit in missing), *(f"^{commit}\n" for commit in known)])
        words = ("--revs", "--stdout", "--thin", "--delta-base-offset", "-q")
        await repository.git("pack-objects", *words, stdin=lines.encode(), sink=pack.write)
        pack.seek(0)
        stream = await connection.open(order)
        while data := pack.read(PIECE):
            await stream.write(data)
        await stream.end()
    if trouble := await stream.read_all(MOST_ANSWER):
        raise CorralError(f"the repository could not be brought there: {trouble.decode(errors='replace')}")


def _is_commit(text: str) -> bool:
    return len(text) in (40, SHA256_SIGNS) and all(sign in "0123456789abcdef" for sign in text)


def _shallow(git_dir: Path) -> tuple[str, ...]:
    with contextlib.suppress(OSError):
        return tuple((git_dir / "shallow").read_text().split())
    return ()
