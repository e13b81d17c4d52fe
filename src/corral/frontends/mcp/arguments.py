"""What each tool takes; the names of `engine_execute` are those that clients of earlier engines know."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from corral.model import Status
from corral.model.flow import Grade, MergeStrategy, Parallelism, RunStrategy, TaskType
from corral.model.money import Window
from corral.model.review import Side
from corral.model.server import AccessScope

Text = Annotated[str, Meta(max_length=10 << 20)]
RunName = Annotated[str, Meta(description="A run: its id, an unambiguous beginning of it, or @last.", min_length=1)]
Agent = Annotated[str, Meta(description="NAME or NAME:MODEL; engine_runtimes lists the names.")]
Seconds = Annotated[float, Meta(ge=0, le=3600)]
Count = Annotated[int, Meta(ge=1, le=1000)]

BudgetAction = Literal["get", "set", "reset"]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all; an unknown name is a mistake worth telling."""

    @property
    def scope(self) -> AccessScope:
        """What a token must be allowed, to ask for this."""
        return "read"


class ActArguments(Arguments, frozen=True):
    """What starts, stops or tells agents something."""

    @property
    def scope(self) -> AccessScope:
        return "run"


class SubtaskArguments(Arguments, frozen=True):
    """One of several tasks."""

    task: Annotated[Text, Meta(description="The task.")]
    id: Annotated[str, Meta(description="Its name, for depends_on.  [default: task-1, task-2 ...]")] = ""
    depends_on: Annotated[
        tuple[str, ...], Meta(description="Ids of tasks that must be done first; it starts from their work.")
    ] = ()
    agent: Annotated[str, Meta(description="Agent: NAME or NAME:MODEL.")] = ""
    role: Annotated[str, Meta(description="Role: developer, reviewer, architect ...")] = ""
    checks: Annotated[tuple[str, ...], Meta(description="Commands that must succeed on its result.")] = ()
    files: Annotated[tuple[str, ...], Meta(description="Files that the task is about.")] = ()


class ExecuteArguments(ActArguments, frozen=True):
    path: Annotated[str, Meta(description="Repository (or plain folder), best as an absolute path.", min_length=1)]
    task: Annotated[Text, Meta(description="The task, with everything that an agent needs to know.")] = ""
    task_type: Annotated[TaskType | UnsetType, Meta(description="Type of task; `test` may change existing tests.")] = (
        UNSET
    )
    files: Annotated[tuple[str, ...], Meta(description="Files that the task is about.")] = ()
    strategy: Annotated[
        RunStrategy | UnsetType,
        Meta(
            description="single: one agent. multi: architect, then developer. race: several agents, best wins. "
            "parallel: several tasks, side by side or in the order of their depends_on."
        ),
    ] = UNSET
    force_agent: Annotated[str, Meta(description="Role: developer, reviewer, architect, or your own.")] = ""
    force_model: Annotated[str, Meta(description="Model, by the agent's name for it.")] = ""
    force_runtime: Annotated[
        str, Meta(description="Agent: a name of engine_runtimes; also claude-code, open-code, cli.")
    ] = ""
    max_tokens: Annotated[int | UnsetType, Meta(description="Maximum number of tokens.")] = UNSET
    max_cost: Annotated[float | UnsetType, Meta(description="Maximum cost in USD.")] = UNSET
    context: Annotated[
        dict[str, Any] | Text, Meta(description="More information for the agent: text, or values by name.")
    ] = field(default_factory=dict[str, Any])
    tasks: Annotated[
        tuple[SubtaskArguments, ...], Meta(description="Several tasks instead of one: side by side, or by depends_on.")
    ] = ()
    agents: Annotated[tuple[Agent, ...], Meta(description="Several race for one task, each in its own workspace.")] = ()
    checks: Annotated[
        tuple[str, ...], Meta(description="Commands that must succeed on the result, such as `pytest -q`.")
    ] = ()
    parent: Annotated[str, Meta(description="Start from the work of this run instead of the last commit.")] = ""
    background: Annotated[
        bool, Meta(description="Return at once; poll with engine_result. The run continues after you disconnect.")
    ] = False
    timeout: Annotated[str, Meta(description="Maximum wall clock time of each try: 90s, 20m, 2h.  [default: 60m]")] = ""
    read_only: Annotated[bool, Meta(description="Succeed without changes: reviews, questions.")] = False
    name: Annotated[str | None, Meta(description="Name of the run.")] = None
    labels: Annotated[dict[str, str], Meta(description="Labels of the run, for filters.")] = field(
        default_factory=dict[str, str]
    )


