"""What is remembered of a repository, for its user: list, search, add, edit, approve, remove."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from corral.attempt.repositories import common_dir
from corral.config.paths import is_folder
from corral.engine.context import Context
from corral.model.errors import BadRequest, NotFound
from corral.model.memory import USER, Fact, FactState
from corral.rules.context import memory
from corral.world.git import discovery
from corral.world.git.repository import Repository

MOST_FOUND = 50


class FactView(Struct, frozen=True, kw_only=True):
    """A fact as `corral memory` shows it."""

    id: str
    text: str
    source: str
    files: tuple[str, ...]
    state: FactState
    confirmed: int
    used: int
    created: float
    last_used: float | None
    stale: str  #: why it should be removed; empty: nothing speaks against it


class Memory:
    """The facts of the repository that a folder is in."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def facts(self, folder: Path) -> list[FactView]:
        """Return all facts, oldest first."""
        key, repository = await self._repository(folder)
        return await self._views(self._context.store.memory.facts(key), repository)

    async def search(self, folder: Path, words: str) -> list[FactView]:
        """Return the facts that hold some of the words, best match first; proposals too."""
        key, repository = await self._repository(folder)
        found = self._context.store.memory.search(key, memory.search_words(words), MOST_FOUND, every=True)
        return await self._views(found, repository)

    async def fact(self, folder: Path, name: str) -> FactView:
        key, repository = await self._repository(folder)
        return (await self._views([self._find(key, name)], repository))[0]

    async def add(self, folder: Path, text: str, files: Sequence[str] = ()) -> FactView:
        """Remember what the user says; a proposal of the same words is approved by it."""
        key, repository = await self._repository(folder)
        facts = self._context.store.memory
        wanted = Fact(
            id="",
            text=memory.clean_text(text),
            source=USER,
            files=memory.check_files(files),
            state="approved",
            confirmed=1,
            created=time.time(),
        )
        if facts.count(key) >= memory.MOST_FACTS:
            raise BadRequest(f"{memory.MOST_FACTS} facts are remembered already", hint="remove some: corral memory rm")
        stored = facts.add(key, wanted)
        if stored.state == "proposed":
            facts.approve(key, stored.id)
        return (await self._views([self._find(key, stored.id)], repository))[0]

    async def propose(self, folder: Path, text: str, files: Sequence[str] = ()) -> Fact:
        """Store a fact that a program found out; no agent reads it until the user approves it."""
        key, _ = await self._repository(folder)
        wanted = Fact(
            id="", text=memory.clean_text(text), source="program", files=memory.check_files(files), created=time.time()
        )
        if self._context.store.memory.count(key) >= memory.MOST_FACTS:
            raise BadRequest(f"{memory.MOST_FACTS} facts are remembered already", hint="remove some: corral memory rm")
        return self._context.store.memory.add(key, wanted)

    async def key(self, folder: Path) -> str:
        """Return by what the repository of a folder is known."""
        return (await self._repository(folder))[0]

    async def edit(self, folder: Path, name: str, text: str | None, files: Sequence[str] | None) -> FactView:
        """Change the words or the files of a fact."""
        key, repository = await self._repository(folder)
        fact = self._find(key, name)
        changed = structs.replace(
            fact,
            text=fact.text if text is None else memory.clean_text(text),
            files=fact.files if files is None else memory.check_files(files),
        )
        if any(each.text == changed.text and each.id != fact.id for each in self._context.store.memory.facts(key)):
            raise BadRequest("another fact says the same", hint=f"remove this one: corral memory rm {fact.id}")
        self._context.store.memory.edit(key, changed)
        return (await self._views([self._find(key, fact.id)], repository))[0]

    async def approve(self, folder: Path, names: Sequence[str]) -> list[FactView]:
        """Let agents read what was proposed."""
        key, repository = await self._repository(folder)
        found = [self._find(key, name) for name in names]
        for fact in found:
            self._context.store.memory.approve(key, fact.id)
        return await self._views([self._find(key, fact.id) for fact in found], repository)

    async def remove(self, folder: Path, names: Sequence[str]) -> list[Fact]:
        """Forget facts: all that are named, or none if one of them is unknown."""
        key, _ = await self._repository(folder)
        found = [self._find(key, name) for name in names]
        for fact in found:
            self._context.store.memory.drop(key, fact.id)
        return found

    async def remove_stale(self, folder: Path) -> list[FactView]:
        """Forget every fact that something speaks against."""
        key, repository = await self._repository(folder)
        stale = [each for each in await self._views(self._context.store.memory.facts(key), repository) if each.stale]
        for fact in stale:
            self._context.store.memory.drop(key, fact.id)
        return stale

    def _find(self, key: str, name: str) -> Fact:
        if (found := self._context.store.memory.fact(key, name)) is None:
            raise NotFound(f"no fact is called `{name[:80]}` in this repository", hint="see `corral memory ls`")
        return found

    async def _repository(self, folder: Path) -> tuple[str, Repository | None]:
        """Return by what the repository of a folder is known, and the repository; None: a plain folder."""
        if not is_folder(folder):
            raise BadRequest(f"--repo {folder}: there is no such folder", hint="a repository, or a folder in one")
        folder = folder.resolve()
        found = await discovery.discover(folder)
        if found is None:
            return str(discovery.hidden_git_dir(folder, self._context.home)), None
        return str(common_dir(found.repository.git_dir)), found.repository

    async def _views(self, facts: Sequence[Fact], repository: Repository | None) -> list[FactView]:
        views: list[FactView] = []
        contradicted = memory.contradictions(facts)
        for fact in facts:
            files = await _files(repository, fact.files) if repository and fact.files else None
            known = {name: getattr(fact, name) for name in FactView.__struct_fields__ if name != "stale"}
            views.append(FactView(**known, stale=memory.why_stale(fact, files, contradicted.get(fact.id, ""))))
        return views


async def _files(repository: Repository, patterns: Sequence[str]) -> list[str] | None:
    """Return one file of the last commit that the patterns name; None where that cannot be known."""
    specs = [f":(top,glob){pattern}" for pattern in patterns]
    listed = await repository.git("ls-files", "-z", "--", *specs, fine=(0, 128))
    return None if listed.code else listed.out.decode(errors="replace").split("\0")[:-1][:1]
