"""Slash commands: views of what there is, and what a user does about it, typed as a prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from corral import amounts
from corral.config import paths
from corral.config.paths import MOST_TEXT
from corral.frontends.acp import reports
from corral.frontends.acp.merging import change_content, comparison, merge
from corral.frontends.acp.options import Choices
from corral.frontends.acp.turn import LEFT_TO_USER, FollowedRun, Watcher
from corral.model import ENCODER, OPEN, Request, Run
from corral.model.chat import ChatRecord
from corral.model.errors import BadRequest
from corral.model.server import RunFilter

MOST_RUNS = 10


class CommandSession(Watcher, Protocol):
    """The session in which a command is typed."""

    folder: str

    @property
    def record(self) -> ChatRecord: ...
    def choices(self) -> Choices: ...
    def choose(self, option: str, value: str) -> list[dict[str, object]]: ...
    async def begin(self, request: Request, title: str) -> FollowedRun: ...


Work = Callable[[CommandSession, str], Awaitable[FollowedRun | None]]  #: returns the run that is to be followed then
Command = Callable[[CommandSession], Awaitable[FollowedRun | None]]


class SlashCommand(Struct, frozen=True):
    description: str
    work: Work
    hint: str = ""  #: what may follow its name


def list_commands() -> list[dict[str, object]]:
    """Return the commands as clients offer them."""
    return [
        {"name": name, "description": each.description, **({"input": {"hint": each.hint}} if each.hint else {})}
        for name, each in COMMANDS.items()
    ]


def read(text: str) -> Command | None:
    """Return the command that a prompt is; None for any other text."""
    name, _, rest = text.partition(" ")
    found = COMMANDS.get(name[1:]) if name.startswith("/") else None
    if found is None:
        return None
    return lambda session: found.work(session, rest.strip())


def _last_run(session: CommandSession) -> Run:
    runs = session.record.runs
    if not runs:
        raise BadRequest("this session has no run yet", hint="say what is to be done")
    return session.engine.show(runs[-1])


async def _status(session: CommandSession, _: str) -> None:
    engine = session.engine
    mine = [engine.show(run) for run in session.record.runs[-MOST_RUNS:]]
    lines = reports.status_lines(mine) or ["No run in this session yet."]
    others = engine.history.page(RunFilter(most=MOST_RUNS, statuses=tuple(OPEN), repo=session.folder))
    lines += [
        f"- `{each.run}` {each.status}: {each.title[:100]} (another session)"
        for each in others
        if each.run not in {run.run for run in mine}
    ]
    lines += [reports.question_line(entry) for entry in engine.inbox.entries()]
    session.updates.say("\n".join(lines))


async def _diff(session: CommandSession, attempt: str) -> None:
    run = _last_run(session)
    files, content = await change_content(session.engine, run, attempt or None)
    title = f"{files} files changed by {attempt or run.run}"
    session.updates.begin_call(f"{run.run}/diff", title, "read", "completed", content)
    session.updates.say(title)


async def _compare(session: CommandSession, _: str) -> None:
    session.updates.say("\n".join(comparison(session.engine, _last_run(session).run)))


async def _merge(session: CommandSession, pick: str) -> None:
    _, words = await merge(session.engine, _last_run(session).run, pick or None)
    session.updates.say(words)


async def _undo(session: CommandSession, _: str) -> None:
    said: list[str] = []
    record = await session.engine.merges.undo(_last_run(session).run, Path(session.folder), said.append)
    session.updates.say(" ".join([f"Taken back from {record.into}.", *said]))


async def _inbox(session: CommandSession, _: str) -> None:
    entries = session.engine.inbox.entries()
    session.updates.say("\n".join(map(reports.question_line, entries)) or "Nothing waits for you.")


async def _answer(session: CommandSession, words: str) -> FollowedRun | None:
    number, _, text = words.partition(" ")
    if not text.strip():
        raise BadRequest("/answer takes an id and the answer", hint="/inbox lists what waits")
    engine = session.engine
    entry = await engine.inbox.answer(number, text.strip(), session.by)
    came = f" ({entry.outcome})" if entry.about == "result" else ""
    session.updates.say(f"Answered {entry.id}: {entry.answer}{came}.\n\n")
    if entry.run in session.record.runs and engine.history.status(entry.run) in (*OPEN, *LEFT_TO_USER):
        return _follow(session, entry.run)
    await engine.inbox.go_on(entry)
    return None


async def _budget(session: CommandSession, amount: str) -> None:
    if amount:
        changed = session.choose("budget", amount.lstrip("$"))
        session.updates.send("config_option_update", configOptions=changed)
    now = session.choices()
    limits = session.engine.money.standings(session.engine.settings.load(Path(session.folder)).budget)
    lines = [f"Budget of the next run: {now.budget}"]
    lines += [
        f"- {each.limit.window}: {amounts.usd(each.spent or 0.0)} of {amounts.usd(each.limit.usd)}" for each in limits
    ]
    session.updates.say("\n".join(lines))


async def _retry(session: CommandSession, node: str) -> FollowedRun:
    run = _last_run(session)
    await session.engine.retry_apart(run.run, node or None)
    return _follow(session, run.run)


async def _revise(session: CommandSession, text: str) -> FollowedRun:
    run = await session.engine.open_revision(_last_run(session).run, text, None, session.by)
    await session.engine.active_runs.detach(run)
    return _follow(session, run)


async def _flow(session: CommandSession, name: str) -> FollowedRun:
    if not name:
        raise BadRequest("/flow takes the name of a flow file", hint="one in .corral/ or a path in the repository")
    folder = Path(session.folder)
    places = [folder / name, folder / f"{name}.yaml", folder / ".corral" / name, folder / ".corral" / f"{name}.yaml"]
    file = next((place for place in places if place.resolve().is_relative_to(folder) and place.is_file()), None)
    if file is None:
        raise BadRequest(f"there is no flow `{name[:100]}`", hint="one in .corral/ or a path in the repository")
    text = paths.read_file(file, MOST_TEXT, f"/flow {name}", "name a smaller file").decode(errors="replace")
    request = Request(flow=text, flow_file=str(file), repo=session.folder)
    return await session.begin(request, f"/flow {name}")


async def _plan(session: CommandSession, task: str) -> FollowedRun:
    """Have an agent write a flow; the approval of it is a question of the run like any other."""
    if not task:
        raise BadRequest("/plan takes a task", hint="say what is to be planned")
    chosen = session.choices().request(task, (), session.folder)
    if len(chosen.agents) > 1:
        raise BadRequest("one agent plans, and several are chosen", hint="choose one agent")
    flow = {"name": "plan", "nodes": {"plan": {"plan": task.replace("{{", "{ {")}}}
    agents = tuple(name.partition("*")[0] for name in chosen.agents)
    request = Request(
        flow=ENCODER.encode(flow).decode(), repo=session.folder, agents=agents, budget_usd=chosen.budget_usd
    )
    return await session.begin(request, f"/plan {task}")


def _follow(session: CommandSession, run: str) -> FollowedRun:
    last = max((stored.seq for stored in session.engine.history.events(run)), default=0)
    return FollowedRun(session, run, last)


COMMANDS: dict[str, SlashCommand] = {
    "status": SlashCommand("Show the runs of this session and what waits for you", _status),
    "diff": SlashCommand("Show the change of the last run", _diff, "attempt, default: the winner"),
    "compare": SlashCommand("Compare the attempts of the last run", _compare),
    "merge": SlashCommand("Merge the last run", _merge, "attempt, default: the winner"),
    "undo": SlashCommand("Take back the merge of the last run", _undo),
    "inbox": SlashCommand("List what waits for you", _inbox),
    "answer": SlashCommand("Answer what waits for you", _answer, "id and answer"),
    "budget": SlashCommand("Show the limits, or set the budget of the next runs", _budget, "USD"),
    "retry": SlashCommand("Do again what the last run did not get done", _retry, "node, default: all"),
    "revise": SlashCommand("Send all open comments to the agent of the last run", _revise, "what else to say"),
    "flow": SlashCommand("Run a flow file of the repository", _flow, "name"),
    "plan": SlashCommand("Have an agent write a flow for a task, and run it once you approve it", _plan, "task"),
}
