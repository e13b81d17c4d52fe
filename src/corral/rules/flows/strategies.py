"""Strategies, each a function that builds a flow; and how complex a task is, by its kind, words and files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field, structs

from corral.model import ComplexityTable
from corral.model.flow import AgentChoice, Edge, Flow, Gate, Grade, Node, Task, TaskType

REVIEWED = ("architecture", "refactor")  #: kinds of task whose result a reviewer looks at, asked or not
VERDICT = {
    "type": "object",
    "properties": {"verdict": {"enum": ["accept", "reject"]}, "notes": {"type": "string"}},
    "required": ["verdict", "notes"],
}
GRADES: tuple[tuple[int, Grade], ...] = ((50, "architectural"), (35, "complex"), (20, "moderate"), (10, "simple"))


def single(task: Task, agent: AgentChoice, fallback: tuple[AgentChoice, ...] = ()) -> Flow:
    """One agent, one node."""
    return Flow(name="task", strategy="single", nodes=(Node(id="main", task=task, agent=agent, fallback=fallback),))


def race(task: Task, agents: Sequence[AgentChoice], fallback: tuple[AgentChoice, ...] = ()) -> Flow:
    """Several agents do the same, each by itself; the best proven result wins."""
    first, *rivals = agents
    node = Node(id="main", task=task, agent=first, rivals=tuple(rivals), fallback=fallback)
    return Flow(name="task", strategy="race", nodes=(node,))


def multi(task: Task, agent: AgentChoice, fallback: tuple[AgentChoice, ...] = (), *, review: bool = False) -> Flow:
    """An architect, then a developer who starts from the architect's work, then a reviewer where it matters.

    A reviewer that rejects sends it back to the developer, at most twice.
    """
    plan = (
        "Plan this task; do not carry it out yet. Look at the repository first. Write down what is to be changed "
        f"where, which decisions you took and why, and what is still open.\n\nThe task:\n{task.prompt}"
    )
    design = structs.replace(task, prompt=plan, role="architect", checks=(), read_only=True)
    develop = structs.replace(task, role=task.role or "developer")
    nodes = [
        Node(id="design", task=design, agent=agent, fallback=fallback),
        Node(id="develop", task=develop, agent=agent, fallback=fallback, needs=(Edge("design"),)),
    ]
    if review or task.type in REVIEWED:
        look = "Review the change that was made for this task. Accept it, or say what must be fixed."
        judged = structs.replace(
            task, prompt=f"{look}\n\nThe task:\n{task.prompt}", role="reviewer", checks=(), read_only=True
        )
        fix = structs.replace(develop, prompt="Fix what the reviewer asks for.\n\nThe task was:\n" + task.prompt)
        nodes += [
            Node(id="review", task=judged, agent=agent, fallback=fallback, needs=(Edge("develop"),), output=VERDICT),
            Node(
                id="fix",
                task=fix,
                agent=agent,
                fallback=fallback,
                needs=(Edge("review"),),
                when='review.output.verdict == "reject"',
            ),
        ]
    return Flow(name="task", strategy="multi", nodes=tuple(nodes))


def parallel(tasks: Sequence[Task], agent: AgentChoice, fallback: tuple[AgentChoice, ...] = ()) -> Flow:
    """Several tasks side by side, each from the same base."""
    nodes = tuple(
        Node(id=f"task-{place}", task=task, agent=agent, fallback=fallback) for place, task in enumerate(tasks, 1)
    )
    return Flow(name="tasks", strategy="parallel", nodes=nodes)


def auto(
    tasks: Sequence[Task],
    agents: Sequence[AgentChoice],
    fallback: tuple[AgentChoice, ...] = (),
    weights: Weights | None = None,
) -> Flow:
    """Choose by what was asked for, always the same for the same request, and say why."""
    if len(tasks) > 1:
        return _because(parallel(tasks, agents[0], fallback), f"{len(tasks)} tasks: side by side")
    if len(agents) > 1:
        return _because(race(tasks[0], agents, fallback), f"{len(agents)} agents for one task: a race")
    graded = score(tasks[0], weights)
    words = f"{graded.grade}, {graded.points} points ({', '.join(graded.reasons)})"
    if graded.grade in ("complex", "architectural"):
        task = structs.replace(tasks[0], role=tasks[0].role or "senior")
        return _because(multi(task, agents[0], fallback), f"{words}: an architect first, then a senior")
    return _because(single(tasks[0], agents[0], fallback), f"{words}: one agent does it")


def with_approval(flow: Flow, deadline_seconds: float, why: str) -> Flow:
    """Let nothing of a flow begin before a user has said yes."""
    taken = {node.id for node in flow.nodes}
    name = next(name for name in ("approve", *(f"approve-{number}" for number in range(2, 99))) if name not in taken)
    gate = Node(id=name, kind="gate", task=Task(prompt=why), gate=Gate(deadline_seconds=deadline_seconds))
    # What needs a node only to be over, however it ended, would begin after one that is skipped.
    held = {node.id for node in flow.nodes if not node.needs or any(edge.on == "always" for edge in node.needs)}
    nodes = [structs.replace(node, needs=(Edge(name), *node.needs)) if node.id in held else node for node in flow.nodes]
    return structs.replace(flow, nodes=(*nodes, gate))


def _because(flow: Flow, why: str) -> Flow:
    return structs.replace(flow, why=why)


def _type_points() -> dict[TaskType, int]:
    return {"architecture": 40, "feature": 25, "refactor": 20, "bugfix": 15, "test": 10, "documentation": 5}


def _word_points() -> dict[str, int]:
    return {
        "architecture": 15, "design": 15, "migrate": 12, "refactor": 10, "integrate": 10, "implement": 8, "add": 5,
        "create": 5, "fix": 3, "update": 3,
    }  # fmt: skip


class Weights(Struct, frozen=True, kw_only=True):
    """What counts how much; `[complexity]` in settings may change it."""

    types: Mapping[TaskType, int] = field(default_factory=_type_points)
    other_type: int = 15
    words: Mapping[str, int] = field(default_factory=_word_points)


def weights_of(said: ComplexityTable) -> Weights:
    """Return the usual weights with what settings say instead."""
    usual = Weights()
    return Weights(
        types={**usual.types, **said.types},
        words={**usual.words, **said.words},
        other_type=usual.other_type if said.other_type is None else said.other_type,
    )


class Score(Struct, frozen=True):
    points: int
    grade: Grade
    reasons: tuple[str, ...]


def score(task: Task, weights: Weights | None = None) -> Score:
    """Grade a task; whole words count, each once ("address" is not "add")."""
    weights = weights or Weights()
    kind = weights.types.get(task.type, weights.other_type) if task.type else weights.other_type
    reasons = [f"{task.type or 'no type'} {kind}"]
    said = set(re.findall(r"[a-z]+", task.prompt.lower()))
    found = {word: points for word, points in weights.words.items() if points and word in said}
    reasons += [f"`{word}` {points}" for word, points in found.items()]
    files = _file_points(len(task.files))
    reasons += [f"{len(task.files)} files {files}"] if files else []
    points = kind + sum(found.values()) + files
    return Score(points, _grade(points), tuple(reasons))


def _grade(points: int) -> Grade:
    for least, name in GRADES:
        if points >= least:
            return name
    return "trivial"


def _file_points(count: int) -> int:
    return next(points for most, points in ((0, 0), (1, 2), (3, 5), (5, 10), (10**9, 15)) if count <= most)
