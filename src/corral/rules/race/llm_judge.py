"""A blind judge: an agent that compares changes without knowing whose they are, asked twice in opposite orders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from corral.model import Attempt, AttemptRecord
from corral.model.flow import AgentChoice, Node, Task

JUDGE_PLACES = (-1, -2)  #: where the judge's two attempts are: beside the race, not in it
MOST_INLINE = 60_000  #: characters of all changes in the prompt; longer ones are given as files
MOST_PATCH = 400_000  #: of one change
LETTERS = "ABCDEFGHIJKLMNOP"
Brief = tuple[str, tuple[tuple[str, str], ...]]  #: a prompt, and files for the HOME of its reader

ASKED = """You compare {count} changes that were made for the same task. You do not know who made them; each passes
all checks. Judge only what the changes do: is it right, whole, simple, in the manner of the code around it, and free of
what nobody asked for? Change nothing yourself.

The task was:
{task}

{shown}

End with one line of JSON that names all of them, the best first, for example: {example}"""


def judge_node(node: Node, judge: AgentChoice) -> Node:
    """Return the node that the judge works on."""
    task = Task(
        prompt=node.task.prompt,
        read_only=True,
        timeout_seconds=node.task.timeout_seconds,
        idle_seconds=node.task.idle_seconds,
        budget_usd=node.task.budget_usd,
        role="judge",
    )
    return Node(id=node.id, task=task, agent=judge)


def judge_of(node: Node) -> AgentChoice | None:
    """Return who compares the attempts of a node; the second reader does where nobody else is named."""
    return node.judge or node.reader


def judging_order(survivors: Sequence[Attempt], lane: int) -> tuple[str, ...]:
    """Return the attempts in the order in which the judge sees them: the second time the other way round."""
    names = sorted((each.id for each in survivors), key=lambda name: (len(name), name))
    return tuple(names if lane == JUDGE_PLACES[0] else reversed(names))


def brief(task: str, patches: Sequence[str]) -> Brief:
    """Return the judge's prompt, and files for its HOME where the changes are too long for that."""
    example = msgspec.json.encode({"order": list(reversed(LETTERS[: len(patches)]))}).decode()
    words, files = format_patches(patches)
    return ASKED.format(count=len(patches), task=task, shown=words, example=example), files


def format_patches(patches: Sequence[str]) -> Brief:
    """Return changes as a prompt shows them, and files where they are too long for that."""
    labels = LETTERS[: len(patches)]
    cut = [patch if len(patch) <= MOST_PATCH else patch[:MOST_PATCH] + "\n[the rest is cut]\n" for patch in patches]
    files: tuple[tuple[str, str], ...] = ()
    if sum(map(len, cut)) <= MOST_INLINE:
        words = "\n\n".join(
            f"## Change {label}\n\n```diff\n{patch}```" for label, patch in zip(labels, cut, strict=True)
        )
    else:
        files = tuple((f"changes/{label}.patch", patch) for label, patch in zip(labels, cut, strict=True))
        words = "The changes are in these files: " + ", ".join(f"~/{name}" for name, _ in files)
    return words, files


def votes(survivors: Sequence[Attempt], judged: Sequence[AttemptRecord]) -> dict[str, float]:
    """Count what the judge said; nothing, unless it said something both times: one order alone is half luck.

    Of three, the best gets 2 points, the next 1, the last none; both times are added up.
    """
    points = {each.id: 0.0 for each in survivors}
    heard = 0
    for record in judged:
        if record.lane not in JUDGE_PLACES:
            continue
        names = record.candidates
        order = read(record.attempt.output, len(names)) if record.attempt.status == "done" else ()
        if not order or {*names} != {*points}:
            continue
        heard += 1
        for place, label in enumerate(order):
            points[names[LETTERS.index(label)]] += len(names) - 1 - place
    return points if heard == len(JUDGE_PLACES) else {}


def read(output: Any, count: int) -> tuple[str, ...]:  # noqa: ANN401 -- the output of an agent may be anything
    """Find the order in what a judge said: its last JSON that holds one."""
    said: Any = _last_json(output) if isinstance(output, str) else output
    if not isinstance(said, dict):
        return ()
    order = cast("dict[str, Any]", said).get("order")
    labels = LETTERS[:count]
    named = [each for each in cast("list[Any]", order) if each in labels] if isinstance(order, list) else []
    return tuple(cast("list[str]", named)) if sorted(named) == list(labels) else ()


def _last_json(text: str) -> Any:  # noqa: ANN401
    for match in reversed(list(re.finditer(r"\{[^{}]*\}", text))):
        try:
            return msgspec.json.decode(match.group())
        except msgspec.MsgspecError:
            continue
    return None
