"""Runs and attempts as they are stored, and what processes tell each other of them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from corral.model.evidence import EvidenceDetail, Receipt
from corral.model.flow import AgentChoice
from corral.model.plan import RunPlan
from corral.model.run import Artifact, Attempt
from corral.model.values import Status

Phase = Literal["new", "working", "worked", "collected", "over"]


class NodeEnd(Struct, frozen=True, kw_only=True):
    """What a node had come to."""

    status: Status
    reason: str | None = None
    winner: str | None = None
    why: str | None = None


class AttemptRecord(Struct, kw_only=True):
    """An attempt and what the engine must remember to continue it after a crash."""

    attempt: Attempt
    run: str
    node: str
    phase: Phase = "new"  #: each is stored before the next begins; nothing before it is done again
    started: float = 0.0
    clock: str = ""  #: when it was started, on a clock that nobody sets
    ended: float | None = None
    folder: str = ""  #: workspace, home and logs of this attempt
    lane: int = 0  #: whose try it is, in a race; less than 0: a judge's
    candidates: tuple[str, ...] = ()  #: for a judge: the attempts to compare, in the order it is shown them
    void: bool = False  #: its node was done again: it is history
    heads: tuple[str, ...] = ()  #: commits of the nodes before it, which it continues from
    base: str | None = None  #: the commit it starts from: these, combined
    compared_with: str | None = None  #: the commit its checks are compared with, where that is not its base
    conflicts: tuple[str, ...] = ()  #: files in which they do not go together: to be resolved by it
    start: str | None = None  #: the commit its workspace begins with, where that is not its base
    continues: str | None = None  #: the attempt whose workspace and session this one continues
    fed_back: str = ""  #: what an earlier try did wrong, for the prompt
    until: float | None = None  #: when the quota that stopped it comes back
    chosen: bool = False  #: its account was asked for by name: no other is used instead
    cheaper: AgentChoice | None = None  #: who continues instead, where too little money is left for its agent
    elsewhere: str | None = None  #: the account on which it continues, where its own is limited
    outcome: Status | None = None  #: of the agent's own part; `done` leaves the rest to the checks
    denied: tuple[str, ...] = ()
    resumes: bool = False  #: its agent can continue a session
    cost_usd: float | None = None  #: a fixed price
    summary: str = ""  #: what its agent's present session started from
    waits: str = ""  #: why it has not started yet: other attempts use the money that it needs
    held_by: tuple[str, ...] = ()  #: entries of the inbox whose answers its agent waits for, and does nothing else
    artifacts: tuple[Artifact, ...] = ()  #: named files that it left
    facts: tuple[str, ...] = ()  #: what its prompt said of what is remembered, by their ids
    review: str = ""  #: what reviewers say of the attempt that it revises
    by_hand: bool = False  #: a user works in its agent's own program, on a terminal
    before: NodeEnd | None = None  #: what its node had come to before it was revised
    steers: tuple[str, ...] = ()  #: a user's messages that it has not got yet
    saved: tuple[str, ...] = ()  #: refs that hold work it left beside its branch
    kept: bool = False  #: its workspace holds work that could not be collected
    tree: str = ""
    diff_sha256: str = ""
    receipt: Receipt | None = None
    evidence: EvidenceDetail | None = None  #: how its work was checked


class RunRecord(Struct, kw_only=True):
    """A run as stored."""

    id: str
    status: Status
    reason: str | None
    plan: RunPlan
    created: float
    ended: float | None = None
    owner: str | None = None
    lease_until: float = 0.0
    clock: str = ""  #: when it was made, on a clock that nobody sets
    seconds: float | None = None  #: how long it took, once it is over
    epoch: int = 1  #: raised each time another process takes it over


class Order(Struct, frozen=True):
    """An order of a user for a run, passed by any process to the one that owns it."""

    id: int
    verb: Literal["stop", "steer", "condense", "pause", "unpause"]
    by: str
    text: str = ""
