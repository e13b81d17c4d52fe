"""Who asks the server: a token, and the cookie of the browser that showed it."""

from __future__ import annotations

from msgspec import Struct

from corral.frontends.web.problems import RefusedRequest
from corral.model.server import AccessScope, Token


class Caller(Struct, frozen=True):
    """Who asks."""

    token: Token
    cookie: str | None = None

    @property
    def by(self) -> str:
        """How it is kept with what they ordered."""
        return f"token {self.token.name}"

    def needs(self, scope: AccessScope) -> None:
        if not self.token.may(scope):
            raise RefusedRequest(
                403, "scope", f"this token may not do that: it lacks the scope `{scope}`",
                hint=f"corral token new --scope {scope}",
            )  # fmt: skip
