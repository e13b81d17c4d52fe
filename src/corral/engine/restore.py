"""Bring back what is kept of an attempt: its work as collected, or a snapshot of an earlier moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath

from msgspec import Struct, structs

from corral.attempt.repositories import repository_of, require
from corral.config.paths import is_folder
from corral.machines.host import host_of
from corral.machines.local import LocalMachine
from corral.model import Attempt
from corral.model.errors import BadRequest, CorralError
from corral.rules.text import names as naming
from corral.store.interface import Store
from corral.world.git import merge_commits, notes, snapshots
from corral.world.git.repository import Repository
from corral.world.git.snapshots import Snapshot

RESTORE_SECONDS = 3600.0  #: for collecting what was too much before; the user is there and may stop it


class RestoredWork(Struct, frozen=True):
    """What was brought back, and where it is now."""

    attempt: str
    commit: str
    at: str
    branch: str | None = None
    folder: str | None = None
    not_collected: tuple[str, ...] = ()  #: what of the work is not in it
    workspace: str | None = None  #: where that is


def split_moment(name: str) -> tuple[str, str]:
    """Part ATTEMPT@TIME; `@last` is a name of its own."""
    attempt, _, moment = name[1:].partition("@")
    return name[:1] + attempt, moment


async def find_snapshots(store: Store, name: str) -> tuple[Repository, str, list[Snapshot]]:
    """Return an attempt's id and all that is kept of it, oldest first; what was collected at its end comes last."""
    run = store.find(name.rpartition("-")[0] or name)
    records = {record.attempt.id: record.attempt for record in store.attempts(run)}
    attempts = list(records)
    if name not in attempts:
        wanted = f"{run}-{name.rpartition('-')[2]}"
        name = wanted if wanted in attempts and "-" in name else attempts[-1] if attempts else name
    repository = repository_of(store.run(run).plan, store.folder)
    await require(repository, run, [])
    ends = [naming.hidden_ref(name), *[ref.ref for ref in await _expiring(repository, name)]]
    timed = await _readable_snapshots(repository, [f"refs/corral/snapshots/{name}"])
    collected = await _readable_snapshots(repository, ends)
    if not collected and name in records and (commit := records[name].commit) and await repository.commit_of(commit):
        collected = [Snapshot("", commit, "")]  # its ref has expired; what it held is still there, or merged
    return repository, name, [*timed, *collected]


async def _readable_snapshots(repository: Repository, prefixes: Sequence[str]) -> list[Snapshot]:
    """Return what is kept below these refs and can be read: a damaged disk can leave a ref that leads to nothing."""
    found = await snapshots.list_snapshots(repository, prefixes)
    return [each for each in found if await notes.is_whole(repository, each.commit)]


async def _collect(store: Store, name: str) -> list[Snapshot]:
    """Collect a workspace that was kept because its work could not be collected; nothing where there is none."""
    run = store.run(store.find(name.rpartition("-")[0]))
    record = next((each for each in store.attempts(run.id) if each.attempt.id == name), None)
    if record is None or record.phase != "over" or not (Path(record.folder) / "made.json").exists():
        return []
    repository = repository_of(run.plan, store.folder)
    setup = structs.replace(run.plan.setup, collect_seconds=max(run.plan.setup.collect_seconds, RESTORE_SECONDS))
    plan = structs.replace(run.plan, setup=setup)
    machine = LocalMachine(host_of(plan, plan.flow.nodes[0].task, repository, store.folder, record))
    workspace = PurePath(record.folder).name
    try:
        await machine.take_over(workspace)
        await machine.collect(workspace, record.node, run.id)
    except (CorralError, OSError) as error:
        raise BadRequest(
            f"the work of {name} cannot be collected: {error}", hint=f"its files are in {record.folder}/work"
        ) from error
    return await snapshots.list_snapshots(repository, [naming.hidden_ref(name)])


async def _expiring(repository: Repository, attempt: str) -> list[Snapshot]:
    found = await snapshots.list_snapshots(repository, ["refs/corral/expiring"])
    return [each for each in found if each.ref.endswith(f"/{attempt}")]


