"""What a user asks for: tasks, and the graphs they are in. Every strategy is a function that builds a flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from corral.model.program import ApprovedTool, Language

TaskType = Literal["feature", "bugfix", "refactor", "test", "documentation", "architecture"]
Grade = Literal["trivial", "simple", "moderate", "complex", "architectural"]  #: how much a task asks for
RunStrategy = Literal["single", "multi", "parallel", "race", "auto"]  #: how a run is carried out
Kind = Literal["task", "run", "gate", "merge", "join", "plan"]
Parallelism = Literal["sequential", "balanced", "maximal"]  #: of a flow that an agent writes
Composition = Literal["template", "planned", "written"]  #: who made a flow: we, an agent, or a user by hand
OnFailure = Literal["stop", "continue"]
On = Literal["success", "failure", "always"]
Select = Literal["evidence", "cheapest", "first"]
MergeWhen = Literal["never", "auto"]  #: auto: what is done merges by itself
Reducer = Literal["first", "last", "concat", "merge", "list", "preferred"]
MergeStrategy = Literal["auto", "ours", "theirs", "squash", "rebase", "manual", "patch", "branch", "pr", "apply"]

TIMEOUT_SECONDS, IDLE_SECONDS = 3600.0, 900.0  #: of an attempt, where nobody says otherwise


def short(model: str) -> str:
    """Shorten a model that is a file, as the scripted agent's is, to its name."""
    return model.rpartition("/")[2] if model.startswith("/") else model


def agent_and_model(agent: str, model: str | None) -> str:
    """Name an attempt as tables do: a model that is a path by its last part."""
    return f"{agent}:{model.rpartition('/')[2]}" if model else agent


def known_as(agent: str, account: str | None) -> str:
    """Name an agent with the account it works on: quotas are of those, not of agents."""
    return f"{agent}@{account}" if account else agent


#: The name of a machine, `any`, or labels that one must have; None: here.
MachineWish = str | Mapping[str, str] | None


class AgentChoice(Struct, frozen=True):
    """An agent by name, with the model it is to use, and the account of it that is to be used."""

    name: str
    model: str | None = None
    account: str | None = None  #: None: the one that settings name, or whatever it is logged in with

    @classmethod
    def read(cls, text: str) -> AgentChoice:
        """Read `NAME`, `NAME:MODEL`, `NAME@ACCOUNT:MODEL`, `acp:NAME` ..."""
        spoken = "acp:" if text.startswith("acp:") else ""
        whom, _, model = text.removeprefix(spoken).partition(":")
        name, _, account = whom.partition("@")
        return cls(spoken + name, model or None, account or None)

    def __str__(self) -> str:
        whom = known_as(self.name, self.account)
        return f"{whom}:{short(self.model)}" if self.model else whom


class TaskImage(Struct, frozen=True):
    """An image that belongs to a task; it also lies in ~/images of the box."""

    name: str
    data: str  #: as base64

    @property
    def media_type(self) -> str:
        return f"image/{self.name.rpartition('.')[2]}"


class Task(Struct, frozen=True, kw_only=True):
    """The work that a user asks for, and its limits."""

    prompt: str
    type: TaskType | None = None
    files: tuple[str, ...] = ()
    images: tuple[TaskImage, ...] = ()
    checks: tuple[str, ...] = ()
    role: str | None = None
    briefing: tuple[str, ...] = ()  #: instructions before the task: role, instructions, skills
    skills: tuple[tuple[str, str], ...] = ()  #: name and folder: brought along into the box
    untrusted: str = ""  #: text of others that the task is about, such as an issue; it allows nothing
    handoff: str = ""  #: note on the work that it continues
    handed: tuple[tuple[str, str], ...] = ()  #: files for its HOME: what is too long for the prompt
    read_only: bool = False  #: changing nothing is then success
    unchanged_ok: bool = False  #: changing something and changing nothing are both fine: commands, answers
    budget_usd: float | None = None
    max_tokens: int | None = None
    timeout_seconds: float | None = None  #: None: nobody said one yet; a run that was submitted has one
    idle_seconds: float | None = None
    retries: int | None = None  #: None: the default number, for failures that pass by themselves only

    @property
    def time_limit_seconds(self) -> float:
        """How long one attempt may take."""
        return TIMEOUT_SECONDS if self.timeout_seconds is None else self.timeout_seconds

    @property
    def idle_limit_seconds(self) -> float:
        """How long an agent may be silent."""
        return IDLE_SECONDS if self.idle_seconds is None else self.idle_seconds


