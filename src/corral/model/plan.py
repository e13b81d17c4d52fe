"""How a run is carried out: policies, limits, and the plan that holds them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from corral.model import evidence
from corral.model.flow import Flow, Grade, TaskType
from corral.model.scope import ScopeSource
from corral.model.values import Level


class RetryPolicy(Struct, frozen=True, kw_only=True):
    most: int = 3
    delay_seconds: float = 5.0
    exponential: bool = True
    longest_seconds: float = 300.0
    max_wait_seconds: float = 300.0  #: a quota that comes back later than this parks the run
    on_limit: Literal["wait", "switch", "ask"] = "wait"
    total_seconds: float = 21_600.0  #: no further try begins once all have taken this long; parked time is free
    start: Literal["clean", "last"] = field(name="from", default="clean")  #: last: where the try before stopped


class CondensePolicy(Struct, frozen=True, kw_only=True):
    """When an agent goes on in a fresh session from a summary, and who writes that."""

    at: float = 0.8  #: share of the model's window; 0: only when it is too long, or asked for
    most: int = 10  #: so often in one attempt
    agent: str | None = None  #: NAME[:MODEL] that is asked for the summary; else it is made by rules
    windows: Mapping[str, int] = field(default_factory=dict[str, int])  #: model, or how its name begins -> tokens


class Setup(Struct, frozen=True, kw_only=True):
    """How a workspace is made ready before an agent or a check works in it."""

    copy: tuple[str, ...] = ()
    command: str | None = None
    net: tuple[str, ...] = ()  #: hosts that the command may reach
    snapshot_seconds: float = 60.0  #: how often what an agent has so far is kept
    collect_seconds: float = 120.0  #: longest time that each way of collecting may take, after the agent has ended


class ToolboxRules(Struct, frozen=True, kw_only=True):
    """What agents at work may do with their toolbox; `[toolbox]` of config.toml and corral.toml."""

    enabled: bool = True
    depth: int = 2  #: how deep children of children go
    children: int = 8  #: of a run that a person started, and all below it
    agents: tuple[str, ...] = ()  #: that a child may be, besides those of the run
    delegate: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])  #: role to roles


class EvidenceRules(Struct, frozen=True, kw_only=True):
    """How well work must be proven; `[evidence]` of config.toml and corral.toml."""

    require: evidence.Grade = "unchecked"  #: the least grade that is done; a repository may only raise it
    held_out: str | None = None  #: in settings a folder whose files no agent sees; in a plan the hash of its files
    judge: str | None = None  #: agent that reads each result once more and may only lower its grade
    choice_deadline_seconds: float = 86400.0  #: how long a race in which none is proven better waits for the user


class SlotLimits(Struct, frozen=True, kw_only=True):
    """How many attempts may be at work at once, of all runs together; `[limits]` of config.toml and corral.toml."""

    parallel: int | None = None
    per_agent: Mapping[str, int] = field(default_factory=dict[str, int])
    per_repository: int | None = None


class SlotHeld(Struct, frozen=True):
    """An attempt at work."""

    run: str
    agent: str
    repo: str


class SlotWant(Struct, frozen=True, kw_only=True):
    """A run that would begin so many more attempts of an agent."""

    run: str
    agent: str
    repo: str
    count: int
    priority: int = 0  #: more is sooner
    since: float = 0.0  #: when it began to wait, or last got one
    limits: SlotLimits = SlotLimits()


class RoutingRule(Struct, frozen=True, kw_only=True):
    """Which agent gets tasks like these where `auto` was asked for; `[[routing]]`. What is not said fits all."""

    agent: str
    type: tuple[TaskType, ...] = ()
    grade: tuple[Grade, ...] = ()
    words: tuple[str, ...] = ()  #: any of them, whole
    files: tuple[str, ...] = ()  #: patterns; a file of the task fits one
    role: tuple[str, ...] = ()
    reason: str = ""


class ComplexityTable(Struct, frozen=True, kw_only=True):
    """Points for what a task says, besides or instead of the usual ones; `[complexity]`. 0 takes something out."""

    types: Mapping[TaskType, int] = field(default_factory=dict[TaskType, int])
    words: Mapping[str, int] = field(default_factory=dict[str, int])
    other_type: int | None = None  #: of a task without a type


class TrackRecord(Struct, frozen=True, kw_only=True):
    """How an agent did here before."""

    agent: str
    count: int
    done: int
    usd: float | None = None  #: on average, where it is known


class RunPlan(Struct, frozen=True, kw_only=True):
    """All that is needed to carry out a run, now or after a crash; no secret is in it."""

    flow: Flow
    repo: str
    git_dir: str  #: of the repository, or of the hidden one that stands for a plain folder
    base: str | None  #: None: a repository without a commit
    into: str | None  #: the branch the run started from
    identity: tuple[str, str] | None = None  #: whom commits are by
    retry: RetryPolicy = RetryPolicy()
    setup: Setup = Setup()
    condense: CondensePolicy = CondensePolicy()
    level: Level = "strict"  #: what this machine holds, found out before the start
    scopes: tuple[ScopeSource, ...] = ()  #: all who say what attempts may do, in order
    go_on: bool = False  #: past the budgets of days and months, up to the ceiling: the person said so beforehand
    ignore: str = ""  #: what the repository hides from agents, as its base has it
    epoch: int = 0  #: how often a person had parts of it done again
    epochs: Mapping[str, int] = field(default_factory=dict[str, int])  #: gate -> when it was last put back to its start
    merge: Literal["never", "auto"] = "never"  #: auto: what is done lands by itself
    toolbox: ToolboxRules = ToolboxRules()
    limits: SlotLimits = SlotLimits()
    priority: int = 0  #: among runs that wait for a slot: more is sooner
    evidence: EvidenceRules = EvidenceRules()
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


#: Fields that a plan takes from its request as they are.
AS_REQUESTED = ("merge", "priority", "name", "labels")
