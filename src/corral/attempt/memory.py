"""What an attempt is told of earlier runs in its repository, and what its agent proposes for later ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from corral.attempt.events import AttemptEvents
from corral.attempt.repositories import common_dir
from corral.model import Grade, RunPlan
from corral.model.errors import BadRequest
from corral.model.events import Noted
from corral.model.flow import Node
from corral.model.memory import Fact
from corral.rules.context import memory
from corral.rules.context.tools import Remember

MOST_PROPOSED = 20  #: by one attempt
MOST_FOUND = 20  #: by one search
PROVEN = ("proven", "held-out")


class AttemptMemory:
    """The memory of a repository as one attempt reads and adds to it."""

    def __init__(self, attempt_events: AttemptEvents, plan: RunPlan) -> None:
        self._events, self._rules = attempt_events, plan.memory
        self._store = attempt_events.store.memory
        self._repo = str(common_dir(Path(plan.git_dir)))
        self._proposed = 0

    def section(self, node: Node) -> str:
        """Return what the prompt says of what is remembered; a judge compares work and is told nothing."""
        record = self._events.record
        if not self._rules.enabled or node.kind == "run" or record.candidates:
            return ""
        best = self._store.best(self._repo, memory.MOST_TOLD)
        if not best:
            return ""
        words = memory.search_words("\n".join((node.task.prompt, *node.task.files)))
        matching = self._store.search(self._repo, words, memory.MOST_TOLD)
        chosen = memory.choose(matching, best, self._rules.most_characters)
        record.facts = tuple(fact.id for fact in chosen)
        self._store.use(self._repo, record.facts, time.time())
        if chosen:
            self._events.emit(Noted(f"its prompt has what is remembered of this repository: {', '.join(record.facts)}"))
        return memory.section(chosen)

    def remember(self, asked: Remember) -> dict[str, Any]:
        """Store what its agent proposes; nobody reads it before the user approves it."""
        self._require_enabled()
        self._proposed += 1
        if self._proposed > MOST_PROPOSED:
            raise BadRequest(f"{MOST_PROPOSED} facts are the most that one attempt may propose")
        if self._store.count(self._repo) >= memory.MOST_FACTS:
            raise BadRequest(f"{memory.MOST_FACTS} facts are remembered already: the user has to remove some")
        record = self._events.record
        text = memory.clean_text(self._events.redactor.text(asked.text))
        fact = Fact(id="", text=text, source=record.run, files=memory.check_files(asked.files), created=time.time())
        stored = self._store.add(self._repo, fact)
        self._events.emit(Noted(f"its agent proposes to remember ({stored.id}): {text}"))
        return {"id": stored.id, "state": stored.state}

    def search(self, words: str) -> dict[str, Any]:
        """Return the approved facts that match, best first."""
        self._require_enabled()
        found = self._store.search(self._repo, memory.search_words(words), MOST_FOUND)
        return {"facts": [{"id": fact.id, "text": fact.text, "files": fact.files} for fact in found]}

    def _require_enabled(self) -> None:
        if not self._rules.enabled:
            raise BadRequest("memory is off in this repository ([memory] enabled)")


def confirm(attempt_events: AttemptEvents, grade: Grade) -> None:
    """Count the facts that an attempt was told if its work is proven."""
    if grade in PROVEN and attempt_events.record.facts:
        attempt_events.store.memory.confirm(attempt_events.record.facts)
