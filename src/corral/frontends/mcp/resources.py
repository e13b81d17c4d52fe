"""Run documents, logs and changes as resources: `corral://runs/RUN`, and /log and /diff below it."""

from __future__ import annotations

import msgspec
from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from corral.engine.engine import Engine
from corral.frontends.cli.text import event_words, one_line
from corral.frontends.mcp import responses
from corral.frontends.mcp.look_tools import summaries
from corral.model import document, moment
from corral.model.errors import CorralError
from corral.model.server import RunFilter

RUNS = "corral://runs"
MOST_LISTED = 50
MOST_LINES = 2000
MOST_DIFF = 1 << 20
JSON, TEXT, PATCH = "application/json", "text/plain", "text/x-diff"


def list_resources(engine: Engine) -> ListResourcesResult:
    found = [Resource(uri=RUNS, name="runs", title="All runs", mime_type=JSON)]
    for line in summaries(engine, RunFilter(most=MOST_LISTED)):
        title = f"{line.status}: {one_line(line.title, 60)}"
        found.append(Resource(uri=f"{RUNS}/{line.run}", name=line.run, title=title, mime_type=JSON))
    return ListResourcesResult(resources=found)


def templates() -> ListResourceTemplatesResult:
    kinds = (
        ("", "run", "The run document", JSON),
        ("/log", "log", "What its agents said and did, in words", TEXT),
        ("/diff", "diff", "The change it made", PATCH),
    )
    return ListResourceTemplatesResult(
        resource_templates=[
            ResourceTemplate(uri_template=f"{RUNS}/{{run}}{tail}", name=name, description=about, mime_type=kind)
            for tail, name, about, kind in kinds
        ]
    )


async def read(engine: Engine, uri: str) -> ReadResourceResult:
    """Return what is at an address; only runs are."""
    run, _, part = uri.removeprefix(RUNS).removeprefix("/").partition("/")
    try:
        text, kind = await _content(engine, uri, run, part)
    except CorralError as error:
        raise MCPError(INVALID_PARAMS, str(error), {"uri": uri}) from error
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=kind, text=text)])


async def _content(engine: Engine, uri: str, run: str, part: str) -> tuple[str, str]:
    if uri == RUNS:
        return msgspec.json.encode(
            responses.RunsReply(runs=tuple(summaries(engine, RunFilter(most=1000))))
        ).decode(), JSON
    if not uri.startswith(f"{RUNS}/") or not run or part not in ("", "log", "diff"):
        raise CorralError(f"there is nothing at {uri[:200]}")
    found = engine.show(run)
    if part == "log":
        return _log(engine, found.run), TEXT
    if part == "diff":
        kept = bytearray()
        await engine.work.diff(found.run, None, lambda chunk: kept.extend(chunk[: MOST_DIFF - len(kept)]))
        return kept.decode(errors="replace"), PATCH
    return document(found).decode(), JSON


def _log(engine: Engine, run: str) -> str:
    """Return the end of what happened, a moment and a place for each."""
    told: list[str] = []
    for stored in engine.history.events(run):
        if words := event_words(stored.event()):
            told.append(f"{moment(stored.at)} {stored.node or run}  {words}")
            del told[:-MOST_LINES]
    return "\n".join(told)