class StatusArguments(Arguments, frozen=True):
    run: Annotated[str, Meta(description="Only this run.  [default: everything]")] = ""


class BudgetArguments(Arguments, frozen=True):
    action: Annotated[
        BudgetAction | UnsetType,
        Meta(description="set needs an amount; reset removes limits that were set by hand (not the ceiling)."),
    ] = UNSET
    max_cost: Annotated[float | UnsetType, Meta(description="USD a day, for all runs together.")] = UNSET
    per_run: Annotated[float | UnsetType, Meta(description="USD for each run.")] = UNSET
    per_month: Annotated[float | UnsetType, Meta(description="USD a month.")] = UNSET
    agent: Annotated[str, Meta(description="Only for this agent.")] = ""
    reset: Annotated[bool, Meta(description="The same as action reset.")] = False

    @property
    def amounts(self) -> list[tuple[Window, float]]:
        """What is to be set."""
        named: tuple[tuple[Window, float | UnsetType], ...] = (
            ("run", self.per_run), ("day", self.max_cost), ("month", self.per_month),
        )  # fmt: skip
        return [(window, usd) for window, usd in named if not isinstance(usd, UnsetType)]

    @property
    def does(self) -> BudgetAction:
        """What is meant: the action that is named, or the one that the rest means."""
        if not isinstance(self.action, UnsetType):
            return self.action
        return "reset" if self.reset else "set" if self.amounts else "get"

    @property
    def scope(self) -> AccessScope:
        return "admin" if self.does != "get" else "read"


class InterruptArguments(ActArguments, frozen=True):
    run: RunName


class ResumeArguments(ActArguments, frozen=True):
    run: RunName
    background: Annotated[bool, Meta(description="Return at once; poll with engine_result.")] = False


class CommentArguments(ActArguments, frozen=True):
    run: RunName
    text: Annotated[Text, Meta(description="What is said; not needed with resolve.")] = ""
    file: Annotated[str, Meta(description="The file, as the diff names it.")] = ""
    line: Annotated[int | None, Meta(description="The line, or the first of several; null: the whole file.")] = None
    last_line: Annotated[int | None, Meta(description="The last line.  [line]")] = None
    side: Annotated[Side, Meta(description="new: lines of the result. old: lines of what it changed.")] = "new"
    attempt: Annotated[str, Meta(description="The attempt it is about: id or number.  [the winner]")] = ""
    reply_to: Annotated[str, Meta(description="Answer this comment, by its id.")] = ""
    resolve: Annotated[tuple[str, ...], Meta(description="Instead: ids of comments that are resolved.")] = ()


class ReviseArguments(ActArguments, frozen=True):
    run: RunName
    text: Annotated[Text, Meta(description="Said to the agent besides the open comments.")] = ""
    attempt: Annotated[str, Meta(description="The attempt to revise: id or number.")] = ""
    background: Annotated[bool, Meta(description="Return at once; look with engine_result.")] = False


class ListRunsArguments(Arguments, frozen=True):
    status: Annotated[tuple[Status, ...], Meta(description="Only runs with these statuses.")] = ()
    label: Annotated[tuple[str, ...], Meta(description="Only runs with these labels: KEY or KEY=VALUE.")] = ()
    repo: Annotated[str, Meta(description="Only runs of this repository.")] = ""
    agent: Annotated[str, Meta(description="Only runs in which this agent made an attempt.")] = ""
    unmerged: Annotated[bool, Meta(description="Only runs whose work is not merged.")] = False
    since: Annotated[str, Meta(description="Only runs started since then: 2d, 12h, or ISO 8601.")] = ""
    limit: Count = 20


class RenameArguments(ActArguments, frozen=True):
    run: RunName
    name: Annotated[str, Meta(description="New name; an empty one removes it.")]


