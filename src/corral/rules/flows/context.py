"""What every agent of a flow is told first, in the same words: providers read such a beginning once and remember it."""

from __future__ import annotations

from msgspec import structs

from corral.model.flow import Node, Task
from corral.rules.context.condense import condense

MOST_WORDS = 8000  #: characters in the prompt; what is longer lies whole in a file
FILE = "context.md"
HEAD = "# What holds for every step\n\n"


def told(nodes: list[Node], text: str, prefix: str) -> list[Node]:
    """Put the shared words of a flow before all else that its agents are told; a nested flow's come second."""
    if not text.strip():
        return nodes
    words = condense(text.strip(), MOST_WORDS)
    name = prefix.replace("/", "-") + FILE
    files = () if words == text.strip() else ((name, text.strip()),)
    words += f"\n[shortened: the whole is in ~/{name}]" if files else ""
    return [structs.replace(node, task=_with(node.task, HEAD + words, files)) if node.kind == "task" else node
            for node in nodes]  # fmt: skip


def _with(task: Task, words: str, files: tuple[tuple[str, str], ...]) -> Task:
    return structs.replace(task, briefing=(words, *task.briefing), handed=(*files, *task.handed))
