"""Tools that users keep: add, look, approve, run, remove."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from corral.attempt.toolbox.stored_tools import (
    Place,
    StoredTool,
    StoredTools,
    ToolDeclaration,
    ToolExample,
    check_name,
    write_files,
)
from corral.config import paths
from corral.config.paths import MOST_SETTINGS
from corral.engine.context import Context, Say
from corral.engine.programs import ProgramOrder, Programs, read_program
from corral.machines import programs
from corral.machines.programs import ProgramBox
from corral.machines.tool_calls import RecordedCalls
from corral.model.errors import BadRequest, NotFound
from corral.model.program import Language, Program, ProgramLimits, ProgramRecord
from corral.rules.context import program_tools
from corral.rules.flows.schemas import misfits

NO_EXAMPLE = object()  #: nobody gave an input to record


class ToolView(Struct, frozen=True, kw_only=True):
    """A tool as every surface shows it."""

    name: str
    version: int
    hash: str
    language: Language
    tools: tuple[str, ...]
    created: str
    uses: int
    approved: bool
    description: str = ""
    place: Place = "repository"
    created_by: str = "user"
    last_used: float | None = None
    success_rate: float | None = None
    example: bool = False
    input_schema: dict[str, Any] = {}
    limits: ProgramLimits = ProgramLimits()
    source: str = ""


class NewTool(Struct, frozen=True, kw_only=True):
    """What a user keeps as a tool."""

    name: str
    file: Path | None = None
    program: str | None = None  #: the id of a program that ran
    tools: tuple[str, ...] = ()
    description: str = ""
    input_schema: Path | None = None
    output_schema: Path | None = None
    place: Place | None = None
    example: Any = NO_EXAMPLE
    limits: ProgramLimits = ProgramLimits()


class Tools:
    """The registry of tools, for one user."""

    def __init__(self, context: Context, programs: Programs) -> None:
        self._context, self._programs = context, programs

    async def list(self, folder: Path) -> list[ToolView]:
        stored = await self._stored_tools(folder)
        return [self._view(stored, tool) for tool in stored.all()]

    async def show(self, folder: Path, name: str) -> ToolView:
        stored = await self._stored_tools(folder)
        tool = stored.get(name)
        return structs.replace(self._view(stored, tool), source=tool.source)

    async def add(self, folder: Path, wanted: NewTool, say: Say) -> ToolView:
        """Keep a program as a tool. Adding it approves it, as it is now and where it lies."""
        check_name(wanted.name)
        stored = await self._stored_tools(folder)
        place = wanted.place or next(iter(stored.places))
        if place not in stored.places:
            raise BadRequest("this folder is not in a repository", hint="keep the tool for yourself: --user")
        language, source, tools = self._source(wanted)
        before = next((each for each in stored.all() if (each.name, each.place) == (wanted.name, place)), None)
        about = ToolDeclaration(
            description=wanted.description or (before.declaration.description if before else ""),
            version=before.declaration.version + 1 if before else 1,
            language=language,
            tools=tools,
            input_schema=_schema(wanted.input_schema),
            output_schema=_schema(wanted.output_schema),
            limits=wanted.limits,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            created_by=wanted.program or "user",
        )
        at = str(stored.places[place].absolute())
        tool = StoredTool(name=wanted.name, place=place, folder=at, source=source, declaration=about)
        if wanted.example is not NO_EXAMPLE:
            tool = await self._with_example(folder, tool, wanted.example, say)
        stored.write(tool)
        stored.approve(tool)
        return self._view(stored, tool)

    async def approve(self, folder: Path, name: str) -> ToolView:
        """Let a tool run as it is now; its example must still give what was recorded."""
        stored = await self._stored_tools(folder)
        tool = stored.get(name)
        await self._replay(tool)
        stored.approve(tool)
        return self._view(stored, tool)

    async def remove(self, folder: Path, name: str) -> ToolView:
        stored = await self._stored_tools(folder)
        tool = stored.get(name)
        view = self._view(stored, tool)
        stored.remove(tool)
        self._context.store.programs.forget(tool.folder, tool.name)
        return view

    async def export(self, folder: Path, name: str, into: Path) -> tuple[Path, Path]:
        """Write a tool's program and its declaration into a folder; files that are there are not replaced."""
        tool = (await self._stored_tools(folder)).get(name)
        return write_files(tool, into)

    async def run(self, folder: Path, name: str, given: object, say: Say) -> ProgramRecord:
        """Run an approved tool; it has the tools that it declares, and the caller's scope."""
        stored = await self._stored_tools(folder)
        tool = stored.find_approved(name)
        tool.check_input(given)
        if not self._context.store.programs.uses(tool.folder, tool.name).uses:
            await self._replay(tool)
        order = ProgramOrder(program=tool.program, folder=folder, input=given, tool=name)
        record = await self._programs.run(order, say)
        wrong = list(misfits(record.result.result, tool.declaration.output_schema))
        if record.result.error is None and wrong:
            raise BadRequest(
                f"the result of {name} does not fit its schema: {'; '.join(wrong[:5])}",
                hint="correct the tool's program, or its output schema",
            )
        succeeded = record.result.error is None
        self._context.store.programs.use(tool.folder, tool.name, tool.hash, time.time(), succeeded=succeeded)
        return record

    async def _with_example(self, folder: Path, tool: StoredTool, given: object, say: Say) -> StoredTool:
        """Run it once, and keep what it was given, what its tools answered and what came of it."""
        tool.check_input(given)
        order = ProgramOrder(program=tool.program, folder=folder, input=given)
        record = await self._programs.run(order, say)
        if record.result.error:
            raise BadRequest(
                f"the example fails: {record.result.error.kind}: {record.result.error.message}",
                hint=f"try it: corral code {tool.program.name}",
            )
        example = ToolExample(input=given, calls=record.calls, result=record.result.result)
        return structs.replace(tool, declaration=structs.replace(tool.declaration, example=example))

    async def _replay(self, tool: StoredTool) -> None:
        """Run the example of a tool against its recorded answers; BadRequest where it gives something else."""
        example = tool.declaration.example
        if example is None:
            return
        box = ProgramBox(state=self._context.home / "programs", level=await self._programs.level())
        calls = RecordedCalls(example.calls)
        result = await programs.run(tool.program, example.input, calls, list(program_tools.TOOLS), box)
        if result.error or result.result != example.result:
            words = f"{result.error.kind}: {result.error.message}" if result.error else "another result"
            raise BadRequest(
                f"the tool `{tool.name}` does not do what its example says: {words[:400]}",
                hint=f"look at it: corral tools show {tool.name}",
            )

    def _source(self, wanted: NewTool) -> tuple[Language, str, tuple[str, ...]]:
        if (wanted.file is None) == (wanted.program is None):
            raise BadRequest("name the file of a program, or --program ID", hint="corral tools add FILE --name NAME")
        if wanted.file is not None:
            return *read_program(wanted.file), wanted.tools
        record = self._context.store.programs.get(wanted.program or "")
        if record is None:
            raise NotFound(
                f"no program is known as `{(wanted.program or '')[:80]}`", hint="`corral code` prints its id"
            )
        found: Program = record.program
        return found.language, found.source, wanted.tools or found.tools

    async def _stored_tools(self, folder: Path) -> StoredTools:
        place = await self._programs.place(folder)
        return StoredTools(place.root if place.repository else None, self._context.home)

    def _view(self, stored: StoredTools, tool: StoredTool) -> ToolView:
        about, uses = tool.declaration, self._context.store.programs.uses(tool.folder, tool.name)
        return ToolView(
            name=tool.name,
            version=about.version,
            hash=tool.hash,
            language=about.language,
            tools=about.tools,
            created=about.created,
            uses=uses.uses,
            approved=stored.is_approved(tool),
            description=about.description,
            place=tool.place,
            created_by=about.created_by,
            last_used=uses.last_used,
            success_rate=round(uses.succeeded / uses.uses, 3) if uses.uses else None,
            example=about.example is not None,
            input_schema=about.input_schema,
            limits=about.limits,
        )


def _schema(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    content = paths.read_file(file, MOST_SETTINGS, str(file), "give the path of a file, from the present folder")
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(f"{file} is no JSON Schema: {error}", hint="a file with a JSON object") from error
