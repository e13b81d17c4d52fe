"""The MCP tools that act (execute, flow, interrupt, resume, steer, answer, select, merge) and their requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from corral import amounts
from corral.engine.engine import Engine
from corral.engine.planner import PlanOrder
from corral.frontends import evidence_text
from corral.frontends.mcp import arguments, responses
from corral.frontends.mcp.arguments import ExecuteArguments, FlowArguments, SubtaskArguments
from corral.frontends.mcp.calls import LEFT_TO_USER, ClientCall
from corral.frontends.mcp.elicitation import Pending, ways
from corral.model import OPEN, Attempt, Request, Run
from corral.model.errors import BadFlow, BadRequest
from corral.model.merge import MergeRequest
from corral.model.money import notional_words
from corral.model.review import NewComment

GOOD = ("done", *OPEN)
MOST_GRADES = 5  #: winners whose evidence is said in words
OLD_NAMES = {"claude-code": "claude", "open-code": "opencode"}  #: what clients of earlier engines call an agent
MOST_FLOW = 10 << 20
OWN = frozenset(
    {"tasks", "agents", "strategy", "files", "checks", "read_only", "timeout"}
)  #: read below, in other ways
#: Arguments that mean the field of a request of the same name.
SAME = tuple(
    name for name in ExecuteArguments.__struct_fields__ if name in Request.__struct_fields__ and name not in OWN
)


class ToolReply(Struct, frozen=True):
    """What a tool gives: data, whether it is a failure, and words that are before it."""

    data: Struct
    failed: bool = False
    words: str = ""


def run_reply(call: ClientCall, run: Run) -> ToolReply:
    """Give a run document; what waits for a user, and what failed, is said in words besides."""
    waiting = [entry for entry in call.engine.inbox.entries() if entry.run == run.run]
    words = [f"waits for an answer: {entry.text} (engine_answer id {entry.id}: {ways(entry)})" for entry in waiting]
    failed = run.status not in GOOD
    words += [f"{won.id} {said}" for won in _winners(run) if (said := evidence_text.line(won))][:MOST_GRADES]
    if failed:
        words.insert(0, f"run {run.run} {run.status}: {run.reason or _why(run)}")
    if run.cost.notional is True:
        usd = amounts.usd(run.cost.usd) if run.cost.usd is not None else "the cost"
        words.append(f"{usd} is notional: {notional_words(call.engine.money.windows_of(run))}")
    return ToolReply(run, failed, "\n".join([*call.warnings, *words]))


def _winners(run: Run) -> list[Attempt]:
    return [each for node in run.nodes for each in node.attempts if each.id == node.winner]


def _why(run: Run) -> str:
    errors = [attempt.error for node in run.nodes for attempt in node.attempts if attempt.error]
    return f"{errors[-1].message} {errors[-1].hint}".strip() if errors else "see its attempts"


async def execute(call: ClientCall, asked: arguments.ExecuteArguments) -> ToolReply:
    return await _run_request(call, lambda: of_execute(asked, call), apart=asked.background)


async def plan(call: ClientCall, asked: arguments.PlanArguments) -> ToolReply:
    """Have a flow written; nothing of it is started."""
    order = PlanOrder(
        task=asked.task,
        repo=str(folder_of(call.visitor.place(asked.path))),
        agent=asked.agent or None,
        most=asked.most,
        parallelism=asked.parallelism,
        complexity=asked.complexity,
        roles=asked.roles,
        budget_usd=None if asked.max_cost is UNSET else asked.max_cost,
    )
    found = await call.engine.planner.plan(order, lambda _: None, lambda _: None, call.visitor.request)
    waves = " -> ".join(" | ".join(wave) for wave in found.waves)
    return ToolReply(
        found, words=f"{len(found.flow['nodes'])} nodes: {waves}\nrun it: engine_flow action run, flow = text"
    )


async def flow(call: ClientCall, asked: arguments.FlowArguments) -> ToolReply:
    if asked.action == "run":
        return await _run_request(call, lambda: of_flow(asked, call), apart=asked.background)
    try:
        found = (await call.engine.requests.prepare(of_flow(asked, call))).plan.flow
    except BadFlow as bad:
        mistakes = tuple(str(bad).splitlines())
        return ToolReply(
            responses.FlowCheckReply(ok=False, name="", nodes=(), mistakes=mistakes), words="\n".join(mistakes)
        )
    return ToolReply(
        responses.FlowCheckReply(ok=True, name=found.name, nodes=tuple(node.id for node in found.nodes), mistakes=())
    )


async def _run_request(call: ClientCall, request: Callable[[], Request], *, apart: bool) -> ToolReply:
    """Carry a request out and wait for its end; a call that comes again with an answer continues where it was."""
    if pending := call.comes_again():
        return run_reply(call, await _resume_pending(call, pending))
    if apart:
        run = await call.runs.submit_apart(request(), call.visitor)
        return run_reply(call, call.engine.show(run))
    run = await call.runs.submit(request(), call.visitor)
    return run_reply(call, await call.until_over(run))


async def _resume_pending(call: ClientCall, pending: Pending) -> Run:
    if not await call.answer_pending(pending):
        return call.engine.show(pending.run)
    if call.engine.show(pending.run).status in LEFT_TO_USER:
        await call.runs.resume(pending.run)
    return await call.until_over(pending.run)


async def interrupt(call: ClientCall, asked: arguments.InterruptArguments) -> ToolReply:
    run = await call.engine.stop(asked.run, call.by)
    return ToolReply(run, words=f"run {run.run} {run.status}: {run.reason}" if run.reason else "")


async def resume(call: ClientCall, asked: arguments.ResumeArguments) -> ToolReply:
    if pending := call.comes_again():
        return run_reply(call, await _resume_pending(call, pending))
    name = call.engine.show(asked.run).run
    if asked.background:
        await call.runs.resume_apart(name)
        return run_reply(call, call.engine.show(name))
    await call.runs.resume(name)
    return run_reply(call, await call.until_over(name))


async def comment(call: ClientCall, asked: arguments.CommentArguments) -> ToolReply:
    name, review = call.engine.find(asked.run), call.engine.review
    if asked.resolve:
        review.move(name, asked.resolve, "resolved")
    if asked.text or not asked.resolve:
        made = NewComment(
            text=asked.text,
            file=asked.file,
            line=asked.line,
            last_line=asked.last_line,
            side=asked.side,
            attempt=asked.attempt or None,
            reply_to=asked.reply_to or None,
        )
        await review.comment(name, [made], call.by)
    found = tuple(review.comments(name))
    left = sum(each.state == "open" for each in found)
    words = f"{amounts.count(left, 'open comment')}; engine_revise sends them to the agent"
    return ToolReply(responses.CommentsReply(run=name, comments=found), words=words)


async def revise(call: ClientCall, asked: arguments.ReviseArguments) -> ToolReply:
    if pending := call.comes_again():
        return run_reply(call, await _resume_pending(call, pending))
    name = await call.engine.open_revision(asked.run, asked.text, asked.attempt or None, call.by)
    if asked.background:
        await call.runs.resume_apart(name)
        return run_reply(call, call.engine.show(name))
    await call.runs.resume(name)
    return run_reply(call, await call.until_over(name))


async def rename(call: ClientCall, asked: arguments.RenameArguments) -> ToolReply:
    return ToolReply(call.engine.show(call.engine.control.rename(asked.run, asked.name, call.by)))


async def steer(call: ClientCall, asked: arguments.SteerArguments) -> ToolReply:
    name = call.engine.show(asked.run).run
    return ToolReply(
        responses.OutcomeReply(run=name, outcome=await call.engine.control.steer(name, asked.text, call.by))
    )


async def answer(call: ClientCall, asked: arguments.AnswerArguments) -> ToolReply:
    """Answer; a run that nobody drives any more continues at once."""
    call.visitor.needs(call.engine.inbox.needs(asked.id, asked.answer))
    entry = await call.engine.inbox.answer(asked.id, asked.answer, call.by)
    run = call.engine.show(entry.run)
    may = run.status == "waiting" or (run.status == "over_budget" and entry.needs_resume)
    if may and call.runs.task(run.run) is None and not call.engine.is_active(run.run):
        await call.runs.resume_apart(run.run)
        return ToolReply(responses.OutcomeReply(run=run.run, outcome="the run continues"))
    return ToolReply(responses.OutcomeReply(run=run.run, outcome=entry.outcome or "answered"))


async def select(call: ClientCall, asked: arguments.SelectArguments) -> ToolReply:
    if asked.attempt:
        call.visitor.needs(call.engine.inbox.choosing_needs(call.engine.find(asked.run)))
        return ToolReply(await call.engine.work.choose(asked.run, asked.attempt, call.by))
    return ToolReply(call.engine.work.compare(asked.run))


async def merge(call: ClientCall, asked: arguments.MergeArguments) -> ToolReply:
    engine, said = call.engine, list[str]()
    name = engine.show(asked.run).run
    into = call.visitor.branch(asked.into) if asked.into else None
    request = MergeRequest(run=name, strategy=asked.strategy, into=into, pick=asked.pick or None)
    if asked.strategy == "patch":
        raise BadRequest("a patch is given by engine_diff", hint="strategy branch makes a branch")
    match asked.action:
        case "preview":
            return ToolReply(responses.MergePreviewReply(preview=await engine.merges.preview(request)))
        case "undo":
            await engine.merges.undo(name, Path(engine.show(name).repo), said.append)
        case "abort":
            engine.merges.abort(name)
        case _:
            record = await engine.merges.merge(request, said.append)
            if record.state == "conflict":
                nodes = f" between {' and '.join(record.between)}" if record.between else ""
                said += [
                    f"conflict{nodes} in {each.path} ({each.kind}): nothing was moved" for each in record.conflicts
                ]
                return ToolReply(engine.show(name), failed=True, words="\n".join(said))
    return ToolReply(engine.show(name), words="\n".join(said))


def folder_of(path: str) -> Path:
    """Return the folder that a client names; nothing else is taken from it."""
    if "\0" in path:
        raise BadRequest("path: a path holds no NUL byte", hint="give an absolute path")
    folder = Path(path).expanduser()
    try:
        found = folder.resolve(strict=True)
    except (OSError, RuntimeError):
        raise BadRequest(f"path {path}: there is no such folder", hint="name a folder by its whole path") from None
    if not found.is_dir():
        raise BadRequest(f"path {path}: this is no folder", hint="name the repository's folder; files go to `files`")
    return found


def of_execute(asked: ExecuteArguments, call: ClientCall) -> Request:
    """Return the request that the arguments of engine_execute mean."""
    engine, folder = call.engine, folder_of(call.visitor.place(asked.path))
    if not asked.task.strip() and not asked.tasks:
        raise BadRequest("there is no task", hint="say in `task` what is to be done")
    common: dict[str, Any] = {
        "repo": str(folder),
        "agents": _agents(asked, engine, folder),
        "budget_usd": None if asked.max_cost is UNSET else asked.max_cost,
        "timeout": asked.timeout or None,
        "base": _base(asked.parent, engine, folder),
    }
    common |= {name: value for name in SAME if (value := getattr(asked, name)) is not UNSET}
    type_ = None if asked.task_type is UNSET else asked.task_type
    if any(_own(part) for part in asked.tasks):
        if asked.strategy not in (UNSET, "parallel", "auto"):
            raise BadRequest(
                f"strategy {asked.strategy} takes one task, and there are {len(asked.tasks)}",
                hint="strategy parallel, or leave it out",
            )
        return call.visitor.request(Request(flow=_flow(asked), inputs=_inputs(asked), **common))
    texts = [_task_text(asked, part.task) for part in asked.tasks]
    wanted = Request(
        prompt="" if texts else _task_text(asked, asked.task),
        tasks=tuple(texts),
        strategy=None if asked.strategy is UNSET else asked.strategy,
        type=type_,
        files=asked.files,
        checks=asked.checks,
        role=asked.force_agent or None,
        read_only=asked.read_only,
        **common,
    )
    return call.visitor.request(wanted)


def of_flow(asked: FlowArguments, call: ClientCall) -> Request:
    """Return the request that the arguments of engine_flow mean; a file is read only inside the folder."""
    folder = folder_of(call.visitor.place(asked.path))
    if bool(asked.file) == bool(asked.flow):
        raise BadRequest("a flow is either `file` or `flow`", hint="name a file, or give the flow itself")
    text, file = asked.flow, None
    if asked.file:
        file = _inside(folder, asked.file)
        text = file.read_text(encoding="utf-8", errors="replace")
    wanted = Request(
        flow=text,
        flow_file=str(file or folder / "flow"),
        repo=str(folder),
        inputs=asked.inputs,
        agents=asked.agents,
        budget_usd=None if asked.max_cost is UNSET else asked.max_cost,
    )
    return call.visitor.request(wanted)


def _inside(folder: Path, name: str) -> Path:
    if "\0" in name:
        raise BadRequest("file: a path holds no NUL byte", hint="give a path below the repository")
    try:
        file = (folder / name).resolve(strict=True)
    except (OSError, RuntimeError):
        raise BadRequest(
            f"file {name}: there is no such file in {folder}", hint="give a path below the repository"
        ) from None
    if not file.is_relative_to(folder) or not file.is_file():
        raise BadRequest(f"file {name}: not a file inside {folder}", hint="give the flow itself in `flow`")
    if file.stat().st_size > MOST_FLOW:
        raise BadRequest(f"file {name}: longer than 10 MB", hint="name a smaller file, or say in the task where it is")
    return file


def _agents(asked: ExecuteArguments, engine: Engine, folder: Path) -> tuple[str, ...]:
    named = asked.agents or ((asked.force_runtime,) if asked.force_runtime else ())
    if asked.agents and asked.force_runtime:
        raise BadRequest("`agents` and `force_runtime` name agents both", hint="give one of them")
    found = [_agent(name, engine, folder) for name in named]
    if asked.force_model:
        found = found or [engine.settings.load(folder).defaults.agent or "claude"]
        found = [name if ":" in name.removeprefix("acp:") else f"{name}:{asked.force_model}" for name in found]
    return tuple(found)


def _agent(name: str, engine: Engine, folder: Path) -> str:
    """Return the present name of an agent; `cli` is the user's own command: the default one, else the first."""
    if name != "cli":
        return OLD_NAMES.get(name, name)
    settings = engine.settings.load(folder)
    commands = [each for each, profile in settings.agents.items() if profile.command]
    if settings.defaults.agent in commands:
        return settings.defaults.agent
    if not commands:
        raise BadRequest("force_runtime cli: no command is an agent here", hint="add one: [agents.NAME] command = ...")
    return commands[0]


