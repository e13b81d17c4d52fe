"""A conversation in an editor: one folder, one run after another."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct, field


class ChatRecord(Struct, frozen=True, kw_only=True):
    """A conversation as it is stored; each prompt of it is a run."""

    id: str
    folder: str
    created: float
    updated: float
    title: str = ""  #: the first line of the first prompt
    options: Mapping[str, str] = field(default_factory=dict[str, str])  #: what the user chose, by the id of the option
    runs: tuple[str, ...] = ()  #: oldest first
    rejected: tuple[str, ...] = ()  #: runs whose work the user rejected: the next one does not start from it

    @property
    def updated_at(self) -> str:
        return datetime.fromtimestamp(self.updated, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
