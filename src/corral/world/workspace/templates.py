"""Templates of workspaces: the files of a commit, checked out once, that overlays show to many attempts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from array import array
from pathlib import Path

from msgspec import Struct

from corral.world.git import object_cache
from corral.world.git.repository import Repository
from corral.world.locks import hold_lock
from corral.world.process import Owner
from corral.world.workspace import checkout, git_index
from corral.world.workspace.checkout import Loan
from corral.world.workspace.mounts import OVERLAY

MOST_TEMPLATES = 4  #: of one repository; the one that was used least recently goes first
MAKE_SECONDS = 3600.0
FILES, INDEX, PLACES, WANTED, NAME = "files", "index", "places", ".wanted", "template"


class Template(Struct, frozen=True):
    """The files of a commit, which belong to root and are never written to."""

    folder: Path
    commit: str

    @property
    def files(self) -> Path:
        return self.folder / FILES

    @property
    def entries(self) -> int:
        return git_index.count_entries(self.folder / INDEX)

    def index_for(self, owner: Owner | None) -> bytes:
        """Return the index of these files as they are shown to their owner."""
        data, places = (self.folder / INDEX).read_bytes(), array("I")
        places.frombytes((self.folder / PLACES).read_bytes())
        uid, gid = (owner.uid, owner.gid) if owner else (0, 0)
        return git_index.with_owner(data, places, uid, gid, len(self.commit) // 2)


def place_of(repository: Repository, templates: Path) -> Path:
    """Return the folder of a repository's templates."""
    return templates / object_cache.name_of(repository.git_dir)


async def find(repository: Repository, commit: str, loan: Loan) -> Template:
    """Return the template of a commit, or one that is near it; where there is none, it is made."""
    place = place_of(repository, loan.templates)
    if found := _ready(place, commit):
        return found
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    async with hold_lock(place / "lock", holder_seconds=MAKE_SECONDS):
        if found := _ready(place, commit):
            return found
        made = await _make(repository, commit, place, loan)
        (place / (commit + WANTED)).unlink(missing_ok=True)
        await _prune(place, loan.templates.parent / "workspaces", MOST_TEMPLATES)
    return made


def want(template: Template, commit: str) -> None:
    """Note that a commit is far from the template that was taken for it: the next time it gets one of its own."""
    (template.folder.parent / (commit + WANTED)).touch()


def _ready(place: Path, commit: str) -> Template | None:
    own = place / commit
    if not own.is_dir():
        if (place / (commit + WANTED)).exists() or not (others := _templates(place)):
            return None
        own = others[-1]
    with contextlib.suppress(FileNotFoundError):
        os.utime(own)
        return Template(own, own.name)
    return None


def _templates(place: Path) -> list[Path]:
    """Return the templates of a repository, the one that was used last at the end."""
    try:
        found = [(entry.stat().st_mtime, entry.path) for entry in os.scandir(place) if entry.is_dir()]
    except FileNotFoundError:
        return []
    return [Path(path) for _, path in sorted(found) if not Path(path).name.startswith(".")]


async def _make(repository: Repository, commit: str, place: Path, loan: Loan) -> Template:
    fresh = place / f".new-{os.getpid()}"
    await checkout.remove(fresh)
    tree = fresh / FILES
    tree.mkdir(parents=True, mode=0o755)
    tree.chmod(0o755)
    lent = Loan(loan.cache, fresh / "objects", loan.say, loan.templates)
    await checkout.lay_repository(repository, [commit], tree, "template", (lent, []))
    await checkout.check_out(tree)
    data = (tree / ".git" / "index").read_bytes()
    places = await asyncio.to_thread(git_index.entry_places, data, len(commit) // 2)
    (fresh / INDEX).write_bytes(data)
    (fresh / PLACES).write_bytes(places.tobytes())
    for used in (tree / ".git", fresh / "objects"):
        await checkout.remove(used)
    fresh.rename(place / commit)
    return Template(place / commit, commit)


async def clean(state: Path) -> None:
    """Remove the templates that no workspace needs."""
    for place in (state / "templates").glob("*"):
        async with hold_lock(place / "lock"):
            await _prune(place, state / "workspaces", 0)
            for left in (*place.glob(".new-*"), *place.glob(".old-*")):
                await checkout.remove(left)


async def _prune(place: Path, workspaces: Path, most: int) -> None:
    for each in _templates(place)[: -most or None]:
        gone = each.with_name(f".old-{time.time_ns()}")
        each.rename(gone)  # first of all, so that nobody begins to use it while we look
        if str(each) in _needed_names(workspaces):
            gone.rename(each)
        else:
            await checkout.remove(gone)


def _needed_names(workspaces: Path) -> set[str]:
    found: set[str] = set()
    for file in workspaces.glob(f"*/{OVERLAY}/{NAME}"):
        with contextlib.suppress(OSError):
            found.add(file.read_text())
    return found
