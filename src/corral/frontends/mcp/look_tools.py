"""The tools that only look: status, list, output, result, diff, runtimes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import structs

from corral.engine.engine import Engine
from corral.engine.planning.build_flow import template_names
from corral.frontends.mcp import arguments, money, responses
from corral.frontends.mcp.act_tools import ToolReply, run_reply
from corral.frontends.mcp.calls import ClientCall
from corral.frontends.run_filters import Filters, read_filter
from corral.model import OPEN, InboxEntry
from corral.model.flow import RunStrategy
from corral.model.server import RunFilter, RunSummary

MOST_TASK = 200
OPEN_STATUSES = tuple(sorted(OPEN))


async def status(call: ClientCall, asked: arguments.StatusArguments) -> ToolReply:
    run = call.engine.show(asked.run) if asked.run else None
    waiting = [entry for entry in call.engine.inbox.entries() if run is None or entry.run == run.run]
    found = await call.engine.examine()
    usable = tuple(agent.name for agent in found.agents if agent.program)
    day, month = money.spent_day_and_month(call.engine)
    preferred = call.engine.settings.load(Path()).defaults.agent or "claude"
    return ToolReply(
        responses.StatusReply(
            available_runtimes=usable,
            available_strategies=get_args(RunStrategy),
            preferred_runtime=preferred,
            daily_spending=day,
            monthly_spending=month,
            is_mcp_mode=True,
            sandbox=found.sandbox.level,
            open=tuple(summaries(call.engine, RunFilter(most=1000, statuses=OPEN_STATUSES))),
            waiting=tuple(InboxEntry.of(entry) for entry in waiting),
            run=run,
        )
    )


async def runtimes(call: ClientCall, _: arguments.NoArguments) -> ToolReply:
    found = await call.engine.examine()
    return ToolReply(
        responses.RuntimesReply(runtimes=found.agents, sandbox=found.sandbox.level, flows=tuple(template_names())),
        words="" if found.ok else "nothing can run here yet: see `remedy`, or `corral doctor`",
    )


def summaries(engine: Engine, wanted: RunFilter) -> list[RunSummary]:
    """Return runs as every list shows them, newest first; of a task only its beginning."""
    return [structs.replace(line, task=line.task[:MOST_TASK]) for line in engine.history.page(wanted)]


async def listing(call: ClientCall, asked: arguments.ListRunsArguments) -> ToolReply:
    filters = Filters(status=asked.status, label=asked.label, repo=asked.repo, agent=asked.agent)
    filters["unmerged"], filters["since"] = asked.unmerged, asked.since
    return ToolReply(responses.RunsReply(runs=tuple(summaries(call.engine, read_filter(asked.limit, filters)))))


async def output(call: ClientCall, asked: arguments.OutputArguments) -> ToolReply:
    run = call.engine.show(asked.run)
    found = _events(call.engine, run.run, asked)
    if not found.events and asked.wait:
        await call.for_a_while(run.run, asked.wait, asked.since)
        found = _events(call.engine, run.run, asked)
    return ToolReply(found)


def _events(engine: Engine, run: str, asked: arguments.OutputArguments) -> responses.EventsReply:
    fits = fitting(asked.filter)
    events: list[dict[str, Any]] = []
    last, more = asked.since, False
    for stored in engine.history.events(run, asked.since):
        if len(events) >= asked.limit:
            more = True
            break
        last = stored.seq
        body: dict[str, Any] = msgspec.json.decode(stored.body)
        if (not asked.types or body["type"] in asked.types) and fits(stored.body.decode(errors="replace")):
            events.append(responses.event(stored, body))
    return responses.EventsReply(run=run, status=engine.show(run).status, events=tuple(events), next=last, more=more)


def fitting(words: str) -> Callable[[str], bool]:
    """Return what finds words: `a|b` is either, `a.*b` is a before b. No pattern can make it slow."""
    ways = [[piece for piece in way.lower().split(".*") if piece] for way in words.split("|")]

    def fits(text: str) -> bool:
        low = text.lower()
        return any(_in_order(low, way) for way in ways)

    return fits


def _in_order(text: str, pieces: list[str]) -> bool:
    place = 0
    for piece in pieces:
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True


async def result(call: ClientCall, asked: arguments.ResultArguments) -> ToolReply:
    run = call.engine.show(asked.run)
    if asked.wait and run.status in OPEN:
        await call.for_a_while(run.run, asked.wait)
        run = call.engine.show(run.run)
    return run_reply(call, await call.engine.merges.add_git_state(run))


async def diff(call: ClientCall, asked: arguments.DiffArguments) -> ToolReply:
    attempt = call.engine.work.changed_by(asked.run, asked.attempt or None)
    kept, size = bytearray(), 0

    def take(chunk: bytes) -> None:
        nonlocal size
        size += len(chunk)
        kept.extend(chunk[: max(0, asked.limit - len(kept))])

    await call.engine.work.diff(asked.run, attempt.id, take)
    return ToolReply(
        responses.DiffReply(
            run=call.engine.show(asked.run).run,
            attempt=attempt.id,
            commit=attempt.commit,
            diff=kept.decode(errors="replace"),
            cut=size > len(kept),
            bytes=size,
        )
    )
