"""What a node goes on from: the attempts before it, through nodes that made nothing of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from corral.model import AttemptRecord
from corral.model.flow import Node

Result = Callable[[str], AttemptRecord | None]


def before(node: str, nodes: Mapping[str, Node], members: Mapping[str, Sequence[str]], result: Result) -> list[str]:
    """Return the nodes with a result that come right before this one, in the order in which they are needed.

    A gate, a merge, a join or a node that was skipped has none: what comes before it counts instead.
    """
    found: dict[str, None] = {}
    seen = {node}
    steps = [edge.node for edge in reversed(nodes[node].needs)]
    while steps:
        name = steps.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in members:
            steps += reversed(members[name])
        elif result(name):
            found[name] = None
        elif name in nodes:
            steps += [edge.node for edge in reversed(nodes[name].needs)]
    return list(found)


def heads(records: Sequence[AttemptRecord], base: str | None) -> tuple[str, ...]:
    """Return the commits to start from, each once; where work was done, where all began tells nothing."""
    commits = dict.fromkeys(record.attempt.commit or record.base for record in records)
    found = tuple(commit for commit in commits if commit)
    return tuple(commit for commit in found if commit != base) or found[:1]
