"""What expressions and texts of a node may name: results of nodes beside it, and inputs of its flow."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from corral.model.flow import Flow, Node, Task
from corral.rules.context.condense import condense
from corral.rules.flows import fill_text

MOST_OUTPUT = 1 << 20


class FlowResults:
    """Results of nodes that have ended, where each flow file finds them by its own names."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._by_folder: dict[str, dict[str, Any]] = {}
        self._inputs: dict[str, dict[str, Any]] = {}
        for name, value in flow.inputs.items():
            folder, _, last = name.rpartition("/")
            self._inputs.setdefault(folder, {})[last] = value

    def add(self, node: str, result: Mapping[str, Any]) -> None:
        folder, _, last = node.rpartition("/")
        self._by_folder.setdefault(folder, {})[last] = result

    def seen_from(self, node: str, more: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Return everything that a node's texts may name; nothing is copied, for many nodes may be over."""
        folder = node.rpartition("/")[0]
        beside = self._by_folder.setdefault(folder, {})
        return ChainMap(dict(more or {}), {"nodes": beside}, beside, self._values(folder))

    def _values(self, folder: str) -> dict[str, Any]:
        """Return the inputs of a flow; those of a nested one may be made of names of the flow around it."""
        values = self._inputs.get(folder, {})
        if not folder or not any(isinstance(value, str) and "{{" in value for value in values.values()):
            return values
        outer = self.seen_from(folder)
        return {
            name: fill_text.value(value, outer) if isinstance(value, str) else value for name, value in values.items()
        }


MOST_WORDS = 8000  #: characters in the prompt; what is longer lies whole in a file
FILE = "context.md"
HEAD = "# What applies to every step\n\n"


def add_shared_words(nodes: list[Node], text: str, prefix: str) -> list[Node]:
    """Put the shared text of a flow before everything else in its agents' prompts; a nested flow's comes second."""
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
