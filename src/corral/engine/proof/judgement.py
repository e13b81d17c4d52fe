"""What a blind judge is given: the changes of others, without a word of whose they are."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from corral.engine.host import Host
from corral.errors import CorralError
from corral.flow import Node
from corral.rules import judging, naming


async def briefed(node: Node, host: Host, candidates: Sequence[str]) -> Node:
    """Return a judge's node with the changes it is to compare, in the order it is shown them."""
    patches = [await _patch(host, name) for name in candidates]
    prompt, files = judging.brief(node.task.prompt, patches)
    host.task = structs.replace(node.task, prompt=prompt, handed=files)
    return structs.replace(node, task=host.task)


async def _patch(host: Host, attempt: str) -> str:
    commit = await host.repository.commit_of(naming.hidden_ref(attempt))
    if commit is None:
        raise CorralError(f"the work of {attempt} is not in the repository any more")
    parts: list[bytes] = []
    size = 0

    def take(part: bytes) -> None:
        nonlocal size
        if size <= judging.MOST_PATCH:
            parts.append(part)
        size += len(part)

    await host.repository.patch(host.base, commit, take)
    return b"".join(parts).decode(errors="replace")
