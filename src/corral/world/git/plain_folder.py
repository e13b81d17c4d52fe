"""A plain folder as a repository: a hidden one stands behind it, in the state folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from msgspec import Struct

from corral.model.errors import BadRequest
from corral.world import process
from corral.world.git.repository import ENV, Repository
from corral.world.process import ProcessStart
from corral.world.workspace.checkout import WHO

MOST_FILES, MOST_BYTES = 20_000, 1 << 30  #: a folder larger than this is more likely a mistake than a project
#: The machine's own folders: a project may lie in them, but is none of them.
SYSTEM = (
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/sys",
    "/usr", "/var",
)  # fmt: skip
SYSTEM_THROUGHOUT = ("/boot", "/etc", "/proc", "/sys")  #: no project lies in these


class CopiedFolder(Struct, frozen=True):
    """A plain folder as it was copied: what stands behind it, its content as a commit, and what a person is told."""

    repository: Repository
    commit: str
    words: str


async def folder_as_repository(folder: Path, state: Path) -> CopiedFolder:
    """Stand a hidden repository behind a plain folder, and record the folder's present content as a commit."""
    _refuse_system(folder)
    changed = _refuse_large(folder)
    git_dir = hidden_git_dir(folder, state)
    if not (git_dir / "HEAD").exists():
        git_dir.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        await process.run(ProcessStart(argv=["git", "init", "--quiet", "--bare", str(git_dir)], env=ENV))
    repository = Repository(folder, git_dir, work_tree=False)
    await repository.git(f"--work-tree={folder}", "-c", "core.bare=false", "add", "--all")
    tree = await repository.text("write-tree")
    # The same content is the same commit, for which workspaces have the objects already.
    date = f"@{max(0, int(changed))} +0000"
    env = {**WHO, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    finished = await repository.git("commit-tree", tree, "-m", f"{folder} as it was", env=env)
    commit = finished.out.decode().strip()
    await repository.git("update-ref", f"refs/corral/bases/{commit}", commit)
    return CopiedFolder(repository, commit, await _words(repository, tree))


def hidden_git_dir(folder: Path, state: Path) -> Path:
    """Return where the repository lies that stands behind a plain folder."""
    return state / "folders" / (folder.name + "-" + _short_hash(str(folder)) + ".git")


async def _words(repository: Repository, tree: str) -> str:
    """Say what was copied: what the folder's .gitignore leaves out was not."""
    listed = await repository.git("ls-tree", "-r", "-l", "-z", tree)
    sizes = [row.split()[3] for row in listed.out.split(b"\0") if row]
    total = sum(int(size) for size in sizes if size.isdigit())
    files = "1 file" if len(sizes) == 1 else f"{len(sizes)} files"
    copied = f"{files} ({_size(total)}) {'is' if len(sizes) == 1 else 'are'} copied"
    return f"{repository.folder} is no git repository: {copied}, and kept in {repository.git_dir}"


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _refuse_system(folder: Path) -> None:
    inside = any(folder.is_relative_to(Path(name).resolve()) for name in SYSTEM_THROUGHOUT)
    if inside or folder in [Path.home().resolve(), *(Path(name).resolve() for name in SYSTEM)]:
        raise BadRequest(
            f"{folder} is not a repository, and no project: it would be copied whole",
            hint="name your project with --repo, or `git init` there first",
        )


def _refuse_large(folder: Path) -> float:
    """Refuse a folder with too much in it; return when a file of it was changed last."""
    count = size = 0
    changed = 0.0
    for root, _, files in os.walk(folder):
        count += len(files)
        for name in files:
            with contextlib.suppress(OSError):
                about = os.lstat(os.path.join(root, name))  # noqa: PTH118 -- a loop over many
                size += about.st_size
                changed = max(changed, about.st_mtime)
        if count > MOST_FILES or size > MOST_BYTES:
            raise BadRequest(
                f"{folder} is not a repository, and too much to copy",
                hint="`git init` there, or name a smaller folder with --repo",
            )
    return changed


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
