"""Kept work of attempts: brought back, or removed once no branch and no ref needs it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath

from msgspec import Struct, structs

from corral.attempt import artifacts, repositories
from corral.attempt.repositories import other_machines, repository_of, require
from corral.config import loader
from corral.config.paths import is_folder
from corral.engine import client_servers, verify
from corral.engine.user_folders import opened_folder
from corral.machines import collect_work
from corral.machines.host import Host, host_of
from corral.machines.local import LocalMachine
from corral.model import OPEN, Attempt, AttemptRecord, RunRecord
from corral.model.errors import BadRequest, CorralError
from corral.model.events import CalledTool, Changed
from corral.rules.text import cleaning as rules
from corral.rules.text import names
from corral.rules.text.cleaning import CleaningLimits, EndedRun
from corral.store.interface import Store
from corral.world.git import checkout_state, hidden_refs, merge_commits, notes, object_cache
from corral.world.git.hidden_refs import CHECKPOINTS, Snapshot
from corral.world.git.repository import Repository
from corral.world.workspace import checkout, held_out, pool, templates

EXPIRES_DAYS = 30
NOT_OVER = (*OPEN, "limited")
RESTORE_SECONDS = 3600.0  #: for collecting what was too much before; the user is there and may stop it


class CleanedAttempt(Struct, frozen=True, kw_only=True):
    """What was done, or would be, with one attempt."""

    run: str
    attempt: str
    why: str
    merged: bool  #: a branch has its work
    removed: tuple[str, ...] = ()  #: refs and folders
    kept: str | None = None  #: the ref that still holds its work
    bytes: int = 0
    artifacts: tuple[str, ...] = ()  #: the named files that go with it, as NODE/NAME
    trouble: str = ""


def _ignore_progress(_done: int, _total: int) -> None:
    """Report nothing."""


def kept_until(ended: float) -> float | None:
    """Return when a server cleans what a run left that ended then; None where no setting says so."""
    older = loader.cleaning().older
    return None if older is None else ended + rules.age(older)


async def clean_by_settings(store: Store) -> list[CleanedAttempt]:
    """Clean as `[clean]` of the user's settings says, nothing without it; unmerged work stays, without a limit."""
    asked = loader.cleaning()
    if asked.older is None and asked.disk is None:
        return []
    try:
        limits = CleaningLimits(
            older_seconds=rules.age(asked.older) if asked.older is not None else None,
            disk_bytes=rules.size(asked.disk) if asked.disk is not None else None,
        )
    except BadRequest as error:
        raise BadRequest(f"[clean] {str(error).removeprefix('--')}", hint=error.hint) from error
    return await clean(store, limits, dry=False, merged_only=True)


async def clean(
    store: Store,
    limits: CleaningLimits,
    *,
    dry: bool,
    merged_only: bool = False,
    report: Callable[[int, int], None] = _ignore_progress,
) -> list[CleanedAttempt]:
    """Clean away ended runs that the limits choose; of unmerged work a hidden ref stays for a month.

    With `merged_only`, attempts stay as they are whose work no branch has, and hidden refs whose month is over.
    One process cleans at a time, over all machines of a store: they may share repositories.
    """
    async with contextlib.nullcontext() if dry else store.lock("clean"):
        return await _clean(store, limits, dry=dry, merged_only=merged_only, report=report)


async def _clean(
    store: Store, limits: CleaningLimits, *, dry: bool, merged_only: bool, report: Callable[[int, int], None]
) -> list[CleanedAttempt]:
    records = {line.run: store.run(line.run) for line in store.list_runs() if line.status not in NOT_OVER}
    attempts = {run: store.attempts(run) for run in records}
    if not dry:
        await _finish_clean_ups(store, records, attempts)
    ended = [
        EndedRun(
            run=run,
            ended=record.ended or record.created,
            bytes=0 if limits.disk_bytes is None else await asyncio.to_thread(_total_size, store, attempts[run]),
        )
        for run, record in records.items()
    ]
    done: list[CleanedAttempt] = []
    cleaned: set[str] = set()
    left = sum(each.bytes for each in ended)
    wanted = list(rules.runs_to_clean(ended, limits, time.time()))
    for place, chosen in enumerate(wanted):
        report(place, len(wanted))
        if chosen.for_room and left <= (limits.disk_bytes or 0):
            break
        run, record = chosen.run, store.run(chosen.run)
        if record.status in NOT_OVER:  # a user opened it again meanwhile
            left -= chosen.bytes
            continue
        found = [
            await _attempt(store, record, each, chosen.why, dry=dry, merged_only=merged_only)
            for each in store.attempts(run)
        ]
        left -= sum(each.bytes for each in found if not each.trouble)
        done += [each for each in found if each.removed or each.trouble]
        # A run that a budget stopped may still continue, from what its agents said.
        if not dry and record.status != "over_budget" and not any(each.trouble for each in found):
            store.history.forget_words(run)
            cleaned.add(run)
            await _unpin(store, record)
    if not dry:
        client_servers.drop(store.folder, cleaned)
        await repositories.release_pending_pins(store)
        if not any(owner for _, _, owner in store.pages.owned_runs()):  # who is at work here would have to wait for it
            store.give_back()
        places = {} if merged_only else records
        for place in {(record.plan.repo, record.plan.git_dir): record for record in places.values()}.values():
            await _expire(store, place)
        await asyncio.to_thread(object_cache.clean, store.folder / "objects")
        await templates.clean(store.folder)
        await pool.clean(store.folder)
        await _remove_unused(store, records, cleaned)
    return sorted(done, key=lambda each: each.run)


