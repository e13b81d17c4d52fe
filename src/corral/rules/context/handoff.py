"""What the next agent is told of the work it goes on from: what was done, said, decided and left open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from corral.model import Attempt
from corral.rules.context.condense import condense

MOST_WORDS = 6000  #: of one node's output in the prompt; the whole lies beside it as a file
MOST_FILES = 50


class NodeHandoff(Struct, frozen=True):
    """What one node hands on."""

    node: str
    attempt: Attempt


class Handoff(Struct, frozen=True):
    """Words for the prompt, and files for the agent's HOME that hold what is too long for it."""

    words: str = ""
    files: tuple[tuple[str, str], ...] = ()


def build(handed: Sequence[NodeHandoff]) -> Handoff:
    """Tell the next agent about the nodes it needs, in their order."""
    if not handed:
        return Handoff()
    parts = ["This is one step of several. Your workspace starts from the work of the steps before it:"]
    files: list[tuple[str, str]] = []
    for each in handed:
        whole = _text(each.attempt.output)
        words = condense(whole, MOST_WORDS, each.attempt.files_changed)
        if words != whole:
            name = f"handoff/{each.node.replace('/', '-')}.md"
            files.append((name, whole))
            words += f"\n[shortened: the whole is in ~/{name}]"
        parts.append(_section(each, words))
    return Handoff("\n\n".join(parts), tuple(files))


def _section(handed: NodeHandoff, words: str) -> str:
    attempt = handed.attempt
    who = f"{attempt.agent}{f', {attempt.role}' if attempt.role else ''}"
    lines = [f"## {handed.node} ({who}, {attempt.status})"]
    if attempt.files_changed:
        names = ", ".join(attempt.files_changed[:MOST_FILES])
        more = len(attempt.files_changed) - MOST_FILES
        names += f" and {more} more" if more > 0 else ""
        lines.append(f"It changed: {names} (+{attempt.insertions} -{attempt.deletions})")
    failed = [check for check in attempt.checks if not check.passed]
    lines += [f"The check `{check.command}` failed:\n{condense(check.output, 2000)}" for check in failed]
    if attempt.error:
        lines.append(f"It ended so: {attempt.error.message}")
    if words:
        lines.append(f"It said:\n{words}")
    return "\n".join(lines)


def _text(output: Any) -> str:  # noqa: ANN401 -- the output of an agent may be anything
    if output is None:
        return ""
    return (
        output.strip()
        if isinstance(output, str)
        else msgspec.json.format(msgspec.json.encode(output), indent=1).decode()
    )
