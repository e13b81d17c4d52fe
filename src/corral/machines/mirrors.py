"""Mirrors of repositories on other machines: what an engine sends, and what `corral host` keeps."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from corral.machines.calls import MirrorQuestion, MirrorState, TakePack
from corral.machines.frames import PIECE, Connection
from corral.model.errors import CorralError, GitTrouble
from corral.world.git.command import ENV, LARGE, SAFE, GitLimits, run_git
from corral.world.git.repository import Repository
from corral.world.locks import hold_lock
from corral.world.process import ProcessStart

REFS = "refs/corral/commits"
MOST_KNOWN = 64  #: commits that an engine gets the names of
INDEX_SECONDS = 3600.0
SHA256_SIGNS = 64
MOST_ANSWER = 4000


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
        known = await self._known_commits()
        missing = tuple(commit for commit in commits if commit not in known)
        return MirrorState(missing=missing, known=tuple(known[-MOST_KNOWN:]))

    async def _known_commits(self) -> list[str]:
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
