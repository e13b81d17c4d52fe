"""Work of runs against their branches: what was merged and taken back, and what is unmerged and will clash."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, structs

from corral.attempt.repositories import repository_of
from corral.engine.merge import uncommitted
from corral.engine.views import run_document, run_status
from corral.model import OPEN, MergeState, NodeClash, Run
from corral.model.errors import BadRequest, CorralError
from corral.model.merge import Clash, MergeRecord, Overlap, UnmergedWork
from corral.rules.merge import merge as rules
from corral.store.interface import Store
from corral.store.records import merged_last
from corral.world.git import changes, discovery, hidden_refs, merge_commits
from corral.world.git.pair_conflicts import merge_pairs
from corral.world.git.repository import Repository

MOVED_ASIDE = re.compile(r"~[0-9a-f]{40}(?:[0-9a-f]{24})?(?:_\d+)?$")
MOST_KNOWN = 20_000


async def overlap(store: Store, folder: Path) -> Overlap:
    """Return all unmerged work of the repository that `folder` is in, and what will clash; known pairs cost nothing."""
    found = await discovery.discover(folder)
    if found is None:
        raise BadRequest(f"{folder} is not in a repository", hint="change into one, or say --repo DIR")
    git_dir = str(found.repository.git_dir)
    runs = store.pages.runs_with_work(git_dir)
    if not runs:
        return Overlap(work=())
    repository = repository_of(store.run(runs[-1]).plan, store.folder)
    work = [each for run in runs for each in await _unmerged_of_run(store, run, repository)]
    known = ConflictCache(store.folder / "overlap.json")
    tips = {each.into: await repository.commit_of(f"refs/heads/{each.into}") for each in work if each.into}
    pairs = [(each.commit, tip) for each in work if (tip := tips.get(each.into or ""))]
    pairs += [(one.commit, other.commit) for one, other in combinations(work, 2)]
    clashes = await known.ask(repository, pairs)
    bases = {
        record.attempt.id: record.base if record.base is not None else store.run(run).plan.base
        for run in {each.run for each in work}
        for record in store.attempts(run)
    }
    changes = {each.name: WorkChange(bases[each.name], each.commit) for each in work}
    for one, other in combinations(work, 2):
        pair = one.commit, other.commit
        clashes[pair] = await known.refine(repository, (changes[one.name], changes[other.name]), clashes[pair])
    limit_status = await asyncio.gather(
        *(_with_branch_state(repository, each, tips.get(each.into or ""), clashes) for each in work)
    )
    return Overlap(
        work=tuple(limit_status),
        clashes=tuple(
            Clash(one=one.name, other=other.name, files=files)
            for one, other in combinations(work, 2)
            if (files := clashes[one.commit, other.commit])
        ),
    )


async def mark_clashes(store: Store, run: Run) -> Run:
    """Name the nodes of a run that conflict with each other, before it is merged; git is asked only if some may."""
    pairs = rules.suspects(run) if run.merge.status == "ready" else []
    if not pairs:
        return run
    repository = repository_of(store.run(run.run).plan, store.folder)
    wanted = [(one.commit or "", other.commit or "") for (_, one), (_, other) in pairs]
    try:
        clashes = await ConflictCache(store.folder / "overlap.json").ask(repository, wanted)
    except (CorralError, OSError):  # its work may be gone
        return run
    found = tuple(
        NodeClash(one=one, other=other, files=files)
        for ((one, _), (other, _)), commits in zip(pairs, wanted, strict=True)
        if (files := clashes[commits])
    )
    run.merge = msgspec.structs.replace(run.merge, clashes=found or UNSET)
    return run


async def mark_moved(store: Store, run: Run) -> Run:
    """Say how many commits the branch has that the work of a run does not know."""
    if run.merge.status not in ("ready", "conflict") or not run_status.may_have_moved(store, run):
        return run
    repository = repository_of(store.run(run.run).plan, store.folder)
    try:
        count = await merge_commits.behind(repository, run.base or "", f"refs/heads/{run.merge.into}")
    except (CorralError, OSError, ValueError):  # the branch may be gone
        return run
    run.merge = msgspec.structs.replace(run.merge, behind=count or UNSET)
    return run


async def _unmerged_of_run(store: Store, run: str, repository: Repository) -> list[UnmergedWork]:
    """Return what of a run is not merged: what agents at work have so far, or what it ended with."""
    shown = run_document.build(store, run)
    into = store.run(run).plan.into
    found: list[UnmergedWork] = []
    for node in shown.nodes:
        for attempt in node.attempts:
            live = attempt.status in OPEN
            ready = shown.status not in OPEN and attempt.id == node.winner
            if live:
                kept = await hidden_refs.list_snapshots(repository, [f"refs/corral/snapshots/{attempt.id}"])
                commit = kept[-1].commit if kept else None
            else:
                waits = ready and shown.merge.status in ("ready", "undone", "conflict")
                commit = attempt.commit if waits else None
            if commit and await repository.commit_of(commit):
                found.append(
                    UnmergedWork(name=attempt.id, run=run, agent=attempt.agent, commit=commit, live=live, into=into)
                )
    return found


async def _with_branch_state(
    repository: Repository, work: UnmergedWork, tip: str | None, clashes: Mapping[tuple[str, str], tuple[str, ...]]
) -> UnmergedWork:
    if tip is None:
        return work
    behind = await merge_commits.behind(repository, work.commit, tip)
    return msgspec.structs.replace(work, behind=behind, conflicts=clashes[work.commit, tip])


class WorkChange(Struct, frozen=True):
    """What a piece of work changed: from where it started to where it is."""

    base: str | None
    commit: str

    def __str__(self) -> str:
        return f"{self.base}..{self.commit}"


async def _between_changes(
    repository: Repository, pair: tuple[WorkChange, WorkChange], conflicts: tuple[str, ...]
) -> tuple[str, ...]:
    """Return which conflicts of two commits come of what each changed, not of where they started from."""
    one, other = pair
    files: list[tuple[str, ...]] = []
    for each in pair:
        if each.base is None or await repository.commit_of(each.base) is None:
            return conflicts
        files.append(await repository.names_changed(each.base, each.commit))
    common = rules.in_both(*files)
    if not common:
        return ()
    for first, second in ((one, other), (other, one)):
        moved = await merge_commits.merge_since(repository, first.base or "", second.base or "", first.commit)
        if not moved.conflicts:  # both start from the same now
            merged = await merge_commits.merge_since(repository, second.base or "", moved.tree, second.commit)
            return real_names([conflict.path for conflict in merged.conflicts])
    return tuple(path for path in conflicts if path in common)


def real_names(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the files as the work names them: git adds a commit to a file that is where the other has a folder."""
    return tuple(dict.fromkeys(MOVED_ASIDE.sub("", path) for path in paths))


