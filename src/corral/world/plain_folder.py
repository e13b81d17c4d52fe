"""A plain folder as a repository: a hidden one stands behind it, in the state folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from corral.errors import BadRequest
from corral.world import process
from corral.world.git import ENV, Repository
from corral.world.process import Start
from corral.world.workspace import WHO

MOST_FILES, MOST_BYTES = 20_000, 1 << 30  #: a folder larger than this is more likely a mistake than a project


async def folder_as_repository(folder: Path, state: Path) -> tuple[Repository, str]:
    """Stand a hidden repository behind a plain folder, and record the folder's present content as a commit."""
    _refuse_large(folder)
    git_dir = state / "folders" / (folder.name + "-" + _short_hash(str(folder)) + ".git")
    if not (git_dir / "HEAD").exists():
        git_dir.parent.mkdir(parents=True, exist_ok=True)
        await process.run(Start(argv=["git", "init", "--quiet", "--bare", str(git_dir)], env=ENV))
    repository = Repository(folder, git_dir, work_tree=False)
    await repository.git(f"--work-tree={folder}", "-c", "core.bare=false", "add", "--all")
    tree = await repository.text("write-tree")
    finished = await repository.git("commit-tree", tree, "-m", f"{folder} as it was", env=WHO)
    commit = finished.out.decode().strip()
    await repository.git("update-ref", f"refs/corral/bases/{commit}", commit)
    return repository, commit


def _refuse_large(folder: Path) -> None:
    count = size = 0
    if folder in (Path.home(), Path("/")):
        raise BadRequest(
            f"{folder} is not a repository, and too much to copy", hint="change into your project, or `git init` there"
        )
    for root, _, files in os.walk(folder):
        count += len(files)
        for name in files:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118 -- a loop over many
        if count > MOST_FILES or size > MOST_BYTES:
            raise BadRequest(
                f"{folder} is not a repository, and too much to copy",
                hint="`git init` there, or name a smaller folder with --repo",
            )


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