async def restore(store: Store, name: str, into: str | None) -> RestoredWork:
    """Bring back an attempt, or what it had at a time (ATTEMPT@TIME), as a branch or as files in a new folder.

    What could not be collected stays in the workspace, which is named.
    """
    restored = await _restore(store, name, into)
    attempt = _partly_collected(store, restored.attempt)
    if attempt is None:
        return restored
    return structs.replace(restored, not_collected=attempt.not_collected or (), workspace=attempt.workspace or None)


def _partly_collected(store: Store, attempt: str) -> Attempt | None:
    """Return an attempt of whose work some is only in its workspace, which is still there."""
    found = [
        each.attempt for each in store.attempts(store.find(attempt.rpartition("-")[0])) if each.attempt.id == attempt
    ]
    return next((each for each in found if each.workspace and Path(each.workspace).exists()), None)


async def _restore(store: Store, name: str, into: str | None) -> RestoredWork:
    attempt, moment = split_moment(name)
    repository, attempt, found = await find_snapshots(store, attempt)
    if not moment and not any(not each.at for each in found):
        found = [*found, *await _collect(store, attempt)]
    chosen = _at(found, moment) if moment else (found[-1] if found else None)
    if chosen is None and not moment and (partly := _partly_collected(store, attempt)):
        words = "; ".join(partly.not_collected or ())
        raise BadRequest(
            f"nothing of {attempt} could be collected: {words}", hint=f"its files are in {partly.workspace}"
        )
    if chosen is None:
        raise await _nothing(repository, attempt, moment, found)
    if into and (into.startswith((".", "/", "~")) or is_folder(Path(into))):
        folder = Path(into).expanduser().resolve()
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise BadRequest(f"--into {into}: that folder is not empty", hint="name a new one")
        await snapshots.lay_files(
            repository, chosen.commit, folder, await merge_commits.neutral_environment(repository)
        )
        return RestoredWork(attempt, chosen.commit, chosen.at, folder=str(folder))
    branch = into or f"corral/restored/{attempt}" + (f"-{chosen.at}" if chosen.at else "")
    now = await repository.commit_of(f"refs/heads/{branch}")
    if now != chosen.commit:
        if now is not None:
            raise BadRequest(f"the branch {branch} is there already", hint="name another with --into")
        checked = await repository.git("check-ref-format", "--branch", branch, fine=(0, 1, 128))
        if checked.code != 0:
            raise BadRequest(f"--into {into}: that is no name for a branch", hint="a folder begins with . or /")
        await snapshots.edit_refs(repository, [(f"refs/heads/{branch}", chosen.commit)])
    return RestoredWork(attempt, chosen.commit, chosen.at, branch=branch)


async def _nothing(repository: Repository, attempt: str, moment: str, found: list[Snapshot]) -> BadRequest:
    """Return that nothing can be brought back, and what else there is of an attempt: other times, or other branches."""
    beside = await _readable_snapshots(repository, [f"refs/corral/saved/{attempt}"])
    if beside and not found:
        names = ", ".join(each.ref for each in beside)
        return BadRequest(
            f"nothing is kept of the branch of {attempt}; what it left elsewhere is in: {names}",
            hint=f"git branch NAME {beside[0].ref}",
        )
    times = ", ".join(each.at for each in found if each.at)
    return BadRequest(
        f"nothing is kept of {attempt}" + (f" at {moment}" if found else ""),
        hint=f"there is: {times}" if times else "`corral clean` keeps what nobody merged for a month",
    )


def _at(found: list[Snapshot], moment: str) -> Snapshot | None:
    """Return the last snapshot that was there at a time: a stamp as listed, or its beginning, or an ISO time."""
    timed = [each for each in found if each.at]
    plain = moment.replace("-", "").replace(":", "")
    begun = [each for each in timed if each.at.startswith(plain)]
    if begun:
        return begun[-1]
    try:
        then = snapshots.stamp(datetime.fromisoformat(moment).astimezone(UTC))
    except ValueError:
        return None
    before = [each for each in timed if each.at <= then]
    return before[-1] if before else None
