"""The things we talk about: tasks, flows, runs, attempts, and the one run document that every way in shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from corral.flow import AgentChoice, Flow, Grade, Select, TaskType, known_as

Status = Literal[
    "queued", "running", "paused", "waiting", "done", "failed", "timed_out", "limited", "over_budget", "stopped",
    "skipped", "partial",
]  # fmt: skip
OPEN: frozenset[Status] = frozenset({"queued", "running", "paused", "waiting"})

ErrorClass = Literal[
    "not_found", "auth", "rate_limit", "overloaded", "network", "tls", "context_too_long", "refused", "denied",
    "bad_output", "no_change", "check_failed", "scope_violation", "crash", "memory", "disk", "processes", "flood",
    "budget",
]  # fmt: skip
CostSource = Literal["reported", "computed", "estimated", "fixed", "unknown"]
Level = Literal["full", "strict", "container", "landlock", "seatbelt", "none"]


# --- what a person asks for -------------------------------------------------------------------------------------


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


class PathRules(Struct, frozen=True, kw_only=True):
    """Patterns of paths: within the workspace, or absolute; the most specific that fits decides."""

    read: tuple[str, ...] = ("**",)
    write: tuple[str, ...] = ("**",)
    readonly: tuple[str, ...] = ()


Net = Literal["off", "on"] | tuple[str, ...]  #: a list: these hosts besides the agent's own provider


class Scope(PathRules, frozen=True, kw_only=True):
    """What an attempt may read, write, see, reach and use up."""

    bounds: tuple[PathRules, ...] = ()  #: rules of those it was narrowed by; a path must be allowed by all
    env: tuple[str, ...] = ()
    net: Net = ()
    memory_mb: int = 4096
    processes: int = 512
    cpu_seconds: int | None = None
    disk_mb: int | None = 20_480
    file_mb: int | None = None
    timeout_seconds: float | None = None


class ScopeTable(Struct, frozen=True, kw_only=True):
    """A scope as somebody wrote it: only what was named."""

    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    readonly: tuple[str, ...] | None = None
    env: tuple[str, ...] | None = None
    net: Net | None = None
    memory_mb: int | None = None
    processes: int | None = None
    cpu_seconds: int | None = None
    disk_mb: int | None = None
    file_mb: int | None = None
    timeout: str | None = None


class ScopeSource(Struct, frozen=True, kw_only=True):
    """Who says so: the table, where each key of it stands, and whether it may only narrow."""

    table: ScopeTable
    where: Mapping[str, str] = field(default_factory=dict[str, str])
    narrows: bool = False
    agent: str | None = None  #: holds for this agent alone
    many: bool = False  #: holds for many repositories, so a path in the workspace need not be in each


class NamedPath(Struct, frozen=True, kw_only=True):
    """A path that a pattern of a scope names."""

    key: str  #: read, write or readonly
    where: str  #: file and line, or option
    text: str
    prefix: str  #: its parts before the first wildcard: the folder or file that holds all it fits
    literal: bool
    outside: bool
    excludes: bool
    many: bool


class Request(Struct, frozen=True, kw_only=True):
    """What a front end asks for: a task as the person put it, nothing looked up yet."""

    prompt: str = ""
    repo: str = "."
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
    checks: tuple[str, ...] = ()
    select: Select | None = None
    scorers: tuple[str, ...] = ()
    judge: str | None = None
    read_only: bool = False
    budget_usd: float | None = None
    max_tokens: int | None = None
    yes: bool = False  #: go on past budgets, up to the ceiling
    timeout: str | None = None
    idle: str | None = None
    retries: int | None = None
    fallback: tuple[str, ...] = ()
    role: str | None = None
    skills: tuple[str, ...] = ()
    base: str | None = None
    require: Level | None = None  #: None: strict, or on macOS seatbelt
    unsandboxed: bool = False
    trust: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    net: str | None = None
    scope: str | None = None  #: a file
    merge: Literal["never", "auto"] = "never"
    output: str | None = None  #: the shape that the output must have, as JSON, or a file that holds it
    priority: int = 0  #: among runs that wait: more is sooner
    from_last: bool = False  #: a further try starts from where the last one stopped


class ToolboxRules(Struct, frozen=True, kw_only=True):
    """What agents at work may do with their toolbox; `[toolbox]` of config.toml and corral.toml."""

    enabled: bool = True
    depth: int = 2  #: how deep children of children go
    children: int = 8  #: of a run that a person started, and all below it
    agents: tuple[str, ...] = ()  #: that a child may be, besides those of the run
    delegate: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])  #: role to roles


class SlotLimits(Struct, frozen=True, kw_only=True):
    """How many attempts may be at work at once, of all runs together; `[limits]` of config.toml and corral.toml."""

    parallel: int | None = None
    per_agent: Mapping[str, int] = field(default_factory=dict[str, int])
    per_repository: int | None = None


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


# --- what came of it: the run document ------------------------------------------------------------------------


class Tokens(Struct, frozen=True):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def less(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input - other.input,
            self.output - other.output,
            self.cache_read - other.cache_read,
            self.cache_write - other.cache_write,
        )

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


class Cost(Struct, frozen=True):
    usd: float | None = None
    source: CostSource = "unknown"


class Failure(Struct, frozen=True):
    """Why something failed: a class to act on, words to read, and what to do about it."""

    kind: ErrorClass = field(name="class")
    message: str
    hint: str = ""
    lasting: bool | UnsetType = UNSET  #: the same again would most likely end the same: only if a person asks


class Tally(Struct, frozen=True):
    """How the tests of a check ended, as its program tells it."""

    format: str  #: whose words these are: pytest, junit, go ...
    passed: int | None = None  #: None: it does not say
    failed: int = 0
    skipped: int = 0
    failing: tuple[str, ...] = ()


class Sighting(Struct, frozen=True, kw_only=True):
    """How a check ended another time: at the base, or once more on the same tree."""

    exit_code: int
    note: str = ""
    tests: Tally | None = None
    flaky: bool = False

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.note


class CheckResult(Struct, frozen=True, kw_only=True):
    command: str
    exit_code: int
    seconds: float
    note: str = ""  #: set where the exit code does not tell it all
    output: str = ""  #: the end of what it printed; the whole is in the file named by `log`
    log: str = ""
    tests: Tally | None = None  #: None: it told of none
    before: Sighting | None = None  #: at the base; None: it was not run there
    again: Sighting | None = None  #: of a check that failed: the same once more
    new_failures: tuple[str, ...] = ()  #: tests that fail now and did not at the base, or the command itself
    old_failures: tuple[str, ...] = ()  #: that failed at the base too
    flaky: bool = False  #: it failed and passed on the very same tree
    cached: bool = False  #: found out before, for the same tree, command and surroundings

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and not self.note


class Violation(Struct, frozen=True):
    kind: str
    path: str


class SandboxReport(Struct, frozen=True):
    level: Level = "none"
    net: Literal["held", "open"] = "held"  #: to its provider and the named hosts, or not at all
    violations: tuple[Violation, ...] = ()


class Attempt(Struct, kw_only=True):
    """One try of one node by one agent in one workspace."""

    id: str
    number: int = field(name="try", default=1)
    retry_of: str | None = None
    fallback_of: str | None = None
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
    checks: tuple[CheckResult, ...] = ()
    sandbox: SandboxReport = SandboxReport()
    scores: dict[str, float] = field(default_factory=dict[str, float])  #: what scorers gave it; more is better
    votes: float | None = None  #: what a blind judge gave it, among those that are proven
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
    output: Any = None  #: of a node that reduces the outputs of its items or lanes to one
    attempts: list[Attempt] = field(default_factory=list[Attempt])


class MergeState(Struct, frozen=True, kw_only=True):
    status: Literal["none", "ready", "merged", "conflict", "undone"] = "none"
    into: str | None = None
    commit: str | None = None
    conflicts: tuple[str, ...] = ()
    others: tuple[MergeState, ...] | UnsetType = UNSET  #: merges into other branches that wait for a person


class Run(Struct, kw_only=True):
    """The run document of contract.md; `run --json`, `show --json` and the export print exactly this."""

    run: str
    status: Status = "queued"
    reason: str | None = None
    strategy: str = "single"
    task: str = ""
    repo: str = ""
    base: str | None = None
    started: str = ""
    seconds: float = 0.0
    cost: Cost = Cost()
    tokens: Tokens = Tokens()
    nodes: list[NodeState] = field(default_factory=list[NodeState])
    merge: MergeState = MergeState()
    parent: str | None = None  #: the run whose attempt spawned this one
    children: tuple[str, ...] = ()  #: runs that its attempts spawned; cost and tokens are with theirs


Phase = Literal["new", "working", "worked", "collected", "over"]


class Receipt(Struct, frozen=True, kw_only=True):
    """The engine's proof of what an attempt did; kept in the store and as a git note on the commit."""

    attempt: str
    agent: str
    base: str | None
    commit: str
    tree: str
    diff_sha256: str
    checks: tuple[CheckResult, ...]
    cost: Cost
    tokens: Tokens
    sandbox: SandboxReport
    status: Status
    task_sha256: str
    corral: str
    at: str
    seal: str = ""  #: made with this machine's key over all of the above