def _base(parent: str, engine: Engine, folder: Path) -> str | None:
    if not parent:
        return None
    run = engine.show(parent)
    if Path(run.repo) != folder and Path(run.repo) not in folder.parents:
        raise BadRequest(f"parent {parent}: that run was in another repository", hint=f"path is to be {run.repo}")
    commit = engine.work.changed_by(run.run).commit
    if commit is None:
        raise BadRequest(f"parent {parent}: that run changed nothing", hint="leave `parent` out")
    return commit


# --- prompts


def _task_text(asked: ExecuteArguments, text: str) -> str:
    """Return a task with its surroundings: the whole of which it is a part, and what the client adds."""
    parts = [text]
    if asked.tasks and asked.task.strip():
        parts = [f"This is a part of a larger work: {asked.task}", f"Your part:\n{text}"]
    if asked.context:
        parts.append("What you should know besides:\n" + _context(asked.context))
    return "\n\n".join(parts)


def _context(context: dict[str, Any] | str) -> str:
    if isinstance(context, str):
        return context.strip()
    return "\n".join(f"- {name}: {_words(value)}" for name, value in context.items())


def _words(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# --- several tasks as a flow


def _own(part: SubtaskArguments) -> bool:
    """Tell whether a task needs a flow: others run side by side."""
    return bool(part.depends_on or part.id or part.agent or part.role or part.checks or part.files)


def _names(asked: ExecuteArguments) -> list[tuple[str, SubtaskArguments]]:
    return [(part.id or f"task-{place}", part) for place, part in enumerate(asked.tasks, 1)]


def _inputs(asked: ExecuteArguments) -> dict[str, Any]:
    """Return the texts that hold braces: as values of inputs they are taken word for word."""
    texts = {f"text_{place}": _task_text(asked, part.task) for place, part in enumerate(asked.tasks, 1)}
    return {name: text for name, text in texts.items() if "{{" in text}


def _flow(asked: ExecuteArguments) -> str:
    literal = _inputs(asked)
    nodes: dict[str, dict[str, Any]] = {}
    for place, (name, part) in enumerate(_names(asked), 1):
        if name in nodes:
            raise BadRequest(f"two tasks are called `{name}`", hint="give each an id of its own")
        text = f"text_{place}"
        node = {
            "task": f"{{{{{text}}}}}" if text in literal else _task_text(asked, part.task),
            "needs": part.depends_on,
            "agent": OLD_NAMES.get(part.agent, part.agent),
            "role": part.role or asked.force_agent,
            "checks": part.checks or asked.checks,
            "files": part.files or asked.files,
            "type": "" if asked.task_type is UNSET else asked.task_type,
            "read_only": asked.read_only,
        }
        nodes[name] = {key: value for key, value in node.items() if value}
    return msgspec.json.encode({"name": "tasks", "inputs": {name: {} for name in literal}, "nodes": nodes}).decode()