async def _remove_unused(store: Store, records: Mapping[str, RunRecord], cleaned: Collection[str]) -> None:
    """Remove artifacts and held-out files that no run needs; where there are none, no run is asked."""
    if is_folder(store.folder / artifacts.FOLDER):
        used = [each for line in store.list_runs() if line.run not in cleaned for each in store.attempts(line.run)]
        hashes = {artifact.sha256 for each in used for artifact in each.artifacts}
        await asyncio.to_thread(artifacts.remove_unused, store.folder, hashes)
    if is_folder(store.folder / held_out.FOLDER):
        await asyncio.to_thread(held_out.clean, store.folder, _held_out(store, records), time.time())


async def _finish_clean_ups(
    store: Store, records: Mapping[str, RunRecord], attempts: Mapping[str, Sequence[AttemptRecord]]
) -> None:
    """Finish what a process left that was killed while it cleaned up after runs that are over."""
    there = checkout.names(store.folder / "workspaces")
    for run, record in records.items():
        left = [each for each in attempts[run] if PurePath(each.folder).name in there]
        if left and store.status(run) not in NOT_OVER:
            with contextlib.suppress(CorralError, OSError):  # another time: this may make the room that it lacks
                await verify.finish_clean_up(record.plan, store.folder, left)


def _held_out(store: Store, ended: Mapping[str, RunRecord]) -> set[str]:
    """Return the held-out files that are still needed: by runs that are not over, or that were not cleaned away."""
    needed: set[str] = set()
    for line in store.list_runs():
        record = ended.get(line.run) or store.run(line.run)
        name = record.plan.evidence.held_out
        if name and (line.status in NOT_OVER or _has_logs(store, line.run)):
            needed.add(name)
    return needed


def _has_logs(store: Store, run: str) -> bool:
    return any((store.folder / "logs" / each.attempt.id).exists() for each in store.attempts(run))


async def _attempt(
    store: Store, run: RunRecord, record: AttemptRecord, why: str, *, dry: bool, merged_only: bool
) -> CleanedAttempt:
    name, repository = record.attempt.id, repository_of(run.plan, store.folder)
    folders = [folder for folder in _folders(store, record) if folder.exists()]
    files = [each for each in record.artifacts if artifacts.is_kept(store.folder, each)]
    cleaned = CleanedAttempt(
        run=run.id,
        attempt=name,
        why=why,
        merged=False,
        bytes=_size(store, record),
        artifacts=tuple(f"{each.node}/{each.name}" for each in files),
    )
    if not repository.git_dir.exists():
        if merged_only:
            return structs.replace(cleaned, trouble="its repository is gone: only what is here has its work")
        return await _without_repository(cleaned, folders, dry=dry)
    if merged_only and record.kept and not record.attempt.commit and Path(record.folder).exists():
        return structs.replace(cleaned, trouble="its work could not be collected yet: corral clean")
    if record.kept and not record.attempt.commit and Path(record.folder).exists() and not dry:
        try:
            await _save(store, run, record, repository)
        except (CorralError, OSError) as error:
            return structs.replace(cleaned, trouble=f"its workspace stays: {error}")
    if yours := await _changed_by_user(store, record, repository):
        return structs.replace(cleaned, trouble=yours)
    found = await hidden_refs.list_snapshots(repository, _refs(run.id, name))
    moves, kept, merged = await _moves(repository, run, name, found)
    if merged_only and kept:
        return structs.replace(cleaned, trouble="no branch has its work")
    removed = (*(ref for ref, commit in moves if commit is None), *map(str, folders))
    if not dry:
        host = Host(run.plan, run.plan.flow.nodes[0].task, repository, store.folder, name)
        async with host.repository_lock():
            await hidden_refs.edit_refs(repository, moves)
        for folder in folders:
            await checkout.remove(folder)
    return structs.replace(cleaned, merged=merged, removed=removed, kept=kept)


