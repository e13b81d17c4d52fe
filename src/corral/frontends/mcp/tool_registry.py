"""The table of tools: name, what it is for, what it takes and gives. Few, so that a model reads all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from mcp.types import Tool, ToolAnnotations
from msgspec import Struct

from corral.engine.engine import Engine
from corral.engine.planner import PlannedFlow
from corral.engine.views.compare import Comparison
from corral.frontends.mcp import act_tools, arguments, look_tools, money, responses
from corral.frontends.mcp.act_tools import ToolReply
from corral.frontends.mcp.calls import ClientCall
from corral.model import Run

Schema = dict[str, Any]
KEPT = "tool_"  #: what the names of kept tools begin with
SAID = ("title", "description", "default")


def input_schema(type_: type) -> Schema:
    """Return the schema of a tool's arguments: without references, for not every client follows them."""
    schema = msgspec.json.schema(type_)
    found = cast("Schema", _inline_refs(schema, schema.get("$defs", {})))
    found.pop("$defs", None)
    found.pop("description", None)
    return {"type": "object", "properties": {}, **found}


def output_schema(types: Sequence[type]) -> Schema:
    """Return the schema of a tool's structured content: an object, one of these."""
    (first, *others), found = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    defs = _bare_each(found)
    if not others:
        name = str(first["$ref"]).rpartition("/")[2]
        return {**defs.pop(name), "$defs": defs}
    return {"type": "object", "anyOf": [first, *others], "$defs": defs}


