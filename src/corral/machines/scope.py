"""The scope of one attempt: made of all its sources, and held against the real files that its box shows or hides."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from corral.model import Level, NamedPath, Scope, ScopeSource, Violation
from corral.model.errors import BadRequest
from corral.rules.scope import globs
from corral.rules.scope import scope as rules
from corral.rules.scope.scope import EffectiveScope, ScopeExplanation
from corral.world.git.repository import Repository
from corral.world.sandbox.profile import Mask, Masks, Mode, ScopePath, TooManyEntries
from corral.world.sandbox.watchdog import Ceiling

MOST_MASKS = 400  #: each costs the kernel a mount at every start
MOST_INSIDE, MOST_OUTSIDE = 2_000_000, 200_000  #: entries looked at
IGNORE_FILE = ".agentignore"
KERNEL = ("/proc", "/sys", "/dev")  #: the box has its own


class ScopeView(Struct, frozen=True, kw_only=True):
    """What the rules say, for the world to look at."""

    named: Sequence[NamedPath]
    inside: ScopePath  #: the workspace's top
    outside: ScopePath  #: the machine's root
    secrets: Sequence[str]  #: patterns of paths that only an exact name reaches


class MachinePaths(Struct, frozen=True, kw_only=True):
    """Where things are."""

    tree: Path  #: the workspace
    state: Path  #: corral's own folder
    checkout: Path | None = None  #: the user's, which no agent writes to


class ResolvedPaths(Struct, frozen=True, kw_only=True):
    """Real paths for the box, outer ones first: applied in this order, each shows its path as its mode says."""

    elsewhere: tuple[Mask, ...] = ()  #: outside the workspace, where nothing is shown that is not named here
    masks: tuple[Mask, ...] = ()  #: in the workspace, which is shown writable but for these
    missing: tuple[Path, ...] = ()  #: folders of the workspace to make before the start
    notes: tuple[str, ...] = ()

    def paths(self, mode: Mode) -> tuple[Path, ...]:
        """Return the paths outside the workspace that are shown so."""
        return tuple(mask.path for mask in self.elsewhere if mask.mode == mode)


async def agentignore(repository: Repository, commit: str | None) -> str:
    """Return what the repository hides from agents, as the commit has it: no agent can change that."""
    if commit is None:
        return ""
    words = ("cat-file", "blob", f"{commit}:{IGNORE_FILE}")
    return (await repository.git(*words, fine=(0, 128))).out.decode(errors="replace")


def resolve(view: ScopeView, machine: MachinePaths) -> ResolvedPaths:
    """Look everything up; BadRequest, in one line, for what cannot be meant on this machine."""
    elsewhere = any(name.outside and not name.excludes for name in view.named)
    secrets = _secrets(view.secrets) if elsewhere else []  # where nothing is shown, nothing has to be hidden
    shown: dict[Path, Mask] = {}
    notes: list[str] = []
    for name in view.named:
        if not name.outside:
            _check_inside(name, machine.tree)
        elif not name.excludes:
            found = _outside(name, view, machine, secrets)
            shown.update({mask.path: mask for mask in found})
            notes += [] if found else [f"{name.where}: {name.key} `{name.text}` shows nothing"]
    for secret in secrets:
        # Named itself, it is in the list already; below what is named, it is covered up.
        if any(secret.is_relative_to(path) for path in shown):
            shown.setdefault(secret, Mask(secret, "hidden", secret.is_dir()))
    masks, missing, own_notes = _workspace(view, machine.tree)
    return ResolvedPaths(
        elsewhere=_sort_masks(shown.values()), masks=masks, missing=missing, notes=(*notes, *own_notes)
    )


def _sort_masks(masks: Iterable[Mask]) -> tuple[Mask, ...]:
    return tuple(sorted(masks, key=lambda mask: (len(mask.path.parts), str(mask.path))))


# --- in the workspace


def _check_inside(name: NamedPath, tree: Path) -> None:
    path = tree / name.prefix
    real = _real(path)
    if not real.is_relative_to(_real(tree)):
        raise _refusal(name, f"leads out of the workspace, to {real}", f"name {real} itself, if that is meant")
    must_exist = name.literal and name.key != "write" and not (name.many or name.excludes)
    if must_exist and not os.path.lexists(path):
        raise _refusal(name, "is not there", "paths are relative to the top of the repository")


def _workspace(view: ScopeView, tree: Path) -> tuple[tuple[Mask, ...], tuple[Path, ...], tuple[str, ...]]:
    masks = Masks(MOST_INSIDE)
    try:
        masks.workspace(tree, view.inside)
    except TooManyEntries:
        raise BadRequest("[scope] the workspace has too many files to look at each", hint="name folders") from None
    found = masks.found
    if any(mask.path == tree and mask.mode == "hidden" for mask in found):
        raise BadRequest("[scope] read: nothing is left to read in the workspace", hint='name something, like "src/**"')
    notes: tuple[str, ...] = ()
    if len(found) > MOST_MASKS:
        # Too many to mount. A file that is only not to be written is also found in the diff; what is hidden is not.
        notes = (f"{len(found)} paths differ from the folder they lie in: single files are checked after the run",)
        found = [mask for mask in found if mask.folder or mask.mode != "readonly"]
    if len(found) > MOST_MASKS:
        raise BadRequest(
            f"[scope] {len(found)} paths of the workspace would each need a mask (the most is {MOST_MASKS})",
            hint="hide or protect whole folders, not single files in many of them",
        )
    return _sort_masks(found), tuple(masks.missing), notes


# --- elsewhere


def _outside(name: NamedPath, view: ScopeView, machine: MachinePaths, secrets: Sequence[Path]) -> list[Mask]:
    """Return what of a named path is to be shown, after all that can be wrong with it was looked for."""
    named = Path(os.path.normpath(name.prefix))
    if not os.path.lexists(named):
        raise _refusal(name, f"{named} is not there", "name a path that exists, or leave it out")
    parent = _real(named.parent)
    real = _real(named)
    if named.is_symlink() and not real.is_relative_to(parent):
        raise _refusal(name, f"{named} is a link that leads to {real}", f"name {real} itself, if that is meant")
    if not real.exists():
        raise _refusal(name, f"{named} is a link that leads nowhere", "name a path that exists, or leave it out")
    _check_real(name, named, real, machine, secrets)
    place = view.outside
    for part in named.parts[1:]:
        place = place.enter(part)
    masks = Masks(MOST_OUTSIDE)
    try:
        masks.elsewhere(real, place)
    except TooManyEntries:
        raise _refusal(name, f"has more than {MOST_OUTSIDE} entries to look at", "name a folder") from None
    if len(masks.found) > MOST_MASKS:
        raise _refusal(name, f"fits {len(masks.found)} paths (the most is {MOST_MASKS})", "name a folder")
    # A broad pattern does not reach into a secret: only one that begins in it does.
    reached = [secret for secret in secrets if not (named.is_relative_to(secret) or real.is_relative_to(secret))]
    found = [mask for mask in masks.found if not any(mask.path.is_relative_to(secret) for secret in reached)]
    for mask in found:
        if mask.mode != "hidden":
            _check_mask(name, mask, machine, secrets)
    return found


def _check_real(name: NamedPath, named: Path, real: Path, machine: MachinePaths, secrets: Sequence[Path]) -> None:
    if real.is_relative_to(_real(machine.state)):
        raise _refusal(name, f"{real} is in corral's own folder", "no agent sees that, whatever is named")
    if any(real.is_relative_to(each) for each in KERNEL):
        raise _refusal(name, f"{real} is the kernel's", "the box has its own")
    for secret in secrets:
        if real.is_relative_to(_real(secret)) and not (named.is_relative_to(secret) or real == named):
            raise _refusal(name, f"{named} leads into {secret}, which holds secrets", f"name {real} itself")


def _check_mask(name: NamedPath, mask: Mask, machine: MachinePaths, secrets: Sequence[Path]) -> None:
    """Refuse what would show or give away more than its name says."""
    state = _real(machine.state)
    if state.is_relative_to(mask.path) or mask.path.is_relative_to(state):
        raise _refusal(name, f"{mask.path} holds corral's own folder {state}", "name something smaller")
    if mask.mode != "writable":
        return
    held = [secret for secret in secrets if secret.is_relative_to(mask.path) and secret != mask.path]
    if held:
        raise _refusal(name, f"{mask.path} holds {held[0]}, so it cannot be written", "name something smaller")
    checkout = _real(machine.checkout) if machine.checkout else None
    if checkout and (checkout.is_relative_to(mask.path) or mask.path.is_relative_to(checkout)):
        raise _refusal(name, f"{mask.path} is your checkout, or holds it", "agents write to workspaces of their own")


def _secrets(patterns: Iterable[str]) -> list[Path]:
    """Return the secrets that this machine has, where they are and where they really lie."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        for path in Path("/").glob(pattern.lstrip("/")):
            found[path] = None
            found[_real(path)] = None
    return list(found)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # unlike Path.resolve, it bears links in a circle


