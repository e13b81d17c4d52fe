"""Who calls, and what they may: the user at stdio everything, a token over HTTP what its scopes say."""

from __future__ import annotations

from typing import Protocol

from corral.frontends.user_name import current_user
from corral.model import Request, RunPlan
from corral.model.server import AccessScope


class Visitor(Protocol):
    """One who calls tools. What they may not do is raised, in words."""

    @property
    def by(self) -> str:
        """How it is kept with what they order."""
        ...

    def needs(self, scope: AccessScope) -> None: ...

    def place(self, path: str) -> str:
        """Return the folder that they name, if they may work there."""
        ...

    def request(self, request: Request) -> Request:
        """Look at what is wanted, before anything of it is looked up."""
        ...

    def plan(self, plan: RunPlan) -> None:
        """Look at what came of it, before anything is started."""
        ...

    def branch(self, name: str) -> str: ...


class LocalUser:
    """The user whose machine it is."""

    @property
    def by(self) -> str:
        return current_user()

    def needs(self, scope: AccessScope) -> None:
        """Allow it."""

    def place(self, path: str) -> str:
        return path

    def request(self, request: Request) -> Request:
        return request

    def plan(self, plan: RunPlan) -> None:
        """Allow it."""

    def branch(self, name: str) -> str:
        return name
