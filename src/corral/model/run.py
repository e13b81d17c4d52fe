"""A run: what a front end asks for, and the run document that every front end shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from corral import amounts
from corral.model.errors import BadRequest
from corral.model.evidence import GRADES, CheckResult, Evidence, Grade, SandboxReport, Variation
from corral.model.flow import Composition, MergeWhen, Select, TaskImage, TaskType, known_as
from corral.model.forge import PullRequest
from corral.model.review import Comment
from corral.model.values import Cost, Failure, Level, Status, Tokens

MOST_NAME = 100
MOST_LABELS = 50
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")


class Attempt(Struct, kw_only=True):
    """One try of one node by one agent in one workspace."""

    id: str
    number: int = field(name="try", default=1)
    retry_of: str | None = None
    fallback_of: str | None = None
    machine: str | None = None  #: where it ran; None: here
    revises: str | None = None  #: the attempt that it continues, after a review
    agent: str
    account: str | None = None  #: of its agent: the one that settings or the user name
    model: str | None = None
    role: str | None = None
    status: Status = "queued"
    error: Failure | None = None
    cost: Cost = Cost()
    tokens: Tokens = Tokens()
    seconds: float = 0.0
    session: str | None = None
    branch: str | None = None
    commit: str | None = None
    files_changed: tuple[str, ...] = ()
    insertions: int = 0
    deletions: int = 0
    not_collected: tuple[str, ...] | UnsetType = UNSET  #: what of its work is on no branch, and why
    workspace: str | UnsetType = UNSET  #: where that still is
    checks: tuple[CheckResult, ...] = ()
    evidence: Evidence | None = None  #: None: it is not over, or its checks fail
    sandbox: SandboxReport = SandboxReport()
    scores: dict[str, float] = field(default_factory=dict[str, float])  #: what scorers gave it; more is better
    votes: float | None = None  #: what a blind judge gave it, among those that are proven
    variation: Variation | UnsetType = UNSET  #: its answers to varied inputs; unset: rivals were not compared by them
    output: Any = None

    @property
    def known_as(self) -> str:
        """Return the agent with its account: whose quota it uses up."""
        return known_as(self.agent, self.account)


class NodeState(Struct, kw_only=True):
    id: str
    status: Status = "queued"
    reason: str | None = None
    needs: tuple[str, ...] = ()
    winner: str | None = None
    why: str | None = None
    evidence: Evidence | None = None  #: of its winner
    output: Any = None  #: of a node that reduces the outputs of its items or lanes to one
    attempts: list[Attempt] = field(default_factory=list[Attempt])


class NodeClash(Struct, frozen=True, kw_only=True):
    """Two nodes of a run that changed the same places."""

    one: str
    other: str
    files: tuple[str, ...]


class MergeState(Struct, frozen=True, kw_only=True):
    status: Literal["none", "ready", "merged", "conflict", "undone"] = "none"
    into: str | None = None
    commit: str | None = None
    conflicts: tuple[str, ...] = ()
    attempts: tuple[str, ...] | UnsetType = UNSET  #: whose work it is, of what was merged
    taken: tuple[str, ...] | UnsetType = UNSET  #: what was taken of whom, as `--take` names it
    others: tuple[MergeState, ...] | UnsetType = UNSET  #: merges into other branches that wait for a user
    why: str | UnsetType = UNSET  #: of one that was taken back by other means than `undo`, or is not committed
    behind: int | UnsetType = UNSET  #: commits that the branch has and the run does not know, where there are some
    clashes: tuple[NodeClash, ...] | UnsetType = UNSET  #: nodes of this run that conflict with each other


class Artifact(Struct, frozen=True, kw_only=True):
    """A named file that an attempt left; it outlives the workspace."""

    name: str
    node: str
    attempt: str
    path: str  #: in the workspace
    sha256: str
    size: int  #: in bytes


class Run(Struct, kw_only=True):
    """The run document of contract.md; `run --json`, `show --json` and the export print exactly this."""

    run: str
    name: str | None = None  #: as the user calls it
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    status: Status = "queued"
    reason: str | None = None
    strategy: str = "single"
    composition: Composition = "template"  #: who made its flow: Corral, an agent that planned it, a user by hand
    task: str = ""
    repo: str = ""
    base: str | None = None
    started: str = ""
    seconds: float = 0.0
    cost: Cost = Cost()
    tokens: Tokens = Tokens()
    nodes: list[NodeState] = field(default_factory=list[NodeState])
    merge: MergeState = MergeState()
    artifacts: tuple[Artifact, ...] = ()  #: named files of its nodes
    comments: tuple[Comment, ...] = ()
    pull_request: PullRequest | None = None
    parent: str | None = None  #: the run whose attempt spawned this one
    children: tuple[str, ...] = ()  #: runs that its attempts spawned; cost and tokens are with theirs
    split: Mapping[str, float] | UnsetType = UNSET  #: what each agent has cost in dollars, where it has children

    @property
    def grade(self) -> Grade | None:
        """How well it is proven: as well as the weakest of its winners; None where none has a grade."""
        places = [GRADES.index(node.evidence.grade) for node in self.nodes if node.evidence]
        return GRADES[max(places)] if places else None

    def __repr__(self) -> str:
        """Say it in a line, for a REPL; `document` has everything."""
        facts = [f"{self.run} {self.status}", *filter(None, [self.reason])]
        if won := winner(self.nodes):
            files = len(won.files_changed)
            facts.append(f"{amounts.count(files, 'file')} +{won.insertions} -{won.deletions}")
        facts += [self.grade] if self.grade else []
        facts += [amounts.usd(self.cost.usd)] if self.cost.usd is not None else ["cost unknown"]
        facts.append(f"merge {self.merge.status}")
        return f"<Run {', '.join(facts)}: {' '.join(self.task.split())[:60]!r}>"

    def _repr_html_(self) -> str:
        """Return a table of its attempts, for a notebook."""
        from html import escape  # noqa: PLC0415 -- slow to import, and only notebooks need it

        rows = [
            (node.id, each.agent, each.status, each.evidence.grade if each.evidence else "",
             f"+{each.insertions} -{each.deletions}", "*" if each.id == node.winner else "")
            for node in self.nodes for each in node.attempts
        ]  # fmt: skip
        head = "".join(f"<th>{name}</th>" for name in ("node", "agent", "status", "evidence", "change", "winner"))
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<p>{escape(repr(self))}</p><table><tr>{head}</tr>{body}</table>"


ENCODER = msgspec.json.Encoder()


def document(run: Run) -> bytes:
    """Encode the run document: the one encoder that every way in uses."""
    return ENCODER.encode(run)


def nodes_with_items(nodes: Sequence[NodeState]) -> list[tuple[NodeState, list[NodeState]]]:
    """Return the nodes that a flow names, each with what was made for it: items of a list, nodes of a flow in it."""
    known = {node.id for node in nodes}
    items: dict[str, list[NodeState]] = {}
    for node in nodes:
        parts = node.id.split(".")
        above = (".".join(parts[:count]) for count in range(1, len(parts)))
        items.setdefault(next((name for name in above if name in known), ""), []).append(node)
    return [(node, items.get(node.id, [])) for node in items.get("", [])]


def winner(nodes: Sequence[NodeState]) -> Attempt | None:
    """Return the attempt whose work is the run's result: the winner of the last node that has one."""
    for node in reversed(nodes):
        for attempt in node.attempts:
            if attempt.id == node.winner:
                return attempt
    return None