class OutputArguments(Arguments, frozen=True):
    run: RunName
    since: Annotated[int, Meta(description="Only events after this number; use `next` of the last answer.", ge=0)] = 0
    filter: Annotated[
        str,
        Meta(description="Words to find; `a|b` is either, `a.*b` is a before b. Case is ignored.", max_length=1000),
    ] = ""
    types: Annotated[
        tuple[str, ...], Meta(description="Only events of these types: said, called_tool, checked ...")
    ] = ()
    limit: Count = 100
    wait: Annotated[Seconds, Meta(description="Maximum seconds to wait for new events.")] = 0.0


class ResultArguments(Arguments, frozen=True):
    run: RunName
    wait: Annotated[Seconds, Meta(description="Maximum seconds to wait for its end.")] = 0.0


class DiffArguments(Arguments, frozen=True):
    run: RunName
    attempt: Annotated[str, Meta(description="Attempt.  [default: the winner, or the last with a change]")] = ""
    limit: Annotated[int, Meta(description="Maximum number of bytes.", ge=1, le=1 << 20)] = 100_000


class SelectArguments(Arguments, frozen=True):
    run: RunName
    attempt: Annotated[str, Meta(description="Attempt to make the winner; without it, only compare.")] = ""

    @property
    def scope(self) -> AccessScope:
        return "run" if self.attempt else "read"


class MergeArguments(Arguments, frozen=True):
    run: RunName
    action: Annotated[
        Literal["merge", "preview", "undo", "abort"],
        Meta(description="preview changes nothing; abort ends a merge with conflicts."),
    ] = "merge"
    strategy: Annotated[MergeStrategy, Meta(description="auto merges only without conflicts.")] = "auto"
    into: Annotated[str, Meta(description="Target branch.  [default: the branch the run started from]")] = ""
    pick: Annotated[str, Meta(description="Attempt to merge instead of the winner.")] = ""

    @property
    def scope(self) -> AccessScope:
        return "read" if self.action == "preview" else "merge"


class SteerArguments(ActArguments, frozen=True):
    run: RunName
    text: Annotated[Text, Meta(description="Message to the agents at work.", min_length=1)]


class AnswerArguments(ActArguments, frozen=True):
    id: Annotated[str, Meta(description="Number of the question; engine_status lists them.", min_length=1)]
    answer: Annotated[Text, Meta(description="The user's answer: one of the choices, or text.", min_length=1)]


class FlowArguments(Arguments, frozen=True):
    action: Literal["check", "run"]
    path: Annotated[str, Meta(description="Repository.", min_length=1)]
    file: Annotated[str, Meta(description="Flow file, inside the repository.")] = ""
    flow: Annotated[Text, Meta(description="The flow itself, as YAML or JSON, instead of a file.")] = ""
    inputs: Annotated[dict[str, Any], Meta(description="Values of its inputs.")] = field(default_factory=dict[str, Any])
    agents: Annotated[tuple[Agent, ...], Meta(description="Agents for nodes without one.")] = ()
    max_cost: Annotated[float | UnsetType, Meta(description="Maximum cost of the whole flow in USD.")] = UNSET
    background: Annotated[bool, Meta(description="Return at once; poll with engine_result.")] = False

    @property
    def scope(self) -> AccessScope:
        return "run" if self.action == "run" else "read"


class PlanArguments(Arguments, frozen=True):
    path: Annotated[str, Meta(description="Repository.", min_length=1)]
    task: Annotated[Text, Meta(description="What is to be planned.", min_length=1)]
    agent: Annotated[str, Meta(description="Agent that plans.  [default: yours]")] = ""
    most: Annotated[int, Meta(description="Most nodes.", ge=1, le=50)] = 12
    parallelism: Parallelism = "balanced"
    complexity: Grade | None = None
    roles: tuple[str, ...] = ()
    max_cost: Annotated[float | UnsetType, Meta(description="Maximum cost of the planned flow in USD.")] = UNSET

    @property
    def scope(self) -> AccessScope:
        return "run"


class NoArguments(Arguments, frozen=True):
    """No argument at all."""