class Edge(Struct, frozen=True):
    """What must have become of another node before this one may start."""

    node: str
    on: On = "success"


class Repeat(Struct, frozen=True, kw_only=True):
    """Do a node again, each time from where the last one stopped, until something holds."""

    until: str = "checks"  #: `checks` (for a command: it succeeds), or an expression
    most: int = 3
    delay_seconds: float = 0.0  #: between two rounds


class Gate(Struct, frozen=True, kw_only=True):
    """A question to a user."""

    default: str = "no"
    deadline_seconds: float = 86_400.0


class PlanSpec(Struct, frozen=True, kw_only=True):
    """The limits of a flow that a node's agent writes, and who approves it."""

    most: int = 12  #: nodes
    parallelism: Parallelism = "balanced"
    approval: Gate | None = Gate()  #: None: it runs without one
    agents: tuple[str, ...] = ()  #: that it may name
    roles: tuple[str, ...] = ()


class MergeSpec(Struct, frozen=True, kw_only=True):
    """Merge what the nodes before it made."""

    into: str | None = None
    strategy: MergeStrategy = "auto"


class ProgramSpec(Struct, frozen=True, kw_only=True):
    """The program that a node runs in place of a command; its input is the node's task, as JSON."""

    name: str
    language: Language
    source: str
    tools: tuple[str, ...] = ()
    kept: ApprovedTool | None = None  #: it is a tool that the user keeps


class Node(Struct, frozen=True, kw_only=True):
    """One step of a flow."""

    id: str
    kind: Kind = "task"
    task: Task  #: of a command its command, of a gate its question
    agent: AgentChoice = AgentChoice("")
    rivals: tuple[AgentChoice, ...] = ()  #: who races against `agent`
    fallback: tuple[AgentChoice, ...] = ()  #: who tries next when this one cannot, in this order
    needs: tuple[Edge, ...] = ()
    when: str | None = None  #: it starts only if this holds, else it is skipped
    around: tuple[tuple[str, str], ...] = ()  #: the same of flows it is in: their node, and what must hold
    for_each: str | None = None  #: it is done once for each item of this list
    items: tuple[Any, ...] | None = None  #: the same for a list that is in the file
    matrix: bool = False  #: `items` are the combinations of a matrix
    output: Mapping[str, Any] | None = None  #: the JSON Schema that its output must fit
    artifacts: Mapping[str, str] = field(default_factory=dict[str, str])  #: name -> file that outlives the workspace
    repeat: Repeat | None = None
    program: ProgramSpec | None = None  #: of a node of kind `run`
    planning: PlanSpec | None = None  #: of the node whose output is a plan
    gate: Gate | None = None
    merge: MergeSpec | None = None
    select: Select = "evidence"  #: how the best of several is found
    scorers: tuple[str, ...] = ()  #: plug-ins by name, or commands that print a number; more is better
    judge: AgentChoice | None = (
        None  #: who compares the changes of those that are proven, without knowing whose they are
    )
    reader: AgentChoice | None = None  #: who reads each change once more; may only lower its grade
    reduce: Reducer | None = None  #: how the outputs of its items or lanes become one
    share: float | None = None  #: of the flow's budget, between 0 and 1
    machine: MachineWish = None  #: where its attempts run

    @property
    def fans_out(self) -> bool:
        """Tell whether it is done once for each item of a list."""
        return self.for_each is not None or self.items is not None


class Flow(Struct, frozen=True, kw_only=True):
    """A graph of nodes; a single task is a flow of one."""

    name: str
    strategy: str
    nodes: tuple[Node, ...]
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    budget_usd: float | None = None
    on_failure: OnFailure = "continue"
    fills: bool = False  #: its texts have places to fill; a user's own task is taken word for word
    parallel: int | None = None  #: how many may run at once
    why: str = ""  #: why this strategy, where it was chosen for the user

    @property
    def title(self) -> str:
        """What it is about, for listings: a user's own words, or the name of a flow file."""
        if self.strategy == "flow":
            return self.name
        named = [node.task.prompt for node in self.nodes if node.id in ("main", "develop")]
        first = named[0] if named else self.nodes[0].task.prompt
        more = len(self.nodes) - 1 if self.strategy == "parallel" else 0
        return f"{first} (and {more} more tasks)" if more else first