class ConflictCache:
    """What is known of pairs of commits: that never changes, so it is asked once."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def ask(
        self, repository: Repository, pairs: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], tuple[str, ...]]:
        known = self._read()
        different = dict.fromkeys(pairs)
        missing = [pair for pair in different if " ".join(pair) not in known]
        env = await merge_commits.neutral_environment(repository)
        for pair, files in zip(missing, await merge_pairs(repository, missing, env), strict=True):
            known[" ".join(pair)] = files
        if missing:
            self._write(dict(list(known.items())[-MOST_KNOWN:]))
        return {pair: real_names(known[" ".join(pair)]) for pair in different}

    async def refine(
        self, repository: Repository, pair: tuple[WorkChange, WorkChange], conflicts: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return the conflicts that two changes make, of those that their commits have."""
        if not conflicts or pair[0].base == pair[1].base:
            return conflicts
        known, key = self._read(), " ".join(map(str, pair))
        if key not in known:
            known[key] = await _between_changes(repository, pair, conflicts)
            self._write(dict(list(known.items())[-MOST_KNOWN:]))
        return real_names(known[key])

    def _read(self) -> dict[str, tuple[str, ...]]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, tuple[str, ...]])
        except (OSError, msgspec.DecodeError):
            return {}

    def _write(self, known: dict[str, tuple[str, ...]]) -> None:
        with contextlib.suppress(OSError, UnicodeEncodeError):  # it only saves time
            made = self._file.with_suffix(".new")
            made.write_bytes(msgspec.json.encode(known))
            made.replace(self._file)


async def reverted_words(repository: Repository, record: MergeRecord) -> str:
    """Say what became of a merge that its branch has nothing of any more; empty where it still has some of it."""
    if record.strategy == "apply":
        return await uncommitted.reverted_words(repository, record)
    tip = await repository.commit_of(record.ref)
    if tip is None:
        return f"the branch {record.into} is gone"
    if record.before is None or record.after is None or tip == record.after:
        return ""
    if await _is_still_merged(repository, tip, record.before, record.after):
        return ""
    return f"{record.into} has nothing of it any more: it was taken back there with git"


async def _is_still_merged(repository: Repository, tip: str, before: str, after: str) -> bool:
    """Tell whether a branch has some of a merge: by what its files hold, else by what its history says."""
    if None in [await repository.commit_of(commit) for commit in (before, after)]:
        return False  # nobody needs these commits any more
    has = await merge_commits.has_some(repository, tip, before, after)
    there = await merge_commits.is_ancestor(repository, after, tip)
    # Files that only came with it and are not there any more may as well have been moved: then history must say it.
    if has or (has is False and not (there and await merge_commits.only_adds(repository, before, after))):
        return has
    if not there:  # rewritten, as by `git commit --amend`, or taken back and changed since
        return await changes.keeps_lines(repository, tip, before, after)
    return not await merge_commits.is_reverted(repository, tip, before, after)


async def reverted_merges(repository: Repository, records: Sequence[MergeRecord]) -> list[MergeRecord]:
    """Return the merges that their branches have nothing of any more."""
    return [record for record in records if await reverted_words(repository, record)]


async def without_reverted_merge(store: Store, run: Run) -> Run:
    """Return a run document that claims no merge which its branch has nothing of any more."""
    record = merged_last(store.merges.of_run(run.run)) if run.merge.status == "merged" else None
    if record is None or record.before == record.after:
        return run
    repository = repository_of(store.run(run.run).plan, store.folder)
    words = ""
    with contextlib.suppress(CorralError):  # what cannot be found out now is reported as it is stored
        words = await reverted_words(repository, record) if repository.git_dir.exists() else ""
        if words and record.after and await repository.commit_of(record.ref) is None:  # perhaps merged, and deleted
            words = "" if await merge_commits.is_on_user_branch(repository, record.after) else words
    if words and run.merge.others:
        first, *rest = run.merge.others
        run.merge = structs.replace(first, others=tuple(rest) or UNSET)
    elif words:
        run.merge = MergeState(status="undone", into=record.into, why=words)
    return run


def mark_reverted(record: MergeRecord, at: float) -> MergeRecord:
    """Return a merge as it is stored once it is known that a user took it back."""
    return structs.replace(record, state="undone", undone=record.undone or at, by_hand=True)
