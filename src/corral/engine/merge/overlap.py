"""Which unmerged work will clash, with its branch and with each other: found by merging what each piece changed."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct

from corral.attempt.repositories import repository_of
from corral.engine.views import run_document, run_status
from corral.model import OPEN, NodeClash, Run
from corral.model.errors import BadRequest, CorralError
from corral.model.merge import Clash, Overlap, UnmergedWork
from corral.rules.merge import merge as rules
from corral.store.interface import Store
from corral.world.git import hidden_refs, merge_commits
from corral.world.git import repository as git
from corral.world.git.repository import Repository

MOVED_ASIDE = re.compile(r"~[0-9a-f]{40}(?:[0-9a-f]{24})?(?:_\d+)?$")
MOST_KNOWN = 20_000


async def overlap(store: Store, folder: Path) -> Overlap:
    """Return all unmerged work of the repository that `folder` is in, and what will clash; known pairs cost nothing."""
    found = await git.discover(folder)
    if found is None:
        raise BadRequest(f"{folder} is not in a repository", hint="change into one, or say --repo DIR")
    git_dir = str(found.repository.git_dir)
    runs = [line.run for line in store.list_runs() if store.run(line.run).plan.git_dir == git_dir]
    if not runs:
        return Overlap(work=())
    repository = repository_of(store.run(runs[0]).plan, store.folder)
    work = [each for run in reversed(runs) for each in await _unmerged_of_run(store, run, repository)]
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
    """What a piece of work changed: from where it started to where it stands."""

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
    """Return the files as the work names them: git adds a commit to a file that stands where the other has a folder."""
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
        for pair, files in zip(missing, await merge_commits.merge_pairs(repository, missing, env), strict=True):
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
