"""Where things are: the repository a plan is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corral.model import RunPlan
from corral.model.errors import BadRequest
from corral.world.git.repository import Repository


def repository_of(plan: RunPlan, state: Path) -> Repository:
    """Return the plan's repository; one that lies in our state folder stands for a plain folder."""
    hidden = Path(plan.git_dir).is_relative_to(state)
    return Repository(Path(plan.repo), Path(plan.git_dir), work_tree=not hidden, identity=plan.identity)


def common_dir(git_dir: Path) -> Path:
    """Return the folder that all worktrees of a repository share: by it a repository is known again."""
    try:
        return (git_dir / (git_dir / "commondir").read_text().strip()).resolve()
    except OSError:
        return git_dir


async def require(repository: Repository, run: str, commits: Sequence[str]) -> None:
    """Refuse to go on without the repository of a run, or without its work in it."""
    if not repository.git_dir.exists():
        raise BadRequest(f"the repository of run {run} is not there any more: {repository.folder}")
    for commit in commits:
        if await repository.commit_of(commit) is None:
            words = f"the work of run {run} is not in {repository.folder} any more: commit {commit[:12]} is gone"
            raise BadRequest(words, hint=f"have it done again: corral retry {run} NODE")