def _inline_refs(part: Any, defs: Schema) -> Any:  # noqa: ANN401 -- any part of a schema
    if isinstance(part, list):
        return [_inline_refs(each, defs) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    table = {key: value for key, value in cast("Schema", part).items() if key != "title"}
    if "enum" in table:
        table = {"type": "string", **table}  # some clients ask for it said
    if "$ref" in table:
        name = str(table["$ref"]).rpartition("/")[2]
        return {**_inline_refs(defs[name], defs), **{key: value for key, value in table.items() if key != "$ref"}}
    return {key: _inline_refs(value, defs) for key, value in table.items() if key != "$defs"}


def _bare(part: Any) -> Any:  # noqa: ANN401
    """Leave out what only users read: a listing of tools goes over the wire at every start of a client."""
    if isinstance(part, list):
        return [_bare(each) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    kept = {key: value for key, value in cast("Schema", part).items() if key not in SAID}
    return {key: _bare_each(value) if key == "properties" else _bare(value) for key, value in kept.items()}


def _bare_each(named: Schema) -> Schema:
    return {name: _bare(part) for name, part in named.items()}


class ToolEntry(Struct, frozen=True, kw_only=True):
    """A tool: `does` is called with its arguments, decoded."""

    title: str
    about: str
    takes: type[arguments.Arguments]
    gives: tuple[type, ...]
    does: Callable[[ClientCall, Any], Awaitable[ToolReply]]
    looks: bool = False  #: it changes nothing
    breaks: bool = False  #: it takes something away, or moves a branch


TABLE: dict[str, ToolEntry] = {
    "engine_execute": ToolEntry(
        title="Have agents do a task",
        about=(
            "Run a coding agent on a task in a private copy of a repository, in a sandbox, and check the result with "
            "`checks`. The user's checkout does not change: the work is on a branch; engine_merge merges it. "
            "Several agents race for one task; several tasks run side by side or by depends_on. Waits for the end, "
            "with progress, unless background. Returns the run document; `done` means that all checks passed."
        ),
        takes=arguments.ExecuteArguments,
        gives=(Run,),
        does=act_tools.execute,
    ),
    "engine_status": ToolEntry(
        title="Status",
        about="Show what runs, what waits for the user's answer, the cost, which agents can run; or one run in full.",
        takes=arguments.StatusArguments,
        gives=(responses.StatusReply,),
        does=look_tools.status,
        looks=True,
    ),
    "engine_budget": ToolEntry(
        title="Budget: limits and cost",
        about=(
            "Show the cost and the limits for all runs together; set one, or reset those set by hand. "
            "Corral records who did it. Raise a limit only if the user said so."
        ),
        takes=arguments.BudgetArguments,
        gives=(responses.BudgetReply,),
        does=money.budget,
        breaks=True,
    ),
    "engine_list": ToolEntry(
        title="List runs",
        about="List runs, newest first.",
        takes=arguments.ListRunsArguments,
        gives=(responses.RunsReply,),
        does=look_tools.listing,
        looks=True,
    ),
    "engine_rename": ToolEntry(
        title="Name a run",
        about="Give a run a name, shown in lists.",
        takes=arguments.RenameArguments,
        gives=(Run,),
        does=act_tools.rename,
    ),
    "engine_result": ToolEntry(
        title="Result of a run",
        about="Return the run document: status, attempts, checks, cost, output, branch. `wait` waits for its end.",
        takes=arguments.ResultArguments,
        gives=(Run,),
        does=look_tools.result,
        looks=True,
    ),
    "engine_output": ToolEntry(
        title="What agents said and did",
        about="Return the events of a run, oldest first; continue with since = next.",
        takes=arguments.OutputArguments,
        gives=(responses.EventsReply,),
        does=look_tools.output,
        looks=True,
    ),
    "engine_diff": ToolEntry(
        title="Change of a run",
        about="Return the change of a run as a patch: read it before you merge.",
        takes=arguments.DiffArguments,
        gives=(responses.DiffReply,),
        does=look_tools.diff,
        looks=True,
    ),
    "engine_select": ToolEntry(
        title="Compare attempts, choose one",
        about="Compare the attempts of a run: checks, change, cost, rank. With `attempt`: make that one the winner.",
        takes=arguments.SelectArguments,
        gives=(Comparison, Run),
        does=act_tools.select,
    ),
    "engine_merge": ToolEntry(
        title="Merge the work of a run",
        about=(
            "Merge a run's work into its branch, after checking the merged tree; a conflict or a dirty checkout "
            "moves nothing. preview changes nothing, undo reverts a merge exactly. Ask the user before you merge."
        ),
        takes=arguments.MergeArguments,
        gives=(Run, responses.MergePreviewReply),
        does=act_tools.merge,
        breaks=True,
    ),
    "engine_interrupt": ToolEntry(
        title="Stop a run",
        about="Stop a run of any process: end its agents, keep their work, and return the partial result.",
        takes=arguments.InterruptArguments,
        gives=(Run,),
        does=act_tools.interrupt,
        breaks=True,
    ),
    "engine_resume": ToolEntry(
        title="Resume a run",
        about="Resume a run that was interrupted or waits; finished nodes are not repeated.",
        takes=arguments.ResumeArguments,
        gives=(Run,),
        does=act_tools.resume,
    ),
    "engine_comment": ToolEntry(
        title="Comment on a change",
        about="Comment on lines of what a run changed, answer a comment, or resolve some; engine_revise sends them.",
        takes=arguments.CommentArguments,
        gives=(responses.CommentsReply,),
        does=act_tools.comment,
    ),
    "engine_revise": ToolEntry(
        title="Have a change revised",
        about=(
            "Send all open comments of a run, and a text, to the agent that did the work, in its own conversation: it "
            "continues from its commit. The result is a new attempt, checked as before; the winner if its checks pass."
        ),
        takes=arguments.ReviseArguments,
        gives=(Run,),
        does=act_tools.revise,
    ),
    "engine_steer": ToolEntry(
        title="Send agents a message",
        about="Send the agents of a run a follow-up prompt while they work, and report its delivery.",
        takes=arguments.SteerArguments,
        gives=(responses.OutcomeReply,),
        does=act_tools.steer,
    ),
    "engine_answer": ToolEntry(
        title="Answer a question",
        about="Answer a question to the user (engine_status: waiting). Pass on only the user's words: ask them first.",
        takes=arguments.AnswerArguments,
        gives=(responses.OutcomeReply,),
        does=act_tools.answer,
    ),
    "engine_flow": ToolEntry(
        title="Check or run a flow",
        about="Check a flow file (a graph of tasks, gates, merges) and report mistakes with their lines; or run it.",
        takes=arguments.FlowArguments,
        gives=(Run, responses.FlowCheckReply),
        does=act_tools.flow,
    ),
    "engine_plan": ToolEntry(
        title="Plan a task",
        about="Have an agent write a flow for a task, checked. Show it to the user, then run it with engine_flow.",
        takes=arguments.PlanArguments,
        gives=(PlannedFlow,),
        does=act_tools.plan,
    ),
    "engine_runtimes": ToolEntry(
        title="Agents that can run",
        about="List the agents: version, login, models, abilities, and how to install a missing one.",
        takes=arguments.NoArguments,
        gives=(responses.RuntimesReply,),
        does=look_tools.runtimes,
        looks=True,
    ),
}


async def list_kept(engine: Engine) -> list[Tool]:
    """Return the tools that the user keeps for the folder we were started in, as far as they are approved."""
    kept = await engine.tools.list(Path.cwd())
    return [
        Tool(
            name=KEPT + each.name.replace("-", "_"),
            title=each.name,
            description=each.description
            or f"The tool {each.name}: a program that calls {', '.join(each.tools) or 'no tool'}.",
            input_schema={**each.input_schema, "type": "object"},
        )
        for each in kept
        if each.approved
    ]


def list_tools() -> list[Tool]:
    """Return the tools as clients see them."""
    return [
        Tool(
            name=name,
            title=entry.title,
            description=entry.about,
            input_schema=input_schema(entry.takes),
            output_schema=output_schema(entry.gives),
            annotations=ToolAnnotations(
                title=entry.title,
                read_only_hint=entry.looks,
                destructive_hint=entry.breaks,
                idempotent_hint=entry.looks,
                open_world_hint=not entry.looks,
            ),
        )
        for name, entry in TABLE.items()
    ]
