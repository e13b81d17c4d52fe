"""What every room of the engine works with, and what rooms may ask of those above them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Protocol

from corral.config import paths
from corral.engine.settings import Settings
from corral.model import Request, Run, RunPlan
from corral.model.events import Listener
from corral.model.server import ServerRecord
from corral.store.interface import Store
from corral.store.opening import open_store
from corral.store.records import engine_place
from corral.world import process_identity

Say = Callable[[str], None]
Vet = Callable[[RunPlan], None]  #: refuses a plan by raising


class Context:
    """The home folder of an engine, who it is, its store and its settings; the store is opened when first needed."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = home or paths.home()
        self.owner = process_identity.own_name()
        self._store: Store | None = None

    @property
    def place(self) -> str:
        """Its machine and state folder: one server for each."""
        return engine_place(self.owner, self.home)

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(self.home)
        return self._store

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    @cached_property
    def settings(self) -> Settings:
        """What holds in a folder, and what is trusted."""
        return Settings(self.home)


class LocalRuns(Protocol):
    """The runs that this process drives, as the rooms below see them."""

    @property
    def stopping(self) -> str | None: ...
    def __contains__(self, run: str) -> bool: ...
    def is_orphaned(self, run: str) -> bool: ...
    def is_left(self, run: str) -> bool: ...
    def poke(self, run: str) -> None: ...
    def server(self) -> ServerRecord | None: ...
    async def detach(self, run: str) -> None: ...


class Driver(Protocol):
    """What opens, drives and ends runs: the engine as a whole."""

    async def submit(self, request: Request, say: Say) -> str: ...
    async def execute(self, run: str, listen: Listener) -> Run: ...
    async def resume(self, name: str, listen: Listener) -> Run: ...
    async def stop(self, name: str, by: str) -> Run: ...