class AttemptRecord(Struct, kw_only=True):
    """An attempt and what the engine must remember to go on with it after a crash."""

    attempt: Attempt
    run: str
    node: str
    phase: Phase = "new"  #: each is stored before the next begins; nothing before it is done again
    started: float = 0.0
    ended: float | None = None
    folder: str = ""  #: workspace, home and logs of this attempt
    lane: int = 0  #: whose try it is, in a race; less than 0: a judge's
    candidates: tuple[str, ...] = ()  #: for a judge: the attempts to compare, in the order it is shown them
    void: bool = False  #: its node was done again: it is history
    heads: tuple[str, ...] = ()  #: commits of the nodes before it, which it goes on from
    base: str | None = None  #: the commit it starts from: these, combined
    conflicts: tuple[str, ...] = ()  #: files in which they do not go together: to be resolved by it
    start: str | None = None  #: the commit its workspace begins with, where that is not its base
    continues: str | None = None  #: the attempt whose workspace and session this one goes on with
    fed_back: str = ""  #: what an earlier try did wrong, for the prompt
    until: float | None = None  #: when the quota that stopped it comes back
    chosen: bool = False  #: its account was asked for by name: no other is used instead
    cheaper: AgentChoice | None = None  #: who goes on instead, where too little money is left for its agent
    elsewhere: str | None = None  #: the account on which it goes on, where its own is limited
    outcome: Status | None = None  #: of the agent's own part; `done` leaves the rest to the checks
    denied: tuple[str, ...] = ()
    resumes: bool = False  #: its agent can go on with a session
    cost_usd: float | None = None  #: a fixed price
    summary: str = ""  #: what its agent's present session started from
    steers: tuple[str, ...] = ()  #: what a person wants besides, and it has not been told yet
    saved: tuple[str, ...] = ()  #: refs that hold work it left beside its branch
    kept: bool = False  #: its workspace holds work that could not be collected
    tree: str = ""
    diff_sha256: str = ""
    receipt: Receipt | None = None


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