async def _changed_by_user(store: Store, record: AttemptRecord, repository: Repository) -> str:
    """Return why an opened folder stays: the user changed files in it, and nothing else has these changes."""
    folder, commit = opened_folder(store.folder, record.attempt.id), record.attempt.commit
    if commit is None or not folder.exists():
        return ""
    changed = await checkout_state.changed_files(repository, commit, folder)
    return f"you changed {changed[0]} in {folder}: remove it yourself" if changed else ""


async def _without_repository(cleaned: CleanedAttempt, folders: Sequence[Path], *, dry: bool) -> CleanedAttempt:
    if not dry:
        for folder in folders:
            await checkout.remove(folder)
    return structs.replace(cleaned, removed=tuple(map(str, folders)))


async def _moves(
    repository: Repository, run: RunRecord, attempt: str, found: Sequence[Snapshot]
) -> tuple[list[tuple[str, str | None]], str | None, bool]:
    """Return which refs go, which one keeps the work, and whether a branch has it."""
    ends = [each for each in found if not each.ref.startswith("refs/corral/snapshots/")]
    last = ends[0] if ends else found[-1] if found else None
    if last is None:
        return [], None, False
    target = await repository.commit_of(f"refs/heads/{run.plan.into}") if run.plan.into else None
    env = await merge_commits.neutral_environment(repository)
    different = dict.fromkeys(each.commit for each in (*ends, last))
    merged = target is not None and all(
        [await merge_commits.contains(repository, target, commit, env) for commit in different]
    )
    moves: list[tuple[str, str | None]] = [(each.ref, None) for each in found]
    if merged:
        return moves, None, True
    until = (datetime.now(UTC) + timedelta(days=EXPIRES_DAYS)).strftime("%Y%m%d")
    kept = f"refs/corral/expiring/{until}/{attempt}"
    others = [commit for commit in different if commit != last.commit]
    moves += [(kept, last.commit)]
    moves += [(f"refs/corral/expiring/{until}/{attempt}.{place}", commit) for place, commit in enumerate(others, 1)]
    return moves, kept, False


async def _save(store: Store, run: RunRecord, record: AttemptRecord, repository: Repository) -> None:
    """Make a last snapshot of a workspace whose work could not be collected."""
    host = host_of(run.plan, run.plan.flow.nodes[0].task, repository, store.folder, record)
    await collect_work.snapshot(host, await host.take_over(Path(record.folder)))


async def _unpin(store: Store, run: RunRecord) -> None:
    """Let go of the commits that were held for a run."""
    repository = repository_of(run.plan, store.folder)
    if repository.git_dir.exists():
        await hidden_refs.remove(repository, run.id)


async def _expire(store: Store, run: RunRecord) -> None:
    """Delete hidden refs whose time is over."""
    repository = repository_of(run.plan, store.folder)
    if repository.git_dir.exists():
        today = datetime.now(UTC).strftime("%Y%m%d")
        found = await hidden_refs.list_snapshots(repository, ["refs/corral/expiring"])
        over = [each.ref for each in found if each.ref.split("/")[3] < today]
        await hidden_refs.edit_refs(repository, [(ref, None) for ref in over])


def _refs(run: str, attempt: str) -> list[str]:
    saved = f"refs/corral/saved/{attempt}"
    return [
        names.hidden_ref(attempt),
        f"refs/heads/corral/{run}/*/{attempt}",
        saved,
        f"refs/corral/snapshots/{attempt}",
    ]


def _folders(store: Store, record: AttemptRecord) -> list[Path]:
    folder = Path(record.folder)
    own = folder if folder.name == record.attempt.id else store.folder / "workspaces" / record.attempt.id
    return [own, store.folder / "logs" / record.attempt.id, opened_folder(store.folder, record.attempt.id)]


def _total_size(store: Store, attempts: Sequence[AttemptRecord]) -> int:
    return sum(_size(store, each) for each in attempts)


def _size(store: Store, record: AttemptRecord) -> int:
    total = 0
    for folder in _folders(store, record):
        for root, folders, files in os.walk(folder):
            if root == str(folder) and "objects" in folders:
                folders.remove("objects")  # links to what is kept once for all workspaces
            for name in files:
                with contextlib.suppress(OSError):
                    total += Path(root, name).lstat().st_size
    return total


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


