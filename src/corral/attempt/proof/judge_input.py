"""What a blind judge or a second reader is given: the changes of others, without a word of whose they are."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from corral.machines.host import Host
from corral.model import AttemptRecord
from corral.model.errors import CorralError
from corral.model.flow import Node
from corral.rules.race import llm_judge, second_reader
from corral.rules.text import names


async def brief_judge(node: Node, host: Host, own: AttemptRecord, others: Sequence[AttemptRecord]) -> Node:
    """Return a judge's node with the changes it is to compare, in the order it is shown them; a reader's has one."""
    patches = [await _patch(host, name) for name in own.candidates]
    if own.lane <= second_reader.FIRST_READER_PLACE:
        read = next(each for each in others if each.attempt.id == own.candidates[0])
        prompt, files = second_reader.brief(node.task.prompt, patches[0], read.attempt.evidence, read.evidence)
    else:
        prompt, files = llm_judge.brief(node.task.prompt, patches)
    host.task = structs.replace(node.task, prompt=prompt, handed=files)
    return structs.replace(node, task=host.task)


async def _patch(host: Host, attempt: str) -> str:
    commit = await host.repository.commit_of(names.hidden_ref(attempt))
    if commit is None:
        raise CorralError(f"the work of {attempt} is not in the repository any more")
    parts: list[bytes] = []
    size = 0

    def take(part: bytes) -> None:
        nonlocal size
        if size <= llm_judge.MOST_PATCH:
            parts.append(part)
        size += len(part)

    await host.repository.patch(host.base, commit, take)
    return b"".join(parts).decode(errors="replace")
