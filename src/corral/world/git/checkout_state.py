"""A checkout as it is, with what is not committed, as a commit; and what differs in a folder from a commit."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from corral.model.errors import BadRequest
from corral.world.git import merge_commits
from corral.world.git.repository import Repository
from corral.world.git.resolve_conflicts import scratch

MESSAGE = "Uncommitted changes of the checkout\n\nA snapshot that Corral made as the start of a run.\n"


async def commit_checkout(repository: Repository, head: str | None) -> str | None:
    """Return a commit of what lies in the checkout: staged, unstaged and untracked, without what is ignored.

    The checkout and its index stay untouched. Where nothing differs from `head`, that is returned.
    """
    if repository.folder == repository.git_dir:
        raise BadRequest(f"{repository.folder} has no checkout", hint="leave out --with-changes")
    quiet = await merge_commits.neutral_environment(repository)
    own = Path(await repository.text("rev-parse", "--path-format=absolute", "--git-path", "index"))
    with scratch(repository) as folder:
        index = folder / "index"
        if own.is_file():  # it knows which files are unchanged: they need not be read
            await asyncio.to_thread(shutil.copyfile, own, index)
            if repository.owner:
                shutil.chown(index, repository.owner.uid, repository.owner.gid)
        env = {**quiet, "GIT_INDEX_FILE": str(index)}
        await repository.git("add", "--all", "--", ":/", env=env)
        tree = (await repository.git("write-tree", env=env)).out.decode().strip()
    if head and tree == await repository.tree_of(head):
        return head
    parents = [head] if head else []
    return await merge_commits.commit_tree(repository, tree, parents, MESSAGE, await repository.identity())


async def changed_files(repository: Repository, commit: str, folder: Path) -> list[str]:
    """Return the files of a folder that differ from a commit; those that the commit ignores are not meant."""
    quiet = await merge_commits.neutral_environment(repository)
    with scratch(repository) as own:
        env = {**quiet, "GIT_INDEX_FILE": str(own / "index")}
        await repository.git("read-tree", commit, env=env)
        place = f"--work-tree={folder}"
        await repository.git(place, "update-index", "-q", "--refresh", env=env, fine=(0, 1))
        listed = [
            *(await repository.git(place, "diff-files", "--name-only", "-z", env=env)).out.split(b"\0"),
            *(await repository.git(place, "ls-files", "--others", "--exclude-standard", "-z", env=env)).out.split(
                b"\0"
            ),
        ]
    return sorted({each.decode(errors="replace") for each in listed if each})
