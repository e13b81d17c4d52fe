"""The scope of one attempt: from all who speak of it to what its box shows, hides, limits and lets through."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from corral.model import Level, Scope, ScopeSource, Violation
from corral.rules.scope import globs
from corral.rules.scope import scope as rules
from corral.rules.scope.scope import EffectiveScope, ScopeExplanation
from corral.world.sandbox import scope_paths as world
from corral.world.sandbox.scope_paths import MachinePaths, ResolvedPaths, ScopeView
from corral.world.sandbox.watchdog import Ceiling


class FittedScope(Struct, frozen=True, kw_only=True):
    """A scope held against a real workspace."""

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
    resolved = await asyncio.to_thread(world.resolve, view, machine)
    return FittedScope(effective=effective, resolved=resolved, ignore=fitted.ignore)


def explain_scope(fitted: FittedScope, level: Level) -> ScopeExplanation:
    """Return what a person reads before a run."""
    resolved = fitted.resolved
    shown = [(mask.mode, str(mask.path)) for mask in (*resolved.elsewhere, *resolved.masks)]
    notes = [*resolved.notes, f"sandbox level: {level}"]
    if level not in ("full", "strict"):
        notes.append(
            f"at level {level} neither the network nor masks in the workspace are enforced; the diff is checked"
        )
    return rules.explain(fitted.effective, shown=shown, notes=notes)
