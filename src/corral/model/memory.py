"""Facts that are remembered of a repository, and how many of them an agent reads."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

FactState = Literal["proposed", "approved"]
USER = "user"  #: the source of a fact that the user wrote


class Fact(Struct, frozen=True, kw_only=True):
    """One thing worth knowing in a repository. An agent's fact is a proposal until the user approves it."""

    id: str
    text: str
    source: str  #: `user`, or the id of the run whose agent wrote it
    files: tuple[str, ...] = ()  #: patterns of the files that it is about
    state: FactState = "proposed"
    confirmed: int = 0  #: how often the user, or a proven run that used it, confirmed it
    used: int = 0  #: in how many prompts it was
    unused: int = 0  #: how many prompts since then were without it
    created: float = 0.0
    last_used: float | None = None


class MemoryRules(Struct, frozen=True, kw_only=True):
    """What of a repository's memory goes into a prompt."""

    #: whether agents read what is remembered of a repository, and may propose facts
    enabled: bool = True
    #: the most characters of remembered facts in one prompt
    most_characters: int = 2000
