"""Copies of repositories on this machine: git objects that engines sent, from which workspaces are made."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from corral.machines.calls import MirrorState, TakePack
from corral.model.errors import GitTrouble
from corral.world.git.limits import LARGE, GitLimits
from corral.world.git.repository import ENV, SAFE, Repository, run_git
from corral.world.locks import hold_lock
from corral.world.process import ProcessStart

REFS = "refs/corral/commits"
MOST_KNOWN = 64  #: commits that an engine is told of
INDEX_SECONDS = 3600.0


class Mirror:
    """One repository of one engine, on this machine; bare, and nobody's checkout."""

    def __init__(self, state: Path, name: str, identity: tuple[str, str] | None = None) -> None:
        self.folder, self._lock = state / "mirrors" / f"{name}.git", state / "locks" / f"mirror-{name}"
        self._identity = identity

    def repository(self) -> Repository:
        self._lay(sha256=False)
        return Repository(self.folder, self.folder, work_tree=False, identity=self._identity)

    async def state(self, commits: Sequence[str]) -> MirrorState:
        """Return which commits are missing, and some whose history is there."""
        known = await self._known()
        missing = tuple(commit for commit in commits if commit not in known)
        return MirrorState(missing=missing, known=tuple(known[-MOST_KNOWN:]))

    async def _known(self) -> list[str]:
        if not (self.folder / "HEAD").exists():
            return []
        words = ("for-each-ref", "--format=%(objectname)", "--sort=creatordate", REFS)
        return (await self.repository().git(*words)).out.decode().split()

    async def take(self, order: TakePack, pack: Path) -> None:
        """Take in objects; each commit is kept by a ref of its own."""
        async with hold_lock(self._lock):
            self._lay(sha256=order.sha256)
            self._note_shallow(order.shallow)
            with pack.open("rb", buffering=0) as content:
                argv = ["git", *SAFE, *LARGE, f"--git-dir={self.folder}", "index-pack", "--fix-thin", "--stdin"]
                start = ProcessStart(argv=argv, env=ENV, cwd=str(self.folder), stdin_file=content.fileno())
                await run_git(start, "index-pack", GitLimits(mb=4096, seconds=INDEX_SECONDS))
            repository = self.repository()
            lines = "".join(f"update {REFS}/{commit} {commit}\n" for commit in order.commits)
            for commit in order.commits:
                if await repository.commit_of(commit) is None:
                    raise GitTrouble(f"the objects that came do not hold commit {commit[:12]}")
            await repository.git("update-ref", "--stdin", stdin=lines.encode())

    def _lay(self, *, sha256: bool) -> None:
        if (self.folder / "HEAD").exists():
            return
        for folder in ("objects/info", "objects/pack", "refs/heads", "info"):
            (self.folder / folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        form = "[extensions]\n\tobjectformat = sha256\n" if sha256 else ""
        version = 1 if sha256 else 0
        (self.folder / "config").write_text(
            f"[core]\n\trepositoryformatversion = {version}\n\tbare = true\n{form}[gc]\n\tauto = 0\n"
        )
        (self.folder / "HEAD").write_text("ref: refs/heads/none\n")

    def _note_shallow(self, commits: Sequence[str]) -> None:
        file, known = self.folder / "shallow", set[str]()
        with contextlib.suppress(FileNotFoundError):
            known = set(file.read_text().split())
        if more := known | set(commits):
            file.write_text("".join(f"{commit}\n" for commit in sorted(more)))