def _refusal(name: NamedPath, what: str, hint: str) -> BadRequest:
    return BadRequest(f"{name.where}: [scope] {name.key} `{name.text}`: {what}", hint=hint)


class FittedScope(Struct, frozen=True, kw_only=True):
    """A scope applied to a real workspace."""

    effective: EffectiveScope
    resolved: ResolvedPaths = ResolvedPaths()
    ignore: str = ""

    @property
    def scope(self) -> Scope:
        return self.effective.scope

    @property
    def ceiling(self) -> Ceiling:
        """Return what is measured while it works."""
        scope = self.scope
        return Ceiling(memory_mb=scope.memory_mb, processes=scope.processes, disk_mb=scope.disk_mb)

    def outside(self, changed: Sequence[str]) -> list[Violation]:
        """Return which of the changed files it was not to write."""
        return rules.outside(changed, self.scope, self.ignore)


def of_agent(sources: Sequence[ScopeSource], agent: str, ignore: str = "") -> FittedScope:
    """Make one scope of all that speak of it; BadRequest where one of them cannot be meant."""
    return FittedScope(effective=rules.effective(sources, agent=agent, home=str(Path.home())), ignore=ignore)


async def fit(fitted: FittedScope, machine: MachinePaths) -> FittedScope:
    """Hold a scope against the files of a workspace, or of the checkout that it will be made from."""
    effective = fitted.effective
    view = ScopeView(
        named=rules.named_paths(effective),
        inside=globs.top(effective.scope, ignore=fitted.ignore),
        outside=globs.top(effective.scope, outside=True),
        secrets=rules.secret_patterns(str(Path.home())),
    )
    resolved = await asyncio.to_thread(resolve, view, machine)
    return FittedScope(effective=effective, resolved=resolved, ignore=fitted.ignore)


def explain_scope(fitted: FittedScope, level: Level) -> ScopeExplanation:
    """Return what a user reads before a run."""
    resolved = fitted.resolved
    shown = [(mask.mode, str(mask.path)) for mask in (*resolved.elsewhere, *resolved.masks)]
    notes = [*resolved.notes, f"sandbox level: {level}"]
    if level not in ("full", "strict"):
        notes.append(
            f"at level {level} neither the network nor masks in the workspace are enforced; the diff is checked"
        )
    return rules.explain(fitted.effective, shown=shown, notes=notes)