class Request(Struct, frozen=True, kw_only=True):
    """What a front end asks for: a task as the user put it, nothing looked up yet."""

    prompt: str = ""
    repo: str = "."
    name: str | None = None  #: of the run, for lists; `corral rename` changes it
    labels: Mapping[str, str] = field(default_factory=dict[str, str])  #: to find the run again: `corral ls --label`
    agents: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()  #: further ones, side by side
    strategy: str | None = None
    review: bool = False
    flow: str | None = None  #: the text of a flow file
    flow_file: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    draft: bool = False  #: it is only looked at: inputs may be without a value
    type: TaskType | None = None
    files: tuple[str, ...] = ()
    images: tuple[TaskImage, ...] = ()  #: PNG, JPEG, GIF or WebP, for agents that take them
    checks: tuple[str, ...] = ()
    no_checks: bool = False  #: the checks that settings name do not count
    select: Select | None = None
    scorers: tuple[str, ...] = ()
    judge: str | None = None
    held_out: str | None = None  #: a folder of this machine whose files are laid over the work for a last check
    read_only: bool = False
    budget_usd: float | None = None
    max_tokens: int | None = None
    yes: bool = False  #: continue past budgets, up to the ceiling
    timeout: str | None = None
    idle: str | None = None
    retries: int | None = None
    fallback: tuple[str, ...] = ()
    role: str | None = None
    skills: tuple[str, ...] = ()
    base: str | None = None
    with_changes: bool = False  #: start from the checkout as it is, with what is not committed
    machine: str | None = None  #: a machine of the settings, or `any`; None: here
    require: Level | None = None  #: None: strict, or on macOS seatbelt
    unsandboxed: bool = False
    trust: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    net: str | None = None
    scope: str | None = None  #: a file
    merge: MergeWhen = "never"
    output: str | None = None  #: the shape that the output must have, as JSON, or a file that holds it
    priority: int = 0  #: among runs that wait: more is sooner
    approve: str | None = None  #: a user is asked for so long before anything starts; no answer is a no
    question: str | None = None  #: the words of that, where it is not simply about the task
    planned: bool = False  #: its flow was written by an agent
    issue: str | None = None  #: the address of an issue that is the task, or belongs to it
    callback: str | None = None  #: an address that is posted to when the run is over or waits for an answer
    from_last: bool = False  #: a further try starts from where the last one stopped


def check_name(name: str) -> str:
    """Return the name of a run, trimmed; refuse one that would not fit a line of a list."""
    name = name.strip()
    if not name or len(name) > MOST_NAME or not name.isprintable():
        hint = f"one line of at most {MOST_NAME} characters"
        raise BadRequest(f"`{name[:MOST_NAME]}` cannot name a run", hint=hint)
    return name


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels, with values trimmed; refuse keys and values that could not be searched for."""
    for key, value in labels.items():
        if not KEY.fullmatch(key):
            hint = "letters, digits and . _ / - : --label team=web"
            raise BadRequest(f"`{key[:MOST_NAME]}` cannot be the key of a label", hint=hint)
        if len(value) > MOST_NAME or not value.isprintable():
            raise BadRequest(f"the label `{key}` is too long", hint=f"one line of at most {MOST_NAME} characters")
    if len(labels) > MOST_LABELS:
        raise BadRequest(f"a run has at most {MOST_LABELS} labels", hint="leave some out")
    return {key: value.strip() for key, value in labels.items()}


def read_labels(texts: Sequence[str], *, any_value: bool = False) -> dict[str, str]:
    """Read `KEY=VALUE`; to search, `KEY` alone means any value."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals and not any_value:
            raise BadRequest(f"--label {text}: what is its value?", hint="--label KEY=VALUE")
        found[key.strip()] = value.strip()
    return check_labels(found)
