"""Conversations in editors: opened, listed, continued, forgotten."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from msgspec import structs

from corral.engine import client_servers
from corral.model.agent_api import ClientServer
from corral.model.chat import ChatRecord
from corral.model.errors import BadRequest, NotFound
from corral.store.interface import Store

PAGE = 50  #: conversations in one answer
MOST_TITLE = 80


class Chats:
    """The conversations of one store; several processes may continue the same one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def open(self, folder: str, options: Mapping[str, str]) -> ChatRecord:
        """Begin a conversation about a folder."""
        now = time.time()
        record = ChatRecord(id=os.urandom(12).hex(), folder=folder, created=now, updated=now, options=options)
        self._store.chats.put(record)
        return record

    def find(self, name: str) -> ChatRecord:
        found = self._store.chats.find(name)
        if found is None:
            raise NotFound(f"there is no session `{name[:100]}`", hint="session/list names those that there are")
        return found

    def page(self, folder: str | None, cursor: str | None) -> tuple[list[ChatRecord], str | None]:
        """Return conversations that have a prompt, newest first, and where the next page begins."""
        found = self._store.chats.page(folder, _position(cursor), PAGE + 1)
        last = found[PAGE - 1] if len(found) > PAGE else None
        return found[:PAGE], f"{last.updated!r}/{last.id}" if last else None

    def set_option(self, name: str, option: str, value: str) -> ChatRecord:
        return self._change(name, lambda found: structs.replace(found, options={**found.options, option: value}))

    def add_run(self, name: str, run: str, title: str) -> ChatRecord:
        """Add what was asked for to a conversation; the first gives it its title."""
        named = " ".join(title.split())[:MOST_TITLE]
        return self._change(
            name,
            lambda found: structs.replace(
                found, runs=(*found.runs, run), title=found.title or named, updated=time.time()
            ),
        )

    def lend(self, run: str, servers: Mapping[str, ClientServer]) -> list[str]:
        """Hand MCP servers of an editor to the agents of a run; return what is wrong with those that are left out."""
        usable, notes = client_servers.sort_out(servers)
        if usable:
            client_servers.keep(self._store.folder, run, usable)
        return notes

    def reject(self, name: str, run: str) -> ChatRecord:
        """Remember that the user rejected the work of a run."""
        return self._change(name, lambda found: structs.replace(found, rejected=(*found.rejected, run)))

    def drop(self, name: str) -> None:
        """Forget a conversation; its runs stay."""
        if not self._store.chats.drop(name):
            self.find(name)

    def _change(self, name: str, change: Callable[[ChatRecord], ChatRecord]) -> ChatRecord:
        with self._store.transaction():
            record = change(self.find(name))
            self._store.chats.put(record)
        return record


def _position(cursor: str | None) -> tuple[float, str]:
    if not cursor:
        return float("inf"), ""
    moment, slash, name = cursor.partition("/")
    try:
        if slash:
            return float(moment), name
    except ValueError:
        pass  # reported below, as any other cursor that cannot be read
    raise BadRequest("this cursor is none of ours", hint="leave it out to begin at the newest")
