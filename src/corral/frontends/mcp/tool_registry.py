"""The table of tools: name, what it is for, what it takes and gives. Few, so that a model reads all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
from mcp.types import Tool, ToolAnnotations
from msgspec import Struct

from corral.engine.views.compare import Comparison
from corral.frontends.mcp import act_tools, arguments, look_tools, money, responses
from corral.frontends.mcp.act_tools import Told
from corral.frontends.mcp.calls import Call
from corral.model import Run

Schema = dict[str, Any]
SAID = ("title", "description", "default")


def taken(type_: type) -> Schema:
    """Return the schema of a tool's arguments: without references, for not every client follows them."""
    schema = msgspec.json.schema(type_)
    found = cast("Schema", _inlined(schema, schema.get("$defs", {})))
    found.pop("$defs", None)
    found.pop("description", None)
    return {"type": "object", "properties": {}, **found}


def given(types: Sequence[type]) -> Schema:
    """Return the schema of a tool's structured content: an object, one of these."""
    (first, *others), found = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    defs = _bare_each(found)
    if not others:
        name = str(first["$ref"]).rpartition("/")[2]
        return {**defs.pop(name), "$defs": defs}
    return {"type": "object", "anyOf": [first, *others], "$defs": defs}


def _inlined(part: Any, defs: Schema) -> Any:  # noqa: ANN401 -- any part of a schema
    if isinstance(part, list):
        return [_inlined(each, defs) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    table = {key: value for key, value in cast("Schema", part).items() if key != "title"}
    if "enum" in table:
        table = {"type": "string", **table}  # some clients want it said
    if "$ref" in table:
        name = str(table["$ref"]).rpartition("/")[2]
        return {**_inlined(defs[name], defs), **{key: value for key, value in table.items() if key != "$ref"}}
    return {key: _inlined(value, defs) for key, value in table.items() if key != "$defs"}


def _bare(part: Any) -> Any:  # noqa: ANN401
    """Leave out what only people read: a listing of tools goes over the wire at every start of a client."""
    if isinstance(part, list):
        return [_bare(each) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    kept = {key: value for key, value in cast("Schema", part).items() if key not in SAID}
    return {key: _bare_each(value) if key == "properties" else _bare(value) for key, value in kept.items()}


def _bare_each(named: Schema) -> Schema:
    return {name: _bare(part) for name, part in named.items()}


class Entry(Struct, frozen=True, kw_only=True):
    """A tool: `does` is called with its arguments, decoded."""

    title: str
    about: str
    takes: type[arguments.Arguments]
    gives: tuple[type, ...]
    does: Callable[[Call, Any], Awaitable[Told]]
    looks: bool = False  #: it changes nothing
    breaks: bool = False  #: it takes something away, or moves a branch


TABLE: dict[str, Entry] = {
    "engine_execute": Entry(
        title="Have agents do a task",
        about=(
            "Have a coding agent do a task in a private copy of a repository, in a sandbox, and prove the result by "
            "checks. The user's checkout is not touched: the work is on a branch, to be landed by engine_merge. "
            "Several agents race for one task; several tasks go side by side or by depends_on. Waits for the end, with "
            "progress, unless background. Gives the run document; `done` means that all checks passed."
        ),
        takes=arguments.Execute,
        gives=(Run,),
        does=act_tools.execute,
    ),
    "engine_status": Entry(
        title="How things stand",
        about="What runs, what waits for the user's answer, what was spent, which agents can run; or one run whole.",
        takes=arguments.Standing,
        gives=(responses.Standing,),
        does=look_tools.status,
        looks=True,
    ),
    "engine_budget": Entry(
        title="Money: limits and spending",
        about=(
            "Show what was spent and the limits that hold for all runs together; set one or reset those set by hand. "
            "Kept with who did it. Raise a limit only if the user said so."
        ),
        takes=arguments.Budget,
        gives=(responses.Money,),
        does=money.budget,
        breaks=True,
    ),
    "engine_list": Entry(
        title="List runs",
        about="List runs, newest first.",
        takes=arguments.Listing,
        gives=(responses.Lines,),
        does=look_tools.listing,
        looks=True,
    ),
    "engine_rename": Entry(
        title="Name a run",
        about="Give a run a name, to find it by in lists.",
        takes=arguments.Rename,
        gives=(Run,),
        does=act_tools.rename,
    ),
    "engine_result": Entry(
        title="Result of a run",
        about="Give the run document: status, attempts, checks, cost, output, branch. `wait` waits for its end.",
        takes=arguments.Result,
        gives=(Run,),
        does=look_tools.result,
        looks=True,
    ),
    "engine_output": Entry(
        title="What agents said and did",
        about="Give the events of a run, oldest first; go on with since = next.",
        takes=arguments.Output,
        gives=(responses.Events,),
        does=look_tools.output,
        looks=True,
    ),
    "engine_diff": Entry(
        title="Change of a run",
        about="Give the change that a run made, as a patch: look at it before you merge.",
        takes=arguments.Diff,
        gives=(responses.Patch,),
        does=look_tools.diff,
        looks=True,
    ),
    "engine_select": Entry(
        title="Compare attempts, choose one",
        about="Compare the attempts of a run: checks, change, cost, place. With `attempt`: make that one the winner.",
        takes=arguments.Select,
        gives=(Comparison, Run),
        does=act_tools.select,
    ),
    "engine_merge": Entry(
        title="Land the work of a run",
        about=(
            "Land a run's work on its branch: checked once more on the merged tree; a conflict or an unclean checkout "
            "moves nothing. preview changes nothing, undo takes a merge back exactly. Ask the user before you merge."
        ),
        takes=arguments.Merge,
        gives=(Run, responses.Previewed),
        does=act_tools.merge,
        breaks=True,
    ),
    "engine_interrupt": Entry(
        title="Stop a run",
        about="Stop a run, whoever drives it: its agents are ended, their work is kept; gives the partial result.",
        takes=arguments.Interrupt,
        gives=(Run,),
        does=act_tools.interrupt,
        breaks=True,
    ),
    "engine_resume": Entry(
        title="Go on with a run",
        about="Go on with a run that was cut off or waits; what is finished is not done again.",
        takes=arguments.Resume,
        gives=(Run,),
        does=act_tools.resume,
    ),
    "engine_steer": Entry(
        title="Tell agents at work something",
        about="Give the agents of a run a follow-up prompt while they work; says what became of it.",
        takes=arguments.Steer,
        gives=(responses.Said,),
        does=act_tools.steer,
    ),
    "engine_answer": Entry(
        title="Answer a question",
        about="Answer what waits for the user (engine_status: waiting). Only with what the user said: ask them first.",
        takes=arguments.Answer,
        gives=(responses.Said,),
        does=act_tools.answer,
    ),
    "engine_flow": Entry(
        title="Check or run a flow",
        about="Check a flow file (a graph of tasks, gates, merges): all mistakes with their lines; or carry it out.",
        takes=arguments.FlowCall,
        gives=(Run, responses.Checked),
        does=act_tools.flow,
    ),
    "engine_runtimes": Entry(
        title="Agents that can run",
        about="List the agents: version, login, models, what each can do, and what helps where one is missing.",
        takes=arguments.Nothing,
        gives=(responses.Runtimes,),
        does=look_tools.runtimes,
        looks=True,
    ),
}


def listed() -> list[Tool]:
    """Return the tools as clients see them."""
    return [
        Tool(
            name=name,
            title=entry.title,
            description=entry.about,
            input_schema=taken(entry.takes),
            output_schema=given(entry.gives),
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
