"""The repository that a plan is about, and its settings as far as the user trusts them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from corral.config import loader
from corral.config.paths import REPOSITORY_FILE, file_mark, fingerprint
from corral.config.settings import Config
from corral.config.started_files import started_files
from corral.model import RunPlan
from corral.model.errors import BadRequest
from corral.model.forge import ForgeSettings
from corral.world.git.repository import Repository
from corral.world.trust import Trust


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


def load_trusted_settings(folder: Path, state: Path, *, trust: bool) -> Config:
    """Read the settings; a repository's powerful ones count if its file is trusted, now or before."""
    file = folder / REPOSITORY_FILE
    trusts = Trust(state)
    is_there = file.is_file()
    content = file.read_bytes() if is_there else b""
    mark = fingerprint(file, content) if is_there else ""
    if trust and is_there:
        trusts.add(mark, of=file_mark(file, content))
    trusted = is_there and trusts.has(mark)
    settings = loader.load(folder, trusted=mark if trusted else None)
    if settings.untrusted and trusts.has_file(file_mark(file, content)):
        changed = tuple(str(path.relative_to(folder.resolve())) for path in started_files(folder, content).files)
        settings = structs.replace(settings, changed=changed)
    for table in ("workspace", "hooks", "mcp"):
        if table in settings.untrusted:
            raise settings.refusal(table, f"[{table}] can start programs, and you have not trusted this file")
    return settings


def load_forge_settings(folder: Path, state: Path) -> ForgeSettings:
    """Read where pull requests go and issues come from; a repository's word counts if its file is trusted."""
    settings = load_trusted_settings(folder, state, trust=False)
    if "forge" in settings.untrusted:
        raise settings.refusal("forge", "[forge] says where your token goes, and you have not trusted this file")
    return settings.forge
