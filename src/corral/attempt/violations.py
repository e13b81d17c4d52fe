"""What an attempt tried and was not to do: hosts it asked for, files it wrote elsewhere; and secrets, never shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from corral.attempt.events import AttemptEvents
from corral.config.paths import user_file
from corral.machines.host import Host
from corral.machines.resolved_agent import ResolvedAgent
from corral.model import Violation
from corral.model.agent_api import ClientServer
from corral.model.events import CalledTool, Event, Noted, Reached
from corral.rules.scope import scope
from corral.rules.scope.refusals import NetRefusal, PathOwners, foreign_paths
from corral.rules.text.redact import Redactor, likely_secrets, passed_secrets
from corral.world.sandbox.confine import has_own_processes
from corral.world.workspace import outside_changes
from corral.world.workspace.outside_changes import OutsideState, ProtectedFiles

MOST_VIOLATIONS = 100  #: reported of one attempt


class AttemptGuard:
    """Watches over one attempt."""

    def __init__(self, attempt_events: AttemptEvents, host: Host) -> None:
        self._events, self._host = attempt_events, host
        attempt_events.redactor = host.redactor
        self._before: OutsideState | None = None
        self.refusals: list[NetRefusal] = []  #: by our proxies
        self._needless: tuple[str, ...] = ()  # hosts that its agent asks for and works without
        self.reached_any = False  #: any host at all
        self.patch: str | None = None  #: where a foreign change of the checkout is kept

    def keep_secrets(self, resolved: ResolvedAgent, names: Sequence[str], token: str) -> Redactor:
        """From here on nothing that is stored or shown holds a value that was given in confidence."""
        self._needless = resolved.agent.facts.needless_hosts
        of_agent = {*resolved.agent.facts.keys, *resolved.profile.env}
        given = {name: value for name, value in resolved.env.items() if name in of_agent} | likely_secrets(resolved.env)
        given |= passed_secrets({name: os.environ[name] for name in names if name in os.environ})
        for name, server in resolved.mcp.items():
            secret = likely_secrets(server.settings)
            secret |= server.headers if isinstance(server, ClientServer) else {}
            given |= {f"{name}.{key}": value for key, value in secret.items()}
        self._events.redactor = Redactor({**likely_secrets(os.environ), **given, "toolbox": token})
        return self._events.redactor

    def on_host(self, host: str, port: int, allowed: bool, reason: str) -> None:  # noqa: FBT001
        """Take down that it asked for a host."""
        needless = not allowed and host in self._needless
        if not needless:
            self._events.emit(Reached(host, port, allowed, reason))
        if allowed:
            self.reached_any = True
            return
        self.refusals.append(NetRefusal(host, reason, needless))
        if needless:
            self._note_needless()
            return
        self.violate([Violation("net", host if "/" in host else f"{host}:{port}")])

    def _note_needless(self) -> None:
        """Say once that hosts are refused which the agent asks for by itself: no violations of the task's."""
        if sum(each.needless for each in self.refusals) == 1:
            names = ", ".join(self._needless)
            self._events.emit(Noted(f"refused without more words, since its agent works without them: {names}"))

    def on_event(self, event: Event, own: Sequence[str]) -> None:
        """Take down what it asks its tools for that is not its own; `own` is its workspace and its home."""
        if isinstance(event, CalledTool):
            host, home = self._host, str(Path.home())
            grounds = PathOwners(
                own=tuple(own),
                others=(str(host.repository.folder), str(host.state)),
                secrets=scope.secret_patterns(home),
                homes=(home,),
            )
            self.violate(foreign_paths(event.input, grounds))

    def violate(self, found: Sequence[Violation]) -> None:
        attempt = self._events.attempt
        known = dict.fromkeys((*attempt.sandbox.violations, *found))
        attempt.sandbox = structs.replace(attempt.sandbox, violations=tuple(known)[:MOST_VIOLATIONS])

    async def look(self) -> None:
        """Take down what no attempt may touch."""
        self._before = await self._snapshot()

    async def compare(self) -> None:
        """Look again: save a foreign write as a patch, report it, and fail the attempt."""
        if self._before is None:
            return
        found = outside_changes.differences(self._before, await self._snapshot())
        classified = outside_changes.classify_differences(found, boxed=has_own_processes(self._host.level))
        for note in classified.notes:
            self._events.emit(Noted(note))
        if classified.violations:
            patch = await outside_changes.save(self._host.repository, self._before, classified.violations)
            if patch:
                self.patch = str(self._host.keep("foreign.patch", patch))
            self.violate(classified.violations)

    async def _snapshot(self) -> OutsideState:
        host = self._host
        bare = host.level == "none"
        around = ProtectedFiles(
            repository=host.repository,
            state=host.state,
            siblings=host.siblings() if bare else (),
            watched=(user_file(),),
        )
        return await outside_changes.look(around, thorough=bare)
