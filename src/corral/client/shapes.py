"""What the server answers with besides the run document."""

from __future__ import annotations

from msgspec import Struct


class Summary(Struct, frozen=True, kw_only=True):
    """A run as a listing shows it."""

    run: str
    status: str
    reason: str | None
    strategy: str
    task: str
    repo: str
    agents: tuple[str, ...]
    started: str
    seconds: float | None
    cost: dict[str, float | None]
    orphaned: bool = False


class Page(Struct, frozen=True, kw_only=True):
    runs: list[Summary]
    next: str | None = None


class Change(Struct, frozen=True, kw_only=True):
    """What an attempt changed."""

    attempt: str
    commit: str | None
    files_changed: tuple[str, ...]
    insertions: int
    deletions: int
    patch: str
    cut: bool = False


class Entry(Struct, frozen=True, kw_only=True):
    """What waits for a person, or waited."""

    id: str
    run: str
    kind: str
    about: str
    text: str
    context: str
    choices: tuple[str, ...]
    default: str
    deadline: str
    created: str
    node: str | None = None
    attempt: str | None = None
    answered_at: str | None = None
    answer: str | None = None
    answered_by: str | None = None
    outcome: str = ""