MOST_DEEDS, MOST_DEED = 20_000, 120  #: events that are looked at for what an agent did, and characters of one
CHECKPOINT = re.compile(r"[a-z][a-z0-9._-]{0,62}")


class Checkpoint(Struct, frozen=True):
    """A named state of an attempt's work."""

    name: str
    attempt: str
    commit: str
    now: bool = True  #: it was made from what was there at that moment; else from the last snapshot
    automatic: bool = False  #: Corral made it while the agent worked
    about: str = ""  #: of an automatic one, what the agent had done last


async def checkpoint(store: Store, name: str, label: str) -> list[Checkpoint]:
    """Name the present state of a run: of each attempt at work, or else of the last that left something."""
    if not CHECKPOINT.fullmatch(label) or label.endswith((".", ".lock")) or ".." in label:
        raise BadRequest(f"`{label[:80]}` cannot name a checkpoint", hint="a-z, 0-9, . _ -; a letter first")
    run = store.run(store.find(name))
    repository = repository_of(run.plan, store.folder)
    await require(repository, run.id, [], elsewhere=other_machines(store, str(repository.git_dir)))
    records = store.attempts(run.id)
    taken = await hidden_refs.list_snapshots(repository, [f"{CHECKPOINTS}/{each.attempt.id}" for each in records])
    if any(each.at == label for each in taken):
        raise BadRequest(f"run {run.id} has a checkpoint `{label}` already", hint="choose another name")
    found = [made for each in records if each.phase == "working" and (made := await _state_now(store, run, each))]
    for each in reversed(records):
        if not found and each.attempt.commit:
            found.append(Checkpoint(label, each.attempt.id, each.attempt.commit))
    if not found:
        raise BadRequest(f"run {run.id} has no work yet", hint="`corral logs` shows what it does")
    named = [structs.replace(each, name=label) for each in found]
    await hidden_refs.edit_refs(repository, [(f"{CHECKPOINTS}/{each.attempt}/{label}", each.commit) for each in named])
    return named


async def list_checkpoints(store: Store, name: str) -> list[Checkpoint]:
    """Return the named states of a run, by attempt: those of the user, then those that Corral made by itself."""
    run = store.run(store.find(name))
    repository = repository_of(run.plan, store.folder)
    await require(repository, run.id, [], elsewhere=other_machines(store, str(repository.git_dir)))
    prefixes = [f"{CHECKPOINTS}/{each.attempt.id}" for each in store.attempts(run.id)]
    found = await hidden_refs.list_snapshots(repository, prefixes) if prefixes else []
    named = [Checkpoint(each.at, each.ref.split("/")[3], each.commit) for each in found]
    taken = {(each.attempt, each.commit) for each in named}
    made = [each[0] for each in await _automatic(store, run.id, repository)]
    return [*named, *(each for each in made if (each.attempt, each.commit) not in taken)]


async def _automatic(store: Store, run: str, repository: Repository) -> list[tuple[Checkpoint, str]]:
    """Return the snapshots of a run's attempts, each by how long the agent had worked, with its time."""
    records = store.attempts(run)
    prefixes = [f"refs/corral/snapshots/{each.attempt.id}" for each in records]
    found = await hidden_refs.list_snapshots(repository, prefixes) if prefixes else []
    done = _last_deeds(store, run) if found else []
    made: list[tuple[Checkpoint, str]] = []
    for record in records:
        attempt = record.attempt.id
        for each in found:
            if each.ref.split("/")[3] == attempt and record.started and (then := _time_of(each.at)) is not None:
                about = next((words for at, of, words in reversed(done) if of == attempt and at <= then), "")
                label = names.moment_name(then - record.started)
                made.append((Checkpoint(label, attempt, each.commit, automatic=True, about=about), each.at))
    return made


def _last_deeds(store: Store, run: str) -> list[tuple[float, str, str]]:
    """Return when which attempt did what, oldest first, from the end of its log."""
    found: list[tuple[float, str, str]] = []
    for stored in store.events(run, most=MOST_DEEDS):
        event = stored.event()
        if isinstance(event, CalledTool) and stored.attempt:
            found.append((stored.at, stored.attempt, f"{event.tool} {event.input}".strip()[:MOST_DEED]))
        elif isinstance(event, Changed) and stored.attempt:
            found.append((stored.at, stored.attempt, f"changed {event.path}"[:MOST_DEED]))
    return found


def _time_of(stamp: str) -> float | None:
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%S%fZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


