"""Where things are: the repository a plan is about."""

from __future__ import annotations

from pathlib import Path

from corral.model import RunPlan
from corral.world.git import Repository


def repository_of(plan: RunPlan, state: Path) -> Repository:
    """Return the plan's repository; one that lies in our state folder stands for a plain folder."""
    hidden = Path(plan.git_dir).is_relative_to(state)
    return Repository(Path(plan.repo), Path(plan.git_dir), work_tree=not hidden, identity=plan.identity)
