"""Branches that triggers watch: looked at by the times of git's own files, asked of git only when one has changed."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from corral.engine.planning.git_state_cache import sign
from corral.model.errors import BadRequest
from corral.model.server import TriggerRecord
from corral.world.git.repository import Repository, discover

MOST_FILES = 1000  #: that are named of one move


class Move(Struct, frozen=True, kw_only=True):
    """Where a branch went; what a trigger's texts and conditions know as `payload`."""

    branch: str
    before: str
    commit: str
    subject: str
    author: str
    files: tuple[str, ...]


class Branches:
    """The branches that one process watches for its triggers."""

    def __init__(self) -> None:
        self._repositories: dict[str, Repository] = {}
        self._signs: dict[str, tuple[str, object]] = {}

    async def tip(self, repo: str, branch: str) -> str:
        """Return where a branch is now; refuse one that is not there."""
        found = await (await self._repository(repo)).commit_of(f"refs/heads/{branch}")
        if found is None:
            raise BadRequest(f"{repo} has no branch `{branch}`", hint="name one that is there: git branch")
        return found

    async def moved(self, record: TriggerRecord) -> Move | None:
        """Return where a trigger's branch went since it was last seen there; None if nowhere."""
        repository = await self._repository(record.request.repo)
        seen = f"{record.branch} {record.seen}"
        signs = _signs(repository.git_dir, record.branch)
        if self._signs.get(record.name) == (seen, signs):
            return None
        tip = await repository.commit_of(f"refs/heads/{record.branch}")
        if tip is None or tip == record.seen:
            self._signs[record.name] = (seen, signs)  # taken before the look: what comes meanwhile changes them
            return None
        about = await repository.text("log", "-1", "--format=%s%x00%an", tip)
        subject, _, author = about.partition("\0")
        known = await repository.commit_of(record.seen)
        files = await repository.names_changed(record.seen, tip) if known else ()
        return Move(
            branch=record.branch,
            before=record.seen,
            commit=tip,
            subject=subject,
            author=author,
            files=files[:MOST_FILES],
        )

    async def _repository(self, repo: str) -> Repository:
        if repo not in self._repositories:
            found = await discover(Path(repo)) if Path(repo).is_dir() else None
            if found is None:
                raise BadRequest(f"{repo} is no git repository", hint="only branches of a repository can be watched")
            self._repositories[repo] = found.repository
        return self._repositories[repo]


def _signs(git_dir: Path, branch: str) -> tuple[object, ...]:
    """Return what changes whenever a branch does, however git stores its branches."""
    places = (git_dir / "refs" / "heads" / branch, git_dir / "packed-refs", git_dir / "reftable" / "tables.list")
    return tuple(sign(place) for place in places)