async def _state_now(store: Store, run: RunRecord, record: AttemptRecord) -> Checkpoint | None:
    """Snapshot the workspace of an attempt at work; where that fails, its last snapshot, or what it started from."""
    repository, attempt = repository_of(run.plan, store.folder), record.attempt.id
    host = host_of(run.plan, run.plan.flow.nodes[0].task, repository, store.folder, record)
    tree, now = Path(record.folder) / "work", False
    if tree.exists():
        with contextlib.suppress(CorralError, OSError):
            await host.fit_again(record.attempt.agent)
            await collect_work.snapshot(host, checkout.read_workspace(tree))
            now = True
    kept = await hidden_refs.list_snapshots(repository, [f"refs/corral/snapshots/{attempt}"])
    commit = kept[-1].commit if kept else host.base
    return Checkpoint("", attempt, commit, now) if commit else None


def _attempt_with(store: Store, name: str, label: str, named: Sequence[Snapshot]) -> str:
    """Return the attempt whose checkpoint RUN@NAME means: the last that has one, where only a run is named."""
    run = store.find(name.rpartition("-")[0] or name)
    attempts = [each.attempt.id for each in store.attempts(run)]
    having = [each.ref.split("/")[3] for each in named if each.at == label]
    return next((each for each in reversed(attempts) if each in having), name) if "-" not in name else name


async def find_snapshots(store: Store, name: str) -> tuple[Repository, str, list[Snapshot]]:
    """Return an attempt's id and all that is kept of it, oldest first; what was collected at its end comes last."""
    run = store.find(name.rpartition("-")[0] or name)
    records = {record.attempt.id: record.attempt for record in store.attempts(run)}
    attempts = list(records)
    if name not in attempts:
        wanted = f"{run}-{name.rpartition('-')[2]}"
        name = wanted if wanted in attempts and "-" in name else attempts[-1] if attempts else name
    repository = repository_of(store.run(run).plan, store.folder)
    await require(repository, run, [], elsewhere=other_machines(store, str(repository.git_dir)))
    ends = [names.hidden_ref(name), *[ref.ref for ref in await _expiring(repository, name)]]
    timed = await _readable_snapshots(repository, [f"{CHECKPOINTS}/{name}", f"refs/corral/snapshots/{name}"])
    collected = await _readable_snapshots(repository, ends)
    if not collected and name in records and (commit := records[name].commit) and await repository.commit_of(commit):
        collected = [Snapshot("", commit, "")]  # its ref has expired; what it held is still there, or merged
    return repository, name, [*timed, *collected]


async def _readable_snapshots(repository: Repository, prefixes: Sequence[str]) -> list[Snapshot]:
    """Return what is kept below these refs and can be read: a damaged disk can leave a ref that leads to nothing."""
    found = await hidden_refs.list_snapshots(repository, prefixes)
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
    return await hidden_refs.list_snapshots(repository, [names.hidden_ref(name)])


async def _expiring(repository: Repository, attempt: str) -> list[Snapshot]:
    found = await hidden_refs.list_snapshots(repository, ["refs/corral/expiring"])
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


async def _find_checkpoint(store: Store, named: str, label: str) -> tuple[str, str]:
    """Return the attempt and the name, or for one that Corral made the time, of a checkpoint of a run or attempt."""
    run = store.find(named.rpartition("-")[0] or named)
    repository = repository_of(store.run(run).plan, store.folder)
    kept = await hidden_refs.list_snapshots(repository, [CHECKPOINTS])
    attempt = _attempt_with(store, named, label, kept)
    if not names.is_moment_name(label) or any(each.at == label for each in kept):
        return attempt, label
    made = reversed(await _automatic(store, run, repository))
    fitting = (each for each in made if each[0].name == label and ("-" not in named or each[0].attempt == attempt))
    automatic = next(fitting, None)
    return (automatic[0].attempt, automatic[1]) if automatic else (attempt, label)


async def _restore(store: Store, name: str, into: str | None) -> RestoredWork:
    attempt, moment = split_moment(name)
    if CHECKPOINT.fullmatch(moment):
        attempt, moment = await _find_checkpoint(store, attempt, moment)
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
        await hidden_refs.lay_files(
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
        await hidden_refs.edit_refs(repository, [(f"refs/heads/{branch}", chosen.commit)])
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
    if named := [each for each in found if each.at == moment]:
        return named[-1]
    timed = [each for each in found if each.at and not CHECKPOINT.fullmatch(each.at)]
    plain = moment.replace("-", "").replace(":", "")
    begun = [each for each in timed if each.at.startswith(plain)]
    if begun:
        return begun[-1]
    try:
        then = hidden_refs.stamp(datetime.fromisoformat(moment).astimezone(UTC))
    except ValueError:
        return None
    before = [each for each in timed if each.at <= then]
    return before[-1] if before else None
