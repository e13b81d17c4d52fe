"""Workspaces that are overlays over a template: they cost what is changed in them, not what they hold."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field, structs

from corral.model.errors import CorralError
from corral.world import process
from corral.world.git.repository import ENV, Repository
from corral.world.process import Owner, ProcessStart
from corral.world.workspace import checkout, mounts, templates
from corral.world.workspace.checkout import Loan, Module, Workspace
from corral.world.workspace.git_index import UnknownIndex
from corral.world.workspace.mounts import OVERLAY, NoOverlay
from corral.world.workspace.templates import Template

NEAR = 8  #: a template of which less than one file in so many differs is near enough
FEW = 500  #: files that may differ anyway
TRIES = 3
COPY_SECONDS = 1800.0
MOST_CHANGED = 20_000  #: paths; git finds more by itself
MOST_FILE_BYTES = 2 << 30  #: larger ones are left out, and listed
OPAQUE, REDIRECTED = "trusted.overlay.opaque", "trusted.overlay.redirect"


async def make(
    repository: Repository, commits: Sequence[str], tree: Path, name: str, owner: Owner | None, loan: Loan
) -> Workspace:
    """Show the first of `commits` in `tree`, on a branch of its own, over the files of a template."""
    folder, commit = tree.parent / OVERLAY, commits[0]
    try:
        template = await _mount(repository, commit, folder, tree, owner, loan)
        objects: list[Path] = []
        modules: list[Module] = []
        shallow = await checkout.lay_repository(repository, commits, tree, name, (loan, objects))
        index = await asyncio.to_thread(template.index_for, owner)
        (tree / ".git" / "index").write_bytes(index)
        if template.commit != commit:
            await checkout.move_to(tree, template.commit, commit)
        shutil.copyfile(tree / ".git" / "index", tree.parent / checkout.INDEX)
        await checkout.fill_submodules(repository, commit, tree, loan, (tree, objects, modules))
        changed = await asyncio.to_thread(_give_changed, folder / "upper", tree, owner)
    except BaseException:
        await asyncio.to_thread(mounts.unmount, tree)
        raise
    if template.commit != commit and changed > max(FEW, template.entries // NEAR):
        templates.want(template, commit)
    return Workspace(tree, tuple(map(str, objects)), tuple(modules), tuple(shallow), kind="overlay")


async def _mount(
    repository: Repository, commit: str, folder: Path, tree: Path, owner: Owner | None, loan: Loan
) -> Template:
    for each in ("upper", "work"):
        (folder / each).mkdir(parents=True, mode=0o755)
        (folder / each).chmod(0o755)
    tree.mkdir(mode=0o755)
    for _ in range(TRIES):  # another process may remove a template that nobody needs just now
        try:
            template = await templates.find(repository, commit, loan)
        except UnknownIndex as error:
            raise NoOverlay(f"git writes {error} here") from error
        (folder / templates.NAME).write_text(str(template.folder))
        try:
            await mounts.mount(template.files, folder, tree, owner)
        except NoOverlay:
            if template.folder.is_dir():
                raise
        else:
            return template
    raise NoOverlay("its template is removed again and again")


def _give_changed(upper: Path, tree: Path, owner: Owner | None) -> int:
    """Make what we wrote so far belong to the owner; return how much that is."""
    count = 0
    for place, folders, files in os.walk(upper):
        shown = tree / os.path.relpath(place, upper)
        for name in (".", *folders, *files):
            count += 1
            with contextlib.suppress(FileNotFoundError):  # what stands for a file that is gone
                if owner:
                    os.chown(shown / name, owner.uid, owner.gid, follow_symlinks=False)
    return count


class ChangedPaths(Struct, frozen=True):
    """The paths of a workspace that differ from its template."""

    there: list[str] = field(default_factory=list[str])
    gone: list[str] = field(default_factory=list[str])  #: of the template; some may be there again


def changed_paths(folder: Path) -> ChangedPaths | None:
    """Return the paths of a workspace that differ from its template, from its upper layer; None if not all are plain.

    An agent wrote what lies there: no link is followed, and nothing is opened but folders.
    """
    upper, found = folder / OVERLAY / "upper", ChangedPaths()
    template = Path((folder / OVERLAY / templates.NAME).read_text()) / templates.FILES
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(upper / below) as entries:
            for entry in entries:
                path = f"{below}{entry.name}"
                if path == ".git":
                    continue
                about = entry.stat(follow_symlinks=False)
                if not _is_plain(entry.name, about):
                    return None
                if stat.S_ISDIR(about.st_mode):
                    signs = set(os.listxattr(entry.path, follow_symlinks=False))
                    if REDIRECTED in signs:
                        return None
                    found.gone.extend(_files_below(template, path) if OPAQUE in signs else ())
                    if not (template / path).is_dir() or (template / path).is_symlink():
                        found.gone.append(path)  # a folder in the place of a file
                    waiting.append(f"{path}/")
                elif stat.S_ISCHR(about.st_mode):
                    found.gone.extend((path, *_files_below(template, path)))
                else:
                    found.there.append(path)
                if len(found.there) + len(found.gone) > MOST_CHANGED:
                    return None
    return found


def _is_plain(name: str, about: os.stat_result) -> bool:
    mode = about.st_mode
    if name.lower() == ".git" or not name.isprintable() or '"' in name or "\\" in name:
        return False
    if stat.S_ISDIR(mode):
        return mode & 0o6700 == 0o700
    if stat.S_ISCHR(mode):
        return about.st_rdev == 0  # stands for something that is gone
    return stat.S_ISLNK(mode) or (stat.S_ISREG(mode) and not mode & 0o6000 and about.st_size <= MOST_FILE_BYTES)


def _files_below(template: Path, path: str) -> list[str]:
    """Return the files of a folder of the template, where it is one."""
    return [
        os.path.relpath(os.path.join(place, name), template)  # noqa: PTH118
        for place, folders, names in os.walk(template / path)
        for name in (*names, *(each for each in folders if Path(place, each).is_symlink()))
    ]


async def mount_again(folder: Path, owner: Owner | None) -> None:
    """Mount the overlay of a workspace that lies there without it: the machine was switched off."""
    if not mounts.is_mounted(folder / "work"):
        template = Path((folder / OVERLAY / templates.NAME).read_text())
        await mounts.mount(template / templates.FILES, folder / OVERLAY, folder / "work", owner)


async def give(folder: Path, owner: Owner) -> None:
    """Make a workspace belong to another user: what was changed in it by its files, the rest by its mount."""
    await asyncio.to_thread(mounts.unmount, folder / "work")
    await checkout.give(folder / OVERLAY / "upper", owner)
    await mount_again(folder, owner)


async def flatten(folder: Path) -> None:
    """Make a plain folder of a workspace that stays: nothing of it is lost when the machine is switched off."""
    tree, copy = folder / "work", folder / "work.new"
    if not mounts.is_mounted(tree):
        return
    await checkout.remove(copy)
    ended = await process.run(
        ProcessStart(argv=["cp", "-a", "--", str(tree), str(copy)], env=ENV), timeout=COPY_SECONDS
    )
    if ended.code != 0:
        await checkout.remove(copy)
        raise CorralError(f"{tree} cannot be copied: {ended.err.decode(errors='replace').strip()[-200:]}")
    await asyncio.to_thread(mounts.unmount, tree)
    tree.rmdir()
    copy.rename(tree)
    checkout.note(structs.replace(checkout.read_workspace(tree), kind="clone"), checkout.exclude_rules(tree))
    await checkout.remove(folder / OVERLAY)


async def trouble(state: Path) -> str:
    """Try an overlay in the state folder; return why there is none, or nothing."""
    if missing := mounts.missing_part():
        return missing
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".overlay-", dir=state) as name:
        place = Path(name)
        for each in ("files", "upper", "work", "tree"):
            (place / each).mkdir()
        (place / "files" / "file").touch()
        owner = Owner(65_534, 65_534)
        try:
            await mounts.mount(place / "files", place, place / "tree", owner)
        except (NoOverlay, CorralError) as error:
            return str(error)
        try:
            found = (place / "tree" / "file").stat().st_uid
        finally:
            mounts.unmount(place / "tree")
    return "" if found == owner.uid else "files of the lower layer keep their owner"
