"""The kinds of workspaces: overlays over a template or a pool of checkouts where that pays, else checkouts."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from corral.model import WorkspaceKind
from corral.model.errors import CorralError, GitTrouble
from corral.world.git.repository import Repository
from corral.world.process import Owner
from corral.world.workspace import checkout, git_index, mounts, overlay, templates
from corral.world.workspace.checkout import Loan, Workspace
from corral.world.workspace.mounts import OVERLAY, NoOverlay

LARGE_ENTRIES = 1000  #: files of a checkout that takes longer than an overlay does
LARGE = "large"  #: the file that says so of a repository without a checkout
_refusals: dict[Path, str] = {}  #: why there is no overlay, by the folder of templates


async def make(
    kind: WorkspaceKind,
    repository: Repository,
    commits: Sequence[str],
    tree: Path,
    branch: tuple[str, Owner | None],
    loan: Loan,
) -> Workspace:
    """Make a workspace of the first of `commits`; `branch` is its name and whose it is."""
    is_large = kind != "clone" and bool(commits) and (kind != "auto" or _is_large(repository, loan))
    made = await _overlay(kind, repository, commits, tree, branch, loan) if is_large and kind != "pool" else None
    if made is None and is_large and kind != "overlay":
        made = await _from_pool(kind, repository, commits, tree, branch, loan)
    if made is None:
        made = await checkout.make(repository, commits, tree, *branch, loan)
        if git_index.count_entries(tree / ".git" / "index") >= LARGE_ENTRIES:
            place = templates.place_of(repository, loan.templates)
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            (place / LARGE).touch()
    checkout.note(made)
    return made


async def _overlay(
    kind: WorkspaceKind,
    repository: Repository,
    commits: Sequence[str],
    tree: Path,
    branch: tuple[str, Owner | None],
    loan: Loan,
) -> Workspace | None:
    """Make an overlay; None where the machine makes none."""
    trouble = mounts.missing_part() or _refusals.get(loan.templates, "")
    if not trouble:
        try:
            return await overlay.make(repository, commits, tree, *branch, loan)
        except NoOverlay as error:
            trouble = _refusals[loan.templates] = str(error)
        except GitTrouble as error:  # a checkout says what is wrong with the repository
            trouble = str(error)
        await _remove_half_made(tree, loan)
    if kind == "overlay":
        loan.say(f"its workspace is a checkout, not an overlay: {trouble}")
    return None


async def _from_pool(
    kind: WorkspaceKind,
    repository: Repository,
    commits: Sequence[str],
    tree: Path,
    branch: tuple[str, Owner | None],
    loan: Loan,
) -> Workspace | None:
    """Take a checkout from the pool; None where that fails, for a plain checkout says why."""
    from corral.world.workspace import pool  # noqa: PLC0415 -- few repositories need it

    trouble = pool.missing_part()
    if not trouble:
        try:
            return await pool.make(repository, commits, tree, *branch, loan)
        except (CorralError, OSError) as error:
            trouble = str(error)
        await _remove_half_made(tree, loan)
    if kind == "pool":
        loan.say(f"its workspace is a checkout, not one of the pool: {trouble}")
    return None


async def _remove_half_made(tree: Path, loan: Loan) -> None:
    for name in (OVERLAY, tree.name, "taken", "pool", checkout.INDEX):
        await checkout.remove(tree.parent / name)
    await checkout.remove(loan.folder)


async def remove(folder: Path, repository: Repository, state: Path) -> None:
    """Remove a workspace that no process can reach any more; a checkout of the pool is restored and kept."""
    if (folder / "pool").is_file():
        from corral.world.workspace import pool  # noqa: PLC0415 -- few repositories need it

        with contextlib.suppress(CorralError, OSError):  # what cannot be restored is removed
            await pool.give_back(folder, repository, state)
    await checkout.remove(folder)


def _is_large(repository: Repository, loan: Loan) -> bool:
    entries = git_index.count_entries(repository.git_dir / "index")
    if entries >= LARGE_ENTRIES or not loan.templates.is_dir():
        return entries >= LARGE_ENTRIES
    return (templates.place_of(repository, loan.templates) / LARGE).exists()


async def choice(kind: WorkspaceKind, state: Path) -> str:
    """Return which kind is used on this machine, and why."""
    if kind == "clone":
        return "clone, as settings say"
    trouble = "" if kind == "pool" else await overlay.trouble(state)
    if kind == "overlay":
        return f"clone: {trouble}" if trouble else "overlay, as settings say"
    small = f"for repositories of {LARGE_ENTRIES:,} files and more, clone for smaller ones"
    if not trouble and kind == "auto":
        return f"overlay {small}"
    from corral.world.workspace import pool  # noqa: PLC0415 -- few repositories need it

    if missing := pool.missing_part():
        return f"clone: {missing}"
    return "pool, as settings say" if kind == "pool" else f"pool {small}; no overlay: {trouble}"
