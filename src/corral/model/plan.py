"""How a run is carried out: policies, limits, and the plan that holds them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from corral.model import evidence
from corral.model.flow import Composition, Flow, Grade, MergeWhen, TaskType
from corral.model.forge import IssueReference
from corral.model.memory import MemoryRules
from corral.model.scope import ScopeSource
from corral.model.values import Level


class RetryPolicy(Struct, frozen=True, kw_only=True):
    #: further tries after a failure; set here, it also applies to failed checks
    most: int = 3
    #: the wait before the second try
    delay_seconds: float = 5.0
    #: double the wait with every try, up to 5 minutes
    exponential: bool = True
    longest_seconds: float = 300.0
    #: a quota that comes back within this time is waited for; later, the run is parked (exit 5)
    max_wait_seconds: float = 300.0  #: a quota that comes back later than this parks the run
    #: `wait` for a quota, `switch` to the fallback at once, or `ask`: the run waits for you (exit 3)
    on_limit: Literal["wait", "switch", "ask"] = "wait"
    #: no further try begins once all have taken this long; time parked does not count
    total_seconds: float = 21_600.0  #: no further try begins once all have taken this long; parked time is free
    #: where a further try starts: from a `clean` state, or from the files of the `last` one
    start: Literal["clean", "last"] = field(name="from", default="clean")  #: last: where the try before stopped


class CondensePolicy(Struct, frozen=True, kw_only=True):
    """When an agent continues in a fresh session from a summary, and who writes that."""

    #: share of the window at which an agent continues from a summary; 0: only when it is too long, or asked for
    at: float = 0.8  #: share of the model's window; 0: only when it is too long, or asked for
    #: so often in one attempt
    most: int = 10  #: so often in one attempt
    #: who is asked for the summary, `NAME` or `NAME:MODEL`; not set: it is made by rules
    agent: str | None = None  #: NAME[:MODEL] that is asked for the summary; else it is made by rules
    #: tokens that models take in, by how their names begin; comes before corral's own table
    windows: Mapping[str, int] = field(default_factory=dict[str, int])  #: model, or how its name begins -> tokens


WorkspaceKind = Literal["auto", "overlay", "pool", "clone"]


class Setup(Struct, frozen=True, kw_only=True):
    """How a workspace is made ready before an agent or a check works in it."""

    #: patterns of ignored files that are copied into each workspace
    copy: tuple[str, ...] = ()
    #: a shell command that runs in each new workspace, in the box
    command: str | None = None
    #: hosts that `setup` may reach, as `net` of `[scope]`; not set: none
    net: tuple[str, ...] = ()  #: hosts that the command may reach
    #: how often what an agent has so far is kept, as `90s`, `5m`
    snapshot_seconds: float = 60.0  #: how often what an agent has so far is kept
    #: how long taking an agent's work out of its workspace may take, after the agent has ended
    collect_seconds: float = 120.0  #: longest time that each way of collecting may take, after the agent has ended
    #: how workspaces are made: `overlay` (over one checkout of the files; Linux, root), `pool` (checkouts that are
    #: restored and used again; Linux), `clone` (a checkout each), or `auto`: for large repositories an overlay where
    #: the machine can, else the pool
    kind: WorkspaceKind = "auto"


class ToolboxRules(Struct, frozen=True, kw_only=True):
    """What agents at work may do with their toolbox; `[toolbox]` of config.toml and corral.toml."""

    #: agents at work have a toolbox; of two files both must say so
    enabled: bool = True
    #: how deep children of children go; 0: no children
    depth: int = 2  #: how deep children of children go
    #: how many a run that you started may have, at all depths
    children: int = 8  #: of a run that a user started, and all below it
    #: agents that a child may be, besides those of the run; only in your own file
    agents: tuple[str, ...] = ()  #: that a child may be, besides those of the run
    #: which role may hand work to which: a list for each role, `*` for all others; not set: all to all
    delegate: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])  #: role to roles


PolicyWord = Literal["allow", "ask", "deny"]


class PolicyRules(Struct, frozen=True, kw_only=True):
    """Which tools and commands may be called; `[policy]` of config.toml and corral.toml."""

    #: patterns of calls that are made without asking, as `pytest*`, `read_file src/*`
    allow: tuple[str, ...] = ()
    #: patterns of calls that need your yes, in the inbox
    ask: tuple[str, ...] = ()
    #: patterns of calls that are refused; `deny` counts before `ask`, and `ask` before `allow`
    deny: tuple[str, ...] = ()
    #: what applies to calls that match no pattern: `allow`, `ask` or `deny`
    default: PolicyWord = "allow"


class EvidenceRules(Struct, frozen=True, kw_only=True):
    """How well work must be proven; `[evidence]` of config.toml and corral.toml."""

    #: the least grade that counts as done; a repository may only raise it
    require: evidence.Grade = "unchecked"  #: the least grade that is done; a repository may only raise it
    #: a folder of files that no agent sees, laid over work that is checked; your own file only
    held_out: str | None = None  #: in settings a folder whose files no agent sees; in a plan the hash of its files
    #: agent that reads each result once more; its word can only lower a grade
    judge: str | None = None  #: agent that reads each result once more and may only lower its grade
    #: how long a race in which none is proven better waits for you, as `90s`, `20m`, `48h`
    choice_deadline_seconds: float = 86400.0  #: how long a race in which none is proven better waits for the user


class SlotLimits(Struct, frozen=True, kw_only=True):
    """How many attempts may be at work at once, of all runs together; `[limits]` of config.toml and corral.toml."""

    #: attempts at work at once, of all your runs in all processes; not set: 8 of each run
    parallel: int | None = None
    #: the same for an agent, as `per_agent = {claude = 2}`
    per_agent: Mapping[str, int] = field(default_factory=dict[str, int])
    #: the same for all runs in one repository
    per_repository: int | None = None


class HeldSlot(Struct, frozen=True):
    """An attempt at work."""

    run: str
    agent: str
    repo: str


class SlotDemand(Struct, frozen=True, kw_only=True):
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

    #: who gets it, `NAME` or `NAME:MODEL`; a rule whose agent is not installed is passed over
    agent: str
    #: of the task, one or a list
    type: tuple[TaskType, ...] = ()
    #: how much it asks for: `trivial`, `simple`, `moderate`, `complex`, `architectural`
    grade: tuple[Grade, ...] = ()
    #: any of these is in the task, as a whole word
    words: tuple[str, ...] = ()  #: any of them, whole
    #: patterns; a file of the task (`--file`) fits one
    files: tuple[str, ...] = ()  #: patterns; a file of the task fits one
    #: who it is to be
    role: tuple[str, ...] = ()
    #: what is said of the choice
    reason: str = ""


class ComplexityTable(Struct, frozen=True, kw_only=True):
    """Points for what a task says, besides or instead of the usual ones; `[complexity]`. 0 takes something out."""

    #: points of a type of task, e.g. `types = {bugfix = 20}`; see `corral run --strategy auto`
    types: Mapping[TaskType, int] = field(default_factory=dict[TaskType, int])
    #: points of a word of the task, e.g. `words = {kernel = 15, add = 0}`; 0 takes one out
    words: Mapping[str, int] = field(default_factory=dict[str, int])
    #: points of a task without a type
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
    memory: MemoryRules = MemoryRules()
    level: Level = "strict"  #: what this machine holds, found out before the start
    scopes: tuple[ScopeSource, ...] = ()  #: all who say what attempts may do, in order
    go_on: bool = False  #: past the budgets of days and months, up to the ceiling: the user said so beforehand
    ignore: str = ""  #: what the repository hides from agents, as its base has it
    epoch: int = 0  #: how often a user had parts of it done again
    epochs: Mapping[str, int] = field(default_factory=dict[str, int])  #: gate -> when it was last put back to its start
    revised: tuple[str, ...] = ()  #: revisions after which all that comes after their nodes began again
    merge: MergeWhen = "never"
    toolbox: ToolboxRules = ToolboxRules()
    policy: tuple[PolicyRules, ...] = ()  #: the user's, then the repository's; the strictest word holds
    limits: SlotLimits = SlotLimits()
    priority: int = 0  #: among runs that wait for a slot: more is sooner
    evidence: EvidenceRules = EvidenceRules()
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    issue: IssueReference | None = None  #: that it is about
    composition: Composition = "template"
    calls_back: bool = False  #: an address is to be called; the store has it apart, for parts of it may be secret


#: Fields that a plan takes from its request as they are.
AS_REQUESTED = ("merge", "priority", "name", "labels")