class Order(Struct, frozen=True):
    """Something a person wants of a run, told by any process to the one that owns it."""

    id: int
    verb: Literal["stop", "steer", "condense", "pause", "unpause"]
    by: str
    text: str = ""


class Claim(Struct, frozen=True, kw_only=True):
    """A path that an attempt works on, or waits for, in a workspace it shares."""

    attempt: str
    path: str  #: below the workspace; a folder means all in it
    exclusive: bool = True
    held: bool = True
    at: float = 0.0
    place: int = 0  #: order of asking: who came first goes first
    run: str = ""
    owner: str = ""  #: the process that drives the attempt


# --- what waits for a person ------------------------------------------------------------------------------------

YES_NO = ("yes", "no")


class Question(Struct, frozen=True, kw_only=True):
    """Something a person is asked: nothing waits without one, and none is without a default answer and a deadline."""

    key: str  #: what it is about, so that a run that is resumed does not ask twice
    run: str
    node: str | None = None
    attempt: str | None = None
    kind: Literal["approval", "question", "conflict", "failure"]
    about: str  #: gate, budget, merge, scope, tool, plan, limit ...
    text: str
    context: str = ""  #: what a person needs to know to answer, and what happens then
    choices: tuple[str, ...] = YES_NO  #: empty: any words
    default: str = "no"
    deadline: float


class Entry(Question, frozen=True, kw_only=True):
    """A question as it stands in the inbox, and what came of it."""

    id: str
    created: float
    answered_at: float | None = None
    answer: str | None = None
    answered_by: str | None = None  #: a person's name, `deadline`, or `corral` for one that was taken back
    outcome: str = ""

    @property
    def open(self) -> bool:
        return self.answered_at is None


ENCODER = msgspec.json.Encoder()


def document(run: Run) -> bytes:
    """Encode the run document: the one encoder that every way in uses."""
    return ENCODER.encode(run)
