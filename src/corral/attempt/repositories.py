"""The repository that a plan is about: its settings as far as the user trusts it, the bases of runs and attempts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from corral.attempt.events import AttemptEvents
from corral.config import loader, paths
from corral.config.paths import REPOSITORY_FILE, file_mark, fingerprint
from corral.config.settings import Config
from corral.config.started_files import started_files
from corral.machines.host import Host
from corral.model import RunPlan
from corral.model.errors import BadRequest, CorralError, SetupFailed
from corral.model.events import Noted
from corral.model.flow import Node
from corral.model.forge import ForgeSettings
from corral.store.interface import Store
from corral.store.records import machine_of
from corral.world import process_identity
from corral.world.git import hidden_refs, merge_commits
from corral.world.git.merge_commits import CombinedCommit
from corral.world.git.repository import Repository
from corral.world.trust import Trust

PINS_FOLDER = "pins"  #: of the state folder: a file for each base that is held for a run which is not stored yet
PENDING_SECONDS = 3600.0  #: for so long an engine elsewhere may take to store a run


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


def other_machines(store: Store, git_dir: str) -> str:
    """Name the other machines that have a repository; empty: none is known."""
    names = [machine_of(place) for place in store.repositories.places(git_dir)]
    return " or ".join(dict.fromkeys(name for name in names if name != machine_of(process_identity.own_name())))


async def require(repository: Repository, run: str, commits: Sequence[str], *, elsewhere: str = "") -> None:
    """Refuse to continue without the repository of a run, or without its work in it; other machines may have both."""
    if elsewhere and not (repository.git_dir.exists() and all([await repository.commit_of(each) for each in commits])):
        raise BadRequest(
            f"the work of run {run} is not on this machine: it is in {repository.folder} on {elsewhere}",
            hint=f"run the command on {elsewhere}",
        )
    if not repository.git_dir.exists():
        raise BadRequest(
            f"the repository of run {run} is not there any more: {repository.folder}",
            hint="move it back there, or clone it there again",
        )
    for commit in commits:
        if await repository.commit_of(commit) is None:
            words = f"the work of run {run} is not in {repository.folder} any more: commit {commit[:12]} is gone"
            raise BadRequest(words, hint=f"have it done again: corral retry {run} NODE")


def load_trusted_settings(folder: Path, state: Path, *, trust: bool) -> Config:
    """Read the settings; a repository's powerful ones count if its file is trusted, now or before."""
    file = folder / REPOSITORY_FILE
    trusts = Trust(state)
    is_there = file.is_file()
    content = paths.read_settings(file) if is_there else b""
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


class _PendingRun(Struct):
    """A run that is about to be stored: who makes it, and where its base is held."""

    owner: str
    folder: str
    git_dir: str


def note_pending_pin(home: Path, run: str, owner: str, plan: RunPlan) -> None:
    """Note that the base of a run will be held before the run is stored: its process may be killed in between."""
    file = home / PINS_FOLDER / run
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_bytes(msgspec.json.encode(_PendingRun(owner, plan.repo, plan.git_dir)))


def forget_pending_pin(home: Path, run: str) -> None:
    """Forget that note: the run is stored, or its base is not held any more."""
    (home / PINS_FOLDER / run).unlink(missing_ok=True)


async def release_pending_pins(store: Store) -> None:
    """Let go of bases that were held for runs which were never stored: the processes that made them are gone."""
    for file in sorted((store.folder / PINS_FOLDER).glob("*")):
        with contextlib.suppress(CorralError, OSError, msgspec.DecodeError):
            begun = msgspec.json.decode(file.read_bytes(), type=_PendingRun)
            alive = process_identity.is_alive(begun.owner)
            if alive or (alive is None and time.time() - file.stat().st_mtime < PENDING_SECONDS):
                continue  # at work, here or elsewhere
            git_dir = Path(begun.git_dir)
            if not store.is_known(file.name) and git_dir.exists():
                work_tree = not git_dir.is_relative_to(store.folder)  # as of a plain folder
                await hidden_refs.remove(Repository(Path(begun.folder), git_dir, work_tree=work_tree), file.name)
            file.unlink()


async def pin_base(store: Store, run: str) -> None:
    """Hold the base of a run that starts or resumes: older runs have no ref, and one that was done let go of it."""
    plan = store.run(run).plan
    repository = repository_of(plan, store.folder)
    if plan.base and repository.git_dir.exists():
        with contextlib.suppress(CorralError, OSError):  # gone: the attempts report it
            await hidden_refs.pin(repository, run, plan.base)


async def release_base(store: Store, run: str) -> None:
    """Let go of the base of a run that is done: the commits that it made lead to it."""
    record = store.run(run)
    if record.status != "done" or not record.plan.base:
        return
    commits = [each.attempt.commit for each in store.attempts(run) if each.attempt.commit]
    repository = repository_of(record.plan, store.folder)
    if commits and repository.git_dir.exists():
        with contextlib.suppress(CorralError, OSError):  # `clean` does it, too
            await hidden_refs.release(repository, run, commits)


async def find_base(attempt_events: AttemptEvents, node: Node, host: Host) -> str | None:
    """Find the commit to start from; what does not go together is left to the agent, with marks in the files."""
    record, heads = attempt_events.record, attempt_events.record.heads
    if len(heads) > 1:
        combined = await hidden_refs.combine_and_pin(
            host.repository, host.attempt, lambda apart: _combine_heads(attempt_events, node, apart)
        )
        heads, record.conflicts = (combined.commit or "",), tuple(each.path for each in combined.conflicts)
    record.base = heads[0] if heads else host.plan.base
    return record.base


async def _combine_heads(attempt_events: AttemptEvents, node: Node, repository: Repository) -> CombinedCommit:
    heads = attempt_events.record.heads
    found = await merge_commits.combine(repository, heads, f"Combine {len(heads)} steps")
    if found.commit is not None:
        return found
    paths = [each.path for each in found.conflicts]
    if node.kind == "run":
        raise SetupFailed(  # another try would meet the same
            f"the work of the nodes before it does not go together: {', '.join(paths[:5])}",
            hint="put a task between them, whose agent resolves it",
        )
    attempt_events.emit(Noted(f"it is to resolve conflicts in: {', '.join(paths)}"))
    return await merge_commits.combine_marked(repository, heads, "Combine steps, with conflicts")
