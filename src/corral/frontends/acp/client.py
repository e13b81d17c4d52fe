"""The client of one process: its connection, what it said it can do, and the engine it works with."""

from __future__ import annotations

from corral.agents.formats.acp.client_requests import ClientCapabilities, Opening
from corral.engine.engine import Engine
from corral.frontends.acp.connection import EditorConnection
from corral.frontends.text import one_line
from corral.frontends.user_name import current_user


class EditorClient:
    """Who we serve."""

    def __init__(self, connection: EditorConnection, ask_seconds: float) -> None:
        self.connection = connection
        self.ask_seconds = ask_seconds  #: how long it may take to answer a question of ours
        self.engine = Engine()
        self.opening: Opening | None = None  #: what it said of itself; None: nothing yet
        self.logged_out = False  #: by its own request; agents keep their logins, and other editors theirs

    @property
    def capabilities(self) -> ClientCapabilities:
        return self.opening.client_capabilities if self.opening else ClientCapabilities()

    @property
    def by(self) -> str:
        """Who asks, and the editor they ask by; kept with what they order or answer."""
        info = self.opening.client_info if self.opening else None
        return f"{current_user()} by {one_line(info.name, 60) if info else 'an editor'}"
