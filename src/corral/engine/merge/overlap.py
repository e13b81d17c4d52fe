"""Foresee which unmerged work will clash: with its branch, and each piece with every other, from merges in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import msgspec

from corral.engine.looking import document
from corral.engine.places import repository_of
from corral.errors import BadRequest
from corral.merging import Clash, Overlap, Standing
from corral.model import OPEN
from corral.world import git, merging, snapshots
from corral.world.git import Repository
from corral.world.store.sqlite import Store

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
    work = [each for run in reversed(runs) for each in await _unmerged(store, run, repository)]
    known = Known(store.folder / "overlap.json")
    tips = {each.into: await repository.commit_of(f"refs/heads/{each.into}") for each in work if each.into}
    pairs = [(each.commit, tip) for each in work if (tip := tips.get(each.into or ""))]
    pairs += [(one.commit, other.commit) for one, other in combinations(work, 2)]
    clashes = await known.ask(repository, pairs)
    standing = await asyncio.gather(*(_standing(repository, each, tips.get(each.into or ""), clashes) for each in work))
    return Overlap(
        work=tuple(standing),
        clashes=tuple(
            Clash(one=one.name, other=other.name, files=files)
            for one, other in combinations(work, 2)
            if (files := clashes[one.commit, other.commit])
        ),
    )


async def _unmerged(store: Store, run: str, repository: Repository) -> list[Standing]:
    """Return what of a run is not merged: what agents at work have so far, or what it ended with."""
    shown = document.build(store, run)
    into = store.run(run).plan.into
    found: list[Standing] = []
    for node in shown.nodes:
        for attempt in node.attempts:
            live = attempt.status in OPEN
            ready = shown.status not in OPEN and attempt.id == node.winner
            if live:
                kept = await snapshots.listed(repository, [f"refs/corral/snapshots/{attempt.id}"])
                commit = kept[-1].commit if kept else None
            else:
                waits = ready and shown.merge.status in ("ready", "undone", "conflict")
                commit = attempt.commit if waits else None
            if commit and await repository.commit_of(commit):
                found.append(
                    Standing(name=attempt.id, run=run, agent=attempt.agent, commit=commit, live=live, into=into)
                )
    return found


async def _standing(
    repository: Repository, work: Standing, tip: str | None, clashes: Mapping[tuple[str, str], tuple[str, ...]]
) -> Standing:
    if tip is None:
        return work
    behind = await merging.behind(repository, work.commit, tip)
    return msgspec.structs.replace(work, behind=behind, conflicts=clashes[work.commit, tip])


class Known:
    """What is known of pairs of commits: that never changes, so it is asked once."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def ask(
        self, repository: Repository, pairs: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], tuple[str, ...]]:
        known = self._read()
        different = dict.fromkeys(pairs)
        missing = [pair for pair in different if " ".join(pair) not in known]
        env = await merging.neutral(repository)
        for pair, files in zip(missing, await merging.merge_pairs(repository, missing, env), strict=True):
            known[" ".join(pair)] = files
        if missing:
            self._write(dict(list(known.items())[-MOST_KNOWN:]))
        return {pair: known[" ".join(pair)] for pair in different}

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
