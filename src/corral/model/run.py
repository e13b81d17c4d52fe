"""The run document that every way in shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from corral.model.evidence import GRADES, CheckResult, Evidence, Grade, SandboxReport, Variation
from corral.model.flow import Composition, known_as
from corral.model.forge import PullRequest
from corral.model.review import Comment
from corral.model.values import Cost, Failure, Status, Tokens


class Attempt(Struct, kw_only=True):
    """One try of one node by one agent in one workspace."""

    id: str
    number: int = field(name="try", default=1)
    retry_of: str | None = None
    fallback_of: str | None = None
    machine: str | None = None  #: where it ran; None: here
    revises: str | None = None  #: the attempt that it goes on from, after a review
    agent: str
    account: str | None = None  #: of its agent: the one that settings or the person name
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
    others: tuple[MergeState, ...] | UnsetType = UNSET  #: merges into other branches that wait for a person
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
            facts.append(f"{files} file{'' if files == 1 else 's'} +{won.insertions} -{won.deletions}")
        facts += [self.grade] if self.grade else []
        facts += [f"${self.cost.usd:.2f}"] if self.cost.usd is not None else ["cost unknown"]
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


def winner(nodes: Sequence[NodeState]) -> Attempt | None:
    """Return the attempt whose work is the run's result: the winner of the last node that has one."""
    for node in reversed(nodes):
        for attempt in node.attempts:
            if attempt.id == node.winner:
                return attempt
    return None
